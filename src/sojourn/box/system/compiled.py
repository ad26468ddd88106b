"""The keeper's own byte code, kept beside it: compiling takes a processor longer than most of its answers.

`__main__` puts this file before the keeper on the path, and the client's bootstrap enters calls here directly. The
import system skips a file that is not a zip. Its content is trusted, as any byte code is: it is written aside, fsynced
and renamed, never replaced, and removed by `clean`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

from sojourn.wire import atomic


def name(keeper: str) -> str:
    """The file with this very Python's byte code of that keeper, as also spelled in `__main__` and the bootstrap."""
    return "%s.%s-%x.zip" % (keeper[: -len(".pyz")], sys.implementation.cache_tag, sys.hexversion)


def keep(keeper: str) -> None:
    """Make it if it is missing. Only for a keeper found to match its name.

    Without room, or write permission, everything stays as slow as before.
    """
    path = name(keeper)
    if os.path.exists(path):
        return
    with contextlib.suppress(OSError), open(keeper, "rb") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.exists(path):  # never replaced: others read it at offsets learned before
            atomic.write(path, _compile(keeper))


def _compile(keeper: str) -> bytes:
    import importlib.util
    import io
    import marshal
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(keeper) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as pack:
        for member in source.namelist():
            if "/" in member:  # not `__main__.py`: it is read before it can say where this is
                code = compile(source.read(member), os.path.join(keeper, member), "exec", dont_inherit=True)
                # PEP 552: no flags, and no source time or size to compare with.
                header = importlib.util.MAGIC_NUMBER + bytes(12)
                pack.writestr(member + "c", header + marshal.dumps(code))
    return out.getvalue()
