"""The small files in a run's root, as far as a client that takes over a run from its box relies on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.backends.keeper.shapes import Wrong, list_of, map_of, maybe, name, number, record, text, whole, word


def sweep(value: Any) -> str:
    """The name of a sweep, or ""."""
    return "" if value == "" else str(name(value))


_WORDS = list_of(word, 100_000)
_SECONDS = maybe(number(0, 1e10))
# What run.json needs for a useful record, and other fields that somebody here relies on.
_RUN = record(
    {"run": name, "identity": text(200), "code": text(200), "argv": _WORDS, "outputs": _WORDS},
    {
        **dict.fromkeys(("setup", "setup_digest", "init", "train", "keeper"), maybe(text(1 << 20))),
        **dict.fromkeys(("beat_s", "grace_s", "stall_after_s", "max_duration_s", "budget_s"), _SECONDS),
        **dict.fromkeys(("scratch", "secrets"), maybe(_WORDS)),
        **dict.fromkeys(("envs", "mounts"), maybe(map_of(text(1 << 20), 100_000))),
        "after": maybe(list_of(name, 10_000)),
        "sweep": maybe(sweep),
        "planned": maybe(text(100)),
        "num_nodes": maybe(whole(0, 1 << 20)),
    },
)
_WANT = record({}, {"attempt": whole(0, 1 << 31), "token": maybe(text(200))})
_KEEPER = record({}, {"pid": whole(0, 1 << 31), "start": whole(), "boot_id": maybe(text(200))})


def trouble(row: Mapping[str, Any]) -> str:
    """What is wrong with the files in a row of `roots`, in one line; "" if they can be recorded."""
    for shape, key in ((_RUN, "run"), (_WANT, "want"), (_KEEPER, "keeper")):
        try:
            shape(row[key])
        except Wrong as wrong:
            return f"its {key}.json: {wrong}"
    return ""
