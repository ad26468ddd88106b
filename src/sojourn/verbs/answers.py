"""What verbs return: frozen values, each with its JSON document of docs/json.md (`as_json`) and its exit status.

Nothing here prints, asks or reads. Times are UTC stamps as in every file of ours; `cli` turns them into local ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from sojourn.core.alarms import Alarm
from sojourn.core.artifact import Artifact
from sojourn.core.values import Finding, Meter, State


def money(micro: int | None, currency: str) -> dict[str, Any] | None:
    """An amount in JSON: {"amount": 1.19, "currency": "USD", "micro": 1190000}; null = unknown."""
    return None if micro is None else {"amount": micro / 1e6, "currency": currency, "micro": micro}


def document(value: Any, kind: str = "", *, without: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """A dataclass as a JSON document: its fields but `without`, then `more`; `schema` first where there is a `kind`.

    Enums become their value, tuples lists, findings and reaches their documents, "" where nothing is known null.
    """
    out: dict[str, Any] = {"schema": f"sojourn/{kind}/v1"} if kind else {}
    for f in fields(value):
        if f.name not in without:
            out[f.name] = _plain(getattr(value, f.name))
    return {**out, **more}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Finding):
        return finding_json(value)
    if isinstance(value, Reach):
        return value.as_json()
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return dict(value) if isinstance(value, Mapping) else None if value == "" else value


@dataclass(frozen=True)
class Reach:
    """About the connection alone. `ok`: None = not asked this time (a final run whose end is known is not polled)."""

    ok: bool | None = None
    last_ok: str = ""
    error: str = ""
    next: str = ""  # what to do about it
    is_sick: bool = False  # it did answer, and with an error or with what cannot be right

    def as_json(self) -> dict[str, Any]:
        """`reach` of docs/json.md, and `next`."""
        return {"ok": self.ok, "last_ok": self.last_ok or None, "error": self.error or None, "next": self.next or None}


@dataclass(frozen=True)
class Row:
    """One run in one look. State, reach and meter are three axes; none is ever derived from another."""

    id: str
    site: str
    state: State
    attempt: int
    since: str  # stamp: when the state began
    reach: Reach = field(default_factory=Reach)
    meter: Meter = Meter.UNKNOWN
    step: int | None = None
    total: int | None = None
    epoch: int | None = None
    unit: str = ""  # what `step` and `total` count, if not steps: "epoch", "sample"
    percentage: float | None = None
    remaining_s: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    log_age_s: float | None = None
    reason: str = ""
    cause: str = ""  # id of the gotcha that its end is, where it is a known one
    owed: int | None = None  # output files owed; None while the box has not said it
    home: int = 0  # of them: at home and proven
    missing: tuple[str, ...] = ()  # owed globs that no file answered
    unnamed: tuple[str, ...] = ()  # files that load by their form and that no output names
    is_home: bool = False  # everything owed is at home and proven
    spent_micro: int | None = 0
    currency: str = "USD"
    lease: str = ""
    next: str = ""
    sweep: str = ""
    # {"seconds","steps","checkpoint"}: lost if its box vanished
    at_risk: Mapping[str, Any] = field(default_factory=dict)
    budget_pct: int = 0  # of its budget that is spent: the last of 50, 80, 100 that its keeper told

    def as_json(self) -> dict[str, Any]:
        """One element of `status.runs`."""
        named = ("step", "total", "epoch", "percentage", "remaining_s")
        known = {name: getattr(self, name) for name in named}
        return {
            "id": self.id,
            "sweep": self.sweep or None,
            "site": self.site,
            "state": self.state.value,
            "attempt": self.attempt,
            "since": self.since or None,
            "reach": self.reach.as_json(),
            "meter": self.meter.value,
            "progress": known | {"unit": self.unit or "step", "metrics": dict(self.metrics)},
            "log_age_s": self.log_age_s,
            "reason": self.reason or None,
            "cause": self.cause or None,
            "owed": self.owed,
            "home": self.home,
            "missing": list(self.missing),
            "unnamed": list(self.unnamed),
            "is_home": self.is_home,
            "spent": money(self.spent_micro, self.currency),
            "budget_pct": self.budget_pct or None,
            "at_risk": dict(self.at_risk) or None,
            "lease": self.lease or None,
            "next": self.next or None,
        }


@dataclass(frozen=True)
class StatusReport:
    """One bounded look at runs. `exit_status` is the table of `status --exit-status` and `watch`."""

    rows: tuple[Row, ...]
    at: str
    exit_status: int = 0
    sweeps: tuple[Mapping[str, Any], ...] = ()  # of the cells among them: verbs/observe/tally.py
    hidden: int = 0  # runs that are over and were not asked for

    def as_json(self) -> dict[str, Any]:
        """The `status` document."""
        runs = [row.as_json() for row in self.rows]
        return {"schema": "sojourn/status/v1", "at": self.at, "runs": runs, "sweeps": list(self.sweeps)}


@dataclass(frozen=True)
class Snapshot:
    """One look of `watch`. `news`: one line for each thing that changed since the look before; empty = nothing new."""

    status: StatusReport
    news: tuple[str, ...]
    quiet_s: float  # how long nothing has been new
    next_look_s: float  # 0: this was the last look
    is_last: bool
    alarms: tuple[Alarm, ...] = ()  # those that hold now; of a new one a line is among the news
    elsewhere: tuple[str, ...] = ()  # runs and sweeps that another watch of this machine asks about, and sends for
    clocks: tuple[Mapping[str, Any], ...] = ()  # of their leases, soonest first: {"lease","what","at","loses","left_s"}

    def as_json(self) -> dict[str, Any]:
        """The `status` document of this look, with what is new in it."""
        more: dict[str, Any] = {"news": list(self.news), "alarms": [vars(alarm) for alarm in self.alarms]}
        more |= {"elsewhere": list(self.elsewhere), "clocks": [dict(one) for one in self.clocks]}
        more |= {"quiet_s": round(self.quiet_s, 1), "is_last": self.is_last}
        return {**self.status.as_json(), "schema": "sojourn/watch/v1", **more}


@dataclass(frozen=True)
class Launch:
    """What `run` or `resume` came to. `did`: launched, queued, adopted (a keeper was put back), nothing, or blocked."""

    id: str
    site: str
    root: str
    attempt: int
    state: State
    did: str
    why: str  # one sentence
    next: str
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()  # about the job file, for stderr
    log_tail: str = ""
    attach: str = ""  # the command that shows the run's log live, where its launcher has one
    seconds: float = 0.0
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `launch` document: the fields, with `exit` for `exit_status`."""
        return document(self, "launch", without=("exit_status",), exit=self.exit_status)


@dataclass(frozen=True)
class Plan:
    """What `run` would do and cost; nothing was changed anywhere by asking.

    `decision`: {"do": new|continue|adopt|next-attempt|again|nothing|refuse, "attempt", "why", "differs"}
    `push`: {"files","bytes","new_bytes","snapshots":[{"what","digest","files","bytes","there": bool|None}]}
    `copy`: {"bytes","inodes","mode"} · `disk`: {"path","free_bytes","needed_bytes","free_inodes","needed_inodes"} or {}
    `survival`: {"path","verb","survives": bool|None,"why"} · `setup`: {"text","digest","reused": bool|None}
    """

    id: str
    site: str
    identity: str
    decision: Mapping[str, Any]
    push: Mapping[str, Any]
    copy: Mapping[str, Any]
    disk: Mapping[str, Any]
    survival: Mapping[str, Any]
    rate_micro_per_h: int | None  # None: not known
    currency: str
    max_spent_micro: int | None
    clocks: tuple[Mapping[str, Any], ...]
    setup: Mapping[str, Any]
    outputs: tuple[str, ...]
    argv: tuple[str, ...]
    reach: Reach
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    next: str
    exit_status: int = 0
    script: str = ""  # what would be handed to the site's scheduler
    rents: Mapping[str, Any] | None = None  # a machine that would be rented: provider, offer, rate, max_price
    platform_env: Mapping[str, Any] = field(default_factory=dict)  # what its platform sets: `store.catalog.environment`
    persist: tuple[str, ...] = ()  # of the script's own paths, those that every attempt finds again

    def as_json(self) -> dict[str, Any]:
        """The `plan` document: the fields; `rate` (an hour) and `max_spent` as money, `exit` for `exit_status`."""
        without = ("rate_micro_per_h", "currency", "max_spent_micro", "exit_status")
        rate, most = (money(micro, self.currency) for micro in (self.rate_micro_per_h, self.max_spent_micro))
        return document(self, "plan", without=without, rate=rate, max_spent=most, exit=self.exit_status)


@dataclass(frozen=True)
class Stop:
    """What `stop` came to. `ended`: the box showed the end of the attempt; False = asked, and not yet seen."""

    id: str
    attempt: int
    state: State
    ended: bool
    why: str
    next: str
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `stop` document: the fields, with `exit` for `exit_status`."""
        return document(self, "stop", without=("exit_status",), exit=self.exit_status)


@dataclass(frozen=True)
class Pull:
    """What came home of one run. `files`/`bytes`: what is home and whole now."""

    run: str
    ok: bool
    home: str  # the folder
    artifacts: tuple[Artifact, ...]
    files: int
    bytes: int
    moved_files: int  # of them: transferred this time
    moved_bytes: int
    seconds: float
    receipts: int
    missing: tuple[str, ...]
    why: str
    next: str
    taken: tuple[str, ...] = ()  # in words: what came of an earlier attempt, or in place of what does not load
    superseded: int = 0  # files of earlier attempts that the succeeded one replaced
    checkpoint: str = ""  # of a run that has not succeeded: the name of what it can resume from
    meter: Meter = Meter.UNKNOWN
    spent_micro: int | None = 0
    currency: str = "USD"
    exit_status: int = 0

    def as_json(self) -> dict[str, Any]:
        """The `pull` document: `verify` and run, files, bytes, seconds, receipts, missing, home, moved, spent."""
        without = ("artifacts", "moved_files", "moved_bytes", "spent_micro", "currency", "exit_status")
        artifacts = [{**a.as_json(), **({"needs": a.needs} if a.needs else {})} for a in self.artifacts]
        moved, spent = {"files": self.moved_files, "bytes": self.moved_bytes}, money(self.spent_micro, self.currency)
        return document(self, "pull", without=without, artifacts=artifacts, moved=moved, spent=spent)


@dataclass(frozen=True)
class Down:
    """What `down` came to: the lease is released (or was gone already: `settled`, with what was `lost`)."""

    lease: str
    site: str
    runs: tuple[str, ...]
    released: bool
    settled: bool
    line: str  # what the provider did, or what only a person can do now
    acknowledged: tuple[str, ...]  # what was let go without: owed and never made, or not loadable
    abandoned: tuple[str, ...]
    accepted: tuple[str, ...]  # RUN:PATH of files that were not loaded, accepted by name
    lost: tuple[str, ...]
    spent_micro: int | None
    currency: str
    next: str
    exit_status: int = 0
    billing: tuple[Mapping[str, Any], ...] = ()  # what still bills: {"kind","native","name","state","month","next"}
    billing_unknown: str = ""  # what of that could not be asked
    beside: tuple[str, ...] = ()  # what others have on the box, which stays

    def as_json(self) -> dict[str, Any]:
        """The `down` document: the fields, with `spent` as money."""
        without = ("spent_micro", "currency", "exit_status")
        return document(self, "down", without=without, spent=money(self.spent_micro, self.currency))


@dataclass(frozen=True)
class LeaseRow:
    """One lease with its meter. `idle_s`: since its last run ended; None while one runs or nothing is known.
    `rate_micro_per_h`, `spent_micro`: None where its rate is not known.
    """

    id: str
    site: str
    platform: str
    provider: str
    rate_micro_per_h: int | None
    currency: str
    began: str
    meter: Meter
    spent_micro: int | None
    idle_s: float | None
    clocks: tuple[Mapping[str, Any], ...]
    stop_verb: str
    is_final: bool
    runs: tuple[str, ...]
    ended: str = ""
    idle_spent_micro: int | None = None  # of `idle_s`; None where that or the rate is not known
    disk_rate_micro_per_h: int | None = None  # beside the rate, where the provider bills it so and the price is known
    disk_micro: int | None = None  # what that came to
    traffic_micro: int | None = None  # of what was pulled, where its price is known

    def as_json(self) -> dict[str, Any]:
        """One element of `leases` of docs/json.md."""
        names = "rate_micro_per_h currency spent_micro stop_verb is_final idle_spent_micro traffic_micro disk_micro"
        disk = [money(micro, self.currency) for micro in (self.disk_rate_micro_per_h, self.disk_micro)]
        return document(
            self,
            without=(*names.split(), "disk_rate_micro_per_h"),
            rate=money(self.rate_micro_per_h, self.currency),
            spent=money(self.spent_micro, self.currency),
            idle_spent=money(self.idle_spent_micro, self.currency),
            disk={"rate": disk[0], "spent": disk[1]},
            traffic=money(self.traffic_micro, self.currency),
            is_estimate=True,
            stop={"verb": self.stop_verb, "final": self.is_final},
        )


@dataclass(frozen=True)
class Leases:
    """`leases` (open ones) and `cost` (all, with what each run spent). `total`: one amount a currency, of the leases
    whose cost is known; `unpriced`: the names of the others.
    """

    kind: str  # leases | cost
    rows: tuple[LeaseRow, ...]
    total: tuple[tuple[int, str], ...]  # (micro, currency)
    runs: tuple[Mapping[str, Any], ...] = ()  # cost: {"id","lease","spent"}
    at: str = ""
    unpriced: tuple[str, ...] = ()
    balances: tuple[Mapping[str, Any], ...] = ()  # of the accounts of open leases: verbs/observe/balances.py
    unrecorded: tuple[Mapping[str, Any], ...] = ()  # leases: these three are of verbs/observe/unrecorded.py
    asked: tuple[str, ...] = ()
    unasked: tuple[Mapping[str, Any], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The `leases` or `cost` document; only `cost` has `runs`."""
        rows = [row.as_json() for row in self.rows]
        left_out = ("unrecorded", "asked", "unasked") if self.kind == "cost" else ("runs",)
        without = ("kind", "rows", "total", *left_out)
        return document(self, self.kind, without=without, leases=rows, total=[money(*one) for one in self.total])


def finding_json(finding: Finding) -> dict[str, Any]:
    """One element of `findings` of docs/json.md."""
    return {
        "id": finding.id,
        "was": finding.was or None,
        "status": finding.status,
        "severity": finding.severity,
        "title": finding.title,
        "cause": finding.cause or None,
        "fix": finding.fix or None,
        "never": finding.never or None,
        "evidence": [{"what": e.what, "value": e.value, "source": e.source, "at": e.at} for e in finding.evidence],
    }


def worst(findings: Sequence[Finding]) -> int:
    """11 with a confirmed blocker, 10 with anything else that is likely and no note, else 0."""
    heard = [f for f in findings if f.status in ("confirmed", "likely")]
    if any(f.status == "confirmed" and f.severity == "blocker" for f in heard):
        return 11
    return 10 if any(f.severity != "note" for f in heard) else 0
