"""Whatever is lost or changed in the journal is told, and holds every lease until its box was asked."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.store import chain
from sojourn.store.chain import Chain, Gap, end_gap
from sojourn.store.home import Store
from sojourn.store.journal import Journal, Look
from tests.store import history
from tests.store.history import filled, opened

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("SOJOURN_SEED", "15"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def small(state: Path) -> bytes:
    """A journal of a lease and one run, with a torn line in it; its bytes."""
    store = opened(state)
    store.append("leased", lease=history.lease())
    with open(state / "journal.jsonl", "ab") as file:
        file.write(b'{"v":2,"n":2,"at":"2027-01-15T08:0')
    history.planned(store.journal, "a")
    history.launched(store.journal, "a")
    store.append("stopping", run="a", attempt=1)
    store.close()
    return (state / "journal.jsonl").read_bytes()


def look(state: Path) -> tuple[Gap, ...]:
    with opened(state) as store:
        held = store.gaps_of("local", "local")
        assert store.gaps() == held
        return held


def test_a_whole_journal_has_no_gap(state: Path) -> None:
    small(state)
    assert look(state) == ()


def test_every_flipped_bit_of_a_small_journal_is_told(state: Path) -> None:
    data = small(state)
    seen = Journal(str(state / "journal.jsonl")).look()
    assert seen is not None and seen.data == data
    silent = []
    for place in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        if not _found(bytes(flipped), seen):
            silent.append(place)
    assert silent == [] and len(data) > 1000


def _found(data: bytes, seen: Look) -> list[Gap]:
    """What a reader finds in `data`, with the head that was there."""

    def read(start: int, stop: int) -> bytes:
        return data[start:stop]

    chain = Chain()
    chain.take(data, read)
    tail = end_gap(chain.end(), seen.head, seen.has_head, read)
    return [*chain.gaps, *([tail] if tail else [])]


def test_flipped_bits_hold_the_lease_through_the_index_and_stay_told_after_the_next_append(state: Path) -> None:
    """One bit of every 40 bytes, with the index that was there before; the same after another command wrote."""
    data = small(state)
    path = state / "journal.jsonl"
    head = (state / "journal.head").read_bytes()
    draw = random.Random(SEED)
    for at in range(0, len(data), 40):
        flipped = bytearray(data)
        flipped[at] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        (state / "journal.head").write_bytes(head)
        assert look(state), f"byte {at}"
        with opened(state) as store:
            store.append("pulling", run="a")
            assert store.gaps_of("local", "local"), f"byte {at}, after an append"
        (state / "index.sqlite").unlink()
        assert look(state), f"byte {at}, with a new index"


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) - 1)]


def _without_a_line(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[draw.randrange(len(lines))]
    return b"".join(lines)


def _twice(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(draw.randrange(len(lines) + 1), lines[draw.randrange(len(lines))])
    return b"".join(lines)


def _reordered(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    one, two = draw.sample(range(len(lines)), 2)
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def _zeros(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) - 40)
    return data[:at] + bytes(40) + data[at + 40 :]


def _noise(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) - 8)
    return data[:at] + draw.randbytes(8) + data[at + 8 :]


DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [_cut, _without_a_line, _twice, _reordered, _zeros, _noise]


@pytest.mark.parametrize("number", range(60))
def test_sixty_random_damages_are_told_and_hold(state: Path, number: int) -> None:
    with filled(state, "a", "b"):
        pass
    path = state / "journal.jsonl"
    data = path.read_bytes()
    draw = random.Random(SEED * 1000 + number)
    damaged = DAMAGES[number % len(DAMAGES)](data, draw)
    assert damaged != data
    path.write_bytes(damaged)
    told = look(state)
    assert told and all(gap.what and "\n" not in gap.what for gap in told)


def test_a_lost_head_and_a_lost_journal_are_told(state: Path) -> None:
    small(state)
    head = (state / "journal.head").read_bytes()
    for damage in (None, b"", head[:-1], head[:5] + b"x" + head[6:]):
        if damage is None:
            (state / "journal.head").unlink()
        else:
            (state / "journal.head").write_bytes(damage)
        assert "head" in look(state)[0].what
    (state / "journal.head").write_bytes(head)
    assert look(state) == ()
    (state / "journal.jsonl").unlink()
    assert look(state)


def test_a_head_that_is_behind_is_what_a_crash_leaves(state: Path) -> None:
    small(state)
    head = (state / "journal.head").read_bytes()
    with opened(state) as store:
        store.append("pulling", run="a")
    (state / "journal.head").write_bytes(head)
    assert look(state) == ()
    with opened(state) as store:
        store.append("pulling", run="a")
    assert look(state) == ()


@pytest.mark.parametrize("torn", ['{"v":2,"n":9,"kind":"b","x":"', "garbage", "\0\0\0", '{"v":1}'])
def test_a_torn_tail_is_no_damage_before_or_after_the_next_append(state: Path, torn: str) -> None:
    small(state)
    with open(state / "journal.jsonl", "a") as file:
        file.write(torn)
    assert look(state) == ()
    with opened(state) as store:
        store.append("pulling", run="a")
    assert look(state) == ()


def test_two_torn_appends_in_a_row_are_no_damage(state: Path) -> None:
    """Each kill leaves a part of its line; the next append ends that one, and is killed too."""
    path = state / "journal.jsonl"
    for torn in ('{"v":2,"n":', '{"v":2,"n":1,"at":"2027-01-15T08:0'):
        for is_first in (True, False):
            if not is_first:
                small(state)
            state.mkdir(mode=0o700, exist_ok=True)
            with open(path, "a") as file:
                file.write(f"{torn}\n{torn}x")
            assert look(state) == ()
            with opened(state) as store:
                store.append("note", what="next")
            assert look(state) == ()
            (state / "index.sqlite").unlink()
            assert look(state) == ()
            for name in os.listdir(state):
                (state / name).unlink()


def test_lines_of_an_older_client_are_a_remark_and_are_sealed_by_the_next(state: Path) -> None:
    small(state)
    path = state / "journal.jsonl"
    old = {"v": 1, "n": 6, "at": "2027-01-15T08:00:00.250Z", "kind": "pulling", "run": "a"}
    with open(path, "a") as file:
        file.write(json.dumps(old, separators=(",", ":")) + "\n")
    assert look(state) == () and opened(state).index.find("a").phase == "pulling"
    with opened(state) as store:
        store.append("cleaning", run="a")
    assert look(state) == ()
    path.write_bytes(path.read_bytes().replace(b'"kind":"pulling"', b'"kind":"qulling"'))
    assert look(state)


def test_what_was_closed_for_a_site_or_a_lease_holds_it_no_more_and_a_new_damage_does(state: Path) -> None:
    small(state)
    path = state / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"token":"t"', b'"token":"u"'))
    with opened(state) as store:
        gaps = store.gaps_of("local", "local")
        assert gaps and store.gaps_of("b", "other")
        store.close_gaps(gaps, "other", "b")
        assert store.gaps_of("b", "other") == () and store.gaps_of("c", "other") == gaps
        assert store.gaps() == gaps
        store.close_gaps(gaps, "local")
        assert store.gaps_of("local", "local") == () and store.gaps() == ()
    path.write_bytes(path.read_bytes().replace(b'"kind":"stopping"', b'"kind":"stoqping"'))
    assert look(state)


def test_only_new_lines_are_read_when_the_journal_merely_grew(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(state, "a", "b").close()
    whole = (state / "journal.jsonl").stat().st_size
    read: list[int] = []
    plain = Journal.look

    def counted(self: Journal, since: int = 0):  # type: ignore[no-untyped-def]
        read.append(since)
        return plain(self, since)

    monkeypatch.setattr(Journal, "look", counted)
    with opened(state) as store:
        assert read == []
        store.append("pulling", run="a")
        assert read == [whole]


APPEND = """
import sys
from sojourn.store.home import Store
store = Store(sys.argv[1])
for i in range(40):
    store.append("pulling", run=sys.argv[2])
assert store.gaps() == ()
"""


def test_two_that_append_at_once_leave_no_gap(state: Path) -> None:
    filled(state, "a").close()
    clients = [subprocess.Popen([sys.executable, "-c", APPEND, str(state), str(who)], cwd=ROOT) for who in range(2)]
    assert [client.wait(200) for client in clients] == [0, 0]
    assert look(state) == ()
    (state / "index.sqlite").unlink()
    assert look(state) == ()


def test_a_kill_between_the_first_line_and_its_head_is_no_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[chain.Head] = []
    real = Journal._keep_head
    monkeypatch.setattr(Journal, "_keep_head", lambda self, head: (heads.append(head), real(self, head)))
    state = tmp_path / "killed"
    with Store(str(state)) as store:
        store.append("note", what="first")
    (state / "journal.head").write_bytes(chain.head_bytes(heads[0]))
    with Store(str(state)) as store:
        assert store.gaps() == ()
        store.append("note", what="second")
        assert store.gaps() == () and len(store.journal.records()[0]) == 2
