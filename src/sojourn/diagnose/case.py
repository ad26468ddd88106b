"""What is judged: observations, the scope they come from, and the texts that were read for patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sojourn.diagnose.derive import MOVES
from sojourn.diagnose.grammar import Facts
from sojourn.diagnose.scan import Hit, LogSeen

ALIASES = {"ssh": "generic-ssh", "k8s": "kubernetes", "vast": "vastai", "vast.ai": "vastai", "lambdalabs": "lambda"}
# A log alone does not say where it is from: what every scheduler writes is looked for, what one platform does is not.
LOG_SCOPE = frozenset(("universal", "generic-ssh", "slurm", "kubernetes", "china"))
# Of a log without any box it is not even known that it is from no notebook, whose own words are told apart.
BARE_LOG_SCOPE = LOG_SCOPE | {"notebook"}

# A log that ends with an error: after so many lines of progress an earlier text is not of this end, or after one where
# it was said so often, over so many lines. Fewer are what other ranks, or a buffer, still had to say.
LONG, OFTEN, APART = 10, 5, 50
_TRIES_AGAIN = re.compile(r"(?i)\bretr(?:y|ies|ying)\b|will try again|trying again|重试")
_WILL_TRY = re.compile(r"(?i)\bretrying\b|\b(?:will|to) (?:retry|try) (?:it )?(?:again|in|after)\b|正在重试")
# What a shell or its modules say, and go on: a program that raised later was started all the same.
_SHELL = re.compile(r"Lmod has detected the following error|^(?:\S+: )?line \d+: .*(?:command not found|No such file)")
# Exceptions of a program itself, as it names them first.
_OWN_ERROR = re.compile(
    r"(?:\w+\.)*(?:Value|Type|Key|Index|Attribute|Assertion|Name|ZeroDivision|NotImplemented|UnboundLocal|Syntax|Import"
    r"|ModuleNotFound|FileNotFound)Error\b"
)
# States of Slurm that are no end, and in which nothing moves. Source: job_state_codes.html (2026-11).
_NOT_NOW = frozenset(
    ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "SUSPENDED", "STOPPED")
)
_TRIES = 3  # so often is no mere hiccup: what comes then may follow from it


@dataclass(frozen=True)
class Case:
    """Everything known about one run or box. `seen`: texts by stream (log, kernel, ssh, smi, k8s)."""

    facts: Facts
    scope: frozenset[str] = LOG_SCOPE
    seen: Mapping[str, LogSeen] = field(default_factory=dict)

    @property
    def log(self) -> LogSeen | None:
        """The run's own log."""
        return self.seen.get("log")

    def value(self, name: str) -> Any:
        """An observed value; None where it is unknown or null."""
        known = self.facts.known.get(name)
        return known.value if known else None

    @property
    def has_ended_badly(self) -> bool:
        """The box or its scheduler says so; a log alone never does."""
        code, signal = self.value("run.exit_code"), self.value("run.exit_signal")
        if self.has_succeeded:
            return False
        if code == 0 and not signal:  # what it did not leave is no bad end of its process
            return self.value("run.done_record") is False
        return bool(signal) or (code is not None and code != 0) or self.value("run.alive") is False

    @property
    def has_succeeded(self) -> bool:
        """Its own completion record, and no exit status against it."""
        code, signal = self.value("run.exit_code"), self.value("run.exit_signal")
        return self.value("run.done_record") is True and code in (None, 0) and not signal

    @property
    def is_done_unseen(self) -> bool:
        """It succeeded by the record on its box, and what it said could not be read: a finished word alone."""
        code = self.facts.known.get("run.exit_code")
        return code is not None and code.source.startswith("probe ") and "run.log_text" not in self.facts.known

    @property
    def goes_on(self) -> bool:
        """Alive, and a step, a checkpoint or a line of its log came since the last look: nothing has ended it."""
        moves = any(self.value(f"run.{what}") is True for what in MOVES)
        is_there = self.value("run.alive") is True or not self.is_left_off
        return moves and is_there and self.value("run.alive") is not False and not self.has_ended_badly

    @property
    def is_left_off(self) -> bool:
        """Its machine was restarted since it began, or its scheduler does not run it now: what moved, moved before."""
        is_anew = any(self.value(f"box.{what}_changed") is True for what in ("pid1", "boot_id"))
        return is_anew or self.value("sl.state") in _NOT_NOW

    @property
    def is_moving(self) -> bool:
        """The same, and all was looked at that can be wrong with a run that moves."""
        return self.goes_on and not self._is_partly_seen

    @property
    def life(self) -> tuple[str, ...]:
        """The observations by which nothing has ended the run: it is alive and advancing, or done at its plan. ()
        where neither is known."""
        if self.goes_on:
            return tuple(name for name in ("run.alive", *(f"run.{what}" for what in MOVES)) if self.value(name) is True)
        if self.has_succeeded:
            return ("run.done_record",)
        return ("run.exit_code", "run.step") if self._is_at_its_plan else ()

    @property
    def _is_at_its_plan(self) -> bool:
        """It ended 0 after the last step planned; whether all its outputs are there was not seen."""
        step, total = self.value("run.step"), self.value("run.step_total")
        is_whole = isinstance(step, int) and isinstance(total, int) and step >= total > 0
        return is_whole and self.value("run.exit_code") == 0 and not self.value("run.exit_signal")

    @property
    def has_own_end(self) -> bool:
        """It ended by a status of its own, and its first error is of its own program: not of memory, a card or a
        signal."""
        code = self.value("run.exit_code")
        is_own = isinstance(code, int) and 0 < code < 128 and not self.value("run.exit_signal")
        return is_own and _OWN_ERROR.match(str(self.value("log.first_of") or "")) is not None

    @property
    def _is_partly_seen(self) -> bool:
        """What can be wrong with a run that moves was not looked at: a script rewritten under it, a CPU quota."""
        known = self.facts.known
        is_script = bool(self.value("run.shell_scripts")) and "run.script_drift" not in known
        is_held_up = (self.value("cg.throttled_frac") or 0.0) >= 0.2 and "run.cores_busy" not in known
        return is_script or is_held_up or (self.value("cg.cpu_quota") is not None and "cg.throttled_frac" not in known)

    @property
    def is_log_alone(self) -> bool:
        """Nothing is known but texts: then what is likely is the best answer there is. With facts of the box it is not:
        the fact that would decide may be the one that lacks."""
        return not any(
            known.source == "given"
            or (name.startswith(("run.exit", "run.alive", "cg.", "box.")) and not known.source.startswith("the log"))
            for name, known in self.facts.known.items()
        )

    def is_past(self, stream: str, hit: Hit) -> bool:
        """Whether the run went on after a text of its log, so that it says nothing about an end."""
        if not hit.pattern.fatal:
            return False
        if hit.pattern.final:
            return (self.goes_on and self.value("run.alive") is True) or self.has_succeeded
        return self.is_over(hit.line, hit.number, hit.last, hit.times, stream)

    def is_over(self, line: str, number: int, last: int, times: int = 1, stream: str = "log") -> bool:
        """Whether the run went on after a line that came `times` times, first as line `number` and last as `last`."""
        if self.goes_on or self.has_succeeded:
            return True
        log = self.seen.get(stream)
        if stream != "log" or log is None:
            return False
        if last <= log.end.before or (_SHELL.search(line) and any(one.number > last for one in log.raised)):
            return True
        went_on = log.end.progress_after(last)
        is_bad = self.has_ended_badly or log.end.kind not in ("progress", "done")
        if not self.has_ended_badly and _WILL_TRY.search(line) and times < _TRIES and log.lines > last + 1:
            return True
        if is_bad:  # of what else it says, this is what it got over before
            is_old_hat = times >= OFTEN and last - number >= APART
            return went_on >= (1 if is_old_hat else LONG)
        enough = 1 if _TRIES_AGAIN.search(line) else 2
        return went_on >= enough or (log.end.kind == "done" and log.end.bad < last)


def scope_of(words: object) -> frozenset[str]:
    """The scope that a document names, with other names for the same; always holds `universal`."""
    names = [words] if isinstance(words, str) else list(words) if isinstance(words, (list, tuple)) else []
    return frozenset(["universal", *(ALIASES.get(str(name).lower(), str(name).lower()) for name in names)])
