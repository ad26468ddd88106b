"""`sojourn seal`: close a run's folder. active -> partial -> sealed, or quarantine with the reason.

What is sealed was copied beside the others, proven there against the bytes it came from, and renamed into place at
once. A sealed run is never written again: another byte is another run. Nothing is deleted.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.core.artifact import Artifact, printable
from sojourn.store.layout import STATES, Layout, hits
from sojourn.verbs.retrieve.accept import who
from sojourn.verbs.retrieve.expected import lacking_keys
from sojourn.verbs.retrieve.verify import NoSuchPath, verify
from sojourn.wire import atomic, manifest, units
from sojourn.wire.errors import Misuse, Refusal
from sojourn.wire.machine import this_machine

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow

MANIFEST = ".manifest.json"  # behind the name of a run's folder: beside it, never inside
REASON = ".reason.json"


class AlreadySealed(Refusal):
    """{run} is already sealed, in {path}: seal different files under another name."""

    code = "already-sealed"


class BadRunName(Misuse):
    """{run!r} cannot name a run: letters, digits, dot, underscore and hyphen, without two dots in a row."""

    code = "bad-run-name"


@dataclass(frozen=True)
class Sealed:
    """How closing one run ended. `state`: "sealed" or "quarantined"; `path`: its folder now; `manifest`: the file.

    `why`: what was wrong, one sentence each.
    """

    run: str
    state: str
    path: str
    manifest: str
    digest: str
    files: int
    bytes: int
    artifacts: tuple[Artifact, ...]
    why: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 sealed, 1 quarantined."""
        return 0 if self.state == "sealed" else 1

    def as_json(self) -> dict[str, Any]:
        """The document `seal`."""
        keys = ("run", "state", "path", "manifest", "digest", "files", "bytes", "why", "left")
        plain = {key: getattr(self, key) for key in keys}
        plain |= {"why": list(self.why), "left": list(self.left), "artifacts": [a.as_json() for a in self.artifacts]}
        return {"schema": "sojourn/seal/v1", "ok": self.state == "sealed", **plain}


@dataclass(frozen=True)
class SealStates:
    """Every run below a root and the states it is in. runs: {run: {state: [folders]}}, sorted."""

    root: str
    runs: Mapping[str, Mapping[str, tuple[str, ...]]]
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The document `seal` without a run."""
        runs = [{"run": run, "states": {k: list(v) for k, v in states.items()}} for run, states in self.runs.items()]
        return {"schema": "sojourn/seal-states/v1", "root": self.root, "runs": runs}


def seal_states(root: str, layout: Layout) -> SealStates:
    """Which runs lie below `root`, and in which states. Raises: NoSuchPath, OSError."""
    if not os.path.isdir(root):
        raise NoSuchPath(path=root, detail="no such folder")
    runs: dict[str, dict[str, list[str]]] = {}
    for state in STATES:
        pattern = re.escape(getattr(layout, state)).replace(r"\{run\}", "(?P<run>[^/]+?)")
        pattern = pattern.replace(r"\{attempt\}", "[0-9]+")
        depth = getattr(layout, state).count("/") + 1
        for path in _folders(root, depth):
            hit = re.fullmatch(pattern, path)
            if hit and _is_run(hit.group("run")):
                runs.setdefault(hit.group("run"), {}).setdefault(state, []).append(path)
    found = {run: {state: tuple(sorted(paths)) for state, paths in runs[run].items()} for run in sorted(runs)}
    return SealStates(root, found)


def seal(root: str, run: str, layout: Layout, *, say: Callable[[str], None] | None = None) -> Sealed:
    """Close the run that lies in the layout's `active` folder below `root`. Blocks while everything is copied and read.

    Ended before its end, it leaves `active` as it was; the identical call begins again, or finishes what was proven.
    Raises: BadRunName, AlreadySealed, NoSuchPath, OSError (a full disk: nothing is sealed).
    """
    if not _is_run(run):
        raise BadRunName(run=run)
    active, partial, sealed = (os.path.join(root, layout.folder(s, run)) for s in ("active", "partial", "sealed"))
    if os.path.lexists(sealed):
        if os.path.exists(partial + MANIFEST) and not os.path.exists(sealed + MANIFEST):
            os.rename(partial + MANIFEST, sealed + MANIFEST)  # ended between the two renames that close a run
        raise AlreadySealed(run=run, path=sealed)
    if not os.path.isdir(active) or os.path.islink(active):
        raise NoSuchPath(path=active, detail="no such folder")
    if os.path.lexists(partial):
        shutil.rmtree(partial)  # a copy of ours that was never closed
    why: list[str] = []
    taken, left = _choose(active, layout, why)
    os.makedirs(partial)
    rows = [_copied(active, partial, name, say) for name in taken]
    artifacts: tuple[Artifact, ...] = ()
    document = {
        **manifest.document(run, 0, units.stamp(_now_s()), rows, []),
        "made": {"node": this_machine(), "by": who()},
    }
    atomic.write_json(partial + MANIFEST, document)
    if rows:
        artifacts = verify([partial], partial + MANIFEST, say=say, fresh=True).artifacts
        why += [f"{printable(a.path)}: {a.problem}: {a.detail}" for a in artifacts if not a.ok]
        why += _keys(artifacts, layout)
    if why:
        state, path = "quarantined", _set_aside(root, run, layout, partial, why)
    else:
        os.makedirs(os.path.dirname(sealed), exist_ok=True)
        os.rename(partial, sealed)
        os.rename(partial + MANIFEST, sealed + MANIFEST)
        atomic.sync_folder(os.path.dirname(sealed))
        state, path = "sealed", sealed
    size_bytes = sum(row["bytes"] for row in rows)
    digest = str(document["digest"])
    return Sealed(run, state, path, path + MANIFEST, digest, len(rows), size_bytes, artifacts, tuple(why), tuple(left))


def _choose(active: str, layout: Layout, why: list[str]) -> tuple[list[str], list[str]]:
    """(files to seal, files that stay behind); what may not be sealed goes into `why`."""
    taken, left = [], []
    for folder, folders, files in os.walk(active):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(files + links):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, active)
            if any(hits(glob, relative) for glob in layout.leave):
                left.append(relative)
            elif os.path.islink(path) or not os.path.isfile(path):
                why.append(f"{relative}: a link, device or pipe cannot be sealed")
            else:
                taken.append(relative)
    if not taken:
        why.append("there is no file to seal")
    why += [f"{glob}: required but missing" for glob in layout.required if not any(hits(glob, n) for n in taken)]
    return taken, left


def _copied(active: str, partial: str, name: str, say: Callable[[str], None] | None) -> FileRow:
    """Copy one file, durably; its row, hashed where it came from."""
    source, goal = os.path.join(active, name), os.path.join(partial, name)
    if say:
        say(f"copying {name}")
    os.makedirs(os.path.dirname(goal), exist_ok=True)
    size_bytes, sha256 = manifest.sha256_file(source, follow=False)
    shutil.copyfile(source, goal, follow_symlinks=False)
    with open(goal, "rb") as f:
        os.fsync(f.fileno())
    atomic.sync_folder(os.path.dirname(goal))
    return {"path": name, "from": name, "bytes": size_bytes, "sha256": sha256, "role": "output"}


def _keys(artifacts: tuple[Artifact, ...], layout: Layout) -> list[str]:
    why = []
    for artifact in artifacts:
        for glob, wanted in layout.keys.items():
            if artifact.ok and hits(glob, artifact.path):
                lacking, is_whole = lacking_keys(artifact.facts, wanted)
                if lacking:
                    sure = "lacks" if is_whole else "does not list, among the many it holds,"
                    why.append(f"{printable(artifact.path)}: it {sure} {', '.join(lacking)}")
    return why


def _set_aside(root: str, run: str, layout: Layout, partial: str, why: list[str]) -> str:
    """Move the candidate into quarantine under the next number, the reason beside it."""
    attempt = 1
    while os.path.lexists(os.path.join(root, layout.folder("quarantine", run, attempt))):
        attempt += 1
    path = os.path.join(root, layout.folder("quarantine", run, attempt))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    reason = {"schema": "sojourn/quarantine/v1", "run": run, "attempt": attempt, "at": units.stamp(_now_s())}
    atomic.write_json(path + REASON, {**reason, "node": this_machine(), "by": who(), "why": why})
    os.rename(partial + MANIFEST, path + MANIFEST)
    os.rename(partial, path)
    atomic.sync_folder(os.path.dirname(path))
    return path


def _folders(root: str, depth: int) -> list[str]:
    found = [""]
    for _ in range(depth):
        found = [
            os.path.join(at, entry.name)
            for at in found
            for entry in (os.scandir(os.path.join(root, at)) if os.path.isdir(os.path.join(root, at)) else ())
            if entry.is_dir(follow_symlinks=False)
        ]
    return found


def _is_run(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name)) and ".." not in name


def _now_s() -> float:
    import time

    return time.time()
