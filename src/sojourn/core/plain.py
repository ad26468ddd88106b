"""Frozen values as plain JSON data and back. Reading is tolerant: unknown keys are dropped, absent ones take defaults.

So this version can read a journal written by a newer or an older one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from sojourn.core.values import Clock, Lease, Receipt, Run, Site

T = TypeVar("T")

_EMPTY: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False}


def plain(value: Any) -> dict[str, Any]:
    """A frozen value as a dict of JSON types (tuples become lists when written). Raises: TypeError for other types."""
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"not a value: {value!r}")
    return asdict(value)


def revive(cls: type[T], data: Mapping[str, Any]) -> T:
    """The value of class `cls` whose fields are in `data`; lists become tuples, missing fields the default or empty."""
    found: dict[str, Any] = {}
    for name, is_needed, kind in _fields(cls):  # type: ignore[arg-type]
        if name in data:
            value = data[name]
            found[name] = tuple(value) if isinstance(value, list) else value
        elif is_needed:
            found[name] = _EMPTY.get(kind, {})
    return cls(**found)


@cache  # one `status` may revive a thousand runs
def _fields(cls: type[Any]) -> list[tuple[str, bool, str]]:
    """(name, whether it lacks a default, its type) of each."""
    return [(f.name, f.default is MISSING and f.default_factory is MISSING, str(f.type)) for f in fields(cls)]


def site_from(data: Mapping[str, Any]) -> Site:
    """The site as it was when the run was planned."""
    return revive(Site, data)


def run_from(data: Mapping[str, Any]) -> Run:
    """The run of a `planned` record."""
    return revive(Run, data)


def receipt_from(data: Mapping[str, Any]) -> Receipt:
    """One receipt of a `pulled` record."""
    return revive(Receipt, data)


def lease_from(data: Mapping[str, Any]) -> Lease:
    """The lease of a `leased` record, with its clocks."""
    clocks = [revive(Clock, clock) for clock in data.get("clocks", ())]
    return revive(Lease, {**data, "clocks": clocks})


def json_text(document: Any, indent: int | None = None) -> str:
    """The document as ASCII JSON, a float that JSON cannot express as its name. Raises: TypeError for other types."""
    try:
        # No document contains itself; checking for it takes a third of the time.
        return json.dumps(document, indent=indent, allow_nan=False, check_circular=False)
    except (ValueError, TypeError):  # rare: checking every value beforehand takes as long as writing it
        return json.dumps(finite(document), indent=indent, allow_nan=False)


def finite(value: Any) -> Any:
    """`value` with every float that JSON cannot express replaced by its name: "nan", "inf", "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return value
