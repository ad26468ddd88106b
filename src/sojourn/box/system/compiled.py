"""The keeper's own byte code, kept beside it: compiling it takes a processor longer than most of its answers.

`__main__` puts this file before the keeper's own on the path, and a call is entered here at once (the client's
bootstrap). The import system passes over one that is no zip. What is in it is trusted, as any byte code is: it is
written aside, fsynced and renamed, never replaced, and removed by `clean`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys

from sojourn.wire import atomic


def name(keeper: str) -> str:
    """The file of this very Python's byte code of that keeper, as `__main__` and the bootstrap spell it too."""
    return "%s.%s-%x.zip" % (keeper[: -len(".pyz")], sys.implementation.cache_tag, sys.hexversion)


def keep(keeper: str) -> None:
    """Make it where it is not there. Only for a keeper that was found to be what its name says.

    Without room, or the right to write, everything is as slow as before.
    """
    path = name(keeper)
    if os.path.exists(path):
        return
    with contextlib.suppress(OSError), open(keeper, "rb") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.exists(path):  # it is never replaced: others read it at places that they learned before
            atomic.write(path, _compile(keeper))


def _compile(keeper: str) -> bytes:
    import importlib.util
    import io
    import marshal
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(keeper) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as pack:
        for member in source.namelist():
            if "/" in member:  # not `__main__.py`: it was read before it could say where this is
                code = compile(source.read(member), os.path.join(keeper, member), "exec", dont_inherit=True)
                # PEP 552: no flags, and no time or size of a source to compare with.
                header = importlib.util.MAGIC_NUMBER + bytes(12)
                pack.writestr(member + "c", header + marshal.dumps(code))
    return out.getvalue()
