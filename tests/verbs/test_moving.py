"""Trees to the box by content, and many small files home: nothing twice, nothing half, over lines that are cut."""

import os
import random
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.core.values import Site
from sojourn.store import places, snapshot
from sojourn.store.home import Store
from sojourn.store.snapshot import TreeChanged
from sojourn.verbs import moving
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch import push as pushing
from sojourn.verbs.launch.sending import send
from sojourn.verbs.retrieve.choice import urgency
from sojourn.verbs.retrieve.fetch import Home, fetch
from sojourn.verbs.retrieve.homes import Roster
from sojourn.verbs.retrieve.packs import fetch_small
from sojourn.wire import manifest, pieces
from sojourn.wire.errors import Unreachable, WorldError
from tests.verbs.cut_line import Line

ODD = ["-rf", "a b'\"$(id)", "line\nbreak", "ä/ö", "x" * 200]


class Pair:
    """A client and a box on this machine, with a line between them. Time passes when it is slept away."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.line, self.base, self.tree = Line(), home / "far", folder / "tree"
        self.rosters = Path(places.cache_dir(), "rosters")
        site = Site("local", base=str(self.base))
        self.box = Box(site, self.line, setsid.Backend(), unmetered.Backend(site), Keeper(self.line, site))
        self.slept_s = 0.0
        self.ctx = Context(Store(), now_s=lambda: self.slept_s, sleep=self.sleep, boxes={"local": self.box})
        assert self.box.answer("hello").value["base"] == str(self.base)
        self.tree.mkdir()

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def write(self, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def push(self) -> snapshot.Snapshot:
        taken = snapshot.take_snapshot(str(self.tree), everything=True)
        assert send(self.ctx, self.box, "code", taken)
        return taken

    def there(self, taken: snapshot.Snapshot) -> Path:
        return self.base / "snapshots" / taken.digest

    def is_whole(self, taken: snapshot.Snapshot) -> bool:
        """Every file there has the bytes of its row, is read-only, and nothing else is there."""
        folder = self.there(taken) / "tree"
        for row in taken.rows:
            path = folder / row["path"]
            if row["role"] == "l":
                assert os.readlink(path) == os.readlink(self.tree / row["path"])
                continue
            assert manifest.sha256_file(str(path)) == (row["bytes"], row["sha256"]), row["path"]
            assert stat.S_IMODE(path.stat().st_mode) == (0o555 if row["role"] == "x" else 0o444)
        found = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
        return sorted(found) == sorted(row["path"] for row in taken.rows)

    def staged(self) -> list[str]:
        return os.listdir(self.base / "staging")


@pytest.fixture
def pair(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(moving, "GIVE_UP_S", 10.0)
    pair = Pair(private_home, tmp_path)
    yield pair
    pair.ctx.store.close()


def noise(count: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(count)


def test_a_tree_arrives_as_it_is(pair: Pair) -> None:
    pair.write({name: noise(500, n) for n, name in enumerate(ODD)})
    pair.write(
        {"empty": b"", "deep/er/empty": b"", "same": noise(500, 0), "run.sh": b"#!/bin/sh\n", "big": noise(700_000)}
    )
    (pair.tree / "run.sh").chmod(0o755)
    shutil.copy(pair.tree / "run.sh", pair.tree / "not-executable")
    (pair.tree / "not-executable").chmod(0o644)
    (pair.tree / "deep/link").symlink_to("../big")
    assert pair.is_whole(pair.push())
    assert pair.staged() == []


def test_only_contents_that_no_snapshot_has_are_sent(pair: Pair) -> None:
    pair.write({f"f{n}": noise(3000, n) for n in range(400)})
    pair.push()
    pair.write({"f7": noise(3001, 1000)})
    (pair.tree / "f8").rename(pair.tree / "renamed")
    before = pair.line.went_bytes
    assert pair.is_whole(pair.push())
    assert pair.line.went_bytes - before < 3001 + 2000


def test_a_content_that_was_changed_in_the_store_is_sent_again(pair: Pair) -> None:
    pair.write({"a": noise(5000), "b": b"1"})
    first = pair.push()
    stored = pair.there(first) / "tree/a"
    seen = stored.stat()
    stored.chmod(0o644)
    stored.write_bytes(noise(5000, 2))
    stored.chmod(0o444)
    os.utime(stored, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    pair.write({"b": b"2"})
    assert pair.is_whole(pair.push())


def test_a_cut_push_goes_on_inside_the_command_and_sends_at_most_2_percent_twice(pair: Pair) -> None:
    total = 24 << 20
    pair.write({"big": noise(total)})
    pair.line.up = [11_000_000]
    assert pair.is_whole(pair.push())
    assert pair.line.streams == 2
    assert pair.line.went_bytes < 1.02 * total
    assert pair.staged() == []


def test_a_push_that_was_given_up_is_gone_on_with_by_the_next(pair: Pair) -> None:
    total = 8 << 20
    pair.write({"big": noise(total)})
    pair.line.up = [5_000_000, *[0] * 50]
    with pytest.raises(Unreachable):
        pair.push()
    assert 0 < pair.slept_s < 10
    assert not (pair.base / "snapshots").exists() and pair.staged()
    pair.line.up, before = [], pair.line.went_bytes
    assert pair.is_whole(pair.push())
    assert pair.line.went_bytes - before < total - 5_000_000 + (300 << 10)


def test_an_older_sender_that_is_still_there_spoils_nothing(pair: Pair) -> None:
    """It holds the half it wrote to, at the dead end of a line, and writes other bytes when all is done."""
    import fcntl

    pair.write({"big": noise(3 << 20)})
    taken = snapshot.take_snapshot(str(pair.tree), everything=True)
    pair.line.up = [1_500_000, *[0] * 50]
    with pytest.raises(Unreachable):
        pair.push()
    (part,) = (pair.base / "staging" / f"push-{taken.digest}" / "parts").iterdir()
    with open(part, "r+b") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        pair.line.up = []
        pair.push()
        old.write(b"other bytes")
    assert pair.is_whole(taken)


def test_a_half_of_before_a_power_cut_is_hashed_again(pair: Pair) -> None:
    pair.write({"a": noise(300_000), "b": noise(400_000, 2)})
    taken = snapshot.take_snapshot(str(pair.tree), everything=True)
    pair.line.up = [500_000, *[0] * 50]
    with pytest.raises(Unreachable):
        pair.push()
    half = pair.base / "staging" / f"push-{taken.digest}"
    frozen = (half / "tree/a").stat()
    (half / "tree/a").chmod(0o644)
    (half / "tree/a").write_bytes(bytes(300_000))  # its name and size are there, its bytes are not
    (half / "tree/a").chmod(0o444)
    os.utime(half / "tree/a", ns=(frozen.st_atime_ns, frozen.st_mtime_ns))
    (half / "boot").write_text('{"boot": "another", "host": "one"}')
    pair.line.up = []
    pair.push()
    assert pair.is_whole(taken)


def test_a_file_that_changes_while_it_is_pushed_never_stands_there(pair: Pair) -> None:
    pair.write({"a": noise(5000), "b": noise(900_000, 2)})
    taken = snapshot.take_snapshot(str(pair.tree), everything=True)
    pair.write({"b": noise(900_000, 3)})
    with pytest.raises(TreeChanged):
        send(pair.ctx, pair.box, "code", taken)
    assert not (pair.base / "snapshots").exists()


def test_what_cut_pushes_left_is_removed_after_days(pair: Pair) -> None:
    staging = pair.base / "staging"
    for name in ("push-" + "0" * 64, "snapshot-" + "1" * 32, "0" * 64 + "-abc.tar.0123456789abcdef.part"):
        (staging / name).mkdir() if ".tar" not in name else (staging / name).write_bytes(b"x")
        os.utime(staging / name, (1, 1))
    (staging / ("push-" + "2" * 64)).mkdir()
    pair.write({"a": b"1"})
    pair.push()
    assert pair.staged() == ["push-" + "2" * 64]


def test_a_tree_of_small_size_still_goes_along_with_the_start(pair: Pair) -> None:
    pair.write({"a": b"1"})
    taken = snapshot.take_snapshot(str(pair.tree), everything=True)
    ops, blobs = pushing.push(pair.ctx, pair.box, str(pair.base), [("code", taken)], {taken.digest})
    assert [op["op"] for op in ops] == ["unpack"] and len(blobs) == 1 and pair.line.streams == 0


# --- home ---


def rows_of(folder: Path) -> list[Any]:
    out = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        size, sha256 = manifest.sha256_file(str(path))
        name = str(path.relative_to(folder))
        out.append({"path": name, "from": f"out/{name}", "bytes": size, "sha256": sha256, "role": "output"})
    return out


class Run:
    """A run's root on the box with many files, and a home for them."""

    def __init__(self, pair: Pair, folder: Path, count: int) -> None:
        self.pair, self.out = pair, pair.base / "runs/r/out"
        self.out.mkdir(parents=True)
        (pair.base / "runs/r/run.json").write_text('{"run": "r"}')
        for n in range(count):
            (self.out / f"f{n:03}").write_bytes(noise(1000 + 700 * n, n))
        for n, name in enumerate(ODD):
            (self.out / name).parent.mkdir(exist_ok=True)
            (self.out / name).write_bytes(noise(5, n))
        self.rows = rows_of(self.out)
        self.total_bytes = sum(row["bytes"] for row in self.rows)
        self.home = Home(
            "r", str(folder / "home"), Roster(pair.ctx.store.state_dir, str(folder / "home"), lambda r: None)
        )
        self.home.check(self.rows)

    def fetch(self) -> set[str]:
        came = fetch_small(self.pair.ctx, self.pair.box, "r", self.home, self.rows)
        for row in self.rows:
            if self.home.staged(row) in came:
                assert manifest.sha256_file(self.home.staged(row)) == (row["bytes"], row["sha256"])
        return came


@pytest.fixture
def run(pair: Pair, tmp_path: Path) -> Run:
    return Run(pair, tmp_path, 60)


def test_many_small_files_come_home_in_one_stream(run: Run) -> None:
    assert len(run.fetch()) == len(run.rows)
    assert run.pair.line.streams == 1
    run.home.settle({row["path"]: (run.home.staged(row), row["sha256"]) for row in run.rows})
    assert rows_of(Path(run.home.folder) / "ä") and len(os.listdir(run.home.staging)) == 0


def test_a_cut_stream_goes_on_inside_the_command_and_brings_nothing_twice(run: Run) -> None:
    run.pair.line.down = [run.total_bytes // 3, run.total_bytes // 3]
    assert len(run.fetch()) == len(run.rows)
    assert run.pair.line.came_bytes < run.total_bytes + 2 * pieces.FRAME_BYTES + 20_000


def test_a_line_that_stays_cut_is_given_up_and_what_came_is_kept(run: Run) -> None:
    run.pair.line.down = [run.total_bytes // 2, *[0] * 50]
    with pytest.raises(Unreachable):
        run.fetch()
    before = run.pair.line.came_bytes
    run.pair.line.down = []
    run.fetch()
    assert run.pair.line.came_bytes - before < 0.75 * run.total_bytes


def test_a_large_file_is_gone_on_with_inside_the_command_until_one_deadline(run: Run) -> None:
    row, root = run.rows[-1], str(run.out.parent)
    run.pair.line.refuses = 3
    assert fetch(run.pair.ctx, run.pair.box, root, run.home, row)
    assert 0 < run.pair.slept_s < moving.GIVE_UP_S
    run.pair.line.refuses = 99
    with pytest.raises(Unreachable):
        fetch(run.pair.ctx, run.pair.box, root, run.home, run.rows[-2])
    assert run.pair.slept_s < 3 * moving.GIVE_UP_S


def test_metrics_and_logs_come_first_and_of_checkpoints_the_newest() -> None:
    def row(path: str, role: str = "output", mtime_ns: int = 1, size: int = 9) -> Any:
        return {"path": path, "role": role, "bytes": size, "stat": [1, 1, size, mtime_ns, 1]}

    rows = [
        row("a.dat"),
        row("old.pt", mtime_ns=1),
        row("new.pt", mtime_ns=2),
        row("checkpoints/ckpt-t000001-s00000009.pt", "checkpoint", 3),
        row("metrics.json"),
        row("huge.json", size=1 << 30),
        row("logs/1.log", "log"),
    ]
    assert [one["path"].rpartition("/")[2] for one in sorted(rows, key=urgency)] == [
        *("1.log", "metrics.json", "ckpt-t000001-s00000009.pt", "new.pt", "old.pt", "a.dat", "huge.json")
    ]


def test_a_flipped_bit_leaves_the_rest_to_be_fetched_alone(run: Run) -> None:
    run.pair.line.flip = run.total_bytes // 2
    assert len(run.fetch()) < len(run.rows)


def test_what_is_no_file_of_the_run_any_more_is_left_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes((run.out / "f001").read_bytes())
    (run.out / "f001").unlink()
    (run.out / "f001").symlink_to(tmp_path / "secret")
    (run.out / "f002").unlink()
    os.mkfifo(run.out / "f002")
    (run.out / "f003").unlink()
    with open(run.out / "f004", "r+b") as file:
        file.truncate(10)
    (run.out / "f005").write_bytes(noise((run.out / "f005").stat().st_size, 999))
    came = run.fetch()
    left = {row["path"] for row in run.rows if run.home.staged(row) not in came}
    assert left == {"f001", "f002", "f003", "f004", "f005"}


def test_a_full_disk_here_is_one_clear_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    from sojourn.verbs.retrieve import fetch as fetching
    from sojourn.verbs.retrieve import packs

    def full(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(packs.os, "write", full)
    with pytest.raises(fetching.HomeFull):
        run.fetch()


def campaign(pair: Pair, seeds: range) -> None:
    """Trees that change from push to push, over a line that is cut at random places in both directions."""
    for seed in seeds:
        dice = random.Random(seed)
        for _ in range(dice.randrange(1, 12)):
            size = dice.choice([0, 1, 4096, pieces.FRAME_BYTES, pieces.FRAME_BYTES + 1, dice.randrange(900_000)])
            pair.write({f"d{dice.randrange(3)}/f{dice.randrange(20)}": noise(size, dice.randrange(50))})
        pair.line.up = [dice.randrange(1_500_000) for _ in range(dice.randrange(4))]
        pair.line.down = [dice.randrange(200) for _ in range(dice.randrange(2))]
        if dice.randrange(2):  # and the next push says all, and streams what is lacking
            shutil.rmtree(pair.rosters, ignore_errors=True)
        taken = pair.push()
        assert pair.is_whole(taken), seed
        assert pair.staged() == [], seed
        pair.line.up = pair.line.down = []


@pytest.mark.trials(test=4, campaign=1000, soak=5000)
@pytest.mark.timeout(3600)
def test_seeded_cuts_leave_whole_trees_alone(trial_count: int, pair: Pair) -> None:
    campaign(pair, range(trial_count))


def test_a_box_that_lacks_what_was_not_offered_is_not_believed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.write({"a": b"1"})
    taken = snapshot.take_snapshot(str(pair.tree), everything=True)
    real = Keeper.ask

    def lies(self: Keeper, op: str, *args: Any, **fields: Any) -> Any:
        said = real(self, op, *args, **fields)
        if op == "lacking":
            said = type(said)({**said.value, "lacking": [[7, 0]]}, ())  # type: ignore[union-attr]
        return said

    monkeypatch.setattr(Keeper, "ask", lies)
    with pytest.raises(WorldError) as told:
        send(pair.ctx, pair.box, "code", taken)
    assert told.value.code == "bad-answer"
