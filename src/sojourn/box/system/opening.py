"""Opening files in a run's root for reading: only regular ones, none outside it, and without ever waiting."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Tuple


def below(root: str, full: str) -> Tuple[str, str]:
    """("", real path) of a regular file whose real path is below `root`; else (why not, "")."""
    top = os.path.realpath(root)
    real = os.path.realpath(full)
    if not real.startswith(top + os.sep):
        return "a symlink out of the run's root", ""
    if real in (os.path.join(top, "secrets.json"), os.path.join(top, "secrets.json.new")):
        return "the run's secrets", ""
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        return ("a symlink to nothing" if os.path.islink(full) else error.strerror or str(error)), ""
    if stat.S_ISREG(mode):
        return "", real
    from sojourn.wire import manifest  # it loads hashlib, which the shim does without

    return manifest.NOT_A_FILE, ""


def open_plain(path: str) -> BinaryIO:
    """A regular file of ours for reading; a pipe or device that a job put in its place does not make us wait.

    Raises: OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return open(fd, "rb")


def open_below(root: str, real: str) -> int:
    """A descriptor of the file that `below` found. It is checked again once open: a writer in the root may have put a
    link, a pipe or a device in its place meanwhile. Raises: OSError.
    """
    fd = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", real)
        try:
            opened = os.readlink("/proc/self/fd/%d" % fd)
        except OSError:
            opened = real  # without /proc the name must suffice
        if not opened.startswith(os.path.realpath(root) + os.sep):
            raise OSError(errno.EXDEV, "a symlink out of the run's root", real)
    except BaseException:
        os.close(fd)
        raise
    return fd
