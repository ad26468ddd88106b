"""Files that were being written when something ended, in the run's working copy and its checkpoints."""

from __future__ import annotations

import os
import time

from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict

_ENDS = (".tmp", ".part", ".partial", ".incomplete")
_ROWS = 100
_LOOK_S = 0.5


def collect(context: AttemptContext) -> Dict[str, raw.Entry]:
    """`leftovers`: "bytes path" below the root, one per line; rc 124 if there was no time to look everywhere."""
    until_s = time.monotonic() + _LOOK_S
    rows = []
    for top in (context.root.checkpoints, context.root.attempt(context.attempt)):
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith(_ENDS) or ".tmp." in name:
                    path = os.path.join(folder, name)
                    try:
                        rows.append("%d %s" % (os.lstat(path).st_size, os.path.relpath(path, context.root.path)))
                    except OSError:
                        continue
            if time.monotonic() > until_s:
                return {"leftovers": dict(raw.lines(rows, _ROWS), rc=raw.NO_ANSWER)}
    return {"leftovers": raw.lines(sorted(rows), _ROWS)}
