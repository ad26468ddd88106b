"""The process in which artifacts are loaded: `python -I loading_child.py FOLDERS`: where `sojourn` lies, and
the packages that bring loaders, as in PATH.

Reads one JSON line a file ({"path", "name", "beside"}) on standard input, answers each with one JSON line, and ends
when its input does. Before it answers it says now and then how much it has read ({"read": bytes}), and it may ask for
PyTorch's word on a file ({"weights": path, "is_mapped"}), which another process of its kind (`... FOLDERS weights`)
gives: {"by"} or {"problem", "why"}. That it is going to ask it says as early as it can ({"expect": "weights"}), for
that process to import PyTorch meanwhile, as only that one does.
A file that kills, fills or blocks it costs only this process. Its one client is `loading`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

_SAID_EVERY_BYTES = 16 << 20


def main() -> None:
    """Serve until standard input ends."""
    # After the standard library, before any other sojourn that is installed.
    sites = [at for at, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages"))]
    ours, *packages = sys.argv[1].split(os.pathsep)
    sys.path.insert(min(sites, default=len(sys.path)), ours)
    sys.path += [folder for folder in packages if folder not in sys.path]
    from sojourn.backends.proof import reading, weights
    from sojourn.backends.proof.judge import judge_file
    from sojourn.formats.damage import Unloadable

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for our parent, whose end ends our input
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints must not stand between answers

    said = threading.Lock()
    unsaid_bytes = 0

    def answer(found: dict[str, Any]) -> None:
        with said:
            answers.write(json.dumps(found) + "\n")
            answers.flush()

    def tick(count: int) -> None:
        nonlocal unsaid_bytes
        unsaid_bytes += count
        if unsaid_bytes >= _SAID_EVERY_BYTES:
            answer({"read": unsaid_bytes})
            unsaid_bytes = 0

    def fail(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        # A loader that raises what it must not: a defect of the loader, and this file is the one that shows it.
        answer({"problem": "unsupported", "failed": f"its loader failed on it ({kind.__name__}: {str(error)[:200]})"})

    def ask(path: str, is_mapped: bool) -> str:
        answer({"weights": path, "is_mapped": is_mapped})
        heard: dict[str, Any] = json.loads(sys.stdin.readline())
        if "problem" in heard:
            raise Unloadable(heard["problem"], heard["why"])
        return str(heard["by"])

    sys.excepthook = fail
    own = weights.load
    if sys.argv[2:] == ["weights"]:
        weights.prepare()
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        try:
            if "weights" in asked:
                found: dict[str, Any] = _by(own, asked)
            else:
                weights.load, weights.expect = ask, lambda: answer({"expect": "weights"})
                unsaid_bytes = 0
                with reading.shared(asked["path"], tick) as whole:
                    judged = judge_file(asked["path"], asked["name"], asked["beside"])
                    found = {**vars(judged), "hashed": whole.finish()}
        except OSError as error:
            found = {"errno": error.errno or 0, "strerror": error.strerror or str(error)}
        except MemoryError:
            found = {"problem": "unsafe", "failed": "loading it ran out of memory"}
        answer(found)


def _by(load: Callable[[str, bool], str], asked: dict[str, Any]) -> dict[str, Any]:
    from sojourn.formats.damage import Unloadable

    try:
        return {"by": load(asked["weights"], asked["is_mapped"])}
    except Unloadable as error:
        return {"problem": error.problem, "why": error.why}


if __name__ == "__main__":
    main()
