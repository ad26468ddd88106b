"""`pull`: the manifest on the box, files home whole, every artifact loaded here, receipts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sojourn.core.values import Receipt, State
from sojourn.store import places
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import Pull
from sojourn.verbs.beside import each
from sojourn.verbs.context import Box, Context
from sojourn.verbs.expected import step_remarks
from sojourn.verbs.fetch import Home, fetch, is_takeable
from sojourn.verbs.forget import forget_secrets
from sojourn.verbs.hear import View, as_known, hear, hear_one
from sojourn.verbs.spending import spent_micro, taken_s
from sojourn.verbs.standings import MANIFEST_S, keep_manifest
from sojourn.verbs.status import chosen, meter_of
from sojourn.wire import units
from sojourn.wire.errors import Misuse, SojournError

if TYPE_CHECKING:
    from sojourn.backends.client.proof import Proof, Prover

_PROVING = threading.Lock()
ROUNDS = 3  # how often outputs may have changed under our hands before we stop following them


class NeverLaunched(Misuse):
    """{run} was never launched: there is nothing to bring home."""

    code = "never-launched"
    next_step = "sojourn run"


def pull(ctx: Context, names: Sequence[str] = (), *, to: str = "") -> Iterator[Pull]:
    """Bring runs home, one answer a run: those named, or all that have ended and are not home.

    `to`: with one run named, the folder for its files; else files of RUN go to `to`/RUN. By default home is
    $XDG_DATA_HOME/sojourn/home/RUN. A run that still lives comes as it stands, without receipts: that clears nothing.
    Runs of several boxes come side by side, and the answers in the order of the runs.
    Repeatable: what is home and equal by hash is not moved again, what is damaged at home is mended.
    Raises: Misuse; Unreachable, WorldError, HomeFull for a run named alone, otherwise these become its answer.
    """
    records = chosen(ctx, names)
    if any(ctx.store.index.sweep(name) for name in names):
        views = hear(ctx, records)  # of a sweep: what has begun
        records = [view.record for view in views.values() if view.record.heard.attempt]
    if not names:
        records = [r for r in records if _has_begun(r) and not r.is_home and not r.status.state.is_alive]
    own = bool(to) and (len(names) != 1 or bool(ctx.store.index.sweep(names[0])))

    taken = taken_s(ctx, [as_known(r) for r in records], {r.name: r for r in ctx.store.index.leases(open_only=False)})

    def one(ctx: Context, record: RunRecord) -> Pull:
        folder = os.path.join(places.data_dir(), "home", record.id) if not to else os.path.abspath(to)
        if own:
            folder = os.path.join(folder, record.id)
        try:
            return _pull_one(ctx, record, Home(record.id, folder), taken, proving)
        except SojournError as error:
            if len(records) == 1:
                raise
            return _not_pulled(record, folder, error)

    with _Proving() as proving:
        yield from each(ctx, records, one)


def _has_begun(record: RunRecord) -> bool:
    """It was launched; of a cell, a queue began it."""
    return bool(record.heard.attempt if record.sweep else record.attempt)


class _Proving:
    """The processes that load files: begun with the first file, the same for all runs of one pull."""

    def __init__(self) -> None:
        self._kept = ExitStack()
        self._prover: Prover | None = None

    def __enter__(self) -> _Proving:
        return self

    def __exit__(self, *error: Any) -> None:
        self._kept.__exit__(*error)

    @contextmanager
    def prover(self, tick: Callable[[int], None]) -> Iterator[Prover]:
        """Of several boxes at once, one run's files are proven at a time: each takes all cores, and memory for each."""
        from sojourn.backends.client.proof import Prover, open_book
        from sojourn.verbs.verify import book_path

        with _PROVING:
            if self._prover is None:
                book = self._kept.enter_context(open_book(book_path()))
                self._prover = self._kept.enter_context(Prover(book=book))
            self._prover.tick = tick
            yield self._prover


@dataclass
class _Haul:
    """What one pull has got so far, by the file's name in the manifest."""

    receipts: dict[str, Receipt] = field(default_factory=dict)
    artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    staged: set[str] = field(default_factory=set)
    moved_bytes: int = 0


def _pull_one(ctx: Context, record: RunRecord, home: Home, taken: Mapping[str, float], proving: _Proving) -> Pull:
    if record.attempt == 0:
        raise NeverLaunched(run=record.id)
    began_s = ctx.now_s()
    view = hear_one(ctx, record)
    record, box = view.record, ctx.box(record.site)
    is_live = not view.status.state.is_final
    if not is_live:
        ctx.store.append("pulling", run=record.id)
        forget_secrets(ctx, box, [record])
    document = _manifest(ctx, box, record, fresh=is_live)
    for _ in range(ROUNDS):
        haul = _brought(ctx, box, record, home, document, proving)
        # What was brought counts only if it is still what the box has: the manifest is taken again, every file re-read.
        before, document = document, _manifest(ctx, box, record, fresh=True)
        if document["digest"] == before["digest"] or is_live:
            break
    _settle(home, document, haul)
    heard, is_done = view.status, view.status.state is State.SUCCEEDED
    said = step_remarks(haul.artifacts.values(), planned=heard.total, saved=heard.checkpoint, is_done=is_done)
    for path, remark in said.items():
        haul.artifacts[path]["remarks"] = [*haul.artifacts[path]["remarks"], remark]
    seconds = ctx.now_s() - began_s
    answer = _answer(ctx, view, home, document, haul, seconds, taken)
    if not is_live:
        keep_manifest(ctx, document)
        ctx.store.append(
            "pulled",
            run=record.id,
            manifest=document["digest"],
            seal=view.record.heard.manifest,
            dir=home.folder,
            files=answer.files,
            bytes=answer.bytes,
            seconds=round(seconds, 3),
            owed=len([a for a in haul.artifacts.values() if a["kind"] != "log"]),
            receipts=[asdict(haul.receipts[path]) for path in sorted(haul.receipts)],
            missing=document["missing"],
            problems=[
                f"{a['path']}: {a['problem']}" for a in answer.artifacts if not a["ok"] and a["problem"] != "missing"
            ],
        )
    return answer


def _manifest(ctx: Context, box: Box, record: RunRecord, *, fresh: bool) -> Mapping[str, Any]:
    ctx.say(f"{record.id}: the box is hashing its outputs" if fresh else f"{record.id}: asking for the manifest")
    document: Mapping[str, Any] = box.answer("manifest", timeout_s=MANIFEST_S, run=record.id, fresh=fresh).value[
        "manifest"
    ]
    return document


def _brought(
    ctx: Context, box: Box, record: RunRecord, home: Home, document: Mapping[str, Any], proving: _Proving
) -> _Haul:
    """What of the manifest is not home yet, in staging and proven there; what is home, proven where it is."""
    haul = _Haul()
    old = {receipt.path: receipt for receipt in record.receipts if receipt.home == home.path(receipt.path)}
    lacking, unproven = [], []
    named = {row["path"] for row in document["files"]}
    moved = {os.path.dirname(row["path"]) for row in document["files"] if not _is_proven(row, old)}
    moved |= {os.path.dirname(path) for path in old if path not in named}
    for row in (row for row in document["files"] if is_takeable(row)):
        ctx.say(f"{record.id}: comparing {row['path']} at home")
        if not home.has(row):
            lacking.append(row)
        elif row["role"] == "log":
            haul.artifacts[row["path"]] = _artifact(row["path"], "log", row["bytes"], row["sha256"])
        elif _is_proven(row, old) and not _has_new_neighbours(row["path"], moved):
            _keep(haul, old[row["path"]])
        else:
            unproven.append((row, home.path(row["path"])))
    home.check(lacking)
    for count, row in enumerate(lacking, 1):
        ctx.say(f"{record.id}: {count} of {len(lacking)}, {row['path']} ({units.say_bytes(row['bytes'])})")
        if not fetch(box, record.run.root, home, row):
            continue
        haul.staged.add(row["path"])
        haul.moved_bytes += row["bytes"]
        if row["role"] == "log":
            haul.artifacts[row["path"]] = _artifact(row["path"], "log", row["bytes"], row["sha256"])
        else:
            unproven.append((row, home.staged(row)))
    if unproven:
        _prove(ctx, haul, home, unproven, _folders(home, document), proving)
    return haul


def _is_proven(row: Mapping[str, Any], old: Mapping[str, Receipt]) -> bool:
    """It was proven as far as it ever will be; where a library was missing, that may be there by now."""
    receipt = old.get(row["path"])
    if receipt is None or receipt.sha256 != row["sha256"]:
        return False
    return receipt.state != "bytes-only" or receipt.kind == "unknown"


def _has_new_neighbours(path: str, moved: Set[str]) -> bool:
    """It is judged by what stands beside it, and one of these came, changed or went since it was."""
    from sojourn.backends.client.judge import is_of_a_set

    return os.path.dirname(path) in moved and is_of_a_set(path)


def _keep(haul: _Haul, receipt: Receipt) -> None:
    """A file that is home, and that was loaded when it had the very same bytes."""
    haul.receipts[receipt.path] = receipt
    haul.artifacts[receipt.path] = {
        **_artifact(receipt.path, receipt.kind, receipt.bytes, receipt.sha256),
        "proved": list(receipt.proved),
        "remarks": list(receipt.remarks),
        "facts": dict(receipt.facts),
        "loader": receipt.loader,
    }


def _folders(home: Home, document: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Of each folder of the manifest: {last name: where the file lies now, staged or home}; folders end with a /."""
    found: dict[str, dict[str, str]] = {}
    for row in (row for row in document["files"] if is_takeable(row)):
        where = home.staged(row) if os.path.exists(home.staged(row)) else home.path(row["path"])
        folder, name = os.path.split(row["path"])
        if os.path.exists(where):
            found.setdefault(folder, {})[name] = where
    for folder in list(found):
        while folder:  # folders too, with a / behind: some files name one
            inner = folder
            folder, name = os.path.split(inner)
            found.setdefault(folder, {})[name + "/"] = home.path(inner)
    return found


def _prove(
    ctx: Context,
    haul: _Haul,
    home: Home,
    unproven: Sequence[tuple[Mapping[str, Any], str]],
    folders: Mapping[str, Mapping[str, str]],
    proving: _Proving,
) -> None:
    """Load each file (row, where it lies now); a receipt for its final place where it is sound.

    Each proof is kept as soon as it is made: a pull that was ended does not load again what it had loaded.
    """
    from concurrent.futures import ThreadPoolExecutor

    from sojourn.backends.client.judge import is_of_a_set
    from sojourn.backends.client.proof import cores, receipt
    from sojourn.verbs.verify import Counted

    def proven(row: Mapping[str, Any], path: str) -> Proof:
        # A file of a set is judged by its neighbours, which may still be staged under other names.
        beside = folders[os.path.dirname(row["path"])] if is_of_a_set(row["path"]) else None
        return prover.prove(path, row["path"], (row["bytes"], row["sha256"]), beside)

    count = min(cores(), len(unproven))
    total_bytes = sum(row["bytes"] for row, _ in unproven)
    progress = Counted(len(unproven), total_bytes, lambda line: ctx.say(f"{home.run}: {line}"))
    with proving.prover(progress.read) as prover, ThreadPoolExecutor(2 * count) as pool:
        proofs = pool.map(lambda u: proven(*u), unproven)
        for (row, _), proof in zip(unproven, proofs, strict=True):
            progress.proven()
            haul.artifacts[row["path"]] = proof.as_json()
            if proof.ok:
                haul.receipts[row["path"]] = receipt(home.run, proof, home.path(row["path"]))


def _settle(home: Home, document: Mapping[str, Any], haul: _Haul) -> None:
    """Give staged files that the last manifest still has their final names; say what is missing, changed, refused."""
    staged = [row for row in document["files"] if row["path"] in haul.staged and os.path.exists(home.staged(row))]
    home.claim(staged)
    for row in staged:
        home.settle(row, is_proven=haul.artifacts[row["path"]]["ok"])
    names = {row["path"]: row for row in document["files"]}
    for path in [path for path in haul.artifacts if path not in names]:
        haul.receipts.pop(path, None)
        del haul.artifacts[path]
    for path, row in names.items():
        known = haul.artifacts.get(path)
        if not is_takeable(row):
            haul.artifacts[path] = _bad(
                path, "escapes-root", "its path leads out of the run's folder: not brought home"
            )
        elif known is None or known["sha256"] != row["sha256"]:
            haul.receipts.pop(path, None)
            haul.artifacts[path] = _bad(path, "mismatch", "it changed on the box while it was brought home")
    for refused in document.get("refused", ()):
        haul.artifacts[refused["path"]] = _bad(refused["path"], "escapes-root", refused["why"])
    for glob in document["missing"]:
        haul.artifacts.setdefault(glob, _bad(glob, "missing", "no file on the box answers to it"))
    home.tidy()


def _artifact(path: str, kind: str, size_bytes: int, sha256: str) -> dict[str, Any]:
    """One element of `artifacts`, of bytes that are equal to the manifest's."""
    return {
        "path": path,
        "kind": kind,
        "ok": True,
        "bytes": size_bytes,
        "sha256": sha256,
        "proved": ["bytes"],
        "problem": None,
        "detail": None,
        "remarks": [],
        "facts": {},
        "loader": None,
    }


def _bad(path: str, problem: str, detail: str) -> dict[str, Any]:
    bare = _artifact(path, "unknown", 0, "")
    return {**bare, "ok": False, "sha256": None, "proved": [], "problem": problem, "detail": detail}


def _answer(
    ctx: Context,
    view: View,
    home: Home,
    document: Mapping[str, Any],
    haul: _Haul,
    seconds: float,
    taken: Mapping[str, float],
) -> Pull:
    record, is_live = view.record, not view.status.state.is_final
    bad = [a for a in haul.artifacts.values() if not a["ok"]]
    at_home = [row for row in document["files"] if haul.artifacts[row["path"]]["ok"]]
    lease = ctx.store.index.lease(record.lease)
    if is_live:
        why = f"attempt {view.status.attempt} is {view.status.state.value}: this is a look, and clears nothing"
        following = f"sojourn watch {record.id}"
    elif bad:
        why = f"{len(bad)} of {len(haul.artifacts)} are missing or do not load"
        changed = any(a["problem"] == "mismatch" for a in bad)
        following = f"sojourn pull {record.id}" if changed else f"sojourn logs {record.id} --tail 50"
    else:
        why, following = "", f"sojourn down {record.lease or record.id}"
    return Pull(
        run=record.id,
        ok=not bad,
        home=home.folder,
        artifacts=tuple(a for _, a in sorted(haul.artifacts.items()) if not (a["ok"] and a["kind"] == "log")),
        files=len(at_home),
        bytes=sum(row["bytes"] for row in at_home),
        moved_files=len(haul.staged),
        moved_bytes=haul.moved_bytes,
        seconds=seconds,
        receipts=0 if is_live else len(haul.receipts),
        missing=tuple(document["missing"]),
        why=why,
        next=following,
        meter=meter_of(record, lease),
        spent_micro=spent_micro(view, lease, taken),
        currency=lease.lease.currency if lease else "USD",
        exit_status=1 if bad else 0,
    )


def _not_pulled(record: RunRecord, folder: str, error: SojournError) -> Pull:
    return Pull(
        run=record.id,
        ok=False,
        home=folder,
        artifacts=(),
        files=0,
        bytes=0,
        moved_files=0,
        moved_bytes=0,
        seconds=0.0,
        receipts=0,
        missing=(),
        why=error.message,
        next=error.next or f"sojourn pull {record.id}",
        exit_status=error.exit_status,
    )
