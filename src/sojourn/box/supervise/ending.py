"""How an attempt ended, and whether the keeper itself starts the next one. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from sojourn.wire.documents import Spec

RUN_ME_AGAIN = 75  # EX_TEMPFAIL of sysexits.h: a training process that saved and wants to be resumed
RULE_ATTEMPTS = 3
REFUSING = ("fail", "exclude-site")
_TERM, _KILL = 15, 9
_RETRY_WORDS = {"preempted": "preempted", "lost": "node-failure"}


class Exit:
    """How a payload's process ended: `rc`, or `signal`, or neither if nobody saw it.

    `by`: shim, keeper or unknown.
    """

    def __init__(self, rc: int | None, signal: int | None, by: str) -> None:
        self.rc = rc
        self.signal = signal
        self.by = by


def classify_exit(exit: Exit, why: str, oom_kills: int, is_cut: bool = False) -> str:
    """The state. `why`: the reason for our signal before it ended: "" (we sent none), stop, pruned, budget,
    max_duration, shutdown, walltime.

    `oom_kills`: the kernel's out-of-memory kills in our control group meanwhile. `is_cut`: a SIGTERM, from anyone, made
    it leave before it was done; Lightning then ends with 0.
    """
    if exit.by == "unknown":
        return "lost"
    if why == "stop" or (why == "pruned" and (exit.rc != 0 or is_cut)):
        return "cancelled"
    if why in ("budget", "max_duration"):
        return "timeout"
    if exit.rc == 0:
        return "preempted" if is_cut else "succeeded"
    if exit.rc == RUN_ME_AGAIN:
        return "preempted"
    # Whatever our signal led to: torchrun ends with 1 after its processes saved and left.
    if why in ("shutdown", "walltime"):
        return "preempted"
    number = exit.signal
    if exit.rc in (128 + _KILL, 128 + _TERM):  # a shell's code for its child
        number = exit.rc - 128
    if number is None:
        return "failed"
    return "oom" if number == _KILL and oom_kills > 0 else "killed"


def words(exit: Exit) -> str:
    """One short line for people; "" for success."""
    if exit.by == "unknown":
        return "its process is gone and left no exit status"
    if exit.signal is not None:
        return "ended by signal %d" % exit.signal
    if exit.rc == RUN_ME_AGAIN:
        return "asked to be run again (exit status 75)"
    return "exit status %d" % exit.rc if exit.rc else ""


def may_retry(state: str, spec: Spec, want: Mapping[str, Any], action: str = "") -> bool:
    """Whether the keeper itself requests the next attempt: the job's `retry` names this end, and attempts are left.

    `action`: of the user's rule matching the end, if any: `retry` retries ends that `retry.on` does not name, the
    others prevent a retry. `retry.attempts` counts process starts since a person last requested one; keepers' requests
    are in `want.auto`. If a rule says retry and the job has no `retry`, it is RULE_ATTEMPTS.
    """
    if action in REFUSING:
        return False
    retry = spec.get("retry") or {}
    word = _RETRY_WORDS.get(state)
    auto = want.get("auto")
    used = 1 + (auto if isinstance(auto, int) else 0)
    on, attempts = retry.get("on") or (), int(retry.get("attempts") or 1)
    if action == "retry":
        return used < (attempts if on or attempts > 1 else RULE_ATTEMPTS)
    return word is not None and word in on and used < attempts
