"""`clean`: what we left on a box, with sizes; and removing it, under the Iron Law: deleting is as final as `down`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sojourn.core import law
from sojourn.core.owed import Lack, Standing
from sojourn.core.values import Lease
from sojourn.store.records import RunRecord
from sojourn.verbs.answers import document
from sojourn.verbs.confirm import Ask, Confirm, confirmed
from sojourn.verbs.context import Box, Context
from sojourn.verbs.release.clearing import Request, bounded, cleared, flags, listed
from sojourn.verbs.release.hooks import before_down
from sojourn.verbs.release.obligations import Hashed, run_facts
from sojourn.wire import units
from sojourn.wire.errors import Misuse

USAGE_S = 600.0  # a box with millions of files
REMOVE_S = 3600.0
SHARED = ("snapshots", "envs", "keepers", "train", "staging", "queues")


class OnAnotherSite(Misuse):
    """{run} is on {site}, not on {named}."""

    code = "on-another-site"
    next_step = "sojourn clean {site} {run}"


class NotFromHere(Misuse):
    """This machine has no record of {run} on {site}."""

    code = "not-from-here"
    next_step = "sojourn recover {site}"


@dataclass(frozen=True)
class Left:
    """One item that sojourn stored on the box. `kind`: runs, or one of SHARED. `keep`: why it must stay now, or "".

    `home`: of a run, what the records say: home, not home, unknown here.
    """

    kind: str
    name: str
    bytes: int
    inodes: int
    keep: str = ""
    home: str = ""
    used_by: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """One element of `left` or `removed`."""
        return document(self)


@dataclass(frozen=True)
class Clean:
    """What is on the box, or, of a removal, what was removed and what was kept."""

    site: str
    did: str  # listed | removed
    left: tuple[Left, ...]
    removed: tuple[Left, ...] = ()
    acknowledged: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    next: str = ""

    @property
    def exit_status(self) -> int:
        """Always 0: what may not be removed is refused."""
        return 0

    def as_json(self) -> dict[str, Any]:
        """The `clean` document."""
        lists = {"left": [one.as_json() for one in self.left], "removed": [one.as_json() for one in self.removed]}
        return document(self, "clean", without=("left", "removed"), **lists)


def clean(
    ctx: Context,
    site: str,
    runs: Sequence[str] = (),
    *,
    unused: bool = False,
    abandon: Sequence[str] = (),
    accept: Sequence[str] = (),
    confirm: Confirm = lambda ask: None,
) -> Clean:
    """List what is on the site's box; with `runs` (or `abandon`) remove their roots, with `unused` what no run there
    refers to.

    A run goes only when everything it owes is home, proven, and unchanged on both sides just now, or when `abandon`
    gives it up by its full name (or RUN:PATH, that file alone; RUN:checkpoint, its checkpoint); `accept`: files that
    are home and were not loaded (RUN:PATH). The name of the run (of several, of the site) is asked for. The box itself
    refuses what lives or what changed since. A root that the records do not know is never touched. Repeatable after a
    crash.
    Raises: Misuse (unknown-site, not-found, on-another-site), Withheld, NotConfirmed, HookFailed, Unreachable,
    WorldError (alive, changed, other-run).
    """
    box = ctx.box_of(site)
    whole = [name for name in abandon if ":" not in name]
    named = list(dict.fromkeys([*runs, *whole]))
    if named:
        given = law.Given(abandon=frozenset(abandon), accept=frozenset(accept))
        return _remove_runs(ctx, box, [_known(ctx, box, name) for name in named], given, confirm)
    found = _look(ctx, box)
    return _remove_unused(ctx, box, found, confirm) if unused else found


def _known(ctx: Context, box: Box, name: str) -> RunRecord:
    record = ctx.store.index.find(name)
    if record.machine != box.machine:
        raise OnAnotherSite(run=record.id, site=record.machine, named=box.machine)
    if record.attempt == 0:
        raise NotFromHere(run=record.id, site=box.site.name)
    return record


def _look(ctx: Context, box: Box) -> Clean:
    ctx.say(f"measuring the files on {box.site.name}")
    said = box.answer("usage", timeout_s=USAGE_S).value
    left = [_left_run(ctx, box, row) for row in said["runs"]]
    left += [
        Left(row["kind"], row["name"], row["bytes"], row["inodes"], row["keep"], "", tuple(row["used_by"]))
        for row in said["things"]
    ]
    site = box.machine
    ready = next((one.name for one in left if one.kind == "runs" and one.home == "home" and not one.keep), "")
    if any(one.home == "unknown here" for one in left):
        following = f"sojourn recover {site}"
    elif ready:
        following = f"sojourn clean {site} {ready}"
    else:
        following = f"sojourn clean {site} --unused" if any(_is_unused(one) for one in left) else ""
    return Clean(site, "listed", tuple(left), next=following)


def _left_run(ctx: Context, box: Box, row: Mapping[str, Any]) -> Left:
    record = ctx.store.index.run(row["id"])
    home = "unknown here"
    if record is not None and record.run.has_been(row["identity"]) and record.machine == box.machine:
        home = "home" if record.is_home else "not home"
    return Left("runs", row["id"], row["bytes"], row["inodes"], row["lives"], home)


def _is_unused(one: Left) -> bool:
    return one.kind != "runs" and not one.keep


def _remove_runs(ctx: Context, box: Box, records: list[RunRecord], given: law.Given, confirm: Confirm) -> Clean:
    site, hashed = box.machine, Hashed()
    gone = [record for record in records if record.phase == "cleaned"]
    records = [record for record in records if record.phase != "cleaned"]
    if not records:
        return Clean(site, "removed", (), tuple(Left("runs", one.id, 0, 0, home="home") for one in gone))
    lease = _as_lease(site, records)

    def hooks() -> bool:
        ran = [before_down(ctx, record, record.lease) for record in records if record.id not in given.abandon]
        return any(ran)

    request = Request(
        lease=lease,
        given=given,
        gather=lambda: run_facts(ctx, [ctx.store.index.find(record.id) for record in records], hashed),
        hooks=hooks,
        ask=lambda seen, judgement, given_up: _ask(lease, site, seen, judgement, given_up, given),
        withheld=lambda lacks: _withheld(lease, site, lacks),
        lease_of=lambda run: _lease_of(records, run),
        closes="",
    )
    done = cleared(ctx, request, confirm)
    law.in_time(done.clearance, ctx.now_s())  # from here on the box itself compares what it removes with the manifest
    removed = [_remove_run(ctx, box, lease, done.clearance, one, given.abandon) for one in done.facts.runs]
    judgement = done.judgement
    unmade = (f"{run}: {glob} was never made" for run, glob in judgement.acknowledged)
    unproven = (
        f"{run}: {path} is home, unknown format: only its SHA-256 was checked" for run, path in judgement.unproven
    )
    acknowledged = (*unmade, *unproven, *judgement.listed)
    return Clean(
        site,
        "removed",
        (),
        tuple(removed),
        acknowledged,
        judgement.abandoned,
        judgement.accepted,
        f"sojourn clean {site}",
    )


def _remove_run(
    ctx: Context, box: Box, lease: Lease, clearance: law.Clearance, one: Standing, abandon: frozenset[str]
) -> Left:
    law.check(clearance, lease)
    with ctx.alone(one.run):
        record = ctx.store.index.find(one.run)
        # The box compares once more; what was never there when the law judged must not be there now.
        digest = "" if one.run in abandon else one.digest or "nothing"
        ctx.store.append("cleaning", run=one.run, site=box.site.name, manifest=digest)
        ctx.say(f"{one.run}: removing its root")
        asked = {"kind": "runs", "name": one.run, "identity": record.run.spec_digest, "manifest": digest}
        row = box.answer("remove", timeout_s=REMOVE_S, **asked, also=list(record.also)).value["removed"][0]
        size = {"bytes": row["bytes"], "inodes": row["inodes"]}
        ctx.store.append("cleaned", run=one.run, site=box.site.name, **size)
    return Left("runs", one.run, home="abandoned" if one.run in abandon else "home", **size)


def _remove_unused(ctx: Context, box: Box, found: Clean, confirm: Confirm) -> Clean:
    site = box.machine
    unused = [one for one in found.left if _is_unused(one)]
    if not unused:
        return replace(found, next="")
    total = units.say_bytes(sum(one.bytes for one in unused))
    lines = [f"remove everything from {site} that no run there uses, {total}; `run` sends what it needs again"]
    lines += [f"{one.kind}/{one.name}: {units.say_bytes(one.bytes)}" for one in unused]
    confirmed(confirm, Ask("clean", site, tuple(lines), f"sojourn clean {site} --unused --confirm {site}"))
    names = {kind: [one.name for one in unused if one.kind == kind] for kind in SHARED}
    ctx.store.append("tidying", site=site, things=names)
    removed: list[Left] = []
    kept: dict[tuple[str, str], str] = {}
    for kind, some in names.items():
        if some:
            said = box.answer("remove", timeout_s=REMOVE_S, kind=kind, names=some).value
            removed += [Left(kind, row["name"], row["bytes"], row["inodes"]) for row in said["removed"]]
            kept |= {(kind, row["name"]): row["why"] for row in said["kept"]}
    ctx.store.append("tidied", site=site, things=[[one.kind, one.name] for one in removed])
    left = [replace(one, keep=kept[one.kind, one.name]) for one in unused if (one.kind, one.name) in kept]
    return Clean(site, "removed", tuple(left), tuple(removed), next=f"sojourn clean {site}")


def _as_lease(site: str, records: Sequence[RunRecord]) -> Lease:
    """What the law judges: these roots as something held, whose stop verb deletes them. `name`: to be typed."""
    name = records[0].id if len(records) == 1 else site
    native = "; ".join(record.run.root for record in records)
    return Lease(name, site, "clean", native, 0, "USD", 0.0, "delete the run's folder on the box", True)


def _lease_of(records: Sequence[RunRecord], run: str) -> str:
    return next(record.lease for record in records if record.id == run)


def _withheld(lease: Lease, site: str, lacks: Sequence[Lack]) -> law.Withheld:
    """The law's own refusal; its next steps speak of `down`, ours of `clean`."""
    return law.withheld(lease.name, [replace(lack, next=_as_clean(lack, site)) for lack in lacks])


def _as_clean(lack: Lack, site: str) -> str:
    if not lack.next.startswith("sojourn down"):
        return lack.next
    run, _, flags = lack.next.removeprefix("sojourn down ").partition(" ")
    if flags == f"--abandon {run}":  # which names the run by itself
        run = ""
    return " ".join(f"sojourn clean {site} {run} {flags}".split())


def _ask(
    lease: Lease,
    site: str,
    seen: law.Facts,
    judgement: law.Judgement,
    given_up: Sequence[Lack],
    given: law.Given,
) -> Ask:
    some = ", ".join(one.run for one in seen.runs)
    lines = [f"delete from {site}: {some}, with code, logs and checkpoints of all attempts; this cannot be undone"]
    safe = [one for one in seen.runs if one.run not in given.abandon]
    lines += [f"{one.run}: {one.state.value}, {len(one.receipts)} files are home and verified" for one in safe]
    lines += bounded(listed(judgement))
    lines += [f"{lack.run}: GIVEN UP: {lack.what}" for lack in given_up if lack.run]
    words = [one.run for one in safe] + flags(given)
    return Ask("clean", lease.name, tuple(lines), f"sojourn clean {site} {' '.join(words)} --confirm {lease.name}")
