"""Starting a run's keeper from within a call, and staying until the process it was started for has proved to live.

So starting a run takes one request, where each request costs a login.
"""

from __future__ import annotations

import os
import subprocess
import time

from sojourn.box.call import Box, Refused
from sojourn.box.ops.since import since
from sojourn.box.queue.book import find_queue
from sojourn.box.run.history import History
from sojourn.box.run.root import Root
from sojourn.box.run.want import find_root, pulse, supervise_argv
from sojourn.box.system import umask
from sojourn.wire import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from sojourn.wire.documents import Event

_LIMIT_BYTES = 1 << 16
_LOOK_S = 0.02
_UNKEPT_S = 5.0  # a started keeper has signed by then; if it died, the caller must start another


def command(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Run the argv `words`, of a launcher or a reboot hook, for the keeper of `run`, or of a sweep's `queue`, and wait
    until it returns. Safe to repeat: a second keeper exits at once.

    `argv`: how that keeper is started, as the client believes. Answer: rc (-1 if it did not end within `timeout_s`),
    out, err, bounded. Refused: other-argv, with the correct `argv`; command-failed, with the answer, if the exit status
    is not 0, unless it `may_fail`.
    """
    is_queue = bool(request.get("queue"))
    root = find_queue(box, str(request["queue"])) if is_queue else find_root(box, str(request["run"]))
    argv = supervise_argv(box, root)
    if request["argv"] != argv:
        raise Refused("other-argv", "the keeper of %s is started otherwise" % root.id, argv=argv)
    words: List[str] = [str(word) for word in request["words"]]
    with umask.Theirs():  # the keeper it starts inherits ours, and learns from it what its job should have
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = child.communicate(timeout=float(request["timeout_s"]))
        rc = child.returncode
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        rc, out, err = -1, b"", b"no end within %d s" % request["timeout_s"]
    said = {"rc": rc, "out": _text(out), "err": _text(err)}
    if rc and not request.get("may_fail"):
        raise Refused("command-failed", "it ended with %d" % rc, **said)
    return said


def proven(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """Stay until attempt `attempt` of `run` has shown a beat and lived for `settle_s` more, or has ended, or no keeper
    has been seen for a while, or `wait_s` have passed; then answer as `since` does, from `offset` on.

    `is_begun`: events before `offset` show that it runs. Also answers `proven`: it lived for `settle_s`.
    """
    root, attempt = find_root(box, str(request["run"])), int(request["attempt"])
    offset, settle = int(request.get("offset") or 0), float(request["settle_s"])
    deadline = time.monotonic() + float(request["wait_s"])
    history, has_beat, at = History(), bool(request.get("is_begun")), offset
    history.attempt = attempt if has_beat else 0
    lives_from, kept_at = 0.0, time.monotonic()
    while True:
        new, at = _news(root, at)
        for event in new:
            history.add(event)
            has_beat = has_beat or (event["kind"] == "beat" and event.get("attempt") == history.attempt == attempt)
        now = time.monotonic()
        is_over = history.attempt >= attempt and bool(history.ended)
        lives_from = lives_from or (now if has_beat else 0.0)
        is_proven = has_beat and not is_over and now - lives_from >= settle
        if pulse(root) not in ("none", "gone"):
            kept_at = now
        if is_over or is_proven or now - kept_at >= _UNKEPT_S or now >= deadline:
            break
        time.sleep(_LOOK_S)
    asked = {"runs": {root.id: offset}, "limit_bytes": request.get("limit_bytes")}
    return dict(since(box, asked), proven=is_proven)


def _news(root: Root, at: int) -> Tuple[List[Event], int]:
    """(the events from `at` on, the offset after them)."""
    try:
        if os.stat(root.events).st_size <= at:
            return [], at
        with open(root.events, "rb") as f:
            f.seek(at)
            new, used = events.parse(f.read())
    except OSError:
        return [], at
    return new, at + used


def _text(data: bytes) -> str:
    return data[:_LIMIT_BYTES].decode("utf-8", "replace")
