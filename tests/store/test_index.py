"""The index says what the journal says, whatever happens to its file."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.core.fold import Status, fold, from_plain, to_plain
from sojourn.core.values import State
from sojourn.store.home import Store
from sojourn.store.journal import StateUnwritable
from sojourn.wire.errors import Defect
from tests.store import history
from tests.store.history import filled, opened


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def told(store: Store) -> list[object]:
    """Everything the index says, decoded."""
    return [(r, r.run, r.site, r.local, r.handle, r.status, r.receipts) for r in store.index.runs()] + [
        (lease, lease.lease, lease.abandoned, lease.lost, store.index.runs_on(lease.name))
        for lease in store.index.leases(open_only=False)
    ]


def test_a_finished_run_reads_back_whole(state: Path) -> None:
    run = filled(state, "digits").index.find("digits")
    assert (run.id, run.site_name, run.attempt, run.lease, run.phase, run.offset) == (
        "digits",
        "local",
        1,
        "local",
        "pulled",
        900,
    )
    assert run.status.state is State.SUCCEEDED and run.status.percentage == 100.0
    assert run.run.root == "/base/runs/digits" and run.run.spec_digest == "i-digits" and run.run.code_digest == "c" * 64
    assert run.handle == {"launcher": "setsid", "native": "7", "facts": {}}
    assert run.local == {"job_file": "/j", "workdir": "/w", "budget": ""}
    assert [receipt.path for receipt in run.receipts] == ["best.pt"] and run.receipts[0].proved == (
        "bytes",
        "structure",
        "load",
    )
    assert run.is_home and run.is_settled and (run.owed, run.home) == (1, 1)


def test_a_planned_run_owes_its_outputs_and_has_nothing_home(state: Path) -> None:
    store = opened(state)
    store.append("planned", run="a", site=history.SITE, spec=history.spec("a", outputs=["x", "y"]))
    run = store.index.find("a")
    assert (run.phase, run.attempt, run.owed, run.home, run.is_home, run.is_settled) == (
        "planned",
        0,
        2,
        0,
        False,
        False,
    )
    assert run.status == Status() and run.handle is None and run.heard_s is None and run.receipts == ()


def test_an_index_deleted_while_it_is_open_changes_no_answer(state: Path) -> None:
    store = filled(state, "a", "b")
    before = told(store)
    (state / "index.sqlite").unlink()
    store.index.catch_up()
    assert told(store) == before
    store.append("pulling", run="a")
    assert store.index.find("a").phase == "pulling" and told(opened(state)) == told(store)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database at all" * 500),
        lambda path: path.write_bytes(path.read_bytes()[:5000]),
        lambda path: path.write_bytes(path.read_bytes()[:4096] + os.urandom(9000)),
        lambda path: sql(path, "DROP TABLE leases"),
        lambda path: sql(path, "DROP TABLE runs", "CREATE TABLE runs (id TEXT)"),
        lambda path: sql(path, "PRAGMA user_version = 99"),
        lambda path: sql(path, "DELETE FROM marks"),
        lambda path: sql(path, "UPDATE marks SET value = 'x'"),
        lambda path: sql(path, "UPDATE marks SET value = '{\"chain\": 7}'"),
        lambda path: (path.unlink(), path.mkdir()),
    ],
    ids=range(12),
)
def test_whatever_happens_to_the_index_the_answers_stay(state: Path, damage) -> None:
    store = filled(state, "a", "b")
    before = told(store)
    store.close()
    damage(state / "index.sqlite")
    assert told(opened(state)) == before


def sql(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def test_a_damaged_index_is_mended_once_not_at_every_call(state: Path) -> None:
    filled(state, "a").close()
    (state / "index.sqlite").write_bytes(b"garbage" * 1000)
    opened(state).close()
    assert sqlite3.connect(state / "index.sqlite").execute("SELECT id FROM runs").fetchall() == [("a",)]


def test_a_journal_that_was_replaced_is_read_anew(state: Path) -> None:
    filled(state, "a", "b").close()
    filled(state.parent / "other", "a", "z").close()
    for name in ("journal.jsonl", "journal.head"):
        (state / name).write_bytes((state.parent / "other" / name).read_bytes())
    assert [run.id for run in opened(state).index.runs()] == ["a", "z"]


def test_a_journal_that_got_shorter_is_read_anew(state: Path) -> None:
    store = filled(state, "a")
    cut = store.journal.size_bytes()
    history.finished(store.journal, "b")
    store.index.catch_up()
    store.close()
    os.truncate(state / "journal.jsonl", cut)
    assert [run.id for run in opened(state).index.runs()] == ["a"]


def test_a_fresh_machine_has_no_runs_and_listing_makes_no_folder(state: Path) -> None:
    store = opened(state)
    assert store.index.runs() == [] and store.index.leases() == []
    assert not state.exists()


@pytest.fixture
def readable_only() -> Iterator[Path]:
    """A state folder that this process may only read. Root may write anything, so root steps down meanwhile."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        filled(state, "a").close()
        (state / "index.sqlite").unlink()
        os.chmod(folder, 0o755)
        os.chmod(state / "journal.jsonl", 0o444)
        os.chmod(state, 0o555)
        if is_root:
            os.seteuid(65534)
        try:
            yield state
        finally:
            if is_root:
                os.seteuid(0)
            os.chmod(state, 0o755)


def test_a_folder_that_may_only_be_read_still_lists(readable_only: Path) -> None:
    assert [run.id for run in opened(readable_only).index.runs()] == ["a"]


def test_a_folder_that_may_only_be_read_takes_no_record_and_says_so_in_one_line(readable_only: Path) -> None:
    store = opened(readable_only)
    with pytest.raises(StateUnwritable) as caught:
        store.append("pulling", run="a")
    assert "Permission denied" in caught.value.message and "\n" not in caught.value.message
    assert store.index.find("a").phase == "pulled"


def test_an_index_locked_by_a_hung_process_does_not_stop_a_reader(state: Path) -> None:
    """Only a writer that must catch up meets the lock; it then answers from memory."""
    store = filled(state, "a")
    hung = sqlite3.connect(state / "index.sqlite", isolation_level=None)
    hung.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    history.finished(store.journal, "b")
    assert [run.id for run in opened(state).index.runs()] == ["a", "b"]
    assert time.monotonic() - began < 60
    hung.execute("ROLLBACK")


def test_two_clients_see_each_others_records(state: Path) -> None:
    one, two = filled(state, "a"), opened(state)
    history.finished(one.journal, "b")
    two.index.catch_up()
    two.append("pulling", run="b")
    one.index.catch_up()
    assert told(one) == told(two) and one.index.find("b").phase == "pulling"


APPEND = """
import sys
from sojourn.store.home import Store
from tests.store import history
from tests.store.history import filled, opened
store = Store(sys.argv[1])
for i in range(15):
    history.finished(store.journal, f"{sys.argv[2]}-{i}")
    store.index.catch_up()
assert len([r for r in store.index.runs() if r.id.startswith(sys.argv[2])]) == 15
"""


def test_clients_that_write_at_the_same_time_agree_with_a_rebuilt_index(state: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    clients = [subprocess.Popen([sys.executable, "-c", APPEND, str(state), str(who)], cwd=root) for who in range(3)]
    assert [client.wait(200) for client in clients] == [0, 0, 0]
    kept = told(opened(state))
    (state / "index.sqlite").unlink()
    assert told(opened(state)) == kept and len(opened(state).index.runs()) == 45


def test_records_of_another_version_are_skipped(state: Path) -> None:
    store = filled(state, "a")
    before = told(store)
    store.append("telepathy", run="a", v2=True)
    store.journal.append("launched", run="a")  # lacks its handle
    store.journal.append("pulled", run="nobody", manifest="m", dir="/", receipts=[])
    store.index.catch_up()
    assert told(store) == before


def test_a_record_of_ours_that_lacks_a_field_is_a_defect(state: Path) -> None:
    with pytest.raises(Defect, match="tether"):
        opened(state).append("launched", run="a", attempt=1)


def test_planning_a_name_anew_with_another_spec_forgets_what_was_heard(state: Path) -> None:
    store = filled(state, "a")
    history.planned(store.journal, "a", identity="another")
    store.index.catch_up()
    run = store.index.find("a")
    assert (run.phase, run.offset, run.status.state, run.receipts) == ("planned", 0, State.PLANNED, ())


def test_planning_the_same_again_keeps_what_was_heard(state: Path) -> None:
    store = filled(state, "a")
    history.planned(store.journal, "a")
    store.index.catch_up()
    assert store.index.find("a").status.state is State.SUCCEEDED


def test_a_next_attempt_that_was_launched_is_not_settled_by_the_last_ones_end(state: Path) -> None:
    store = filled(state, "a")
    history.launched(store.journal, "a", attempt=2)
    store.index.catch_up()
    assert not store.index.find("a").is_settled


@pytest.mark.parametrize(
    "change", [{"missing": ["best.pt"]}, {"problems": [{"path": "x", "problem": "corrupt"}]}, {"manifest": "old"}]
)
def test_a_pull_that_lacks_something_is_not_home(state: Path, change: dict) -> None:
    store = filled(state, "a")
    history.pulled(store.journal, "a", **change)
    store.index.catch_up()
    assert not store.index.find("a").is_home


def test_beats_are_cached_and_moves_are_journaled(state: Path) -> None:
    store = opened(state)
    history.planned(store.journal, "a")
    history.launched(store.journal, "a")
    store.index.catch_up()
    told = history.events()
    started = fold(told[:2], Status())
    store.record_status(store.index.find("a"), 100, started, "alive", "alive", 5.0, "/base/runs/a")
    size = store.journal.size_bytes()
    beating = fold(told[2:3], started)
    store.record_status(store.index.find("a"), 150, beating, "alive", "alive", 6.0, "/base/runs/a")
    run = store.index.find("a")
    assert store.journal.size_bytes() == size and run.offset == 150 and run.heard == beating and run.heard_s == 6.0
    (state / "index.sqlite").unlink()
    again = opened(state).index.find("a")
    assert again.offset == 100 and again.heard == started and again.run.root == "/base/runs/a"
    store.record_status(run, 300, fold(told[3:], beating), "gone", "gone", 7.0)
    assert store.journal.size_bytes() > size


def test_a_status_survives_the_index_whole() -> None:
    status = fold(history.events(), Status())
    assert from_plain(to_plain(status)) == status


@pytest.mark.campaign
def test_a_thousand_finished_runs_open_and_list_as_they_ended(state: Path) -> None:
    store = filled(state, *(f"run-{i}" for i in range(1000)))
    store.close()
    runs = Store(str(state)).index.runs()
    states = {(run.status.state, run.is_home, run.owed) for run in runs}
    assert len(runs) == 1000 and states == {(State.SUCCEEDED, True, 1)}


def test_recent_runs_are_those_that_may_still_move_and_the_newest_of_the_rest(state: Path) -> None:
    store = filled(state, *"abcd")
    for day, run in enumerate("abcd"):
        ended = replace(fold(history.events(), Status()), since=f"2026-11-2{day}T10:00:00.000Z")
        history.heard(store.journal, run, ended)
    history.launched(store.journal, "a", attempt=2)
    history.planned(store.journal, "e")
    store.index.catch_up()
    runs, hidden = store.index.recent(2)
    assert [run.id for run in runs] == ["a", "c", "d", "e"] and hidden == 1
    assert store.index.settled_at("local") == {run.id: run.offset for run in store.index.runs() if run.is_settled}
    store.append("cleaned", run="d")
    assert set(store.index.settled_at("local")) == {"b", "c"}


def test_what_is_taken_in_together_is_seen_by_others_at_once_or_not_at_all(state: Path) -> None:
    store, other = filled(state, "a", "b"), opened(state)
    with store.index.together():
        for run in "ab":
            store.append("stopping", run=run, attempt=1)
        assert [run.phase for run in store.index.runs()] == ["stopping", "stopping"]
        assert [run.phase for run in other.index.runs()] == ["pulled", "pulled"]
    assert [run.phase for run in other.index.runs()] == ["stopping", "stopping"]
    with pytest.raises(KeyError), store.index.together():
        store.append("pulling", run="a")
        raise KeyError
    store.index.catch_up()
    assert [run.phase for run in store.index.runs()] == ["pulling", "stopping"]


def test_opening_the_index_loads_neither_yaml_nor_pathspec() -> None:
    code = (
        "import sys, sojourn.store.index, sojourn.store.home; print({'yaml', 'pathspec', 'numpy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
