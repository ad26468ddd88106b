"""Which files of a manifest come home: those that the run was asked for, and of each the newest that loads. Pure.

A box says what it likes; so a row counts only where the job's own `outputs`, or the name of a log or a checkpoint,
covers it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.verbs.retrieve import homes
from sojourn.wire import globs, manifest

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest

Key = tuple[str, str]  # path and sha256: one content under one name
CHECKPOINT = "checkpoint"
_METRICS = re.compile(r"\.(?:json|jsonl|csv|tsv|yaml|yml|toml|txt|log)$|tfevents", re.I)
_METRIC_BYTES = 4 << 20
_WEIGHTS = re.compile(r"\.(?:pt|pth|ckpt|safetensors|bin|npz|h5|keras)$", re.I)
_SET = re.compile(r"ckpt-t(\d{6,})-s(\d{8,})(?:\.pt|-\d+)?")  # as `train.saving.commit` names them


def key(row: FileRow) -> Key:
    """What distinguishes this file from another of the same name."""
    return row["path"], row["sha256"]


@dataclass(frozen=True)
class Choice:
    """The files that may come home. `chains`: of each thing that is owed its candidates, the newest first; a candidate
    is one row, or all rows of a checkpoint. `refused`: path -> (problem, why) of rows that are not taken.
    """

    chains: tuple[tuple[tuple[FileRow, ...], ...], ...]
    logs: tuple[FileRow, ...] = ()
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def wanted(self, failed: Collection[Key] = ()) -> list[FileRow]:
        """The rows that are to be home, sorted by path, where those of `failed` do not load. Of a thing of which no
        candidate loads: none.
        """
        rows = {row["path"]: row for row in self.logs}
        for candidates in self.chains:
            for row in next((one for one in candidates if not _is_bad(one, failed)), ()):
                rows.setdefault(row["path"], row)
        return [rows[path] for path in sorted(rows)]

    def fallen(self, failed: Collection[Key]) -> Iterator[tuple[tuple[FileRow, ...], tuple[FileRow, ...]]]:
        """(newest candidate, the one that took its place or ()) of each thing whose newest does not load."""
        for candidates in self.chains:
            if _is_bad(candidates[0], failed):
                yield candidates[0], next((one for one in candidates if not _is_bad(one, failed)), ())


def choose(document: Manifest, outputs: Sequence[str], *, is_live: bool) -> Choice:
    """What of this manifest may come home for a job with these `outputs`. Of a run that lives no checkpoint comes."""
    listed = [*document["files"], *document.get("earlier", ())]
    names = {row["path"] for row in listed}
    refused: dict[str, tuple[str, str]] = {}
    for row in listed:
        why = _why_refused(row, outputs, names)
        if why[0]:
            refused[row["path"]] = why
    for path in names - refused.keys():
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if above in names and above not in refused:
                refused[path] = "mismatch", f"{above} is a file too: not brought home"
    files = [row for row in document["files"] if row["path"] not in refused]
    older = [row for row in document.get("earlier", ()) if row["path"] not in refused]
    chains: list[tuple[tuple[FileRow, ...], ...]] = []
    by_path: dict[str, list[FileRow]] = {}
    for row in (one for one in older if one["role"] == "output"):
        by_path.setdefault(row["path"], []).append(row)
    for row in files:
        if row["role"] == "output":
            chains.append(tuple((one,) for one in (row, *by_path.get(row["path"], ()))))
    sets: dict[str, list[FileRow]] = {}
    for row in () if is_live else (*files, *older):
        if row.get("set"):
            sets.setdefault(row["set"], []).append(row)
    owed = [tuple(rows) for rows in sets.values() if any(row["role"] == CHECKPOINT for row in rows)]
    if owed:
        chains.append(tuple(owed))
    return Choice(tuple(chains), tuple(row for row in files if row["role"] == "log"), refused)


def metrics_of(choice: Choice) -> Choice:
    """Of that choice only logs and small files of metrics."""
    small = tuple(chain for chain in choice.chains if all(urgency(row)[0] == 0 for row in chain[0]))
    return Choice(small, choice.logs)


def urgency(row: FileRow) -> tuple[int, int, str]:
    """The key by which files come home: logs and metrics first, then what is owed, of which checkpoints first, the
    newest before older ones.
    """
    path, role = row["path"], row["role"]
    if role == "log" or (_METRICS.search(path) and row["bytes"] <= _METRIC_BYTES):
        return 0, 0, path
    if role == CHECKPOINT or _WEIGHTS.search(path):
        stat = row.get("stat")
        return 1, -stat[3] if stat else 0, path
    return 2, 0, path


def attempt_of(row: FileRow) -> int:
    """The attempt whose working copy holds the file on the box; 0 for the run's own folder."""
    parts = str(row["from"]).split("/")
    is_of_one = len(parts) > 2 and parts[0] == "attempts" and parts[1].isascii() and parts[1].isdigit()
    return int(parts[1][:9]) if is_of_one else 0


def step_of(name: str) -> int | None:
    """The training step in the name of a checkpoint; None where it has none."""
    hit = _SET.fullmatch(name)
    return int(hit[2][:18]) if hit else None


def _is_bad(candidate: Sequence[FileRow], failed: Collection[Key]) -> bool:
    return any(key(row) in failed for row in candidate)


def _why_refused(row: FileRow, outputs: Sequence[str], names: Collection[str]) -> tuple[str, str]:
    path = row["path"]
    if not manifest.is_safe(path) or not manifest.is_safe(row["from"]):
        return "escapes-root", "its path leads out of the run's folder: not brought home"
    own = homes.why_not_ours(path, names)
    if own:
        return "mismatch", f"{own}: not brought home"
    if not _is_covered(row, outputs):
        return "mismatch", "this run has no output, log or checkpoint with that name: not brought home"
    return "", ""


def _is_covered(row: FileRow, outputs: Sequence[str]) -> bool:
    path, role = row["path"], row["role"]
    if role == "output":
        return any(globs.covers(glob, path) for glob in outputs)
    if role == "log":
        return homes.LOGS.fullmatch(path) is not None
    name = str(row.get("set", ""))
    beginning = f"checkpoints/{name}"
    is_of_it = path == beginning or path.startswith(beginning + "/")
    return role == CHECKPOINT and _SET.fullmatch(name) is not None and is_of_it
