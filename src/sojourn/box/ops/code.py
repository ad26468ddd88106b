"""Code on the box: what exists, by content name."""

from __future__ import annotations

import os

from sojourn.box.call import Box, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


def have(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Those of `names` not here. `kind`: snapshots (digests), envs (setup digests), train, keepers (file names)."""
    kind = request["kind"]
    if kind not in ("snapshots", "train", "keepers", "envs"):
        raise Refused("bad-request", "kind is snapshots, train, keepers or envs, not %r" % kind)
    return {"missing": [name for name in request["names"] if not is_there(box, kind, str(name))]}


def is_there(box: Box, kind: str, name: str) -> bool:
    """Whether something of this kind exists under this name. Refused: unsafe-path."""
    if os.path.basename(name) != name:
        raise Refused("unsafe-path", "not a name: %r" % name)
    if kind == "snapshots":
        return os.path.isfile(box.under("snapshots", name, "roster.json"))
    if kind == "envs":
        try:
            made = os.listdir(box.under("envs"))
        except OSError:
            return False
        return any(e.startswith(name[:32] + "-") and os.path.exists(box.under("envs", e, ".ready")) for e in made)
    return os.path.isfile(box.under(kind, name))
