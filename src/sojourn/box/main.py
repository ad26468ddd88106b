"""Dispatch of the keeper's commands; each loads only what it needs."""

from __future__ import annotations

import os
import sys

from sojourn.box.system import umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

USAGE = "usage: keeper supervise --root ROOT | seal --root ROOT | call | gpu | bundle ROOT [ATTEMPT] |"
USAGE += " forecheck ROOT | enter ROOT [CMD ...] | stage TARGET | --version\n"


def main(argv: List[str]) -> int:
    """Run one command of the keeper; its exit status. 2 for misuse."""
    sys.argv[0] = os.path.abspath(sys.argv[0])  # we will change folder, and restart ourselves from this path
    _speak_utf8()
    umask.keep_private()
    command = argv[0] if argv else ""
    if command == "shim":
        from sojourn.box.supervise.shim import main as shim

        return shim(argv[1:])
    if command == "supervise" and len(argv) == 3 and argv[1] == "--root":
        from sojourn.box.supervise.supervise import supervise

        return supervise(argv[2])
    if command == "seal" and len(argv) == 3 and argv[1] == "--root":
        from sojourn.box.supervise.supervise import seal_only

        return seal_only(argv[2])
    if command == "enter":
        from sojourn.box.supervise.enter import main as enter

        return enter(argv[1:])
    if command == "call":
        from sojourn.box.call import answer_one
        from sojourn.box.system import beats

        beats.begin()
        return answer_one(sys.stdin.buffer, sys.stdout.buffer)
    if command == "gpu":
        from sojourn.box.system.gpu import main as gpu

        return gpu()
    if command == "bundle":
        from sojourn.box.evidence import main as bundle

        return bundle(argv[1:])
    if command == "forecheck":
        from sojourn.box.supervise.node_check import main as forecheck

        return forecheck(argv[1:])
    if command == "stage" and len(argv) == 2:
        from sojourn.box.stage.work import main as stage

        return stage(argv[1:])
    if command == "--version":
        from sojourn import __version__

        sys.stdout.write("sojourn keeper %s (%s)\n" % (__version__, os.path.basename(sys.argv[0])))
        return 0
    sys.stderr.write(USAGE)
    return 2


def _speak_utf8() -> None:
    """To us file names are UTF-8, whatever the box's locale: if need be, restart in Python's UTF-8 mode."""
    if sys.getfilesystemencoding().lower().replace("-", "") != "utf8" and not sys.flags.utf8_mode:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-X", "utf8"] + sys.argv)
