"""Everything of this user on this box: every base and every run, whoever started it. What a release would delete."""

from __future__ import annotations

import json
import os
import time

from sojourn.box.call import Box
from sojourn.box.ops.clean import lives
from sojourn.box.run.ends import Ends
from sojourn.box.run.root import Root, attempts_made, is_placed, spec_fields
from sojourn.box.run.want import last_attempt
from sojourn.box.system import identity, machine
from sojourn.wire import machine as installed
from sojourn.wire import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

_LIMIT_BYTES = 4 << 20
_PAGE_S = 10.0  # ten thousand runs with long events take longer than one call waits


def survey(box: Box, request: Dict[str, Any]) -> Dict[str, Any]:
    """`after`: only what follows this place. `bases`: those that the client knows of; `tiers`: where disks that last
    are mounted, looked through for more. Answer: `box`, `bases`, `others`, and `more` with its `after`.

    box: {"id","base","machine_id","boot_id","host","uid"} of the base asked. bases: {"base","id","error",
    "runs":[{"id","identity","root","attempt","state","lives"}]}; `state`: how the newest attempt ended, "" until then;
    `lives`: why the run must be considered alive, or "". others: {"uids","runs"}: other users of this machine, and the
    runs of their keepers; what they hold cannot be seen. Registers the base asked.
    """
    if os.path.isdir(box.base):
        identity.register(box.base)
    beside, unseen = identity.look_through(_strings(request, "tiers"), _PAGE_S)
    beside += [base for base in _strings(request, "bases") if os.path.isabs(base) and not identity.is_gone(base)]
    places = {os.path.realpath(base): base for base in [*beside, *identity.bases(box.base), box.base]}
    unread = {path: "the list of bases: %s" % why for path, why in identity.unread(box.base).items()}
    until = time.monotonic() + _PAGE_S
    after, left = str(request.get("after") or ""), int(request.get("limit_bytes") or _LIMIT_BYTES)
    answer: Dict[str, Any] = {"box": _box(box.base), "bases": [], "others": _others(), "more": False, "after": ""}
    if not after:
        answer["bases"] += [
            {"base": path, "id": "", "error": why, "runs": []} for path, why in sorted({**unseen, **unread}.items())
        ]
    for base in sorted(places.values()):
        rows: List[Dict[str, Any]] = []
        entry = {"base": base, "id": identity.box_id(base, may_write=False), "error": _error(base), "runs": rows}
        answer["bases"].append(entry)
        for run in _runs(base):
            place = "%s\0%s" % (base, run)
            if place <= after:
                continue
            row = _row(Root(os.path.join(base, "runs", run)))
            left -= len(json.dumps(row))
            if (left < 0 or time.monotonic() > until) and answer["after"]:  # at least one, so answers make progress
                return dict(answer, more=True)
            rows.append(row)
            answer["after"] = place
    return answer


def _box(base: str) -> Dict[str, Any]:
    return {
        "id": identity.box_id(base),
        "base": base,
        "machine_id": installed.this_machine()["machine"],
        "boot_id": machine.boot_id(),
        "host": machine.host(),
        "uid": os.getuid(),
    }


def _others() -> Dict[str, int]:
    tending = identity.keepers_of_others()
    return {"uids": len({*identity.other_users(), *tending}), "runs": sum(tending.values())}


def _runs(base: str) -> List[str]:
    """Names of all roots, sorted, including those without run.json if an attempt exists."""
    try:
        found = sorted(name for name in os.listdir(os.path.join(base, "runs")) if names.is_root(name))
    except OSError:
        return []
    roots = [Root(os.path.join(base, "runs", name)) for name in found]
    return [root.id for root in roots if is_placed(root) or attempts_made(root)]


def _strings(request: Dict[str, Any], key: str) -> List[str]:
    return [one for one in request.get(key) or () if isinstance(one, str) and "\0" not in one]


def _error(base: str) -> str:
    """Why the runs of a base cannot be listed; "" if they can, or if there are none yet."""
    try:
        os.listdir(os.path.join(base, "runs"))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _row(root: Root) -> Dict[str, Any]:
    last = last_attempt(root)
    return {
        "id": root.id,
        "identity": spec_fields(root).get("identity"),
        "root": root.path,
        "attempt": last,
        "state": Ends(root.events).states.get(last, ""),
        "lives": lives(root),
    }
