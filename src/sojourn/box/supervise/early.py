"""The signal before a time limit: who gets it, when, and which one.

A script that cannot save would lose the rest of its time to it. So only those that declared a use for it get it: a
process in which `sojourn.train` listens, or a job file with `resume:` or `signal:`; and no sooner than a save needs.
"""

from __future__ import annotations

import os
import re
import signal

from sojourn.box.run.root import Root
from sojourn.box.system import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Tuple

    from sojourn.wire.documents import Spec

SPARE_S = 30.0  # for the step running when the signal comes, and between the end of the save and the limit
WRITE_S = 30.0  # of a save not yet measured
_SIGNAL = re.compile(r"(?:SIG)?([A-Z0-9]{2,9})@([0-9]{1,5})")


def is_for(root: Root, spec: Spec, number: int) -> bool:
    """Whether attempt `number` has declared so far that it can use a signal before its time is up."""
    return bool(spec.get("resume_argv") or spec.get("signal")) or os.path.exists(root.hears(number))


def need_s(spec: Spec, write_s: float) -> float:
    """Seconds before its limit at which it is warned. `write_s`: how long its last save took, 0 for unknown."""
    asked = _asked(spec)
    return asked[1] if asked else SPARE_S + 2 * (write_s or WRITE_S)


def number_of(spec: Spec) -> int:
    """The signal to send: the job file's own, else SIGTERM."""
    asked = _asked(spec)
    is_alone = int(spec.get("num_nodes") or 1) == 1  # the starter of the others passes on only SIGTERM
    return asked[0] if asked and is_alone else signal.SIGTERM


def send(pids: List[int], number: int) -> List[int]:
    """Send a signal to the processes that handle it, as it would only kill the others; returns who got it."""
    hearing = [pid for pid in pids if members.catches(pid, number)]
    members.send(hearing, number)
    return hearing


def _asked(spec: Spec) -> Tuple[int, float] | None:
    found = _SIGNAL.fullmatch(str(spec.get("signal") or ""))
    number = getattr(signal, "SIG" + found.group(1), None) if found else None
    return (int(number), float(found.group(2))) if found and number else None
