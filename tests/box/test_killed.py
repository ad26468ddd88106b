"""Whatever is killed, one payload runs, and its end is told as truly as anybody can know it."""

import os
import signal
from pathlib import Path
from typing import Any, Dict, Set

import pytest

from sojourn.box.run.root import Root
from tests.box.rig import Rig, all_events, found, gone, heard, keeper_log, kill, log, shown, until

# Waits for a file, so that tests decide when it ends; every start leaves a line.
SCRIPT = 'echo start $$ >> "$SOJOURN_RUN_DIR/starts"; until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done; exit 7'


class Parts:
    """Who belongs to a running attempt."""

    def __init__(self, root: Root) -> None:
        self.started = heard(root, "started")
        self.keeper: int = (found(root, "adopted") or found(root, "attempt"))[-1]["keeper"]["pid"]
        self.shim: int = self.started["shim"]["pid"]
        self.payload: int = self.started["pid"]


def running(rig: Rig, **spec: Any) -> Root:
    root = rig.place(SCRIPT, **spec)
    rig.supervise(root)
    heard(root, "beat")
    until(lambda: Path(root.path, "starts").exists() and starts(root) > 0)
    return root


def running_with_a_child(rig: Rig) -> "tuple[Root, int]":
    """A run whose script waits for what it started; the pid of that."""
    inner = 'until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done'
    root = rig.place("bash -c '%s' & echo $! > \"$SOJOURN_RUN_DIR/inner\"; wait" % inner)
    rig.supervise(root)
    heard(root, "beat", 2)
    return root, int(until(Path(root.path, "inner").read_text))


def starts(root: Root) -> int:
    return len(Path(root.path, "starts").read_text().splitlines())


def killed(rig: Rig, pids: Set[int]) -> None:
    """SIGKILL to all at one moment, as far as any of them can tell; and reap the keepers that are our own children."""
    kill(pids, signal.SIGSTOP)
    kill(pids)
    for child in rig.started:
        if child.pid in pids:
            child.wait(60)
    until(lambda: all(gone(pid) for pid in pids))


def go(root: Root) -> None:
    Path(root.path, "go").touch()


def the_end(root: Root) -> Dict[str, Any]:
    end = heard(root, "ended")
    heard(root, "sealed")
    assert len(found(root, "ended")) == 1, shown(all_events(root))
    return end


def test_a_killed_keeper_s_payload_is_adopted_and_ends_with_its_true_exit_status(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper})
    assert not gone(parts.payload)
    rig.supervise(root)
    adopted = heard(root, "adopted")
    assert (adopted["attempt"], adopted["pid"], adopted["start"]) == (1, parts.payload, parts.started["start"])
    heard(root, "beat", len(found(root, "beat")) + 1)
    go(root)
    end = the_end(root)
    assert (end["state"], end["rc"], end["by"], end["attempt"]) == ("failed", 7, "shim", 1)
    assert end["seconds"] > 0 and starts(root) == 1


def test_a_keeper_killed_five_times_over_never_means_a_second_payload(rig: Rig) -> None:
    root = running(rig)
    for again in range(1, 6):
        killed(rig, {Parts(root).keeper})
        rig.supervise(root)
        heard(root, "adopted", again)
    go(root)
    assert the_end(root)["rc"] == 7
    assert starts(root) == 1
    assert [event["seq"] for event in all_events(root)] == list(range(1, len(all_events(root)) + 1))


def test_when_the_payload_ends_between_two_keepers_its_own_record_speaks(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper})
    go(root)
    until(lambda: gone(parts.shim))
    rig.supervise(root)
    end = the_end(root)
    assert (end["state"], end["rc"], end["by"]) == ("failed", 7, "shim")
    assert not found(root, "adopted")


@pytest.mark.campaign
def test_when_the_payload_has_ended_and_its_shim_has_yet_to_say_so_its_record_is_waited_for(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper})
    kill({parts.shim}, signal.SIGSTOP)
    go(root)
    until(lambda: gone(parts.payload))
    rig.supervise(root)
    heard(root, "adopted")
    kill({parts.shim}, signal.SIGCONT)
    end = the_end(root)
    assert (end["state"], end["rc"], end["by"]) == ("failed", 7, "shim")


@pytest.mark.campaign
def test_a_killed_payload_is_told_as_killed(rig: Rig) -> None:
    root = running(rig)
    kill({Parts(root).payload})
    end = the_end(root)
    assert (end["state"], end["rc"], end["signal"], end["by"]) == ("killed", None, 9, "shim")


@pytest.mark.campaign
def test_keeper_and_payload_killed_at_once_are_told_by_the_shim(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.payload})
    until(lambda: gone(parts.shim))
    rig.supervise(root)
    end = the_end(root)
    assert (end["state"], end["signal"], end["by"]) == ("killed", 9, "shim")


@pytest.mark.campaign
def test_a_killed_shim_leaves_the_payload_to_the_keeper_which_still_learns_the_exit_status(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.shim})
    heard(root, "beat", len(found(root, "beat")) + 2)
    go(root)
    end = the_end(root)
    assert (end["state"], end["rc"], end["by"]) == ("failed", 7, "keeper")


@pytest.mark.campaign
def test_keeper_and_shim_killed_the_payload_is_adopted_and_its_end_told_as_unknown(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim})
    rig.supervise(root)
    assert heard(root, "adopted")["pid"] == parts.payload
    assert not gone(parts.payload)
    go(root)
    end = the_end(root)
    assert (end["state"], end["rc"], end["signal"], end["by"]) == ("lost", None, None, "unknown")
    assert starts(root) == 1


@pytest.mark.campaign
def test_all_three_killed_is_lost_and_only_somebody_s_wish_starts_the_next_attempt(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    rig.supervise(root)
    end = the_end(root)
    assert (end["state"], end["by"]) == ("lost", "unknown")
    assert starts(root) == 1
    assert rig.call("want", run="r", attempt=2, by="resume")["attempt"] == 2
    rig.supervise(root)
    assert heard(root, "started", 2)["attempt"] == 2
    until(lambda: starts(root) == 2)
    go(root)
    assert heard(root, "ended", 2)["rc"] == 7


@pytest.mark.campaign
def test_what_a_killed_payload_started_lives_on_undisturbed_while_nobody_can_tell_more(rig: Rig) -> None:
    """First process, shim and keeper are gone, but the training itself lives: nothing is started over it."""
    root, child = running_with_a_child(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    assert not gone(child)
    rig.supervise(root)
    assert heard(root, "adopted")["pid"] == child
    heard(root, "beat", len(found(root, "beat")) + 2)
    assert not gone(child)
    go(root)
    assert the_end(root)["state"] == "lost"
    assert gone(child)


@pytest.mark.campaign
def test_what_a_payload_left_without_a_keeper_is_held_until_the_next_one_records_the_end(rig: Rig) -> None:
    """The first process was killed, and its shim recorded that; what it started lives on."""
    root, child = running_with_a_child(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.payload})
    until(lambda: os.path.exists(root.exit(1)) and gone(parts.shim))
    row = rig.call("since", runs=None)["runs"][0]
    assert (row["keeper"], row["payload"]) == ("gone", "held") and not gone(child)
    rig.supervise(root)
    end = the_end(root)
    assert (end["state"], end["signal"], end["by"]) == ("killed", 9, "shim")
    until(lambda: gone(child))
    assert rig.call("since", runs=None)["runs"][0]["payload"] == "gone"


@pytest.mark.campaign
def test_a_shim_that_has_not_begun_yet_is_held_and_not_none(rig: Rig) -> None:
    """The instant between the shim's start and its word where the payload began, in which its keeper was killed."""
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper})
    os.rename(root.begun(1), root.begun(1) + ".later")
    row = rig.call("since", runs=None)["runs"][0]
    assert (row["keeper"], row["payload"]) == ("gone", "held")
    os.rename(root.begun(1) + ".later", root.begun(1))
    go(root)
    rig.supervise(root)
    assert the_end(root)["rc"] == 7


@pytest.mark.campaign
def test_twenty_keepers_at_once_start_one_payload(rig: Rig) -> None:
    root = rig.place(SCRIPT)
    for _ in range(20):
        rig.supervise(root)
    heard(root, "beat")
    until(lambda: sum(child.poll() is None for child in rig.started) == 1)
    assert {child.poll() for child in rig.started} == {None, 0}
    go(root)
    assert the_end(root)["rc"] == 7
    assert starts(root) == 1 and len(found(root, "started")) == 1


@pytest.mark.campaign
def test_twenty_keepers_at_once_adopt_one_payload(rig: Rig) -> None:
    root = running(rig)
    killed(rig, {Parts(root).keeper})
    for _ in range(20):
        rig.supervise(root)
    heard(root, "adopted")
    until(lambda: sum(child.poll() is None for child in rig.started) == 1)
    go(root)
    assert the_end(root)["rc"] == 7
    assert starts(root) == 1 and len(found(root, "adopted")) == 1


@pytest.mark.campaign
@pytest.mark.parametrize("torn", [b"", b'{"attempt":1,"rc"', b"\0" * 4096])
def test_a_torn_exit_record_is_no_exit_status(rig: Rig, torn: bytes) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    Path(root.exit(1)).write_bytes(torn)
    rig.supervise(root)
    assert the_end(root)["state"] == "lost"


@pytest.mark.campaign
def test_a_pid_that_names_another_process_by_now_is_not_adopted(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    begun = Path(root.begun(1))
    begun.write_text(begun.read_text().replace('"pid":%d' % parts.payload, '"pid":%d' % os.getpid()))
    rig.supervise(root)
    assert the_end(root)["state"] == "lost"
    assert not found(root, "adopted")


@pytest.mark.campaign
def test_a_machine_that_was_restarted_is_named_as_the_reason(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    boot = found(root, "attempt")[0]["boot_id"]
    for path in (Path(root.events), Path(root.begun(1))):
        path.write_text(path.read_text().replace(boot, "00000000-0000-0000-0000-000000000000"))
    rig.supervise(root)
    end = the_end(root)
    assert (end["state"], end["detail"]) == ("lost", "the machine was restarted")


@pytest.mark.campaign
def test_a_lost_attempt_is_started_again_where_the_job_says_so(rig: Rig) -> None:
    root = running(rig, retry={"attempts": 2, "on": ["node-failure"]})
    parts = Parts(root)
    killed(rig, {parts.keeper, parts.shim, parts.payload})
    rig.supervise(root)
    assert heard(root, "started", 2)["attempt"] == 2
    assert [end["state"] for end in found(root, "ended")] == ["lost"]
    go(root)
    heard(root, "sealed")


@pytest.mark.campaign
def test_a_keeper_killed_before_anything_ran_prepares_the_same_attempt_again(rig: Rig) -> None:
    setup = 'touch "$SOJOURN_RUN_DIR/in-setup"; until test -e "$SOJOURN_RUN_DIR/on"; do sleep 0.05; done'
    root = rig.place(SCRIPT, setup=setup)
    first = rig.supervise(root)
    until(Path(root.path, "in-setup").exists)
    killed(rig, {first.pid})
    Path(root.path, "on").touch()
    rig.supervise(root)
    assert heard(root, "started")["attempt"] == 1
    go(root)
    assert the_end(root)["rc"] == 7
    assert starts(root) == 1, keeper_log(root)


@pytest.mark.campaign
def test_a_claim_that_somebody_else_made_is_not_touched(rig: Rig) -> None:
    root = rig.place(SCRIPT)
    os.mkdir(root.attempt(1))
    Path(root.attempt(1), "theirs").touch()
    assert rig.supervise(root).wait(60) == 0
    assert "claimed by another" in found(root, "refused")[0]["why"]
    assert os.listdir(root.attempt(1)) == ["theirs"] and not found(root, "started")


@pytest.mark.campaign
def test_a_signal_to_the_keeper_s_whole_session_spares_the_payload(rig: Rig) -> None:
    root = running(rig)
    parts = Parts(root)
    os.killpg(os.getpgid(parts.keeper), signal.SIGKILL)
    until(lambda: gone(parts.keeper))
    assert not gone(parts.payload) and not gone(parts.shim)
    rig.supervise(root)
    heard(root, "adopted")
    go(root)
    assert the_end(root)["rc"] == 7
    assert "start" not in log(root)
