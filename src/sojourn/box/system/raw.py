"""Raw texts from probes: the content of a file or output of a command, in whole lines, or why there is none.

An entry is {"rc","stdout","stderr"}: rc 0 = read; 1 = missing or forbidden, and `stderr` starts with the error's name;
124 = no answer in time; 127 = no such program. `cut` if only part is given.
"""

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Sequence

    Entry = Dict[str, Any]

FILE_BYTES = 64 << 10
NO_ANSWER, NO_PROGRAM = 124, 127


def text(stdout: str, rc: int = 0, stderr: str = "", **more: Any) -> Entry:
    """An entry; `more`: what else is known about it (size, age_s, source ...)."""
    return dict({"rc": rc, "stdout": stdout, "stderr": stderr}, **more)


def refused(error: OSError) -> Entry:
    """The entry of something unreadable."""
    return text("", 1, said(error))


def said(error: OSError) -> str:
    """An error by its name: "ENOENT: No such file or directory"."""
    name = errno.errorcode.get(error.errno or 0, "error")
    return "%s: %s" % (name, error.strerror or str(error))


def read_entry(path: str, limit_bytes: int = FILE_BYTES) -> Entry:
    """The start of a file, in whole lines if it is cut."""
    try:
        with open(path, "rb", buffering=0) as f:
            data = b""
            while len(data) <= limit_bytes:  # files in /proc arrive in parts
                part = f.read(limit_bytes + 1 - len(data)) or b""
                data += part
                if not part:
                    break
    except OSError as error:
        return refused(error)
    if len(data) <= limit_bytes:
        return text(plain(data))
    return text(plain(data[: data.rfind(b"\n", 0, limit_bytes) + 1 or limit_bytes]), cut=True)


def reads(paths: Iterable[str], limit_bytes: int = FILE_BYTES) -> Dict[str, Entry]:
    """`read_entry` of several, by path."""
    return {path: read_entry(path, limit_bytes) for path in paths}


def lines(rows: Sequence[str], limit: int, **more: Any) -> Entry:
    """An entry with one row per line, the first `limit` of them."""
    kept = [row.replace("\n", "\\n") for row in rows[:limit]]  # names may contain one
    if len(rows) > limit:
        more["cut"] = True
    return text("".join(row + "\n" for row in kept), **more)


def plain(data: bytes) -> str:
    """Bytes as text: anything that is not UTF-8 is shown as such, without an error."""
    return data.decode("utf-8", "backslashreplace")


def run(argv: List[str], timeout_s: float, limit_bytes: int = FILE_BYTES) -> Entry:
    """A program's output, cut at the front, since the end says more."""
    import subprocess

    env = dict(os.environ, LC_ALL="C", LANG="C")
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        return text("", NO_PROGRAM, said(error))
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # and everything it started
        return text("", NO_ANSWER, "no answer within %g s" % timeout_s)
    more = {}
    if len(out) > limit_bytes:
        out, more = out[out.find(b"\n", len(out) - limit_bytes) + 1 :], {"cut": True}
    return text(plain(out), child.returncode, plain(err[:4096]), **more)
