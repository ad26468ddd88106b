"""Evidence of the box itself, when the question is not about a run."""

from __future__ import annotations

from sojourn.box import evidence
from sojourn.box.call import Box
from sojourn.box.system import gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def look(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`probes`: the probes asked, absent for all about a machine; `sample`: {"seconds","matmul",...} to watch GPUs for
    a while, see probes.sampling. Answer: `evidence`, a document of schema sojourn/evidence/v1. Takes less than 2
    seconds, whatever hangs, plus the time `sample` requests.

    On a box without a GPU a requested `kernel_log` is not read: it takes time, and is wanted only for GPUs.
    """
    names, sample = request.get("probes"), request.get("sample")
    has_cards = gpu.exists()
    kept = None if names is None else [str(name) for name in names if has_cards or name != "kernel_log"]
    return {"evidence": evidence.of_box(box.base, kept, sample if isinstance(sample, dict) else None)}
