"""What a pull has to say of one run: every artifact and its state, what was taken from which attempt, what is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sojourn.core.owed import DAMAGED
from sojourn.core.values import Receipt, state_of
from sojourn.store.records import RunRecord
from sojourn.verbs.retrieve.choice import CHECKPOINT, Choice, Row, attempt_of, key, step_of
from sojourn.verbs.retrieve.fetch import Home
from sojourn.verbs.retrieve.haul import UNSAFE, Haul, artifact, of_receipt

_NOT_LOADED, _INSTALL = "not loaded: ", "install "
_NOT_INSTALLED = re.compile(_NOT_LOADED + r"(\S+) is not installed")
_REWRITTEN = "changed on the box after its attempt had ended: it is not what the attempt left"
_NAMED = 8  # files of other attempts that are named one by one


@dataclass
class Tale:
    """By path at home: `artifacts` as `verify` has them, `receipts`. `failed`: rows that came whole and do not load,
    each with its `problem`. `taken`: in words what came from where, where that is not plain. `at_home`: rows that are.
    """

    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    failed: tuple[Row, ...] = ()
    at_home: tuple[Row, ...] = ()
    missing: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    taken: tuple[str, ...] = ()
    superseded: int = 0
    checkpoint: str = ""

    @property
    def ok(self) -> bool:
        """Everything owed is home and proven."""
        return not list(self.problems()) and not self.missing

    def problems(self) -> Iterator[tuple[str, str]]:
        """(path, word) of all that is owed and not proven, but for what was never made."""
        for path, one in sorted(self.artifacts.items()):
            if not one["ok"] and path not in self.missing:
                yield path, one["problem"]
            elif is_unloaded(one):
                yield path, f"not loaded ({needs(one)})"

    def verdict(self, run: str, lease: str) -> tuple[str, str]:
        """(what is wrong, in a line; the next command)."""
        bad = [a for a in self.artifacts.values() if not a["ok"]]
        unsafe = [a for a in bad if a["problem"] == UNSAFE]
        unloaded = [a for a in self.artifacts.values() if is_unloaded(a)]
        total = len(self.artifacts)
        others = len(bad) - len(unsafe)
        if others:
            more = f"; {len(unloaded)} not loaded for want of a library" if unloaded else ""
            following = f"sojourn pull {run}" if self.changed else f"sojourn logs {run} --tail 50"
            return f"{len(bad)} of {total} are missing or do not load{more}", following
        if unloaded:
            wanted = sorted({needs(a) for a in unloaded})
            why = f"{len(unloaded)} of {total} not loaded, only bytes are proven: {', '.join(wanted)}"
            if any(one.startswith(_INSTALL) for one in wanted):
                return why, f"sojourn pull {run}"
            return why, f"sojourn down {lease} --accept {run}:{unloaded[0]['path']}"
        if unsafe:
            why = f"{len(unsafe)} of {total} would run code when loaded: kept apart as *.unproven"
            return why, f"sojourn down {lease} --accept {run}:{unsafe[0]['path']}"
        return "", f"sojourn down {lease}"


def shown(told: Tale) -> Iterator[dict[str, Any]]:
    """What the answer lists: all but logs that came well; each with its `state`, and what it `needs` to be loaded."""
    for _, one in sorted(told.artifacts.items()):
        if not (one["ok"] and one["kind"] == "log"):
            yield {**one, "state": state(one), **({"needs": needs(one)} if is_unloaded(one) else {})}


def state(one: Mapping[str, Any]) -> str:
    """The state of proof of an artifact: see `state_of`."""
    return state_of(one["proved"], one["problem"] or ("" if one["ok"] else "bad"))


def is_unloaded(one: Mapping[str, Any]) -> bool:
    """Its kind is known and could be loaded, were there the library for it."""
    return state(one) == "bytes-only" and one["kind"] not in ("unknown", "log")


def needs(one: Mapping[str, Any]) -> str:
    """What to install for it; where no library would help, why it was not loaded."""
    for remark in one["remarks"]:
        if hit := _NOT_INSTALLED.match(remark):
            return f"{_INSTALL}{hit[1]}"
        if remark.startswith(_NOT_LOADED):
            return str(remark.removeprefix(_NOT_LOADED))
    return f"no reader of {one['kind']} here"


def tell(
    document: Mapping[str, Any], choice: Choice, haul: Haul, rows: Sequence[Row], home: Home, record: RunRecord
) -> Tale:
    """All that came of a pull: `rows` are those that were to be home, by the last manifest."""
    told = Tale(superseded=int(document.get("superseded") or 0), missing=tuple(document["missing"]))
    told.failed = tuple(haul.failed.values())
    changed = set()
    for row in rows:
        found = haul.artifacts.get(key(row))
        if found is None:
            changed.add(row["path"])
            why = "it changed on the box during the pull"
            told.artifacts[row["path"]] = bad(row["path"], "mismatch", why)
            continue
        told.artifacts[row["path"]] = dict(found)
        if row.get("sealed"):
            told.artifacts[row["path"]]["remarks"] = [*found["remarks"], _REWRITTEN]
        if key(row) in haul.receipts:
            told.receipts[row["path"]] = haul.receipts[key(row)]
    told.changed = frozenset(changed)
    told.taken = (*_replaced(told, choice, haul), *_from_earlier(document, rows))
    for path, (problem, why) in choice.refused.items():
        told.artifacts[path] = bad(path, problem, why)
    for one in document.get("refused", ()):
        told.artifacts[one["path"]] = bad(one["path"], "escapes-root", one["why"])
    _add_gone(told, document, home, {receipt.path: receipt for receipt in record.receipts})
    for glob in told.missing:
        told.artifacts.setdefault(glob, bad(glob, "missing", "no file on the box matches it"))
    told.at_home = tuple(row for row in rows if key(row) in haul.lies and _counts(told.artifacts[row["path"]]))
    checkpoints = sorted({row["set"] for row in rows if row["role"] == CHECKPOINT})
    if checkpoints and all(told.artifacts[row["path"]]["ok"] for row in rows if row["role"] == CHECKPOINT):
        told.checkpoint = checkpoints[-1]
        step = step_of(told.checkpoint)
        at = "" if step is None else f", step {step}"
        told.taken += (f"checkpoint {told.checkpoint}{at}: the run has not succeeded and can resume from it",)
    if told.superseded:
        many = "file" if told.superseded == 1 else "files"
        told.taken += (f"{told.superseded} older {many} left on the box: the attempt that succeeded replaced them",)
    return told


def _counts(one: Mapping[str, Any]) -> bool:
    return bool(one["ok"]) or ("bytes" in one["proved"] and one["problem"] not in DAMAGED)


def _replaced(told: Tale, choice: Choice, haul: Haul) -> list[str]:
    """Of each thing whose newest does not load: what took its place, in words; or the newest as an artifact."""
    lines = []
    for newest, instead in choice.fallen(haul.failed):
        broken = next(row for row in newest if key(row) in haul.failed)
        found = haul.artifacts.get(key(broken))
        why = ": ".join(str(found[name]) for name in ("problem", "detail") if found[name]) if found else "changed since"
        for row in newest if not instead else ():
            if key(row) in haul.failed and key(row) in haul.artifacts:
                told.artifacts[row["path"]] = dict(haul.artifacts[key(row)])
        if not instead:
            continue
        if broken["role"] == CHECKPOINT:
            lines.append(f"checkpoint {broken['set']} does not load ({broken['path']}: {why})")
            continue
        one = instead[0]
        lines.append(
            f"{one['path']}: from {attempt_words(one)}; the newer one of {attempt_words(broken)} does not load ({why})"
        )
    return lines


def _from_earlier(document: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """Outputs that only an earlier attempt made, in words."""
    newest = int(document.get("attempt") or 0)
    firsts = {row["path"]: row for row in document["files"]}
    old = [row for row in rows if row["role"] == "output" and 0 < attempt_of(row) < newest]
    old = [row for row in old if firsts.get(row["path"], row)["sha256"] == row["sha256"]]
    lines = [f"{row['path']}: from {attempt_words(row)}; no later attempt wrote one" for row in old[:_NAMED]]
    if len(old) > _NAMED:
        lines.append(f"{len(old) - _NAMED} more files are from earlier attempts: no later attempt wrote them")
    return lines


def _add_gone(told: Tale, document: Mapping[str, Any], home: Home, old: Mapping[str, Receipt]) -> None:
    """What the keeper had sealed and the box no longer has: lost, unless it came home before."""
    for row in document.get("gone") or ():
        path = row["path"]
        receipt = old.get(path)
        is_it = receipt is not None and (receipt.bytes, receipt.sha256) == (row["bytes"], row["sha256"])
        if receipt is not None and is_it and home.lies(row) == receipt.home:
            told.receipts[path] = receipt
            kept = of_receipt(receipt)
            remark = "deleted on the box after it was sealed; the copy at home is complete"
            told.artifacts[path] = {**kept, "remarks": [*kept["remarks"], remark]}
        else:
            lost = bad(path, "missing", "sealed by the keeper, then deleted on the box: lost")
            told.artifacts[path] = {**lost, "bytes": row["bytes"], "sha256": row["sha256"]}


def bad(path: str, problem: str, detail: str) -> dict[str, Any]:
    """One element of `artifacts` that is not home."""
    bare = artifact({"path": path, "bytes": 0, "sha256": ""}, "unknown")
    return {**bare, "ok": False, "sha256": None, "proved": [], "problem": problem, "detail": detail}


def attempt_words(row: Row) -> str:
    """Where on the box the file lies, for people."""
    number = attempt_of(row)
    return f"attempt {number}" if number else "the run's own folder"
