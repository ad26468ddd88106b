"""The roster of what pulls have brought into a folder: only that may be overwritten there.

It lies with our records, where no box can write: `homes/` in the state folder, a file for each home folder. A folder
that an earlier version filled holds its roster itself: that one is read once, believed as far as the journal's receipts
bear it out, moved here and removed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sojourn.store.records import RunRecord
from sojourn.wire import atomic, manifest

OLD_NAME = ".sojourn-home.json"  # in the home folder itself, as earlier versions kept it
UNPROVEN = ".unproven"  # behind the name of a file that came home whole and does not load: kept for a look
OWN_PREFIX = ".sojourn-"
_KEPT = re.compile(r"(.+)@attempt-[1-9][0-9]*(?:\.[0-9]+)?", re.S)  # what a later attempt's file took the place of
LOGS = re.compile(r"logs/[1-9][0-9]*\.log(\.1)?|evidence/[1-9][0-9]*\.json")
_SCHEMA = "sojourn/home/v1"
_SHOWN_BYTES = 64 << 20  # of an old roster

Find = Callable[[str], "RunRecord | None"]


class Roster:
    """What came home into one folder, by run. `find`: the journal's record of a run."""

    def __init__(self, state_dir: str, folder: str, find: Find) -> None:
        self._folder, self._find = folder, find
        name = hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()
        self.path = os.path.join(state_dir, "homes", f"{name}.json")

    def brought(self, run: str) -> dict[str, str]:
        """Path -> sha256 of what is `run`'s there. Takes an old roster over. Raises: OSError."""
        with self._alone():
            return self._runs().get(run, {})

    def add(self, run: str, files: Mapping[str, str]) -> None:
        """These (path -> sha256) are `run`'s from now on; call it before they are there. Durable. Raises: OSError."""
        with self._alone():
            runs = self._runs()
            mine = {**runs.get(run, {}), **files}
            if mine != runs.get(run, {}):
                self._write({**runs, run: mine})

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two runs may come home into one folder at once."""
        import fcntl

        folder = os.path.dirname(self.path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _runs(self) -> dict[str, dict[str, str]]:
        old = os.path.join(self._folder, OLD_NAME)
        kept = atomic.read_json(self.path)
        runs = _plain(kept.get("runs")) if isinstance(kept, dict) else {}
        if os.path.islink(old) or os.path.lexists(old) and not os.path.isdir(old):
            for run, files in self._borne_out(_old(old)).items():
                runs[run] = {**files, **runs.get(run, {})}
            self._write(runs)
            os.unlink(old)
        return runs

    def _write(self, runs: Mapping[str, Mapping[str, str]]) -> None:
        value = {
            "schema": _SCHEMA,
            "folder": os.fsencode(self._folder).decode("utf-8", "backslashreplace"),
            "runs": runs,
        }
        atomic.write_json(self.path, value, mode=0o600)

    def _borne_out(self, old: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
        """What of an old roster the journal confirms: any file in that folder may have been made by a box."""
        found = {}
        for run, files in old.items():
            record = self._find(run)
            if record is None or not record.pulled_dir or not _is_same(record.pulled_dir, self._folder):
                continue
            receipts = {receipt.path for receipt in record.receipts}
            found[run] = {path: sha256 for path, sha256 in files.items() if path in receipts}
            # Logs have no receipts, and what did not load has none: these count where the very bytes lie there.
            for path, sha256 in files.items():
                for name in (path, path + UNPROVEN):
                    is_known = LOGS.fullmatch(name) or name.endswith(UNPROVEN)
                    if name not in found[run] and is_known and manifest.is_safe(name) and self._has(name, sha256):
                        found[run][name] = sha256
        return found

    def _has(self, name: str, sha256: str) -> bool:
        found = hash_regular(os.path.join(self._folder, *name.split("/")))
        return found is not None and found[1] == sha256


def hash_regular(path: str, expected_bytes: int | None = None) -> tuple[int, str] | None:
    """(bytes, sha256) of the regular file at `path`; None for what is not one (a link, a pipe, a device), cannot be
    read, or is not `expected_bytes` long. Never waits for a writer.
    """
    import stat

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb", buffering=0) as file:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode) or expected_bytes not in (None, seen.st_size):
                return None
            return manifest.sha256_stream(file, limit_bytes=seen.st_size)
    except (OSError, ValueError):  # ValueError: a name with NUL
        return None


def why_not_ours(path: str, others: Iterable[str]) -> str:
    """Why a box may not have a file of this name brought home; "" where it may. `others`: all names of its manifest."""
    parts = [part.casefold() for part in path.split("/")]
    if any(part.startswith(OWN_PREFIX) for part in parts):
        return "its name is reserved by sojourn"
    if parts[-1].endswith(UNPROVEN) and path[: -len(UNPROVEN)] in others:
        return "its name belongs to another file that does not load"
    kept = _KEPT.fullmatch(path)
    if kept and kept[1] in others:
        return "its name belongs to an older copy of another file"
    if any(len(os.fsencode(part)) > 255 - len(UNPROVEN) for part in path.split("/")) or len(path) > 3000:
        return "its name is too long for the disk here"
    return ""


def lies_in(path: str, root: str) -> bool:
    """Whether what is at `path` lies in the run's folder `root`, links followed: with that folder it goes."""
    return bool(root) and f"{os.path.realpath(path)}/".startswith(f"{os.path.realpath(root)}/")


def goes_with(path: str, root: str) -> bool:
    """Whether what is at `path` goes with this very machine, where a run lies at `root`: it is in the run's base, or on
    that disk, or on the machine's own.
    """
    base = os.path.dirname(os.path.dirname(root))
    if not root or lies_in(path, base):
        return bool(root)
    try:
        return os.stat(_existing(path)).st_dev in {os.stat(_existing(one)).st_dev for one in (root, "/")}
    except OSError:
        return True  # which disk that is cannot be seen


def _existing(path: str) -> str:
    """The path, or the nearest folder above it that is there."""
    path = os.path.realpath(path)
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def _is_same(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def _old(path: str) -> dict[str, dict[str, str]]:
    import json
    import stat

    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return {}
            return _plain(json.loads(file.read(_SHOWN_BYTES)))
    except (OSError, ValueError, RecursionError):
        return {}


def _plain(value: Any) -> dict[str, dict[str, str]]:
    """Only what has the form of a roster: run -> path -> sha256."""
    runs = value.items() if isinstance(value, dict) else ()
    return {
        str(run): {str(path): sha256 for path, sha256 in files.items() if manifest.is_digest(sha256)}
        for run, files in runs
        if isinstance(files, dict)
    }
