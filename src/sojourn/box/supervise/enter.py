"""`keeper enter ROOT [CMD ...]`: a command, or a shell, in the working copy and environment of a run's last attempt."""

from __future__ import annotations

import os
import signal
import sys

from sojourn.box.run.history import History
from sojourn.box.run.root import Root, attempts_made, read_fields, read_spec
from sojourn.box.supervise import environment
from sojourn.box.system import machine, process, raw, umask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Sequence

    from sojourn.wire.documents import Spec

# Only the training itself may write with these.
_ITS_OWN = ("SOJOURN_PROGRESS", "SOJOURN_TOKEN")
_ENVIRON_BYTES = 4 << 20


def main(argv: Sequence[str]) -> int:
    """Become the command. 2 if there is no such run, 127 if the command cannot be started."""
    root = Root(argv[0]) if argv else None
    try:
        if root is None:
            raise ValueError("no root was named")
        spec = read_spec(root)
    except ValueError as error:
        sys.stderr.write("sojourn: %s\n" % error)
        return 2
    number = max(attempts_made(root) or [0])
    words = list(argv[1:]) or [os.environ.get("SHELL") or "/bin/bash"]
    variables, words = _inside(root, spec, number, words)
    for name in _ITS_OWN:
        variables.pop(name, None)
    folder = root.attempt(number)
    try:
        os.chdir(folder if os.path.isdir(folder) else root.path)
        umask.give_back()
        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)
        os.execvpe(words[0], words, variables)
    except OSError as error:
        sys.stderr.write("sojourn: cannot start %s: %s\n" % (words[0], error.strerror))
    return 127


def _inside(root: Root, spec: Spec, number: int, words: List[str]) -> tuple[Dict[str, str], List[str]]:
    """The payload's environment if it lives here, else the one it would get now; and the command in it."""
    begun = read_fields(root.begun(number))
    pid = begun.get("pid", 0)
    if begun.get("boot_id") == machine.boot_id() and pid and process.is_alive(pid, begun.get("start", 0)):
        entries = raw.read_entry("/proc/%d/environ" % pid, _ENVIRON_BYTES)["stdout"].split("\0")
        theirs = {name: value for name, sep, value in (entry.partition("=") for entry in entries) if sep}
        if theirs:
            return dict(theirs, **_of_terminal()), words
    bare: Spec = dict(spec, argv=words, secrets=[])  # type: ignore[assignment]  # secrets are gone with the run
    variables = environment.variables(root, bare, max(1, number), None, History())
    folder = environment.setup_folder(root.base, spec)
    is_made = bool(folder) and environment.is_ready(folder)
    return variables, environment.payload_argv(bare, folder if is_made else "")


def _of_terminal() -> Dict[str, str]:
    return {name: os.environ[name] for name in ("TERM", "COLUMNS", "LINES", "LANG") if name in os.environ}
