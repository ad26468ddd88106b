"""The process in which artifacts are loaded: `python -I loading_child.py FOLDER`, FOLDER being where `sojourn` lies.

Reads one JSON line a file ({"path", "name", "beside"}) on standard input, answers each with one JSON line, and ends
when its input does. A file that kills, fills or blocks it costs only this process. Its one client is `loading`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from types import TracebackType
from typing import Any


def main() -> None:
    """Serve until standard input ends."""
    # After the standard library, before any other sojourn that is installed.
    sites = [at for at, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages"))]
    sys.path.insert(min(sites, default=len(sys.path)), sys.argv[1])
    from sojourn.backends.client.judge import judge

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for our parent, whose end ends our input
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints must not stand between answers

    def answer(found: dict[str, Any]) -> None:
        answers.write(json.dumps(found) + "\n")
        answers.flush()

    def fail(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        # A loader that raises what it must not: a defect of the loader, and this file is the one that shows it.
        answer({"problem": "unsupported", "failed": f"its loader failed on it ({kind.__name__}: {str(error)[:200]})"})

    sys.excepthook = fail
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            found: dict[str, Any] = vars(judge(asked["path"], asked["name"], asked["beside"]))
        except OSError as error:
            found = {"errno": error.errno or 0, "strerror": error.strerror or str(error)}
        except MemoryError:
            found = {"problem": "unsafe", "failed": "loading it ran out of memory"}
        answer(found)


if __name__ == "__main__":
    main()
