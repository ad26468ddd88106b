"""What must not be lost, found without asking the product: from files on the box's disk and at the clients' homes.

Owed are, of every run under every base, the outputs that its globs hit under any attempt or in its folder, and the
newest checkpoint of a run that has not succeeded. Each must be at some client's home, proven there, or have been named.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UNNAMED = ["runs/*.pt"]  # as in `payload`: what is owed although no output names it
OURS = ("attempts", "logs", "evidence", "exits", "progress", "persist")
CLOSED = ".closed-"  # begins the name under which a closed folder lies aside
CHECKPOINT = re.compile(r"ckpt-t(\d+)-s(\d+)\.pt")


@dataclass
class Named:
    """What one command named before something was let go: by its flags, and in what it listed.

    client: whose command; roots: run -> the root that this client's records mean by that name; sites: its sites' names.
    """

    roots: Mapping[str, Path] = field(default_factory=dict)
    sites: Mapping[str, str] = field(default_factory=dict)  # name -> base
    abandon: frozenset[str] = frozenset()
    accept: frozenset[str] = frozenset()
    lines: list[str] = field(default_factory=list)

    def gave_up(self, root: Path, path: str, *, is_checkpoint: bool) -> bool:
        """Whether this file was given up or listed as what it is. "Was never written" is no name for what exists."""
        run, is_mine = root.name, self.roots.get(root.name) == root
        if any(f"{site}:{root.parent.parent}/{run}" in self.abandon for site in self.sites):
            return True
        if not is_mine:
            return False
        if run in self.abandon or (is_checkpoint and f"{run}:checkpoint" in self.abandon):
            return True
        if f"{run}:{path}" in self.accept | self.abandon:
            return True
        top = path.partition("/")[
            0
        ]  # a folder that cannot be looked into is given up whole, in an older attempt by place
        if any(re.fullmatch(rf"{re.escape(run)}:(attempts/\d+/)?{re.escape(top)}", name) for name in self.abandon):
            return True
        return any(line.startswith(f"{run}: {path} ") and "never written" not in line for line in self.lines)


@dataclass(frozen=True)
class Debt:
    """A file that is owed. `at`: where it lies, None where it is gone."""

    root: Path
    path: str
    sha256: str
    at: Path | None
    is_checkpoint: bool = False


class Oracle:
    """`loads`: content -> whether a reader of its kind reads it. What is not in there loads. `machine`: the folder of
    the box: nothing in it is home. `begun`: where runs tell which files of their own they removed.
    """

    def __init__(self, loads: Mapping[str, bool], machine: Path, begun: Path) -> None:
        self._loads, self._machine, self._begun = loads, machine, begun
        self._proven: set[tuple[str, str]] = set()  # (path at home, sha256), by any client's records at some time
        self._sealed: dict[tuple[Path, str], dict[str, str]] = {}  # (root, identity) -> path -> sha256

    def prove(self, home: str, sha256: str) -> None:
        """A client has this receipt."""
        self._proven.add((home, sha256))

    def look(self, root: Path) -> None:
        """Remember what the keeper has sealed by now."""
        sealed = _read(root / "manifest.json")
        if sealed:
            rows = {str(row["path"]): str(row["sha256"]) for row in sealed["files"] if row["role"] == "output"}
            self._sealed[root, _identity(root)] = rows

    def forget(self, folder: Path) -> None:
        """What lay below the folder was let go: what comes there later is something else."""
        self._sealed = {key: rows for key, rows in self._sealed.items() if folder not in (key[0], *key[0].parents)}

    def is_home(self, sha256: str) -> bool:
        """Whether a copy with this content, proven, is at somebody's home now."""
        return any(sha == sha256 and self._is_kept(Path(home), sha256) for home, sha in self._proven)

    def _is_kept(self, home: Path, sha256: str) -> bool:
        is_inside = os.path.realpath(home).startswith(f"{os.path.realpath(self._machine)}/")
        return not is_inside and _sha256(home) == sha256

    def judge(self, root: Path, named: Named) -> Iterator[str]:
        """What would be lost with this root and was not named, a line each."""
        self.look(root)
        alive = _alive(root)
        if alive:
            yield f"{root}: let go while pid {alive} of it lives"
        for debt in self.debts(root):
            if not self.is_home(debt.sha256) and not named.gave_up(root, debt.path, is_checkpoint=debt.is_checkpoint):
                what = "was sealed, is lost," if debt.at is None else f"lies at {debt.at.relative_to(root)},"
                yield f"{root}: {debt.path} {what} is not home and was not named"

    def debts(self, root: Path) -> Iterator[Debt]:
        """What the run owes by what is on the disk."""
        globs = _read(root / "run.json").get("outputs", [])
        won = max((number for number, state in _ends(root).items() if state == "succeeded"), default=0)
        tries = sorted((int(one.name) for one in (root / "attempts").glob("[0-9]*")), reverse=True)
        places: list[tuple[int, Path]] = [(number, root / "attempts" / str(number)) for number in tries]
        places[1:1] = [(0, root / "persist/kept"), (0, root)]
        found: dict[str, list[tuple[int, Path]]] = {}
        for number, place in places:
            for path, at in _below(place, [*globs, *UNNAMED]):
                if not any(fnmatch.fnmatchcase(path, glob) for glob in UNNAMED) or self._loads.get(_sha256(at), True):
                    found.setdefault(path, []).append((number, at))
        for path, some in sorted(found.items()):
            winners = [at for number, at in some if won and number in (won, 0)][:1]
            at = winners[0] if winners else self._best([at for _, at in some])
            yield Debt(root, path, _sha256(at), at)
        dropped = self._begun / f"{root.name}.dropped"
        removed = set(dropped.read_text().split()) if dropped.exists() else set()
        for path, sha256 in sorted(self._sealed.get((root, _identity(root)), {}).items()):
            if path not in found and path not in removed:
                yield Debt(root, path, sha256, None)
        committed = [one for one in (root / "checkpoints").glob("ckpt-*") if CHECKPOINT.fullmatch(one.name)]
        if committed and not won:
            at = self._best(sorted(committed, key=_order, reverse=True))
            yield Debt(root, f"checkpoints/{at.name}", _sha256(at), at, is_checkpoint=True)

    def _best(self, newest_first: list[Path]) -> Path:
        """The newest that loads; where none does, the newest."""
        good = [at for at in newest_first if self._loads.get(_sha256(at), True)]
        return (good or newest_first)[0]


def _below(place: Path, globs: list[str]) -> Iterator[tuple[str, Path]]:
    """(path, where it lies) of regular files below the place that a glob hits; `*` stands for anything but a slash.
    What a folder held that cannot be looked into lies beside it.
    """
    for at, folders, names in os.walk(place, followlinks=True):
        if (Path(at) / "run.json").exists():  # the run's own folder: what the keeper has there is no output
            folders[:] = [one for one in folders if one not in OURS]
        for name in names:
            path = str((Path(at) / name).relative_to(place)).replace(CLOSED, "")
            if name.startswith("."):  # which no glob of ours matches
                continue
            if any(path.count("/") == glob.count("/") and fnmatch.fnmatchcase(path, glob) for glob in globs):
                yield path, Path(at) / name


def _ends(root: Path) -> dict[int, str]:
    """attempt -> how it ended, by the keeper's own events."""
    found = {}
    events = root / "events.jsonl"
    for line in events.read_bytes().split(b"\n") if events.exists() else []:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event["kind"] == "ended":
            found[int(event["attempt"])] = str(event["state"])
    return found


def _alive(root: Path) -> int:
    """The pid of a payload of this root that lives; 0 where none does."""
    for begun in (root / "exits").glob("*.begun.json"):
        pid = int(_read(begun).get("pid") or 0)
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            is_ours = str(root).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if is_ours and state not in "ZX":
            return pid
    return 0


def _order(path: Path) -> tuple[int, int]:
    hit = CHECKPOINT.fullmatch(path.name)
    assert hit is not None
    return int(hit[1]), int(hit[2])


def _identity(root: Path) -> str:
    return str(_read(root / "run.json").get("identity", ""))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
