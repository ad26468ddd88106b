"""What a pull has to say of one run: every artifact and its state, what was taken from which attempt, what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sojourn.core.artifact import INSTALL, LOG, Artifact
from sojourn.core.owed import DAMAGED
from sojourn.core.values import Receipt
from sojourn.store.records import RunRecord
from sojourn.verbs.retrieve.choice import CHECKPOINT, Choice, attempt_of, key, step_of
from sojourn.verbs.retrieve.fetch import Home
from sojourn.verbs.retrieve.haul import UNSAFE, Haul
from sojourn.wire import manifest

if TYPE_CHECKING:
    from sojourn.wire.documents import FileRow, Manifest

_REWRITTEN = "changed on the box after its attempt had ended: it is not what the attempt left"
_NAMED = 8  # files of other attempts that are named one by one


@dataclass
class Tale:
    """By path at home: `artifacts`, `receipts`. `failed`: (row, problem) of what came whole and does not load.
    `taken`: in words what came from where, where that is not plain. `at_home`: rows that are.
    """

    artifacts: dict[str, Artifact] = field(default_factory=dict)
    receipts: dict[str, Receipt] = field(default_factory=dict)
    failed: tuple[tuple[FileRow, str], ...] = ()
    at_home: tuple[FileRow, ...] = ()
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
            if not one.ok and path not in self.missing:
                yield path, one.problem
            elif one.needs:
                yield path, f"not loaded ({one.needs})"

    def verdict(self, run: str, lease: str) -> tuple[str, str]:
        """(what is wrong, in a line; the next command)."""
        bad = [a for a in self.artifacts.values() if not a.ok]
        unsafe = [a for a in bad if a.problem == UNSAFE]
        unloaded = [a for a in self.artifacts.values() if a.needs]
        total = len(self.artifacts)
        others = len(bad) - len(unsafe)
        if others:
            more = f"; {len(unloaded)} not loaded because a library is missing" if unloaded else ""
            following = f"sojourn pull {run}" if self.changed else f"sojourn logs {run} --tail 50"
            return f"{len(bad)} of {total} are missing or do not load{more}", following
        if unloaded:
            wanted = sorted({a.needs for a in unloaded})
            why = f"{len(unloaded)} of {total} not loaded, only their bytes are proven: {', '.join(wanted)}"
            if any(one.startswith(INSTALL) for one in wanted):
                return why, f"sojourn pull {run}"
            return why, f"sojourn down {lease} --accept {run}:{unloaded[0].path}"
        if unsafe:
            why = f"{len(unsafe)} of {total} would run code when loaded: kept apart as *.unproven"
            return why, f"sojourn down {lease} --accept {run}:{unsafe[0].path}"
        return "", f"sojourn down {lease}"


def artifacts_of(told: Tale) -> Iterator[Artifact]:
    """What the answer lists: all but logs that came well."""
    for _, one in sorted(told.artifacts.items()):
        if not (one.ok and one.kind == LOG):
            yield one


def tell(
    document: Manifest, choice: Choice, haul: Haul, rows: Sequence[FileRow], home: Home, record: RunRecord
) -> Tale:
    """All that came of a pull: `rows` are those that were to be home, by the last manifest."""
    told = Tale(superseded=int(document.get("superseded") or 0), missing=tuple(document["missing"]))
    told.failed = tuple((row, haul.artifacts[at].problem) for at, row in haul.failed.items())
    changed = set()
    for row in rows:
        found = haul.artifacts.get(key(row))
        if found is None:
            changed.add(row["path"])
            why = "it changed on the box during the pull"
            told.artifacts[row["path"]] = Artifact(row["path"], problem="mismatch", detail=why)
            continue
        told.artifacts[row["path"]] = found.remarked(_REWRITTEN) if row.get("sealed") else found
        if key(row) in haul.receipts:
            told.receipts[row["path"]] = haul.receipts[key(row)]
    told.changed = frozenset(changed)
    told.taken = (*_replaced(told, choice, haul), *_from_earlier(document, rows))
    for path, (problem, why) in choice.refused.items():
        told.artifacts[path] = Artifact(path, problem=problem, detail=why)
    for one in document.get("refused", ()):
        if one["why"] == manifest.NOT_A_FILE:
            told.taken += (f"{one['path']}: a pipe, a socket or a device, which holds nothing",)
            continue
        problem = "unsupported" if one["why"].startswith(manifest.UNSEEN) else "escapes-root"
        told.artifacts[one["path"]] = Artifact(one["path"], problem=problem, detail=one["why"])
    for one in document.get("unnamed") or ():
        name = f"{record.id}:{one['path']}"
        told.taken += (
            f"{one['path']} looks like weights or a checkpoint, but no output names it: sojourn pull {name}",
        )
    _add_gone(told, document, home, {receipt.path: receipt for receipt in record.receipts})
    for glob in told.missing:
        never = Artifact(glob, problem="missing", detail="no file on the box matches it")
        told.artifacts.setdefault(glob, never)
    told.at_home = tuple(row for row in rows if key(row) in haul.lies and _counts(told.artifacts[row["path"]]))
    checkpoints = sorted({row["set"] for row in rows if row["role"] == CHECKPOINT})
    if checkpoints and all(told.artifacts[row["path"]].ok for row in rows if row["role"] == CHECKPOINT):
        told.checkpoint = checkpoints[-1]
        step = step_of(told.checkpoint)
        at = "" if step is None else f", step {step}"
        told.taken += (f"checkpoint {told.checkpoint}{at}: the run has not succeeded and can resume from it",)
    if told.superseded:
        many = "file" if told.superseded == 1 else "files"
        told.taken += (f"{told.superseded} older {many} left on the box: the attempt that succeeded replaced them",)
    removed = int(document.get("removed") or 0)
    if removed:
        many = "file" if removed == 1 else "files"
        told.taken += (f"{removed} {many} of earlier attempts were removed by a later attempt of the run itself",)
    return told


def _counts(one: Artifact) -> bool:
    return one.ok or ("bytes" in one.proved and one.problem not in DAMAGED)


def _replaced(told: Tale, choice: Choice, haul: Haul) -> list[str]:
    """Of each thing whose newest does not load: what took its place, in words; or the newest as an artifact."""
    lines = []
    for newest, instead in choice.fallen(haul.failed):
        broken = next(row for row in newest if key(row) in haul.failed)
        found = haul.artifacts.get(key(broken))
        why = ": ".join(filter(None, (found.problem, found.detail))) if found else "changed since"
        for row in newest if not instead else ():
            if key(row) in haul.failed and key(row) in haul.artifacts:
                told.artifacts[row["path"]] = haul.artifacts[key(row)]
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


def _from_earlier(document: Manifest, rows: Sequence[FileRow]) -> list[str]:
    """Outputs that only an earlier attempt made, in words."""
    newest = int(document.get("attempt") or 0)
    firsts = {row["path"]: row for row in document["files"]}
    old = [row for row in rows if row["role"] == "output" and 0 < attempt_of(row) < newest]
    old = [row for row in old if firsts.get(row["path"], row)["sha256"] == row["sha256"]]
    lines = [f"{row['path']}: from {attempt_words(row)}; no later attempt wrote one" for row in old[:_NAMED]]
    if len(old) > _NAMED:
        lines.append(f"{len(old) - _NAMED} more files are from earlier attempts: no later attempt wrote them")
    return lines


def _add_gone(told: Tale, document: Manifest, home: Home, old: Mapping[str, Receipt]) -> None:
    """What the keeper had sealed and the box no longer has: lost, unless it came home before."""
    for row in document.get("gone") or ():
        path = row["path"]
        receipt = old.get(path)
        is_it = receipt is not None and (receipt.bytes, receipt.sha256) == (row["bytes"], row["sha256"])
        if receipt is not None and is_it and home.lies(row) == receipt.home:
            told.receipts[path] = receipt
            remark = "deleted on the box after it was sealed; the copy at home is complete"
            told.artifacts[path] = Artifact.of_receipt(receipt).remarked(remark)
        else:
            why = "sealed by the keeper, then deleted on the box: lost"
            told.artifacts[path] = Artifact(
                path, bytes=row["bytes"], sha256=row["sha256"], problem="missing", detail=why
            )


def attempt_words(row: FileRow) -> str:
    """Where on the box the file lies, for people."""
    number = attempt_of(row)
    return f"attempt {number}" if number else "the run's own folder"
