"""Advice that must not be said in a state: the one list of such pairs, and what takes their place.

An entry of the catalog is written for the run that it ended. What is seen of this run may forbid a part of its advice:
a second start beside a live one writes into the same files, a reboot ends what still trains, and where another disk is
full, deleting checkpoints frees nothing and loses them. Sentences of `fix` that hold such advice are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sojourn.diagnose.grammar import Facts, Truth, evaluate

# Kinds of advice, by how a sentence of a fix gives them.
KINDS: Mapping[str, re.Pattern[str]] = {
    "resume": re.compile(
        r"(?i)\b(?:then |and |sojourn )?resumes?\b(?! (?:a|the) (?:stopped|frozen))"
        r"|\bsubmit (?:it |the same job )?again|\bstart (?:it |the run )?(?:again|on another)"
    ),
    "reboot": re.compile(r"(?i)\breboot|\breset (?:it|the GPU|or reboot)|\bGPU reset\b|\bcold[- ]restart"),
    "restart": re.compile(r"(?i)\brestart (?:the |it|from)|\bRestart from the console|\breload the nvidia modules"),
    "more-memory": re.compile(
        r"(?i)\b(?:more|larger) memory\b|\braise (?:limits\.memory|--mem)|\bset --mem\b|--shm-size"
    ),
    "another-machine": re.compile(
        r"(?i)\b(?:another|other|change the|switch) (?:machine|box|node|host|instance)s?\b|\brent another\b"
        r"|\bresume elsewhere\b|\breturn it\b|\blarger (?:card|machine|disk)\b"
    ),
    "delete-checkpoints": re.compile(r"(?i)(?:delet|remov|free space)[^.]*\bcheckpoints?\b|\brolling checkpoints\b"),
    "kill": re.compile(r"(?i)\bkill(?:all)? -?\d|\bstop every process\b|\bsojourn reap\b|\bpkill\b"),
    "release": re.compile(r"(?i)\brelease (?:it|the (?:pod|box|machine|instance))\b|\bdestroy\b|\breturn it\b"),
}


@dataclass(frozen=True)
class Pair:
    """Advice of `kind` is not given where `state` (a condition) is true; `instead` says why, and what to do."""

    kind: str
    state: str
    instead: str


_LEAVE = "The run is alive: leave it running."
_SECOND = (
    "The run is alive: a second start would write into the same files. Let it end, or stop it first (sojourn stop)."
)
_REQUEUED = "Its scheduler starts it again by itself: wait, and submit nothing."
_WHOLE = "The run has ended well: nothing is left to run."
_OTHER_DISK = "The run's own disk has room, and its checkpoints do not fill the other one: clear the disk that is full."
ALIVE = ("run.alive == true", "run.alive_disputed == true")
DONE = ("run.exit_code == 0 && run.done_record == true",)
REQUEUED = (
    "sl.state in REQUEUED,REQUEUE_FED",
    "sl.state in PENDING,CONFIGURING && sl.restarts >= 1",
    r"log.said =~ /^\s*Requeued \w+ job\b|\bsubmitit\b.* - Requeued job \d|\b[Jj]ob \d+ (?:has been |was )?requeued/",
)
OTHER_DISK = ("disk.probe_write == ok && disk.bytes_pct < 0.95", "shm.pct >= 0.95 && disk.bytes_pct < 0.95")

PAIRS: tuple[Pair, ...] = (
    *(Pair("resume", state, _SECOND) for state in ALIVE),
    *(Pair("resume", state, _WHOLE) for state in DONE),
    *(Pair("resume", state, _REQUEUED) for state in REQUEUED),
    *(Pair(kind, state, _LEAVE) for kind in ("reboot", "restart", "another-machine", "kill") for state in ALIVE),
    *(Pair("more-memory", f"{state} && run.step_advancing == true", _LEAVE) for state in ALIVE),
    *(Pair("release", state, _LEAVE) for state in ALIVE),
    *(Pair("delete-checkpoints", state, _OTHER_DISK) for state in OTHER_DISK),
)

_SENTENCE = re.compile(r"(?<=[.;])\s+(?=[A-Z(a-z])")


def kinds_of(text: str) -> frozenset[str]:
    """The kinds of advice that a text gives."""
    return frozenset(kind for kind, regex in KINDS.items() if regex.search(text))


def forbidden(facts: Facts) -> dict[str, str]:
    """The kinds of advice that what is known forbids, each with what to say in its place."""
    found: dict[str, str] = {}
    for pair in PAIRS:
        if pair.kind not in found and evaluate(pair.state, facts)[0] is Truth.YES:
            found[pair.kind] = pair.instead
    return found


def harmless(fix: str, facts: Facts) -> str:
    """A fix without the sentences that must not be said now; what takes their place comes first."""
    banned = forbidden(facts)
    if not banned or banned.keys().isdisjoint(kinds_of(fix)):
        return fix
    kept, instead = [], []
    for sentence in _SENTENCE.split(fix):
        bad = sorted(kinds_of(sentence) & banned.keys())
        if bad:
            instead += [banned[kind] for kind in bad]
        else:
            kept.append(sentence)
    text = " ".join([*dict.fromkeys(instead), *kept]).strip()
    return text if text.endswith((".", ")")) else text.rstrip(";,") + "."
