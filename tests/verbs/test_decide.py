"""What the identical `run` means in every state; and what is judged before anything is pushed."""

from dataclasses import replace
from typing import Any

import pytest

from sojourn.core.fold import VANISHED, Status
from sojourn.core.need import Need
from sojourn.core.values import Run, Site, State
from sojourn.store.records import RunRecord
from sojourn.store.snapshot import Snapshot
from sojourn.verbs.answers import Reach, worst
from sojourn.verbs.launch.decide import IDENTITY, decide
from sojourn.verbs.launch.preflight import SPARE_BYTES, Room, base_disk, check_need, room
from sojourn.verbs.launch.prepare import setup_digest
from sojourn.verbs.observe.view import RunView

SPEC: dict[str, Any] = {key: key for key in IDENTITY} | {"identity": "same"}
ANSWERED = Reach(True, "2026-11-21T10:00:00.000Z")


def view(state: State, *, asked: int = 1, begun: int = 1, **more: Any) -> RunView:
    record = RunRecord("digits", "local", 0.0, asked, "t", "local", "launched", 0, 0.0, "", "", "", "", "", 1, 0)
    heard = Status(state=state, attempt=begun)
    run = Run("digits", "local", "/b/runs/digits", SPEC, "same", "c", "k", 0.0)
    vars(record).update(run=run, site=Site("local"), heard=heard, status=heard)
    found = RunView(record, heard, ANSWERED, "alive", "alive", has_root=True)
    return replace(found, **more)


def vanished(seen: RunView) -> RunView:
    """On a machine that is gone by its provider's word: nobody is asked, and nobody answers."""
    record = replace(seen.record, keeper=VANISHED)
    vars(record).update(run=seen.record.run, site=seen.record.site, heard=seen.record.heard, status=seen.record.heard)
    return replace(seen, record=record, reach=Reach(None, "", ""))


GONE = {"keeper": "gone"}
CASES = [
    (None, "new", 1),
    (view(State.PLANNED, asked=0, begun=0), "new", 1),
    (view(State.PLANNED, begun=0, keeper="none"), "continue", 1),
    (view(State.PLANNED, begun=0, keeper="gone", has_root=False), "continue", 1),
    (view(State.STARTING, begun=0), "nothing", 1),
    (view(State.RUNNING), "nothing", 1),
    (view(State.RUNNING, keeper="unknown"), "nothing", 1),
    (view(State.RUNNING, **GONE), "adopt", 1),
    (view(State.STALLED, **GONE), "adopt", 1),
    (view(State.SUCCEEDED, **GONE), "nothing", 1),
    (view(State.FAILED, **GONE), "next-attempt", 2),
    (view(State.LOST, **GONE), "next-attempt", 2),
    (view(State.PREEMPTED, **GONE), "next-attempt", 2),
    (view(State.TIMEOUT, begun=3, **GONE), "next-attempt", 4),
    (view(State.KILLED, asked=2, begun=1, **GONE), "continue", 2),
    (view(State.CANCELLED, **GONE), "refuse", 1),
    (view(State.RUNNING, reach=Reach(False, "", "cut")), "unknown", 1),
    (view(State.KILLED, reach=Reach(False, "", "cut")), "unknown", 1),
    (view(State.SUCCEEDED, reach=Reach(False, "", "cut")), "nothing", 1),
    (view(State.LOST, keeper="gone", has_root=False), "refuse", 1),
    (view(State.RUNNING, is_other=True), "refuse", 1),
    (vanished(view(State.LOST)), "again", 2),
    (vanished(view(State.FAILED, asked=3, begun=2)), "again", 4),
    (vanished(view(State.SUCCEEDED)), "nothing", 1),
    (vanished(view(State.CANCELLED)), "refuse", 1),
]


@pytest.mark.parametrize(("seen", "do", "attempt"), CASES)
def test_the_identical_run(seen: RunView | None, do: str, attempt: int) -> None:
    found = decide(seen, SPEC, "local")
    assert (found.do, found.attempt) == (do, attempt), found


@pytest.mark.parametrize("key", IDENTITY)
@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_whatever_differs_is_named_and_refused_in_every_state(key: str, state: State) -> None:
    found = decide(view(state), {**SPEC, key: "other", "identity": "other"}, "local")
    assert (found.do, found.differs) == ("refuse", (IDENTITY[key],))


def test_on_another_site_it_is_the_same_run() -> None:
    assert decide(view(State.RUNNING), SPEC, "elsewhere").do == "nothing"
    moved = decide(view(State.FAILED, **GONE), SPEC, "elsewhere")
    assert (moved.do, moved.differs) == ("refuse", ("site",))


HELLO: dict[str, Any] = {
    "base": "/data/sojourn",
    "cpus": 8,
    "memory_bytes": 32 << 30,
    "cgroup": {"memory_limit_bytes": 16 << 30, "cpu_quota": 4.0},
    "gpus": [{"name": "NVIDIA A100-SXM4-80GB"}],
    "has": {"bash": True},
    "disks": {
        "/": {"free_bytes": 1, "total_bytes": 2, "free_inodes": 1, "total_inodes": 2},
        "/data": {"free_bytes": 10 << 30, "total_bytes": 20 << 30, "free_inodes": 10_000, "total_inodes": 20_000},
    },
}
NOTHING = Need()
SMALL = Room(SPARE_BYTES, 200, 0, 0)


def ids(hello: dict[str, Any], need: Need = NOTHING, takes: Room = SMALL) -> list[str]:
    return [finding.id for finding in check_need(hello, need, takes)]


def test_a_box_that_has_everything_has_no_finding() -> None:
    need = Need((("A100", 1),), 4.0, True, 16.0, True, 5.0)
    assert ids(HELLO, need) == [] and worst(check_need(HELLO, need, SMALL)) == 0


@pytest.mark.parametrize(
    ("need", "told"),
    [
        (Need((("H100", 1),)), "H100:1"),
        (Need((("A100", 2),)), "A100:2"),
        (Need(cpus=5.0, cpus_or_more=True), "it has 4"),  # the cgroup's quota counts, not what the machine has
        (Need(memory_gib=17.0), "16.0 GiB"),
        (Need(disk_gib=11.0), "10.0 GiB are free"),
    ],
)
def test_what_the_box_lacks_is_a_confirmed_blocker(need: Need, told: str) -> None:
    (found,) = check_need(HELLO, need, SMALL)
    assert told in found.title and worst([found]) == 11


def test_what_the_box_could_not_say_is_no_blocker() -> None:
    bare = {"base": "/b", "cpus": None, "memory_bytes": None, "disks": {}, "has": {}}
    assert ids(bare, Need(cpus=64.0, memory_gib=1000.0, disk_gib=1000.0)) == []


def test_bytes_and_inodes_are_judged_on_the_disk_that_holds_the_runs() -> None:
    assert base_disk(HELLO)["path"] == "/data"
    assert ids(HELLO, takes=replace(SMALL, bytes=11 << 30)) == ["disk-too-small"]
    assert ids(HELLO, takes=replace(SMALL, inodes=10_001)) == ["inodes-too-few"]
    endless = {**HELLO, "disks": {"/data": {"free_bytes": 1 << 40, "free_inodes": 0, "total_inodes": 0}}}
    assert ids(endless) == []  # btrfs has no fixed number of inodes
    assert ids({**HELLO, "has": {"bash": False}}) == ["no-bash"]


def pushed(digest: str, *sizes: int) -> Snapshot:
    rows: Any = tuple({"path": str(n), "bytes": size, "sha256": "", "role": "f"} for n, size in enumerate(sizes))
    return Snapshot("/", rows, digest, sum(sizes))


def test_the_room_of_a_job_counts_pack_snapshot_and_copy_and_nothing_that_is_there() -> None:
    trees = [("code", pushed("a", 10, 20)), ("data", pushed("b", 1 << 40)), ("/data", pushed("c", 1 << 41))]
    there = room(trees, set(), packs=False)
    assert (there.bytes - SPARE_BYTES, there.copied_bytes, there.copied_inodes) == ((1 << 40) + 30, (1 << 40) + 30, 3)
    assert room(trees, {"a"}, packs=False).bytes - there.bytes == 30
    assert room(trees, {"a"}, packs=True).bytes - there.bytes == 60
    assert room(trees, {"c"}, packs=False).bytes - there.bytes == 1 << 41  # read where it lies: no copy of it


def test_a_disk_that_shares_blocks_needs_no_room_for_the_copy() -> None:
    takes = room([("code", pushed("a", 9 << 30))], {"a"}, packs=False)
    assert ids(HELLO, takes=takes) == ["disk-too-small"]
    assert ids({**HELLO, "has": {"bash": True, "reflinks": True}}, takes=takes) == []


def test_an_environment_is_made_anew_when_its_text_or_a_file_that_it_names_changes() -> None:
    rows = [{"path": p, "sha256": p} for p in ("requirements.txt", "train.py", "lib/a.py", "lib/b.py")]
    edited = [{**row, "sha256": "new"} if row["path"] == "lib/a.py" else row for row in rows]

    def changes(setup: str) -> bool:
        return setup_digest(setup, rows) != setup_digest(setup, edited)

    assert not changes("pip install -r requirements.txt")
    assert changes("pip install ./lib") and changes("python lib/a.py") and changes("pip install -e .")
    assert setup_digest("a", rows) != setup_digest("b", rows)
    assert setup_digest("", rows) == ""


def test_a_blocker_shows_the_disk_that_is_meant_and_no_other() -> None:
    more = {**HELLO, "disks": {**HELLO["disks"], "/elsewhere": {"free_bytes": 1, "free_inodes": 1, "total_inodes": 2}}}
    (full,) = check_need(more, NOTHING, replace(SMALL, bytes=1 << 60))
    (seen,) = full.evidence
    assert seen.what == "disks" and len(seen.value) == 1 and "/elsewhere" not in seen.value
