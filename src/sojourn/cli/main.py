"""Calls one command and turns its result or exception into lines and an exit status. The one place that catches."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence

from sojourn.cli.screen import Screen, deafen, open_screen
from sojourn.cli.show.text import clean, command
from sojourn.wire.errors import Defect, Misuse, SojournError
from sojourn.wire.quote import join

INTERRUPTED = 130
_REPORT = (
    "This is a bug in sojourn, not in your input. Please report it with the lines above, the command and the output of"
    " `sojourn --version` to the project this copy came from (Reporting a defect, in `sojourn help readme`)."
)
# Errors of a full, read-only or forbidden disk; any other system error is ours to explain.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOTDIR)
_PROCESSES = (errno.ENOMEM, errno.EAGAIN)


class OwnDisk(Misuse):
    """{what}: {reason}."""

    # This machine's disk, not the box's: full, read-only, or not ours to write.
    code = "own-disk"
    next_step = "df -h {folder}"


_OF_A_FILE = ("run", "plan", "smoke", "sweep", "offers")


class OwnMachine(Misuse):
    """This machine cannot start another process: {reason}. End some, or raise the limit (`ulimit -u`), then run the
    same command again.
    """

    code = "own-machine"
    next_step = "free -h"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `sojourn ARGV...` and return its exit status (table in docs/errors.md). Raises nothing."""
    words = list(sys.argv[1:] if argv is None else argv)
    screen = open_screen()
    try:
        return _run(words, screen)
    except BrokenPipeError:
        deafen()  # `sojourn logs -f ... | head`: the reader has enough
        return 0
    except KeyboardInterrupt:
        return _interrupted(words, screen)
    except SojournError as error:
        return _report(error, words, screen)
    except OSError as error:
        if error.errno in _PROCESSES:
            return _report(OwnMachine(reason=error.strerror), words, screen)
        if error.errno not in _DISK:
            return _report(_defect(error), words, screen)
        named = error.filename if isinstance(error.filename, (str, bytes)) else b""
        path = os.fsdecode(named)
        where = OwnDisk(
            what=path or "this machine's disk", reason=error.strerror, folder=join([os.path.dirname(path) or "."])
        )
        return _report(where, words, screen)
    except RuntimeError as error:
        is_short = str(error) == "can't start new thread"  # Python's words for EAGAIN of pthread_create
        return _report(OwnMachine(reason=str(error)) if is_short else _defect(error), words, screen)
    except Exception as error:  # noqa: BLE001 - the border: whatever nobody foresaw is a defect, with its traceback
        return _report(_defect(error), words, screen)


def _run(words: list[str], screen: Screen) -> int:
    from sojourn.cli import parser

    if not words or words[0] in ("-h", "--help"):
        if words[1:]:
            return _run([words[1], "--help"], screen)
        screen.show(parser.overview())
        return 0 if words else 2
    if words[0] == "--version":
        from sojourn import __version__

        screen.show([f"sojourn {__version__}"])
        return 0
    spec = parser.load(words[0])
    if "-h" in _before_dashes(words) or "--help" in _before_dashes(words):
        screen.show(parser.page(words[0]))
        return 0
    args = parser.parse(words[0], words[1:])
    return int(spec.call(args, screen))


def _report(error: SojournError, words: list[str], screen: Screen) -> int:
    screen.settle()
    if isinstance(error, Defect):
        import traceback

        for line in "".join(traceback.format_exception(error.__cause__ or error)).splitlines():
            screen.say_line(clean(line))
    screen.say(error.message)
    for line in () if screen.has_asked else error.fields.get("lines", ()):
        screen.say_line("  " + clean(line))
    if isinstance(error, Defect):
        screen.say(_REPORT)
    following = _with_file(error.next, words)
    if following:
        screen.say_line(command("next", clean(following)))
    if "--json" in _before_dashes(words):
        import json

        screen.say_line(json.dumps({**error.as_json(), **({"next": following} if error.next != following else {})}))
    return error.exit_status


def _with_file(following: str, words: list[str]) -> str:
    """The next command, with the job file that this one was given."""
    file = next((word for word in _before_dashes(words)[1:] if word.endswith((".yaml", ".yml"))), "")
    hit = re.match(r"sojourn (?:run|plan|smoke|sweep)(?= |$)", following)
    if (
        not hit
        or not file
        or "--help" in following
        or ".yaml" in following
        or ".yml" in following
        or words[0] not in _OF_A_FILE
    ):
        return following
    return f"{hit.group()} {join([file])}{following[hit.end() :]}"


def _defect(error: Exception) -> Defect:
    made = Defect(detail=f"{type(error).__name__}: {error}")
    made.__cause__ = error
    return made


def _interrupted(words: list[str], screen: Screen) -> int:
    from sojourn.cli import parser

    screen.settle()
    left = getattr(parser.load(words[0]), "INTERRUPTED", "")
    if screen.is_asking:
        screen.say_line("")
    screen.say("interrupted. " + (left if left and not screen.is_asking else "Nothing was changed."))
    return INTERRUPTED


def _before_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words
