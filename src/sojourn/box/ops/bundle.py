"""Evidence of one attempt in one answer: what every probe reports now, and what was kept of it."""

from __future__ import annotations

from sojourn.box import evidence
from sojourn.box.call import Box
from sojourn.box.run.want import find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_LOG_BYTES = 4 << 20


def bundle(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`run`, `attempt` (0: the newest), `log_bytes` of the log's end. Answer: `evidence`, a document of schema
    sojourn/evidence/v1. Takes less than 2 seconds, whatever hangs.

    Refused: no-such-run.
    """
    root = find_root(box, str(request["run"]))
    log_bytes = max(0, min(int(request.get("log_bytes") or evidence.LOG_BYTES), _LOG_BYTES))
    return {"evidence": evidence.whole(root, int(request.get("attempt") or 0), log_bytes)}
