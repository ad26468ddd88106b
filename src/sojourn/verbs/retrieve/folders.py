"""Checkpoints that are folders: which of them was cut short while it was written, by what the ones before it hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import basename, dirname, relpath

from sojourn.core.artifact import Artifact

_NAMED = re.compile(r"(?i)(checkpoint|ckpt|step|epoch|iter)\D*\d+$")
_STATE = re.compile(r"\.(pt|pth|bin|safetensors|ckpt|npz|npy|pkl|msgpack|h5|json)$|^latest$")
_SHOWN = 5


def half_written(artifacts: Iterable[Artifact]) -> list[str]:
    """A sentence for each folder that is no checkpoint to resume from, with the one that is."""
    inside: dict[str, dict[str, Artifact]] = {}
    for one in artifacts:
        above = dirname(one.path)
        while above:
            if _NAMED.search(basename(above)):
                inside.setdefault(above, {})[relpath(one.path, above)] = one
                break
            above = dirname(above)
    series: dict[str, list[str]] = {}
    for folder in inside:
        series.setdefault(_kind(folder), []).append(folder)
    return [said for folders in series.values() for said in _told(sorted(folders, key=_number), inside)]


def _told(folders: list[str], inside: dict[str, dict[str, Artifact]]) -> list[str]:
    """Of the folders of one training, in the order of their numbers."""
    whole, held = "", set[str]()
    out = []
    for folder in folders:
        files = inside[folder]
        bad = sorted(f"{path} is {one.problem}" for path, one in files.items() if one.state == "bad")
        names = {_kind(path): path for path in files if _STATE.search(path)}
        missing = sorted(held - set(names))
        if not bad and not missing:
            whole, held = folder, set(names)
            continue
        if not whole:
            continue  # nothing to compare it with; its files are told one by one
        lacking = [f"{', '.join(_named(whole, inside, missing))} missing, which {whole} has"] if missing else []
        why = "; ".join([*bad[:_SHOWN], *lacking])
        out.append(f"{folder} is no checkpoint to resume from: {why}. Resume from {whole}, by its name")
    return out


def _named(folder: str, inside: dict[str, dict[str, Artifact]], kinds: list[str]) -> list[str]:
    return [path for path in sorted(inside[folder]) if _kind(path) in kinds][:_SHOWN]


def _kind(path: str) -> str:
    return re.sub(r"\d+", "0", path)


def _number(folder: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", folder))
