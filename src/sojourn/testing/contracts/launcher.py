"""What every launcher must hold to. Use: subclass `LauncherContract` in a test file and give it the fixtures.

    class TestMine(LauncherContract):
        @pytest.fixture
        def launcher(self): return mine.Backend(site)
        @pytest.fixture
        def transport(self): return local.Backend()
        @pytest.fixture
        def root(self, tmp_path): return str(tmp_path / "runs" / "run-1")

`root` names a folder of the box that need not exist, below a folder that this test alone uses.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sojourn.core.ports import ArrayTask, Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Pulse

SOON_S = 60.0  # a launcher comes back at once; this is for slow machines, and schedulers
LONG = ["sh", "-c", 'echo "began $1"; exec sleep 300', "sojourn", "here"]
TRAITS = {"link-drop", "client-exit", "logout", "reboot"}


class Mute:
    """A transport whose box never answers."""

    def call(self, argv: Sequence[str], **how: Any) -> NoAnswer:
        """As if the link were cut."""
        return NoAnswer(sent=True, kind="timeout", detail="a mute box")


class LauncherContract:
    """One method, one promise."""

    @pytest.fixture
    def started(self, launcher: Any, transport: Any, root: str) -> Iterator[Handle]:
        """A process that runs for minutes; ended afterwards."""
        tether = launcher.start(transport, LONG, root)
        assert isinstance(tether, Handle)
        yield tether
        launcher.stop(transport, tether, 2.0)

    def test_its_traits_are_data(self, launcher: Any) -> None:
        """What it survives is said by the class, in the words of the port."""
        assert set(launcher.survives) <= TRAITS

    def test_it_comes_back_while_what_it_started_lives(self, launcher: Any, transport: Any, root: str) -> None:
        """At once, though the process runs for minutes."""
        began_s = time.monotonic()
        tether = launcher.start(transport, LONG, root)
        try:
            assert time.monotonic() - began_s < SOON_S
            assert launcher.pulse(transport, tether) is Pulse.ALIVE
        finally:
            launcher.stop(transport, tether, 2.0)

    def test_a_tether_is_plain_data_that_finds_it_again(self, launcher: Any, transport: Any, started: Handle) -> None:
        """From the journal, by a launcher that knows nothing else."""
        import json

        words = json.loads(json.dumps([started.launcher, started.native, dict(started.facts)]))
        assert launcher.pulse(transport, Handle(*words)) is Pulse.ALIVE

    def test_what_it_says_goes_to_the_keepers_log(self, transport: Any, started: Handle, root: str) -> None:
        """Whole, with its words as they were given."""
        deadline_s, said = time.monotonic() + SOON_S, b""
        while b"began here\n" not in said and time.monotonic() < deadline_s:
            ended = transport.call(["cat", f"{root}/logs/keeper.log"])
            said = ended.stdout if isinstance(ended, Ended) else b""
        assert b"began here\n" in said

    def test_words_arrive_as_they_were_given(self, launcher: Any, transport: Any, root: str) -> None:
        """Whatever a shell, tmux or systemd would make of them."""
        words = ["a b", "$HOME", "${HOME}", "$$", "%h %n", "'\"`\\", "", "*", "é", "line\nbreak", ";"]
        argv = ["sh", "-c", 'printf "%s|" "$@"; exec sleep 300', "sojourn", *words]
        tether = launcher.start(transport, argv, root)
        try:
            wanted, said, deadline_s = "|".join([*words, ""]).encode(), b"", time.monotonic() + SOON_S
            while said != wanted and time.monotonic() < deadline_s:
                said = transport.call(["cat", f"{root}/logs/keeper.log"]).stdout
            assert said == wanted
        finally:
            launcher.stop(transport, tether, 2.0)

    def test_a_second_start_does_no_harm(self, launcher: Any, transport: Any, root: str, started: Handle) -> None:
        """The keeper sees to it that one is in charge; here the second one leaves at once, as a keeper would."""
        again = launcher.start(transport, ["true"], root)
        assert isinstance(again, Handle)
        assert launcher.pulse(transport, started) is Pulse.ALIVE

    def test_stop_ends_it_and_may_be_repeated(self, launcher: Any, transport: Any, started: Handle) -> None:
        """After it the pulse is gone, not unknown."""
        for _ in range(2):
            assert launcher.stop(transport, started, 5.0) is None
            assert launcher.pulse(transport, started) is Pulse.GONE

    def test_stop_ends_also_what_does_not_listen(self, launcher: Any, transport: Any, root: str) -> None:
        """With KILL, after the grace."""
        deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.2; done"]
        tether = launcher.start(transport, deaf, root)
        deadline_s = time.monotonic() + SOON_S
        while b"deaf" not in transport.call(["cat", f"{root}/logs/keeper.log"]).stdout:
            assert time.monotonic() < deadline_s
        assert launcher.stop(transport, tether, 0.5) is None
        assert launcher.pulse(transport, tether) is Pulse.GONE

    def test_what_ended_by_itself_is_gone(self, launcher: Any, transport: Any, root: str) -> None:
        """And not unknown: the box answered."""
        tether = launcher.start(transport, ["sh", "-c", "exit 3"], root)
        deadline_s = time.monotonic() + SOON_S
        while launcher.pulse(transport, tether) is not Pulse.GONE:
            assert time.monotonic() < deadline_s

    def test_a_box_that_does_not_answer_leaves_the_pulse_unknown(self, launcher: Any, started: Handle) -> None:
        """Never gone, and nothing was stopped."""
        assert launcher.pulse(Mute(), started) is Pulse.UNKNOWN
        assert isinstance(launcher.stop(Mute(), started, 0.0), NoAnswer)

    def test_a_start_that_was_not_heard_is_no_answer(self, launcher: Any, root: str) -> None:
        """It may have started."""
        assert isinstance(launcher.start(Mute(), LONG, root), NoAnswer)


class SchedulerContract(LauncherContract):
    """What a launcher that asks somebody for a machine must hold to beside that; see `core.ports.Scheduler`."""

    def test_it_says_that_it_schedules(self, launcher: Any) -> None:
        """Verbs go by this alone."""
        assert launcher.schedules is True

    def test_what_is_handed_over_can_be_read_before(self, launcher: Any, root: str) -> None:
        """The words of argv are in it."""
        text = launcher.script(["the-keeper", "supervise"], root, LaunchRequest())
        assert "the-keeper" in text and "SOJOURN_SEAT" in text

    def test_one_call_tells_of_all_in_their_order(self, launcher: Any, transport: Any, started: Handle) -> None:
        """Whatever else was asked about, and however often."""
        counting = Counting(transport)
        strange = Handle(started.launcher, "4" + "9" * 6, {})
        words = launcher.words(counting, [strange, started, strange, started])
        assert counting.calls == 1
        assert [word.pulse for word in words] == [Pulse.GONE, Pulse.ALIVE, Pulse.GONE, Pulse.ALIVE]
        assert words[0].state is None and words[0].reason

    def test_a_box_that_does_not_answer_leaves_every_word_unknown(self, launcher: Any, started: Handle) -> None:
        """With the reason, and without one conclusion."""
        words = launcher.words(Mute(), [started, started])
        assert [word.pulse for word in words] == [Pulse.UNKNOWN] * 2 and all(word.reason for word in words)

    def test_what_it_starts_knows_its_seat(self, launcher: Any, transport: Any, root: str) -> None:
        """By the name that the tether has, with a count."""
        tether = launcher.start(transport, ["sh", "-c", 'echo "seat $SOJOURN_SEAT"; exec sleep 300'], root)
        try:
            said, deadline_s = b"", time.monotonic() + SOON_S
            while b"seat " not in said and time.monotonic() < deadline_s:
                said = transport.call(["cat", f"{root}/logs/keeper.log"]).stdout
            assert said == f"seat {tether.native}:0\n".encode()
        finally:
            launcher.stop(transport, tether, 2.0)

    def test_a_person_can_look_and_stop_by_hand(
        self, launcher: Any, transport: Any, root: str, started: Handle
    ) -> None:
        """With the lines that the handbook shows."""
        lines = launcher.by_hand(root, started.native)
        assert set(lines) == {"look", "stop", "start"}
        looked = transport.call(["sh", "-c", lines["look"]])
        assert looked.rc == 0 and started.native.encode() in looked.stdout
        assert transport.call(["sh", "-c", lines["stop"]]).rc == 0
        deadline_s = time.monotonic() + 2 * SOON_S
        while launcher.pulse(transport, started) is not Pulse.GONE:
            assert time.monotonic() < deadline_s

    def test_a_second_start_finds_the_first(self, launcher: Any, transport: Any, root: str, started: Handle) -> None:
        """There is no second job for one root."""
        assert launcher.start(transport, LONG, root) == started

    def test_many_roots_are_asked_for_at_once_and_never_twice(self, launcher: Any, transport: Any, root: str) -> None:
        """Each has its own seat, no more than so many at a time; asking again finds what is there."""
        base = posixpath.dirname(posixpath.dirname(root))
        roots = [ArrayTask(f"{base}/runs/cell-{n}", 1) for n in range(3)]
        for one in roots:
            transport.call(["mkdir", "-p", one.root])
        argv = ["sh", "-c", 'echo "seat $SOJOURN_SEAT of $1"; exec sleep 300', "sojourn"]
        command = launcher.command_all(argv, f"{base}/queues/many/arrays", roots, LaunchRequest(), 2)
        tethers = launcher.read_all(transport.call(command, timeout_s=60.0), roots)
        try:
            assert launcher.read_all(transport.call(command, timeout_s=60.0), roots) == tethers
            assert len({tether.native for tether in tethers}) == 3
            deadline_s, begun = time.monotonic() + 2 * SOON_S, 0
            while begun < 2:
                logs = [transport.call(["cat", f"{one.root}/logs/keeper.log"]).stdout.decode() for one in roots]
                seats = [f"seat {tether.native}:0 of {one.root}\n" for tether, one in zip(tethers, roots, strict=True)]
                begun = sum(seat in log for seat, log in zip(seats, logs, strict=True))
                assert time.monotonic() < deadline_s, logs
            words = launcher.words(transport, tethers)
            assert begun == 2 and sum(word.is_waiting for word in words) == 1, words
            assert [word.pulse for word in words] == [Pulse.ALIVE] * 3
            assert launcher.withdraw(transport, tethers) is None
            assert launcher.withdraw(transport, tethers) is None
            while any(word.pulse is not Pulse.GONE for word in launcher.words(transport, tethers)):
                assert time.monotonic() < deadline_s
        finally:
            launcher.withdraw(transport, tethers)

    def test_it_can_be_tried_out_without_being_asked_for(self, launcher: Any, transport: Any, root: str) -> None:
        """With a word on when it would start, and nothing left behind."""
        trial = launcher.try_out(transport, launcher.script(LONG, root, LaunchRequest()))
        assert trial.is_taken and trial.said
        assert isinstance(launcher.try_out(Mute(), "x"), NoAnswer)

    def test_what_it_keeps_of_a_run_can_be_read_for_a_diagnosis(
        self, launcher: Any, transport: Any, root: str, started: Handle
    ) -> None:
        """Raw, by the name of the command that told it."""
        records = launcher.records(transport, started, root)
        assert any(rc == 0 and started.native in said for rc, said in records.values()), records
        assert launcher.records(Mute(), started, root) == {}
        assert isinstance(launcher.used(transport, [started]), str) and launcher.used(Mute(), [started]) == ""


class Counting:
    """A transport that counts its calls."""

    def __init__(self, transport: Any) -> None:
        self.transport, self.calls = transport, 0

    def call(self, argv: Sequence[str], **how: Any) -> Any:
        """As the one within."""
        self.calls += 1
        return self.transport.call(argv, **how)
