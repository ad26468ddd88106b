"""What a living payload tells: beats, checkpoints, whether it moves, how much log."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.history import History
from sojourn.box.run.logfile import Log
from sojourn.box.run.progress import Progress, parse
from sojourn.box.run.root import Root
from sojourn.box.supervise.stall import StallDetector
from sojourn.wire import atomic
from tests.box.rig import Rig, found, heard, log, until

PROGRESS = 'mkdir -p x; tell() { echo "$1" > x/p; mv x/p "$SOJOURN_PROGRESS"; }; '


def test_beats_count_what_the_whole_payload_uses(rig: Rig) -> None:
    root = rig.place("(while :; do :; done) & (while :; do :; done) & sleep 600", beat_s=0.2)
    rig.supervise(root)
    beat = until(lambda: [b for b in found(root, "beat") if b.get("cpu_s", 0) > 0.5 and b["threads"] >= 4])[0]
    assert beat["rss_bytes"] > 1 << 20 and beat["payload_s"] > 0.2
    assert beat["cgroup_bytes"] is None or beat["cgroup_bytes"] > 0


def test_children_of_children_that_ended_stay_counted(rig: Rig) -> None:
    root = rig.place(
        "bash -c 'for i in {1..60000}; do :; done'; setsid -f bash -c 'for i in {1..60000}; do :; done'; sleep 600"
    )
    rig.supervise(root)
    first = until(lambda: [b for b in found(root, "beat") if b.get("cpu_s", 0) >= 0.1])[0]
    for later in found(root, "beat"):
        if later["seq"] > first["seq"]:
            assert later["cpu_s"] >= first["cpu_s"]


def test_progress_comes_with_the_beats_and_a_new_checkpoint_is_an_event_of_its_own(rig: Rig) -> None:
    told = 'until grep -q \'"progress":{"step":%d\' "$SOJOURN_RUN_DIR/events.jsonl"; do sleep 0.05; done; '
    script = PROGRESS + (
        'tell \'{"step":1,"total":4,"metrics":{"loss":0.5}}\'; '
        + told % 1
        + 'tell \'{"step":2,"total":4,"checkpoint":{"path":"checkpoints/2.pt","step":2,"bytes":10}}\'; '
        + told % 2
        + 'tell \'{"step":3,"total":4,"checkpoint":{"path":"checkpoints/2.pt","step":3,"bytes":10}}\'; '
        + told % 3
        + 'tell \'{"step":4,"total":4,"checkpoint":{"path":"checkpoints/4.pt","step":4,"bytes":11}}\''
    )
    root = rig.place(script)
    rig.finish(root)
    steps = [beat["progress"]["step"] for beat in found(root, "beat") if "progress" in beat]
    assert steps == sorted(steps) and steps[0] == 1 and steps[-1] == 4
    assert [(e["path"], e["step"], e["bytes"]) for e in found(root, "checkpoint")] == [
        ("checkpoints/2.pt", 2, 10),
        ("checkpoints/2.pt", 3, 10),  # the same file, written anew
        ("checkpoints/4.pt", 4, 11),  # told only just before the end, and not missed
    ]


def test_a_keeper_that_adopts_does_not_tell_a_checkpoint_twice(rig: Rig) -> None:
    root = rig.place(PROGRESS + 'tell \'{"step":2,"checkpoint":{"path":"c.pt","step":2,"bytes":1}}\'; sleep 600')
    first = rig.supervise(root)
    heard(root, "checkpoint")
    first.kill()
    first.wait()
    rig.supervise(root)
    heard(root, "adopted")
    heard(root, "beat", len(found(root, "beat")) + 3)
    assert len(found(root, "checkpoint")) == 1


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b"{" * 100_000, b"[" * 1001 + b"]" * 1001, b" " * 70_000 + b"{}"],
)
def test_a_progress_file_that_is_none_is_not_believed(data: bytes) -> None:
    assert parse(data) is None


def test_a_loss_that_is_not_a_number_is_told_by_its_name() -> None:
    value = parse(b'{"metrics": {"loss": NaN, "best": -Infinity}}')
    assert value == {"metrics": {"loss": "NaN", "best": "-Infinity"}}
    assert parse(b'{"metrics": {"loss": 1e999, "lr": 1e-3}}') == {"metrics": {"loss": "1e999", "lr": 0.001}}


def test_metrics_without_end_do_not_come_with_every_beat(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    progress = Progress(str(path))
    path.write_text(json.dumps({"step": 1, "metrics": {"m%d" % i: i for i in range(600)}}))
    assert progress.look() and progress.value is not None and len(progress.value["metrics"]) == 600
    assert progress.told() == {"step": 1, "total": None, "epoch": None, "at": None, "checkpoint": None}


def test_the_last_good_progress_stays_when_the_file_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    progress = Progress(str(path))
    path.write_text('{"step": 3}')
    assert progress.look() and progress.step == 3
    path.write_text('{"ste')
    assert not progress.look() and progress.step == 3


def still(**beat: Any) -> "dict[str, Any]":
    return dict({"log_bytes": 10, "cpu_s": 1.0}, **beat)


def test_a_stall_needs_quiet_in_every_way_and_a_first_step() -> None:
    s = StallDetector(60)
    assert [s.update(t, still(), None) for t in (0, 100, 1000)] == ["", "", ""]  # loading data, compiling: no step yet
    assert s.update(1005, still(), 1) == ""
    assert s.update(1060, still(), 1) == ""
    assert s.update(1066, still(), 1) == "stalled" and s.quiet_s(1066) == 61
    assert s.update(1100, still(), 1) == ""  # told once
    assert s.update(1105, still(), 2) == "moving"


@pytest.mark.parametrize(
    "moving",
    [{"log_bytes": 11}, {"cpu_s": 3.0}, {"gpu": [{"util_pct": 0}, {"util_pct": 7}]}],
    ids=["log", "cpu", "gpu"],
)
def test_any_movement_is_no_stall(moving: "dict[str, Any]") -> None:
    s = StallDetector(60)
    s.update(0, still(), 1)
    s.update(59, dict(still(), **moving), 1)
    assert s.update(61, dict(still(), **moving), 1) == ""


def test_a_thread_that_only_wakes_now_and_then_is_no_movement() -> None:
    s = StallDetector(60)
    told = [s.update(t, still(cpu_s=1.0 + t * 0.002), 1) for t in range(0, 70, 5)]
    assert "stalled" in told


def test_without_stall_after_nothing_is_ever_called_stalled() -> None:
    s = StallDetector(None)
    assert [s.update(t, still(), 1) for t in (0, 1e6)] == ["", ""]


def test_a_real_stall_is_told_and_so_is_its_end(rig: Rig) -> None:
    # A FIFO each: one read twice could be opened again before its first writer has closed it, and give an end of file.
    # Reading one that nobody writes uses no CPU at all.
    script = PROGRESS + "mkfifo go on; tell '{\"step\":1}'; read _ < go; tell '{\"step\":2}'; read _ < on; "
    root = rig.place(script, stall_after_s=0.7, beat_s=0.1)
    rig.supervise(root)
    go, on = Path(root.attempt(1), "go"), Path(root.attempt(1), "on")
    until(on.is_fifo)
    assert heard(root, "stalled")["quiet_s"] >= 0.7
    go.write_text("go\n")
    heard(root, "moving")
    on.write_text("on\n")
    assert heard(root, "ended")["state"] == "succeeded"


def test_a_log_over_its_limit_is_rotated_and_the_payload_writes_on(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    with open(path, "ab", buffering=0) as payload:
        log = Log(str(path), limit_bytes=1000)
        payload.write(b"a" * 900)
        assert log.look()[0] == 900
        payload.write(b"b" * 900)
        assert log.look()[0] == 1800
        assert (path.stat().st_size, (tmp_path / "1.log.1").stat().st_size) == (0, 1800)
        payload.write(b"c" * 10)
        assert log.look()[0] == 1810
        assert path.read_bytes() == b"c" * 10  # no hole: its descriptor appends
    assert Log(str(path), 1000).look()[0] == 1810  # a keeper that takes over counts the same


def test_one_older_log_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    log = Log(str(path), limit_bytes=10)
    for letter in (b"a", b"b", b"c"):
        with open(path, "ab") as payload:
            payload.write(letter * 20)
        log.look()
    assert sorted(os.listdir(tmp_path)) == ["1.log", "1.log.1"]
    assert (tmp_path / "1.log.1").read_bytes() == b"c" * 20


def test_a_log_that_cannot_be_copied_aside_grows_on(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    (tmp_path / "1.log.1.tmp").mkdir()
    path.write_bytes(b"a" * 100)
    log = Log(str(path), limit_bytes=10)
    assert log.look()[0] == 100 and path.stat().st_size == 100


def test_the_log_of_a_dead_attempt_is_readable_by_number(rig: Rig) -> None:
    root = rig.place('echo "this is $SOJOURN_ATTEMPT"; exit 75', retry={"attempts": 2, "on": ["preempted"]})
    rig.finish(root)
    assert (log(root, 1), log(root, 2)) == ("this is 1\n", "this is 2\n")


def test_history_forgets_an_attempt_when_the_next_begins_but_not_what_was_spent() -> None:
    h = History()
    for event in (
        {"seq": 1, "kind": "attempt", "attempt": 1},
        {"seq": 2, "kind": "prepared", "attempt": 1},
        {"seq": 3, "kind": "started", "attempt": 1, "pid": 5},
        {"seq": 4, "kind": "signal", "attempt": 1, "why": "stop"},
        {"seq": 5, "kind": "ended", "attempt": 1, "state": "cancelled", "seconds": 2.5},
        {"seq": 6, "kind": "signal", "attempt": 1, "why": "left behind"},
    ):
        h.add(event)
    assert h.is_over and h.state == "cancelled" and h.signalled["why"] == "stop" and h.spent_s == 2.5
    h.add({"seq": 7, "kind": "attempt", "attempt": 2})
    assert not h.is_over and not h.is_prepared and not h.started and h.spent_s == 2.5
    h.add({"seq": 8, "kind": "ended", "attempt": 1, "state": "failed", "seconds": 9})
    assert not h.is_over and h.seq == 8


def test_keeper_json_names_who_is_in_charge(rig: Rig) -> None:
    root: Root = rig.place("sleep 600")
    keeper = rig.supervise(root)
    heard(root, "beat")
    fields = atomic.read_json(root.keeper)
    assert (fields["pid"], fields["attempt"]) == (keeper.pid, 1)
    assert fields["digest"] in rig.keeper.name
    assert json.dumps(fields)
