"""Questions that may hang (a dead mount, a sick driver), each in its own child, all at once, each with a deadline.

A thread waiting for a dead mount would block its whole process, and with it the call that needs an answer; a child can
be left behind. Only a child's answer is used.

A deadline is for hangs. On a box so busy that a question gets hardly any CPU (countless threads below a small quota:
just when somebody asks why), it gets more time while it makes progress.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from sojourn.box.system import members, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

    class Question(NamedTuple):
        """`act` answers with a JSON value, within `deadline_s` seconds, unless progress is slow, and `limit_bytes`."""

        name: str
        act: Callable[[], Any]
        deadline_s: float
        limit_bytes: int = 1 << 20

else:
    from collections import namedtuple

    Question = namedtuple("Question", "name act deadline_s limit_bytes", defaults=(1 << 20,))

LATE, DIED, LARGE = "late", "died", "large"
_PART = 1 << 16
_PATIENCE_S = 10.0  # beyond its deadline, for a question that makes progress
_BEHIND_S = 1.0  # a look this late shows that the machine stood still
_STILL_S = 0.3  # without CPU for this long, and not waiting for it, it hangs
_AT_ONCE = 64  # children; further questions are asked batch by batch


class Answer:
    """The outcome of a question: `value` if `why` is "", else why there is none (LATE, DIED, LARGE)."""

    def __init__(self, value: Any, why: str, detail: str = "") -> None:
        self.value = value
        self.why = why
        self.detail = detail


def ask(questions: Sequence[Question], in_group: bool = False) -> Dict[str, Answer]:
    """The answer to each, by name. Takes as long as the longest deadline, _STILL_S more if something hangs, and at most
    _PATIENCE_S more if the box is too busy; time when the machine stood still does not count.

    `in_group`: the children stay in our process group (if we are such a child ourselves, so that giving us up gives
    them up too). Raises: OSError (no process can be started at all).
    """
    answers: Dict[str, Answer] = {}
    for at in range(0, len(questions), _AT_ONCE):
        asked = []
        try:
            for question in questions[at : at + _AT_ONCE]:
                asked.append(_Asked(question, in_group))
        finally:
            _collect(asked, answers)
    return answers


class _Asked:
    """One running child."""

    def __init__(self, question: Question, in_group: bool) -> None:
        self.question = question
        self.in_group = in_group
        self.data: List[bytes] = []
        self.size = 0
        self.fd, its = os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.fd)
            os.close(its)
            raise
        if not self.pid:
            _answer(question, its, in_group)
        os.close(its)
        self.until_s = time.monotonic() + question.deadline_s
        self._last_s = self.until_s + _PATIENCE_S
        self._turns: List[Tuple[int, ...]] = []

    def may_go_on(self, now_s: float) -> bool:
        """At its deadline: whether it, or a child of its own, made progress since the last look, or waits for CPU.

        The first time it may: telling takes two looks.
        """
        before, self._turns = self._turns, []
        is_ready = False
        for pid in members.below(self.pid):
            stat = process.read_stat(pid)
            if stat is not None and stat.state not in "ZX":
                self._turns.append((pid, stat.ticks, process.turns(pid)))
                is_ready = is_ready or stat.state == "R"
        if now_s >= self._last_s or (before and before == self._turns and not is_ready):
            return False
        self.until_s = now_s + _STILL_S
        return True

    def later(self, by_s: float) -> None:
        """Give it this much more time."""
        self.until_s += by_s
        self._last_s += by_s

    def take(self) -> bool:
        """Read its output; True if the answer is whole or cannot become whole."""
        part = os.read(self.fd, _PART)
        self.data.append(part)
        self.size += len(part)
        return not part or self.size > self.question.limit_bytes

    def close(self, is_late: bool) -> Answer:
        """Close the child; returns its answer."""
        os.close(self.fd)
        if is_late or self.size > self.question.limit_bytes:
            _kill(self.pid, self.in_group)
        _reap(self.pid)
        if is_late:
            return Answer(None, LATE, "no answer within %g s" % self.question.deadline_s)
        if self.size > self.question.limit_bytes:
            return Answer(None, LARGE, "more than %d bytes" % self.question.limit_bytes)
        try:
            told = json.loads(b"".join(self.data).decode("utf-8", "surrogatepass"))
        except ValueError:
            return Answer(None, DIED, "it ended without an answer")
        return Answer(told.get("value"), DIED if "error" in told else "", told.get("error", ""))


def _collect(asked: List[_Asked], answers: Dict[str, Answer]) -> None:
    poll = select.poll()
    waiting = {}
    for one in asked:
        poll.register(one.fd, select.POLLIN)
        waiting[one.fd] = one
    while waiting:
        now = time.monotonic()
        for one in [one for one in waiting.values() if one.until_s <= now and not one.may_go_on(now)]:
            poll.unregister(one.fd)
            del waiting[one.fd]
            answers[one.question.name] = one.close(is_late=True)
        if not waiting:
            return
        began_s = time.monotonic()
        pause_s = max(0.0, min(one.until_s for one in waiting.values()) - began_s)
        came = poll.poll(int(pause_s * 1000) + 1)
        behind_s = time.monotonic() - began_s - pause_s
        if behind_s > _BEHIND_S:  # nobody got CPU, the children no more than we
            for one in waiting.values():
                one.later(behind_s)
        for fd, _ in came:
            one = waiting[fd]
            if one.take():
                poll.unregister(fd)
                del waiting[fd]
                answers[one.question.name] = one.close(is_late=False)


def _answer(question: Question, sink: int, in_group: bool) -> None:
    """In the child: answer and exit. Never returns, whatever happens in it."""
    try:
        if not in_group:
            os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)  # readers waiting for the end of our caller's output must not wait for us
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        try:
            told = {"value": question.act()}
        except Exception as error:  # noqa: BLE001 - an error of one question is its answer; the others go on
            told = {"error": ("%s: %s" % (type(error).__name__, error))[:400]}
        view = memoryview(json.dumps(told).encode("ascii"))
        while len(view):
            view = view[os.write(sink, view) :]
    finally:
        os._exit(0)


def _kill(pid: int, in_group: bool) -> None:
    for send in (os.kill,) if in_group else (os.kill, os.killpg):
        try:
            send(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _reap(pid: int) -> None:
    """Take the child's status, unless it hangs in the kernel: then its next parent does."""
    for pause_s in (0, 0.001, 0.01, 0.05):
        time.sleep(pause_s)
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
