"""Evidence of the box itself, where it is not a run that somebody asks about."""

from __future__ import annotations

from sojourn.box import evidence
from sojourn.box.call import Box
from sojourn.box.system import gpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def look(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`probes`: names of what is asked, absent for all that ask about a machine; `sample`: {"seconds","matmul",...}
    where cards are watched for a while, see probes.sampling. Answer: `evidence`, a document of schema
    sojourn/evidence/v1. Takes less than 2 seconds, whatever hangs, and as long as `sample` asks for.

    Of a box without a card a named `kernel_log` is not read: who asks for it by name waits for it, and it would tell of
    cards.
    """
    names, sample = request.get("probes"), request.get("sample")
    has_cards = gpu.exists()
    kept = None if names is None else [str(name) for name in names if has_cards or name != "kernel_log"]
    return {"evidence": evidence.of_box(box.base, kept, sample if isinstance(sample, dict) else None)}
