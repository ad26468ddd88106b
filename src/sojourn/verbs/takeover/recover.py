"""`recover`: this machine's records of a site's runs, rebuilt from the box. What is known here is left alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sojourn.backends.keeper import root_files
from sojourn.backends.keeper.decode import BadAnswer
from sojourn.core.need import Need
from sojourn.core.ports import Handle
from sojourn.core.values import Lease, Site, State
from sojourn.core.verdict import SICK
from sojourn.store.index import NotFound
from sojourn.verbs.answers import document
from sojourn.verbs.context import CALL_S, Box, Context, provider_of
from sojourn.verbs.launch.renting import lease_of
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.rent.known import taken_up
from sojourn.verbs.rent.machine import free_name
from sojourn.wire import names, units
from sojourn.wire.errors import WorldError

MOST_RUNS = 200_000  # of one site


@dataclass(frozen=True)
class Found:
    """One run of the box. `did`: recovered, known (it was in the records), other (this name is another run here) or
    unreadable; the last two are left as they are.
    """

    id: str
    did: str
    attempt: int
    state: State | None
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """One element of `runs`."""
        return document(self)


@dataclass(frozen=True)
class Recovered:
    """What `recover` came to. `lease`: what the runs hang on now, "" where none could be known."""

    site: str
    lease: str
    runs: tuple[Found, ...]
    remarks: tuple[str, ...] = field(default=())
    next: str = ""
    is_sick: bool = False  # the box named its runs, and what it said of them then cannot be used

    @property
    def exit_status(self) -> int:
        """1 where a run of the box could not be taken into the records; 5 where the box `is_sick`."""
        if self.is_sick:
            return SICK
        return 1 if any(run.did in ("other", "unreadable") for run in self.runs) else 0

    def as_json(self) -> dict[str, Any]:
        """The `recover` document."""
        runs = [run.as_json() for run in self.runs]
        return document(self, "recover", without=("runs", "is_sick"), runs=runs, exit=self.exit_status)


def recover(ctx: Context, site: str) -> Recovered:
    """Take every run on the site's box into the records, so that all commands work on it as where it was started.

    Idempotent, also after it was cut short; for a lost disk as for a second client. Nothing on the box is changed,
    but a run whose keeper died gets it back to record its end, as `status` does.
    What only the first machine had (hooks, notify, where the job file is, receipts) is not on the box; `pull` makes
    the receipts anew.   Raises: Misuse (unknown-site, ...), Unreachable, WorldError.
    """
    machines = _machines(ctx, ctx.site(site))
    box = ctx.box_of(site)
    gaps = ctx.store.gaps_of("", box.site.name)
    ctx.say(f"asking {box.site.name} for its runs")
    rows = sorted(_rows(box), key=lambda row: (str(row["run"].get("planned") or ""), str(row["id"])))
    lease, remarks = "", [f"{one} was on no record: its meter runs until `sojourn down {one}`" for one in machines]
    done: dict[str, str] = {}
    if any(_is_new(ctx, box, row) for row in rows) or _homeless(ctx, box, rows):
        lease = _lease(ctx, box, rows)
        if not lease:
            remarks.append(f"the meter of {box.site.name} is its provider's: check its cost there, and stop it there")
    for row in rows:
        done[row["id"]] = _take_in(ctx, box, row, lease)
    mine = [run for run, did in done.items() if did in ("recovered", "known")]
    views = refresh(ctx, [record for record in map(ctx.store.index.run, mine) if record is not None])
    found = [
        _found(row, done[row["id"]], views[row["id"]].status.state if row["id"] in views else None) for row in rows
    ]
    if any(run.did == "recovered" for run in found):
        remarks.append("hooks and notify of a job file are known only where it was first run")
    remarks += list(dict.fromkeys(view.reach.error for view in views.values() if view.reach.is_sick))
    if gaps:  # every root was shown: what is not in the records now is a stray, which holds `down` by its own name
        ctx.store.close_gaps(gaps, box.site.name)
        remarks.append(
            f"the journal's damage ({gaps[0].what}) holds no lease of {box.site.name} any more: all that is on its box"
            " has been listed; a site that only the lost records named needs its own `sojourn recover`"
        )
    open_now = lease_of(ctx, box)
    return Recovered(
        site=box.site.name,
        lease=open_now.name if open_now else lease,
        runs=tuple(found),
        remarks=tuple(remarks),
        next="sojourn status" if mine else "sojourn run",
        is_sick=any(view.reach.is_sick for view in views.values()),
    )


def _machines(ctx: Context, site: Site) -> list[str]:
    """The leases on machines of ours at the site's provider that were on no record; those that can be reached have
    their address then, so that their boxes can be asked.
    """
    provider = provider_of(site)
    if not provider.rents:
        return []
    with ctx.alone(f"renting {site.name}"):
        late = taken_up(ctx, site, provider, lambda: free_name(ctx, site, ""), all_of_them=True)
    for lease in late:
        try:
            ready = provider.ready(lease, CALL_S)
        except WorldError as error:
            ctx.say(error.message)
            continue
        if isinstance(ready, Lease):
            ctx.store.append("leased", lease=asdict(ready))
    return [lease.name for lease in late]


def accept_gap(ctx: Context, site: str, lease: str) -> Recovered:
    """For a box that is gone: what the journal has lost holds this lease no more. Nobody is asked; it is journaled.

    Idempotent.   Raises: Misuse (no lease of this site has exactly this name).
    """
    name = ctx.site(site).name
    with ctx.alone(f"lease {lease}"):
        known = [one.name for one in ctx.store.index.leases(open_only=False) if one.lease.site == name]
        if lease not in known:
            hint = f" on {name}; there is {', '.join(dict.fromkeys(known)) or 'none'}"
            raise NotFound(what="lease", wanted=lease, hint=hint)
        gaps = ctx.store.gaps_of(lease, name)
        ctx.store.close_gaps(gaps, name, lease)
    remarks = [f"accepted for {lease}: {gap.what}" for gap in gaps]
    if gaps:
        remarks.append(f"a run on {lease} that only the lost records named, its results and its costs are given up")
    else:
        remarks.append(f"no damage to the journal holds {lease}")
    return Recovered(site=name, lease=lease, runs=(), remarks=tuple(remarks), next=f"sojourn down {lease}")


def _rows(box: Box) -> Iterator[Mapping[str, Any]]:
    after, count = "", 0
    while True:
        answer = box.answer("roots", after=after)
        yield from answer.value["runs"]
        count += len(answer.value["runs"])
        if not answer.value["more"]:
            return
        if count > MOST_RUNS:
            raise BadAnswer(site=box.site.name, op="roots", what=f"it does not end after {count} runs")
        after = str(answer.value["runs"][-1]["id"])


def _unreadable(row: Mapping[str, Any]) -> str:
    """Why a row cannot become a record; "" where it can. What a box says is checked: it names files here later."""
    run = row["run"]
    if not names.is_root(str(row["id"])) or run.get("run") != names.run_of(str(row["id"])):
        return "its run.json is missing, torn, or that of another run"
    return root_files.trouble(row)


def _kept(ctx: Context, box: Box, row: Mapping[str, Any]) -> str:
    """What the records say of this run already: "" (nothing, or not all of it yet), known or other."""
    record = ctx.store.index.run(row["id"])
    if record is None:
        return ""
    if not record.run.has_been(row["run"]["identity"]) and record.run.spec_digest not in row.get("earlier", ()):
        return "other" if record.attempt else ""  # what was only planned here gives way to what is there
    if record.attempt and box.lease is not None and record.machine != box.machine:
        return "other"  # another machine that is rented for the same site
    if record.attempt and record.site_name != box.site.name:  # the same root under another name of its box is no other
        return "known" if record.run.root == row["root"] else "other"
    # Planned here, or a `recover` that was cut short; or another client, or the keeper, began another attempt, perhaps
    # with other code.
    is_as_known = record.attempt and record.run.has_been(row["run"]["identity"])
    return "known" if is_as_known and record.attempt >= max(_attempt(row), _queued(row)) else ""


def _is_new(ctx: Context, box: Box, row: Mapping[str, Any]) -> bool:
    return not _unreadable(row) and not _kept(ctx, box, row)


def _take_in(ctx: Context, box: Box, row: Mapping[str, Any], lease: str) -> str:
    """Journal what is known of a run, in the order in which it once happened; what became of it."""
    if _unreadable(row):
        return "unreadable"
    with ctx.alone(row["id"]):  # somebody here may be starting a run of this name
        kept = _kept(ctx, box, row)
        if kept:
            return kept
        run, want, keeper = row["run"], row["want"], row["keeper"]
        record = ctx.store.index.run(row["id"])
        is_same = record is not None and record.run.spec_digest == run["identity"]
        if record is not None and record.attempt and not is_same:
            ctx.store.append("recoded", template=run, cells=[{"run": row["id"]}])
        elif record is None or not is_same or record.site_name != box.site.name:
            ctx.store.append(
                "planned", run=row["id"], site=asdict(box.site), root=row["root"], spec=run, recovered=True
            )
        attempt = _attempt(row)
        if attempt:
            token = str(want.get("token") or "")
            ctx.store.append("launching", run=row["id"], attempt=attempt, token=token, lease=lease)
        if attempt and keeper.get("pid"):
            facts = {"root": row["root"], "boot": keeper.get("boot_id") or ""}
            facts |= {"pid": keeper["pid"], "start": keeper.get("start") or 0}
            handle = Handle(box.site.launcher, f"{facts['pid']}:{facts['start']}", facts)
            ctx.store.append("launched", run=row["id"], attempt=attempt, tether=asdict(handle))
        if _queued(row) > attempt:
            sweep = str(run.get("sweep") or names.RUNS_QUEUE)
            cell = {"run": row["id"], "attempt": _queued(row)}
            ctx.store.append("queueing", sweep=sweep, site=box.site.name, lease=lease, cells=[cell])
            ctx.store.append("queued", sweep=sweep, site=box.site.name, runs=[row["id"]], tether=None)
    return "recovered"


def _queued(row: Mapping[str, Any]) -> int:
    """The attempt that waits in the queue of the run's sweep, or in that of plain runs; 0 for none."""
    return int(row.get("queued") or 0)


def _attempt(row: Mapping[str, Any]) -> int:
    """The highest attempt that was asked for or begun."""
    asked = row["want"].get("attempt")
    return max(asked if not _unreadable(row) and asked else 0, int(row["last"]))


def _lease(ctx: Context, box: Box, rows: list[Mapping[str, Any]]) -> str:
    """The open lease of the site, or a record of one that began with the oldest run; "" where taking one would rent.

    Provider and token are those of a first `run`, so that nothing can be taken twice.
    """
    site, provider = box.site, box.provider
    with ctx.alone(f"lease {site.name}"):
        known = lease_of(ctx, box)
        if known is not None:
            return known.name
        if provider.rents:
            return ""
        before = [one for one in ctx.store.index.leases(open_only=False) if one.lease.site == site.name]
        began_s = min([ctx.now_s(), *(_planned_s(row) for row in rows if _planned_s(row))])
        lease = provider.take(provider.offers(Need())[0], f"{site.name}-{len(before)}", began_s)
        assert isinstance(lease, Lease), lease  # it was there before
        ctx.store.append("leased", lease=asdict(lease), runs=_homeless(ctx, box, rows))
        return lease.name


def _homeless(ctx: Context, box: Box, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs of the box whose records name a lease that no record is of any more: its line in the journal was lost."""
    known = [ctx.store.index.run(row["id"]) for row in rows if not _unreadable(row)]
    leases = {lease.name for lease in ctx.store.index.leases(open_only=False)}
    return [run.id for run in known if run and run.site_name == box.site.name and run.lease and run.lease not in leases]


def _planned_s(row: Mapping[str, Any]) -> float:
    try:
        return units.unstamp(str(row["run"].get("planned")))
    except ValueError:
        return 0.0


def _found(row: Mapping[str, Any], did: str, state: State | None) -> Found:
    why = _unreadable(row)
    if did == "other":
        why = "the records have another run of this name, or have it on another site; it was left as it is"
    return Found(str(row["id"]), did, _attempt(row), state, why)
