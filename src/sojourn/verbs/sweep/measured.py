"""The numbers of one cell, from its files at home: only from the very bytes that were proven.

What a run reported of itself stands in only where it has no such file, and is never mixed with what was proven.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.values import Receipt

LIMIT_BYTES = 8 << 20  # of one file: more is data, no summary
MOST_NUMBERS = 200  # in one file; a vocabulary is none
DEEPEST = 8
KINDS = ("json", "jsonl", "csv")
# A table is a record of a training only where a column counts; of predictions the last row means nothing.
COUNTS = ("step", "global_step", "epoch", "iteration", "iter", "batch", "samples_seen")


class Changed(Exception):
    """What is at home has changed since it was loaded."""


@dataclass(frozen=True)
class File:
    """One metric file: where it is in the run, its digest, its numbers by dotted name."""

    path: str
    sha256: str
    numbers: Mapping[str, float]


def read_files(receipts: Sequence[Receipt], variables: Sequence[str]) -> tuple[list[File], list[str]]:
    """(the metric files among what came home, remarks on those that were not taken). Sorted by path.

    A JSON object gives its numbers, inner ones as `eval.accuracy`; a JSON-lines or CSV file that counts steps or epochs
    gives the last value of each column. A key that is a variable of the sweep is no metric.
    Raises: Changed where a file at home is gone or has other bytes than its receipt.
    """
    files, remarks = [], []
    names = {name.lower() for name in variables}
    for receipt in sorted(receipts, key=lambda one: one.path):
        if receipt.kind not in KINDS or "load" not in receipt.proved:
            continue
        if receipt.bytes > LIMIT_BYTES:
            remarks.append(f"{receipt.path} has {receipt.bytes} bytes: too large for a metric file")
            continue
        numbers = {
            name: number
            for name, number in _numbers(receipt.kind, _bytes(receipt)).items()
            if name.rsplit(".", 1)[-1].lower() not in names
        }
        if len(numbers) > MOST_NUMBERS:
            remarks.append(f"{receipt.path} holds {len(numbers)} numbers: too many for a metric file")
        elif numbers:
            files.append(File(receipt.path, receipt.sha256, numbers))
    return files, remarks


def reported(metrics: Mapping[str, Any], variables: Sequence[str]) -> dict[str, float]:
    """The numbers among the last metrics that a run reported; a variable of the sweep is none."""
    names = {name.lower() for name in variables}
    found = {name: number for name, number in _flat(metrics) if name.rsplit(".", 1)[-1].lower() not in names}
    return found if len(found) <= MOST_NUMBERS else {}


def best_stated(receipts: Sequence[Receipt]) -> tuple[str, str] | None:
    """(metric, max or min) of the training's own `best`, as its checkpoints hold it."""
    for receipt in receipts:
        ours = receipt.facts.get("sojourn")
        stated = ours.get("best") if isinstance(ours, Mapping) else None
        if isinstance(stated, Mapping) and stated.get("mode") in ("max", "min"):
            return str(stated.get("metric")), str(stated["mode"])
    return None


def _bytes(receipt: Receipt) -> bytes:
    try:
        with open(receipt.home, "rb") as f:
            data = f.read(receipt.bytes + 1)
    except OSError as error:
        raise Changed(f"{receipt.path} was home but can no longer be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != receipt.sha256:
        raise Changed(f"{receipt.path} at home has changed since it was loaded")
    return data


def _numbers(kind: str, data: bytes) -> dict[str, float]:
    text = data.decode("utf-8-sig")
    if kind == "json":
        value = json.loads(text)
        return dict(_flat(value)) if isinstance(value, dict) else _last(value if isinstance(value, list) else [])
    if kind == "jsonl":
        return _last([json.loads(line) for line in text.splitlines() if line.strip()])
    head = text.split("\n", 1)[0]
    mark = max(",;\t", key=head.count)
    rows = csv.DictReader(io.StringIO(text), delimiter=mark)
    return _last([{name: _real(value) for name, value in row.items()} for row in rows])


def _last(rows: Sequence[Any]) -> dict[str, float]:
    """The last value of each column of a table that counts."""
    found: dict[str, float] = {}
    for row in rows:
        if isinstance(row, dict):
            found.update(_flat(row))
    if not any(name.lower() in COUNTS for name in found):
        return {}
    return {name: number for name, number in found.items() if name.lower() not in COUNTS}


def _flat(value: Mapping[Any, Any], before: str = "", deep: int = 1) -> Iterator[tuple[str, float]]:
    for key, inner in value.items():
        name = f"{before}{key}"[:200]
        if isinstance(inner, dict):
            if deep < DEEPEST:
                yield from _flat(inner, f"{name}.", deep + 1)
            continue
        number = _number(inner)
        if number is not None:
            yield name, number


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of more digits than a float holds
        return None
    return number if math.isfinite(number) else None


def _real(text: Any) -> float | None:
    """A cell of a CSV file as a number, None where it is none."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return None
