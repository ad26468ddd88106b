"""The journal loses nothing it has accepted and accepts nothing it could lose."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.store.journal import DiskFull, Journal, StateUnwritable, trouble
from sojourn.wire.errors import WorldError


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path / "state" / "journal.jsonl"), clock=lambda: 1_800_000_000.25)


def test_a_record_comes_back_as_it_was_written(journal: Journal) -> None:
    written = journal.append("pulling", run="größe 7\n", what={"a": [1, None, 2.5]}, odd="\udcff")
    assert written["v"] == 2 and written["n"] == 1 and written["at"] == "2027-01-15T08:00:00.250Z"
    assert journal.records() == ([written], journal.size_bytes())


def test_no_journal_yet_is_an_empty_one_and_makes_no_folder(journal: Journal) -> None:
    assert journal.records() == ([], 0)
    assert not Path(journal.path).parent.exists()


def test_reading_goes_on_where_it_stopped(journal: Journal) -> None:
    journal.append("a")
    _, offset = journal.records()
    journal.append("b")
    later, _ = journal.records(offset)
    assert [(r["kind"], r["n"]) for r in later] == [("b", 2)]


def test_only_the_owner_may_read_it(journal: Journal) -> None:
    journal.append("a")
    assert os.stat(journal.path).st_mode & 0o077 == 0


@pytest.mark.parametrize("torn", ['{"v":1,"n":2,"kind":"b","x":"', "garbage", "\x00\x00\x00", '{"v":1}', "[1,2", "7"])
def test_a_torn_tail_costs_only_itself(journal: Journal, torn: str) -> None:
    journal.append("a")
    with open(journal.path, "a") as file:
        file.write(torn)
    assert [r["kind"] for r in journal.records()[0]] == ["a"]
    after = journal.append("c")
    assert after["n"] == 2
    assert [r["kind"] for r in journal.records()[0]] == ["a", "c"]


def test_a_whole_record_that_lost_only_its_line_end_counts(journal: Journal) -> None:
    journal.append("a")
    with open(journal.path, "rb+") as file:
        file.truncate(os.path.getsize(journal.path) - 1)
    assert journal.append("b")["n"] == 2
    assert [r["kind"] for r in journal.records()[0]] == ["a", "b"]


def test_numbers_grow_over_records_of_any_length(journal: Journal) -> None:
    for size in (0, 10, 20_000, 300_000, 5):
        journal.append("a", pad="x" * size)
    assert [r["n"] for r in journal.records()[0]] == [1, 2, 3, 4, 5]


@given(st.binary(max_size=300))
def test_no_bytes_at_the_end_make_it_unreadable(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    journal = Journal(str(tmp_path_factory.mktemp("j") / "journal.jsonl"))
    journal.append("a")
    with open(journal.path, "ab") as file:
        file.write(tail)
    journal.append("b")
    kinds = [r["kind"] for r in journal.records()[0]]
    assert kinds[0] == "a" and kinds[-1] == "b"


APPEND = """
import sys
from sojourn.store.journal import Journal
for i in range(int(sys.argv[2])):
    Journal(sys.argv[1]).append("a", who=sys.argv[3], i=i)
"""


def test_two_clients_at_once_lose_nothing_and_number_without_gaps(journal: Journal) -> None:
    clients = [subprocess.Popen([sys.executable, "-c", APPEND, journal.path, "60", str(who)]) for who in range(3)]
    assert [client.wait(200) for client in clients] == [0, 0, 0]
    records, _ = journal.records()
    assert [r["n"] for r in records] == list(range(1, 181))
    assert all([r["i"] for r in records if r["who"] == str(who)] == list(range(60)) for who in range(3))


def test_a_client_killed_at_any_moment_leaves_a_journal_that_goes_on(journal: Journal) -> None:
    for _ in range(4):
        client = subprocess.Popen([sys.executable, "-c", APPEND, journal.path, "100000", "x"])
        size = journal.size_bytes()
        while journal.size_bytes() < size + 2000:
            assert client.poll() is None
        client.send_signal(signal.SIGKILL)
        client.wait(60)
    journal.append("last")
    numbers = [r["n"] for r in journal.records()[0]]
    assert numbers == sorted(set(numbers)) and journal.records()[0][-1]["kind"] == "last"


FULL = """
import resource, signal, sys
from sojourn.store.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
Journal(sys.argv[1]).append("big", pad="x" * 5000)
"""


def test_a_write_that_stops_half_way_leaves_the_file_as_it_was(journal: Journal) -> None:
    """A file size limit cuts the write after some bytes, as a disk that fills up does."""
    journal.append("a")
    before = Path(journal.path).read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", FULL, journal.path, str(len(before) + 100)], capture_output=True, text=True
    )
    assert "StateUnwritable" in done.stderr
    assert Path(journal.path).read_bytes() == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_one_clear_error() -> None:
    with pytest.raises(OSError) as caught:
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"x")
    error = trouble(caught.value, "/state/journal.jsonl")
    assert isinstance(error, DiskFull) and error.exit_status == 2 and error.retry
    assert error.message == "The disk has no space for /state/journal.jsonl: No space left on device. " + (
        "Nothing was recorded or changed."
    )


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR])
def test_a_place_that_may_not_be_written_is_the_users_to_mend(code: int) -> None:
    error = trouble(OSError(code, os.strerror(code)), "/state/journal.jsonl")
    assert isinstance(error, StateUnwritable) and error.exit_status == 2 and "XDG_STATE_HOME" in error.next


def test_a_broken_disk_is_not_the_users_fault() -> None:
    assert type(trouble(OSError(errno.EIO, "Input/output error"), "/j")) is WorldError


def test_a_file_where_the_folder_should_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateUnwritable) as caught:
        Journal(str(tmp_path / "state" / "journal.jsonl")).append("a")
    assert "\n" not in caught.value.message and "Not a directory" in caught.value.message


def test_what_json_cannot_say_is_refused_before_a_byte_is_written(journal: Journal) -> None:
    journal.append("a")
    before = Path(journal.path).read_bytes()
    with pytest.raises(TypeError):
        journal.append("b", x=object())
    assert Path(journal.path).read_bytes() == before


def test_every_line_is_json_by_itself(journal: Journal) -> None:
    journal.append("a", loss=float("nan"), text="\u2028\x85")
    (line,) = Path(journal.path).read_bytes().splitlines()
    assert json.loads(line)["text"] == "\u2028\x85"
