"""What every launcher must hold to. Use: subclass `LauncherContract` in a test file and give it the fixtures.

    class TestMine(LauncherContract):
        @pytest.fixture
        def launcher(self): return mine.Backend(site)
        @pytest.fixture
        def transport(self): return local.Backend()
        @pytest.fixture
        def root(self, tmp_path): return str(tmp_path / "runs" / "run-1")

`root` names a folder of the box that need not exist, below a folder that this test alone uses. A launcher that needs no
shell gives `place` and `mute` too, a place where nobody answers; its `transport` is then where a person types, and
`log` reads ROOT/logs/keeper.log.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sojourn.core.ports import ArrayTask, Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site
from sojourn.wire.errors import WorldError

SOON_S = 120.0  # a launcher comes back at once; this is for slow machines, and schedulers
LONG = ["sh", "-c", 'echo "began $1"; exec sleep 300', "sojourn", "here"]
Log = Callable[[str], bytes]
TRAITS = {"link-drop", "client-exit", "logout", "reboot"}


class Mute:
    """A transport whose box never answers."""

    def call(self, argv: Sequence[str], **how: Any) -> NoAnswer:
        """As if the link were cut."""
        return NoAnswer(sent=True, kind="timeout", detail="a mute box")


def at(transport: Any) -> Place:
    """A place that is reached so."""
    return Place(Site("box"), way=transport)


class LauncherContract:
    """One method, one promise."""

    @pytest.fixture
    def place(self, transport: Any) -> Place:
        """Where it starts things."""
        return at(transport)

    @pytest.fixture
    def mute(self) -> Place:
        """Where nobody answers."""
        return at(Mute())

    @pytest.fixture
    def log(self, transport: Any) -> Log:
        """What lies in the keeper's log of a root."""
        return lambda root: bytes(getattr(transport.call(["cat", f"{root}/logs/keeper.log"]), "stdout", b""))

    @pytest.fixture
    def started(self, launcher: Any, place: Any, root: str) -> Iterator[Handle]:
        """A process that runs for minutes; ended afterwards."""
        handle = launcher.start(place, LONG, root)
        assert isinstance(handle, Handle)
        yield handle
        launcher.stop(place, handle, 2.0)

    def test_its_traits_are_data(self, launcher: Any) -> None:
        """What it survives is said by the class, in the words of the port."""
        assert set(launcher.survives) <= TRAITS

    def test_it_comes_back_while_what_it_started_lives(self, launcher: Any, place: Place, root: str) -> None:
        """At once, though the process runs for minutes."""
        began_s = time.monotonic()
        handle = launcher.start(place, LONG, root)
        try:
            assert time.monotonic() - began_s < SOON_S
            assert launcher.pulse(place, handle) is Pulse.ALIVE
        finally:
            launcher.stop(place, handle, 2.0)

    def test_a_handle_is_plain_data_that_finds_it_again(self, launcher: Any, place: Place, started: Handle) -> None:
        """From the journal, by a launcher that knows nothing else."""
        import json

        words = json.loads(json.dumps([started.launcher, started.native, dict(started.facts)]))
        assert launcher.pulse(place, Handle(*words)) is Pulse.ALIVE

    def test_what_it_says_goes_to_the_keepers_log(self, log: Log, root: str, started: Handle) -> None:
        """Whole, with its words as they were given."""
        deadline_s, said = time.monotonic() + SOON_S, b""
        while b"began here\n" not in said and time.monotonic() < deadline_s:
            said = log(root)
        assert b"began here\n" in said

    def test_words_arrive_as_they_were_given(self, launcher: Any, place: Place, log: Log, root: str) -> None:
        """Whatever a shell, tmux or systemd would make of them."""
        words = ["a b", "$HOME", "${HOME}", "$$", "%h %n", "'\"`\\", "", "*", "é", "line\nbreak", ";"]
        argv = ["sh", "-c", 'printf "%s|" "$@"; exec sleep 300', "sojourn", *words]
        handle = launcher.start(place, argv, root)
        try:
            wanted, said, deadline_s = "|".join([*words, ""]).encode(), b"", time.monotonic() + SOON_S
            while said != wanted and time.monotonic() < deadline_s:
                said = log(root)
            assert said == wanted
        finally:
            launcher.stop(place, handle, 2.0)

    def test_a_second_start_does_no_harm(self, launcher: Any, place: Place, root: str, started: Handle) -> None:
        """The keeper sees to it that one is in charge; here the second one leaves at once, as a keeper would."""
        again = launcher.start(place, ["true"], root)
        assert isinstance(again, Handle)
        assert launcher.pulse(place, started) is Pulse.ALIVE

    def test_stop_ends_it_and_may_be_repeated(self, launcher: Any, place: Place, started: Handle) -> None:
        """After it the pulse is gone, not unknown."""
        for _ in range(2):
            assert launcher.stop(place, started, 5.0) is None
            assert launcher.pulse(place, started) is Pulse.GONE

    def test_stop_ends_also_what_does_not_listen(self, launcher: Any, place: Place, log: Log, root: str) -> None:
        """With KILL, after the grace."""
        deaf = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.2; done"]
        handle = launcher.start(place, deaf, root)
        deadline_s = time.monotonic() + SOON_S
        while b"deaf" not in log(root):
            assert time.monotonic() < deadline_s
        assert launcher.stop(place, handle, 0.5) is None
        assert launcher.pulse(place, handle) is Pulse.GONE

    def test_what_ended_by_itself_is_gone(self, launcher: Any, place: Place, root: str) -> None:
        """And not unknown: the box answered."""
        handle = launcher.start(place, ["sh", "-c", "exit 3"], root)
        deadline_s = time.monotonic() + SOON_S
        while launcher.pulse(place, handle) is not Pulse.GONE:
            assert time.monotonic() < deadline_s

    def test_a_box_that_does_not_answer_leaves_the_pulse_unknown(
        self, launcher: Any, mute: Place, started: Handle
    ) -> None:
        """Never gone, and nothing was stopped."""
        assert launcher.pulse(mute, started) is Pulse.UNKNOWN
        assert isinstance(launcher.stop(mute, started, 0.0), NoAnswer)

    def test_a_start_that_was_not_heard_is_no_answer(self, launcher: Any, mute: Place, root: str) -> None:
        """It may have started."""
        assert isinstance(launcher.start(mute, LONG, root), NoAnswer)


class ShellLauncherContract(LauncherContract):
    """What a launcher that starts by an argv on the box must hold to beside that; see `core.ports.ShellLauncher`."""

    def test_its_argv_does_what_start_does(self, launcher: Any, place: Place, transport: Any, root: str) -> None:
        """For who has more to do on the box in the same call."""
        handle = launcher.read(transport.call(launcher.command(LONG, root), timeout_s=SOON_S), root)
        try:
            assert launcher.pulse(place, handle) is Pulse.ALIVE
        finally:
            launcher.stop(place, handle, 2.0)

    def test_what_its_argv_could_not_start_is_an_error(self, launcher: Any, root: str) -> None:
        """In one clear line."""
        with pytest.raises(WorldError) as caught:
            launcher.read(Ended(3, b"", b"no"), root)
        assert "\n" not in str(caught.value)


class SchedulerContract(LauncherContract):
    """What a launcher that asks somebody for a machine must hold to beside that; see `core.ports.Scheduler`."""

    def test_it_says_that_it_schedules(self, launcher: Any) -> None:
        """Verbs go by this alone."""
        assert launcher.schedules is True

    def test_states_come_in_the_order_of_the_question(self, launcher: Any, place: Place, started: Handle) -> None:
        """Whatever else was asked about, and however often."""
        strange = Handle(started.launcher, "4" + "9" * 6, {})
        words = launcher.states(place, [strange, started, strange, started])
        assert [word.pulse for word in words] == [Pulse.GONE, Pulse.ALIVE, Pulse.GONE, Pulse.ALIVE]
        assert words[0].state is None and words[0].reason

    def test_what_runs_can_be_cancelled_and_that_may_be_repeated(
        self, launcher: Any, place: Place, mute: Place, started: Handle
    ) -> None:
        """After it the pulse is gone."""
        assert isinstance(launcher.cancel(mute, [started]), NoAnswer)
        deadline_s = time.monotonic() + 2 * SOON_S
        for _ in range(2):
            assert launcher.cancel(place, [started]) is None
            while launcher.pulse(place, started) is not Pulse.GONE:
                assert time.monotonic() < deadline_s

    def test_a_box_that_does_not_answer_leaves_every_word_unknown(
        self, launcher: Any, mute: Place, started: Handle
    ) -> None:
        """With the reason, and without one conclusion."""
        words = launcher.states(mute, [started, started])
        assert [word.pulse for word in words] == [Pulse.UNKNOWN] * 2 and all(word.reason for word in words)

    def test_what_it_starts_knows_its_seat(self, launcher: Any, place: Place, log: Log, root: str) -> None:
        """By the name that the handle has, with a count."""
        handle = launcher.start(place, ["sh", "-c", 'echo "seat $SOJOURN_SEAT"; exec sleep 300'], root)
        try:
            said, deadline_s = b"", time.monotonic() + SOON_S
            while b"seat " not in said and time.monotonic() < deadline_s:
                said = log(root)
            assert said == f"seat {handle.native}:0\n".encode()
        finally:
            launcher.stop(place, handle, 2.0)

    def test_a_person_can_look_and_stop_by_hand(
        self, launcher: Any, place: Place, transport: Any, root: str, started: Handle
    ) -> None:
        """With the lines that the handbook shows."""
        lines = launcher.by_hand(root, started.native)
        assert set(lines) == {"look", "stop", "start"}
        looked = transport.call(["sh", "-c", lines["look"]])
        assert looked.rc == 0 and started.native.encode() in looked.stdout
        assert transport.call(["sh", "-c", lines["stop"]]).rc == 0
        deadline_s = time.monotonic() + 2 * SOON_S
        while launcher.pulse(place, started) is not Pulse.GONE:
            assert time.monotonic() < deadline_s

    def test_a_second_start_finds_the_first(self, launcher: Any, place: Place, root: str, started: Handle) -> None:
        """There is no second job for one root."""
        assert launcher.start(place, LONG, root) == started

    def test_what_it_keeps_of_a_run_can_be_read_for_a_diagnosis(
        self, launcher: Any, place: Place, mute: Place, root: str, started: Handle
    ) -> None:
        """Raw, by the name of the command that told it."""
        records = launcher.records(place, started, root)
        assert any(rc == 0 and started.native in said for rc, said in records.values()), records
        assert launcher.records(mute, started, root) == {}


class BatchSystemContract(SchedulerContract):
    """What one with scripts and arrays must hold to; see `core.ports.BatchSystem`. Its calls are counted."""

    def test_what_is_handed_over_can_be_read_before(self, launcher: Any, root: str) -> None:
        """The words of argv are in it."""
        text = launcher.script(["the-keeper", "supervise"], root, LaunchRequest())
        assert "the-keeper" in text and "SOJOURN_SEAT" in text

    def test_one_call_tells_of_all(
        self, launcher: Any, place: Place, transport: Any, mute: Place, started: Handle
    ) -> None:
        """Where each costs a login; one that has an API needs none."""
        counting = Counting(transport)
        launcher.states(replace(place, way=counting), [started, started])
        assert counting.calls <= 1
        assert isinstance(launcher.used(place, [started]), str) and launcher.used(mute, [started]) == ""

    def test_many_roots_are_asked_for_at_once_and_never_twice(
        self, launcher: Any, place: Place, transport: Any, root: str
    ) -> None:
        """Each has its own seat, no more than so many at a time; asking again finds what is there."""
        base = posixpath.dirname(posixpath.dirname(root))
        roots = [ArrayTask(f"{base}/runs/cell-{n}", 1) for n in range(3)]
        for one in roots:
            transport.call(["mkdir", "-p", one.root])
        argv = ["sh", "-c", 'echo "seat $SOJOURN_SEAT of $1"; exec sleep 300', "sojourn"]
        asked = (argv, f"{base}/queues/many/arrays", roots, LaunchRequest(), 2)
        handles = launcher.start_all(place, *asked)
        try:
            assert launcher.start_all(place, *asked) == handles
            assert len({handle.native for handle in handles}) == 3
            deadline_s, begun = time.monotonic() + 2 * SOON_S, 0
            while begun < 2:
                logs = [transport.call(["cat", f"{one.root}/logs/keeper.log"]).stdout.decode() for one in roots]
                seats = [f"seat {handle.native}:0 of {one.root}\n" for handle, one in zip(handles, roots, strict=True)]
                begun = sum(seat in log for seat, log in zip(seats, logs, strict=True))
                assert time.monotonic() < deadline_s, logs
            words = launcher.states(place, handles)
            assert begun == 2 and sum(word.is_waiting for word in words) == 1, words
            assert [word.pulse for word in words] == [Pulse.ALIVE] * 3
            assert launcher.cancel(place, handles) is None
            assert launcher.cancel(place, handles) is None
            while any(word.pulse is not Pulse.GONE for word in launcher.states(place, handles)):
                assert time.monotonic() < deadline_s
        finally:
            launcher.cancel(place, handles)

    def test_it_can_be_tried_out_without_being_asked_for(
        self, launcher: Any, place: Place, mute: Place, root: str
    ) -> None:
        """With a word on when it would start, and nothing left behind."""
        trial = launcher.try_out(place, launcher.script(LONG, root, LaunchRequest()))
        assert trial.is_taken and trial.said
        assert isinstance(launcher.try_out(mute, "x"), NoAnswer)


class Counting:
    """A transport that counts its calls."""

    def __init__(self, transport: Any) -> None:
        self.transport, self.calls = transport, 0

    def call(self, argv: Sequence[str], **how: Any) -> Any:
        """As the one within."""
        self.calls += 1
        return self.transport.call(argv, **how)
