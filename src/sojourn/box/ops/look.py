"""Evidence of the box itself, where it is not a run that somebody asks about."""

from __future__ import annotations

from sojourn.box import evidence
from sojourn.box.call import Box

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def look(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`probes`: names of what is asked, absent for all that ask about a machine; `sample`: {"seconds","matmul",...}
    where cards are watched for a while, see probes.sampling. Answer: `evidence`, a document of schema
    sojourn/evidence/v1. Takes less than 2 seconds, whatever hangs, and as long as `sample` asks for.
    """
    names, sample = request.get("probes"), request.get("sample")
    kept = None if names is None else [str(name) for name in names]
    return {"evidence": evidence.of_box(box.base, kept, sample if isinstance(sample, dict) else None)}
