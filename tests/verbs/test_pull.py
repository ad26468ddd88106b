"""What comes home is whole, proven and only what the box has: over cuts, flipped bits, moving files and evil names."""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Answer, Keeper
from sojourn.cli.show.pull import nothing
from sojourn.core.fold import Status, to_plain
from sojourn.core.values import Site, State
from sojourn.verbs.observe.status import status
from sojourn.verbs.retrieve.fetch import NotOurs
from sojourn.verbs.retrieve.haul import is_proven
from sojourn.verbs.retrieve.pull import NeverLaunched, going, pull
from sojourn.wire import manifest
from sojourn.wire.errors import Unreachable
from tests.verbs.conftest import World
from tests.verbs.faulty import Transport

MAKE = "head -c 300000 /dev/urandom > big.bin; echo '{\"a\": 1}' > small.json"
OWED = ["big.bin", "small.json"]


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def same(world: World, home: Path) -> bool:
    copy = world.root() / "attempts/1"
    return all((home / name).read_bytes() == (copy / name).read_bytes() for name in OWED)


def test_a_cut_transfer_goes_on_where_it_was_and_sends_nothing_twice(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.ctx, "sleep", world.later)
    world.ended(MAKE, outputs=OWED)
    home = tmp_path / "home"
    world.transport.get_limit_bytes = 100_000
    with pytest.raises(Unreachable):
        pulled(world, home)
    assert sorted(os.listdir(home)) == [".sojourn-staging-digits"]
    assert world.transport.got_bytes == 100_000
    world.transport.get_limit_bytes = None
    answer = pulled(world, home)
    assert answer.ok and answer.receipts == 2 and same(world, home)
    log = (world.root() / "logs/1.log").stat().st_size
    assert world.transport.got_bytes == 300_000 + (world.root() / "attempts/1/small.json").stat().st_size + log
    assert not (home / ".sojourn-staging-digits").exists()


def test_a_bit_flipped_on_the_way_is_noticed_and_the_file_fetched_again(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)
    flipped = []

    def flip(remote: str, local: str) -> None:
        if remote.endswith("big.bin") and not flipped:
            flipped.append(local)
            with open(local, "r+b") as f:
                f.seek(1000)
                byte = f.read(1)
                f.seek(1000)
                f.write(bytes([byte[0] ^ 1]))

    world.transport.spoil = flip
    assert pulled(world, tmp_path / "home").ok and flipped and same(world, tmp_path / "home")


def test_a_line_that_always_flips_a_bit_never_gives_a_receipt(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)

    def flip(remote: str, local: str) -> None:
        if remote.endswith("big.bin"):
            os.truncate(local, 299_999)
            with open(local, "ab") as f:
                f.write(b"!")

    world.transport.spoil = flip
    answer = pulled(world, tmp_path / "home")
    assert not answer.ok and answer.exit_status == 1
    assert {a.path: a.problem for a in answer.artifacts if not a.ok} == {"big.bin": "mismatch"}
    assert not (tmp_path / "home/big.bin").exists() and (tmp_path / "home/small.json").exists()
    assert not world.record().is_home and status(world.ctx).exit_status == 110


def test_an_output_that_changes_while_it_is_brought_home_is_brought_as_it_is_in_the_end(
    world: World, tmp_path: Path
) -> None:
    world.ended(MAKE, outputs=OWED)
    theirs = world.root() / "attempts/1/small.json"
    changed = []

    def change(remote: str, local: str) -> None:
        if not changed:
            changed.append(remote)
            theirs.write_text('{"a": 2}\n')

    world.transport.spoil = change
    answer = pulled(world, tmp_path / "home")
    assert answer.ok and json.loads((tmp_path / "home/small.json").read_text()) == {"a": 2}
    assert {r.path: r.sha256 for r in world.record().receipts}.keys() == {"big.bin", "small.json"}


def test_an_output_that_never_stops_changing_is_not_home(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)
    theirs, count = world.root() / "attempts/1/small.json", [0]

    def change(remote: str, local: str) -> None:
        count[0] += 1
        theirs.write_text(json.dumps({"a": count[0]}))

    world.transport.spoil = change
    answer = pulled(world, tmp_path / "home")
    assert not answer.ok and not world.record().is_home
    assert [a.path for a in answer.artifacts if a.problem == "mismatch"] == ["small.json"]


def test_what_is_home_is_not_sent_again_and_damage_of_the_same_size_is_mended(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)
    home = tmp_path / "home"
    pulled(world, home)
    world.transport.got_bytes = 0
    again = pulled(world, home)
    assert world.transport.got_bytes == 0 and again.moved_files == 0 and again.receipts == 2
    before = (home / "big.bin").stat()
    data = bytearray((home / "big.bin").read_bytes())
    data[5000] ^= 0xFF
    (home / "big.bin").write_bytes(data)
    os.utime(home / "big.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert pulled(world, home).moved_files == 1 and same(world, home)


@pytest.mark.parametrize("evil", ["../../evil", "/tmp/evil", "a/../../evil", "./x", "a//b", "a\0b"])
@pytest.mark.parametrize("key", ["path", "from"])
def test_a_box_cannot_make_us_write_or_read_outside_of_the_home_folder(
    world: World, tmp_path: Path, evil: str, key: str
) -> None:
    row = {"path": "x.bin", "from": "x.bin", "bytes": 3, "sha256": "0" * 64, "role": "output", key: evil}
    document = manifest.document("digits", 1, "2026-11-21T10:00:00.000Z", [row], [])

    class Lying:
        def ask(self, op: str, **fields: Any) -> Answer:
            return Answer({"manifest": document, "sealed": True})

    known(world, "digits", world.site)
    world.ctx.boxes["local"] = replace(world.ctx.box(world.site), keeper=Lying())
    home = tmp_path / "deep/er/home"
    answer = pulled(world, home)
    assert [a.problem for a in answer.artifacts] == ["escapes-root"] and not answer.ok
    assert world.transport.got_bytes == 0
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def known(world: World, run: str, site: Site) -> None:
    """Records of a run that was launched, has ended and is sealed."""
    spec = {"identity": "i", "code": "c", "outputs": ["x.bin"], "keeper": "k"}
    store = world.ctx.store
    store.append("planned", run=run, site=asdict(site), spec=spec)
    store.append("launching", run=run, attempt=1, token="t", lease=site.name)
    fold = to_plain(Status(state=State.SUCCEEDED, attempt=1, manifest="m", seq=9))
    said = {"fold": fold, "keeper": "gone", "payload": "gone"}
    store.append("heard", run=run, offset=9, status=said, root=str(world.root(run)))


def test_files_of_others_are_never_overwritten(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/small.json").write_text("mine")
    with pytest.raises(NotOurs):
        pulled(world, tmp_path / "home")
    assert (tmp_path / "home/small.json").read_text() == "mine"


def test_a_copy_that_the_user_made_already_is_proven_where_it_lies(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=OWED)
    home = tmp_path / "home"
    home.mkdir()
    (home / "big.bin").write_bytes((world.root() / "attempts/1/big.bin").read_bytes())
    answer = pulled(world, home)
    assert answer.ok and answer.receipts == 2 and answer.moved_files == 2  # small.json and the log


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(
    ("proved", "kind", "is_settled"),
    [
        (("bytes", "structure", "load"), "jpeg", True),
        (("bytes", "structure"), "jpeg", False),
        (("bytes",), "unknown", True),
    ],
)
def test_what_could_not_be_loaded_for_want_of_a_library_is_tried_again(
    world: World, tmp_path: Path, proved: tuple[str, ...], kind: str, is_settled: bool
) -> None:
    world.ended(MAKE, outputs=OWED)
    home = tmp_path / "home"
    pulled(world, home)
    (receipt,) = (r for r in world.record().receipts if r.path == "small.json")
    row = {"path": "small.json", "sha256": receipt.sha256}
    assert is_proven(row, {"small.json": replace(receipt, proved=proved, kind=kind)}) is is_settled
    assert not is_proven({**row, "sha256": "0" * 64}, {"small.json": receipt})


def test_a_run_that_was_never_launched_has_nothing_to_bring(world: World) -> None:
    spec = {"identity": "i", "code": "c", "outputs": [], "keeper": "k"}
    world.ctx.store.append("planned", run="digits", site=asdict(world.site), spec=spec)
    with pytest.raises(NeverLaunched):
        list(pull(world.ctx, ["digits"]))
    assert list(pull(world.ctx)) == []


@pytest.mark.campaign
def test_one_site_that_does_not_answer_does_not_keep_other_runs_from_coming_home(world: World) -> None:
    world.ended(MAKE, outputs=OWED)
    site = replace(world.site, name="far")
    far = Transport(site)
    far.is_cut = True
    near = world.ctx.box(world.site)
    world.ctx.boxes["far"] = replace(near, site=site, transport=far, keeper=Keeper(far, site))
    known(world, "away", site)
    answers = {answer.run: answer for answer in pull(world.ctx, ["away", "digits"])}
    assert answers["digits"].ok and answers["away"].exit_status == 3 and "Cannot reach" in answers["away"].why


def test_what_no_pull_can_bring_home_is_not_answered_with_pull_again(world: World) -> None:
    world.ended("true", outputs=["never.json"])
    assert status(world.ctx).rows[0].next == "sojourn pull digits"
    list(pull(world.ctx, ["digits"]))
    assert status(world.ctx).rows[0].next == "sojourn logs digits --tail 50"


def test_a_run_that_asked_to_be_run_again_is_answered_with_resume(world: World) -> None:
    world.ended("exit 75")
    assert status(world.ctx).rows[0].next == "sojourn resume digits"


def test_where_nothing_is_left_to_bring_a_run_that_goes_on_is_named(world: World) -> None:
    world.run("exec sleep 600", outputs=["out.json"])
    status(world.ctx)
    assert list(pull(world.ctx)) == [] and going(world.ctx) == ["digits"]
    said = " ".join(nothing(going(world.ctx), 200))
    assert "every run that has ended is already here" in said and "digits: not ended when last seen" in said
    assert "going" not in " ".join(nothing([], 200))
