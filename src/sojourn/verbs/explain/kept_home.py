"""The file that a run looked for in vain, and that an ignore file kept here: with the lines that bring it along."""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sojourn.store.ignore import BadIgnoreFile
from sojourn.store.records import RunRecord
from sojourn.verbs.launch.rosters import roster_of
from sojourn.verbs.project.source.reads import Unpushed, unpushed_at
from sojourn.verbs.project.source.tree import MOST_FILES
from sojourn.wire.quote import join

# What programs say of a file that is not there. Source: CPython, numpy, pandas, h5py, OpenCV, safetensors, datasets,
# coreutils and bash, as their messages stand in tests/verbs/test_kept_home.py (2026-11).
_GONE = re.compile(
    r"no such file|not found|does ?n[o']t exist|errno = 2|FileNotFound|unable to (?:open|find)|can'?t open|cannot open"
    r"|could ?n[o']t (?:open|find)|not a directory|dataset not found",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'([^'\n]{1,400})'|\"([^\"\n]{1,400})\"")
_WORD = re.compile(r"[^\s'\",;()\[\]{}<>]{2,400}")
_COPY = re.compile(r"/attempts/\d+/(.+)")  # a path inside a run's working copy on its box
_LINES = 2000  # of the end of a log
_MOST = 5
_PLAIN = re.compile(r"[\w./-]+")


@dataclass(frozen=True)
class KeptHome:
    """A file or folder that is here and was not pushed. `push`: a shell line; `mount`: a line of the job file, ""
    where there is none; `job_file`: where that line goes.
    """

    path: str
    bytes: int
    push: str
    mount: str
    job_file: str


def kept_home(record: RunRecord, document: Mapping[str, Any]) -> tuple[KeptHome, ...]:
    """What the log of this evidence says is missing, and the run's working folder has. At most five; reads names, no
    file's content. Raises: nothing.
    """
    workdir = str(record.local.get("workdir") or "")
    lines = [line for line in _log(document).splitlines()[-_LINES:] if _GONE.search(line)]
    if not lines or not workdir or not os.path.isdir(workdir):
        return ()
    pushed = frozenset(str(row.get("path")) for row in roster_of(record.run.code_digest))
    found: dict[str, Unpushed] = {}
    try:
        for line in reversed(lines):
            for text in _paths(line):
                path = _here(workdir, text)
                one = unpushed_at(workdir, path, pushed) if path and path not in found else None
                if one is not None:
                    found[path] = one
                    if len(found) == _MOST:
                        break
    except (BadIgnoreFile, OSError):
        return ()
    job_file = str(record.local.get("job_file") or "")
    return tuple(_told(workdir, job_file, one) for one in found.values())


def _log(document: Mapping[str, Any]) -> str:
    """The end of the attempt's own log, as its keeper sent it."""
    name = re.compile(r"logs/\d+\.log")
    texts = [
        str(probe.get("stdout") or "")
        for what, probe in (document.get("probes") or {}).items()
        if name.fullmatch(str(what)) and isinstance(probe, Mapping)
    ]
    return "\n".join(texts)


def _paths(line: str) -> Iterator[str]:
    """What a line may mean by a path: first what it quotes, then its words without the marks at their ends."""
    for one, other in _QUOTED.findall(line):
        yield one or other
    for word in _WORD.findall(line):
        if "/" in word or "." in word:
            yield word.strip(".:!?`")


def _here(workdir: str, text: str) -> str:
    """A path on the box as one below the working folder, where that has it; else ""."""
    inside = _COPY.search(text)
    path = posixpath.normpath(inside.group(1) if inside else text)
    if path.startswith(("/", "..", "~")) or path == "." or "\0" in path:
        return ""
    if os.path.exists(os.path.join(workdir, path)):
        return path
    return _below(workdir, path) if "/" in path or "." in path else ""


def _below(workdir: str, path: str) -> str:
    """The only file of the working folder whose path ends so: the script may have changed its folder."""
    left, found = MOST_FILES, ""
    folder, name = posixpath.split(path)
    for at, folders, files in os.walk(workdir):
        folders[:] = [one for one in folders if one not in (".git", ".venv", "__pycache__")]
        left -= len(files) + 1
        inside = os.path.relpath(at, workdir)
        if (name in files or name in folders) and (not folder or ("/" + inside).endswith("/" + folder)):
            if found:
                return ""
            found = posixpath.normpath(posixpath.join(inside, name))
        if left < 0:
            return ""
    return found


def _told(workdir: str, job_file: str, one: Unpushed) -> KeptHome:
    rules = ".sojournignore"
    goal = rules if os.path.realpath(workdir) == os.path.realpath(os.curdir) else os.path.join(workdir, rules)
    push = f"echo {join([one.line])} >> {join([goal])}"
    part = one.line.removeprefix("!/").rstrip("/")
    source = os.path.relpath(os.path.join(workdir, part), os.path.dirname(job_file)) if job_file else ""
    mount = f"file_mounts: {{{_yaml(part)}: {_yaml(source)}}}" if job_file else ""
    return KeptHome(one.path, one.bytes, push, mount, os.path.basename(job_file))


def _yaml(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
