"""The process that loads artifacts: `python -I loading_child.py FOLDERS`, the folders of `sojourn` and of packages with
loaders, as in PATH.

Reads one JSON line per file ({"path", "name", "beside"}) on standard input, answers each with one JSON line, and exits
at end of input. Many small files come in one line ({"many": [...]}): their answers follow in that order, several in one
write. Before an answer it reports now and then how much it has read ({"read": bytes}), and may ask for
PyTorch's verdict on a file ({"weights": path, "is_mapped"}), which another process of its kind (`... FOLDERS weights`)
gives: {"by"} or {"problem", "why"}. It announces that question as early as possible ({"expect": "weights"}), so that
that process, the only one to do so, imports PyTorch meanwhile.
A file that kills, fills or blocks it costs only this process. Its one client is `loading`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

_SAID_EVERY_BYTES = 16 << 20
_SAID_EVERY_S = 0.05  # answers about many small files


def main() -> None:
    """Serve until standard input ends."""
    # After the standard library, before any other installed sojourn.
    sites = [at for at, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages"))]
    ours, *packages = sys.argv[1].split(os.pathsep)
    sys.path.insert(min(sites, default=len(sys.path)), ours)
    sys.path += [folder for folder in packages if folder not in sys.path]
    from sojourn.backends.proof import reading, weights
    from sojourn.backends.proof.judge import judge_file
    from sojourn.formats.damage import Unloadable

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for our parent, whose end closes our input
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # a library's output must not mix with answers

    said = threading.Lock()
    unsaid_bytes = 0
    said_s = 0.0

    def answer(found: dict[str, Any], *, may_wait: bool = False) -> None:
        nonlocal said_s
        with said:
            answers.write(json.dumps(found) + "\n")
            if not may_wait or time.monotonic() - said_s > _SAID_EVERY_S:
                answers.flush()
                said_s = time.monotonic()

    def tick(count: int) -> None:
        nonlocal unsaid_bytes
        unsaid_bytes += count
        if unsaid_bytes >= _SAID_EVERY_BYTES:
            answer({"read": unsaid_bytes})
            unsaid_bytes = 0

    def fail(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        # A loader raised what it must not: a defect of the loader, exposed by this file.
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
    weights.load, weights.expect = ask, lambda: answer({"expect": "weights"})

    def found_in(asked: dict[str, Any]) -> dict[str, Any]:
        nonlocal unsaid_bytes
        unsaid_bytes = 0
        try:
            if "weights" in asked:
                return _by(own, asked)
            with reading.shared(asked["path"], tick) as whole:
                judged = judge_file(asked["path"], asked["name"], asked["beside"])
                return {**vars(judged), "hashed": whole.finish()}
        except OSError as error:
            return {"errno": error.errno or 0, "strerror": error.strerror or str(error)}
        except MemoryError:
            return {"problem": "unsafe", "failed": "loading it ran out of memory"}

    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        *rest, last = asked.get("many") or (asked,)
        for one in rest:
            answer(found_in(one), may_wait=True)
        answer(found_in(last))


def _by(load: Callable[[str, bool], str], asked: dict[str, Any]) -> dict[str, Any]:
    from sojourn.formats.damage import Unloadable

    try:
        return {"by": load(asked["weights"], asked["is_mapped"])}
    except Unloadable as error:
        return {"problem": error.problem, "why": error.why}


if __name__ == "__main__":
    main()
