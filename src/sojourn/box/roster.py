"""The manifest of a run: every file that its `outputs` name, its logs and what its keeper saw at a bad end, hashed as
they are now.
"""

from __future__ import annotations

import os
import stat

from sojourn.box import globs, secrets
from sojourn.box.root import OURS, Root, attempts_made
from sojourn.wire import machine, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple


def take(root: Root, spec: Dict[str, Any], attempt: int, at: str) -> Dict[str, Any]:
    """Look every output up, in the working copy of `attempt` first and then in the root, and hash it (see
    wire.manifest).

    A symlink stands for the file it leads to, as long as that lies in the root. What cannot be taken home (a link out
    of the root, a device, an unreadable file, a name that is not UTF-8) is in `refused`; nothing is passed over in
    silence.
    """
    rows: Dict[str, Dict[str, Any]] = {}
    refused: Dict[str, str] = {}
    missing = []
    copy = root.attempt(attempt)
    for glob in spec.get("outputs") or ():
        found = False
        for folder, hidden in ((copy, frozenset()), (root.path, OURS)):
            for path in globs.hits(folder, glob, hidden):
                found = True
                if path not in rows and path not in refused:
                    _add(rows, refused, root, path, os.path.join(folder, path), "output")
        if not found:
            missing.append(glob)
    # While the secrets are here, the logs may still hold them: they come home when the keeper has hidden them.
    for number in () if secrets.exist(root) else attempts_made(root):
        for path in ("logs/%d.log.1" % number, "logs/%d.log" % number, "evidence/%d.json" % number):
            full = os.path.join(root.path, path)
            if os.path.exists(full) and path not in rows:
                _add(rows, refused, root, path, full, "log")
    told = [{"path": path, "why": why} for path, why in refused.items()]
    return manifest.document(root.id, attempt, at, rows.values(), missing, told, machine.this_machine())


def _add(rows: Dict[str, Dict[str, Any]], refused: Dict[str, str], root: Root, path: str, full: str, role: str) -> None:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        refused[os.fsencode(path).decode("utf-8", "backslashreplace")] = "its name is not UTF-8"
        return
    why, real = below(root.path, full)
    if why:
        refused[path] = why
        return
    try:
        size, digest = manifest.sha256_file(real, follow=False)
    except OSError as error:
        refused[path] = error.strerror or str(error)
        return
    rows[path] = {
        "path": path,
        "from": os.path.relpath(real, os.path.realpath(root.path)),
        "bytes": size,
        "sha256": digest,
        "role": role,
    }


def below(root: str, full: str) -> Tuple[str, str]:
    """("", real path) of a regular file whose real path lies below `root`; else (why not, "")."""
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
    return ("", real) if stat.S_ISREG(mode) else ("not a regular file", "")
