"""What else of ours lives on this box, beside its queue's runs, and which GPUs that holds."""

from __future__ import annotations

import os

from sojourn.box.queue.book import Book
from sojourn.box.run import locks, want
from sojourn.box.run.root import Root, read_fields
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, FrozenSet, Iterator, Tuple

WHOLE = "*"  # of the GPUs held: all


def holders(base: str, own: Collection[str]) -> Dict[str, FrozenSet[str]]:
    """What lives -> the GPUs it holds, as named in CUDA_VISIBLE_DEVICES, or WHOLE if that names none.

    Runs outside `own`, by their roots; and queues of sweeps with work left: a sweep that was here first keeps its turn.
    Raises: nothing for what cannot be read, which holds nothing.
    """
    found: Dict[str, FrozenSet[str]] = {}
    for root in _roots(base, "runs"):
        if root.id not in own and names.is_name(root.id) and lives(root):
            found[root.path] = _cards(root)
    for root in _roots(base, "queues"):
        if root.id != names.RUNS_QUEUE and lives(root):
            found[root.path] = frozenset(lane or WHOLE for lanes in Book(root).lanes for lane in lanes.split(","))
    return found


def lives(root: Root) -> bool:
    """Whether a keeper or part of a payload exists."""
    return want.pulse(root) == "alive" or locks.is_held(root)


def slots_for(asked: Any, lanes: Tuple[str, ...], free: Collection[int], held: Collection[str]) -> Tuple[int, ...]:
    """The slots that a run of this box's queue gets now, () while it must wait.

    `asked`: its `cards`: {"count": how many GPUs, "of": which fit, absent: any; "whole": all, with nobody beside}.
    `lanes`: the GPU of each slot, or one "" on a box without; `free`: slots; `held`: GPUs that others hold.
    """
    wish: Dict[str, Any] = asked if isinstance(asked, dict) else {}
    if WHOLE in held or not set(held) <= set(lanes):  # a GPU by another name may be any of these
        return ()
    if wish.get("whole"):
        return tuple(free) if len(free) == len(lanes) and not held else ()
    of = wish.get("of")
    fitting = [slot for slot, lane in enumerate(lanes) if not isinstance(of, list) or lane in of] or list(
        range(len(lanes))
    )
    count = wish.get("count")
    least = min(count if isinstance(count, int) and count > 0 else 1, len(fitting))
    now = [slot for slot in fitting if slot in free and lanes[slot] not in held]
    return tuple(now[:least]) if len(now) >= least else ()


def _roots(base: str, kind: str) -> Iterator[Root]:
    try:
        found = os.listdir(os.path.join(base, kind))
    except OSError:
        return
    for name in sorted(found):
        root = Root(os.path.join(base, kind, name))
        if os.path.isfile(root.run):
            yield root


def _cards(root: Root) -> FrozenSet[str]:
    envs = dict(_texts(read_fields(root.run).get("envs")), **_texts(read_fields(root.want).get("envs")))
    named = envs.get("CUDA_VISIBLE_DEVICES")
    return frozenset([WHOLE]) if named is None else frozenset(one for one in named.split(",") if one not in ("", "-1"))


def _texts(envs: Any) -> Dict[str, str]:
    return {str(name): str(value) for name, value in envs.items()} if isinstance(envs, dict) else {}
