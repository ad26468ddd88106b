"""One trial: a fault is planted, `why RUN` is asked, and again with each probe withheld."""

from __future__ import annotations

import copy
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sojourn.diagnose import evidence
from sojourn.diagnose.reason import Verdict, reason
from sojourn.store.gotchas import gotchas
from tests.verdicts import ends, far, states, survived
from tests.verdicts.stage import Stage

Plant = Callable[[Stage], Iterator[None]]
FAULTS: dict[str, tuple[Plant, tuple[str, ...]]] = {
    plant.__name__: (plant, names)
    for some in (ends.FAULTS, states.FAULTS, far.FAULTS, survived.FAULTS)
    for plant, names in some.items()
}


@dataclass
class Told:
    """What came of a trial. `wrong`: "" where it held; `open`: how many withheld probes leave it undetermined."""

    fault: str
    seed: int
    wrong: str = ""
    verdict: str = ""
    why_s: float = 0.0
    took_s: float = 0.0
    withheld: int = 0
    open: list[str] = field(default_factory=list)
    load: float = 0.0


def play(fault: str, seed: int, folder: Path, keep: Path | None = None) -> Told:
    """Play it in this process, whose home is below `folder` from now on. `keep`: where the evidence is kept."""
    plant = FAULTS[fault][0]
    told = Told(fault, seed, load=round(os.getloadavg()[0], 1))
    stage = Stage(folder, random.Random(f"{fault} {seed}"))
    began_s = time.monotonic()
    try:
        with contextmanager(plant)(stage):
            asked_s = time.monotonic()
            answer, document = stage.why()
            told.why_s = round(time.monotonic() - asked_s, 2)
            if keep is not None:
                keep.write_text(json.dumps(document))
            judge(told, answer.judged, document)
    except AssertionError as error:
        told.wrong = f"not planted: {error}"[:500]
    except pytest.skip.Exception as missing:
        told.wrong = str(missing)
    finally:
        stage.close()
        told.took_s = round(time.monotonic() - began_s, 1)
    return told


def judge(told: Told, judged: Verdict, document: dict[str, Any]) -> None:
    """Write down what the evidence says, whole and without each of its probes."""
    expected = FAULTS[told.fault][1]
    told.verdict, told.wrong, told.withheld, told.open = name_of(judged), "", 0, []
    if told.verdict not in expected:
        told.wrong = f"{told.verdict} where {'/'.join(expected)} is right: {_shown(judged)}"
    else:
        told.wrong = _withhold(told, document, expected)


def name_of(judged: Verdict) -> str:
    """The id of the verdict, "healthy" or "undetermined"."""
    if judged.verdict is not None:
        return judged.verdict.id
    return "healthy" if judged.is_healthy else "undetermined"


def _withhold(told: Told, document: dict[str, Any], expected: tuple[str, ...]) -> str:
    """Judge it without each of its probes, of the end and of now; what came out wrong."""
    catalog = gotchas()
    names = {name for look in (document, document.get("now") or {}) for name in look.get("probes") or {}}
    bad = []
    for name in sorted(names):
        less = copy.deepcopy(document)
        for look in (less, less.get("now") or {}, less.get("before") or {}):
            (look.get("probes") or {}).pop(name, None)
        got = name_of(reason(catalog, evidence.from_document(less, catalog)))
        told.withheld += 1
        if got == "undetermined":
            told.open.append(name)
        elif got not in expected:
            bad.append(f"{got} without {name}")
    return "; ".join(bad)[:500]


def _shown(judged: Verdict) -> str:
    return "; ".join(f"{one.id} {one.status}" for one in judged.findings[:6])
