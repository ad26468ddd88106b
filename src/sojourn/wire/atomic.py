"""Files that are either whole or absent: write aside, fsync, rename, fsync the folder."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # `typing` would cost the shim on the box 1.5 MiB
if TYPE_CHECKING:
    from typing import Any


def write(path: str, data: bytes, *, durable: bool = True, mode: int = 0o644) -> None:
    """Replace `path` by `data`; a reader sees the old bytes or the new ones, never a mixture.

    With `durable` the file and its folder are fsynced before returning, so the new bytes also survive a power cut.
    Idempotent. On any error the old file stays and the temporary one is removed. A device such as /dev/null is written
    to directly; any other non-file (a folder, a pipe) stays too.   Raises: OSError.
    """
    path = os.fspath(path)
    if _is_device(path):
        with open(path, "wb", buffering=0) as device:
            device.write(data)
        return
    aside = "%s.%d.tmp" % (path, os.getpid())
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            view = memoryview(data)
            while len(view):
                view = view[os.write(fd, view) :]
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(aside, path)
    except BaseException:
        try:
            os.unlink(aside)
        except OSError:
            pass
        raise
    if durable:
        sync_folder(os.path.dirname(path) or ".")


def _is_device(path: str) -> bool:
    """A character device. Raises: OSError if `path` is neither that nor a file.

    A rename would replace any of them by a file: as root, the machine's own /dev/null.
    """
    try:
        kind = os.stat(path).st_mode
    except OSError:
        return False
    if not stat.S_ISREG(kind) and not stat.S_ISCHR(kind):
        raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, "it is no regular file", path)
    return stat.S_ISCHR(kind)


def write_json(path: str, value: Any, *, durable: bool = True, mode: int = 0o644) -> None:
    """`write` of one JSON document with sorted keys and a final newline. Raises: OSError, TypeError, ValueError."""
    from sojourn.wire import lean_json

    text = lean_json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write(path, text.encode("utf-8"), durable=durable, mode=mode)


def read_json(path: str) -> Any:
    """The JSON document at `path`, or None if the file is missing or torn (not JSON). Raises: OSError."""
    from sojourn.wire import lean_json

    try:
        with open(path, "rb") as f:
            return lean_json.loads(f.read().decode("utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def sync_folder(path: str) -> None:
    """fsync a folder, so that a rename in it survives a power cut.

    Source: without it a renamed checkpoint was lost for up to 5 s after a power cut on ext4 (docs/durability).
    Raises: OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
