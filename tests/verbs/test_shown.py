"""`status --json` of all runs says what `status` says, though most of it was made when the runs had ended."""

import json
import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.core.fold import Status, fold
from sojourn.core.plain import json_text, plain
from sojourn.core.values import Site, State
from sojourn.store.home import Store
from sojourn.store.program import read_code
from sojourn.verbs.context import Box, Context
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.status import status
from sojourn.verbs.observe.status_rows import StatusRows, status_rows
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.store import history
from tests.verbs import faulty
from tests.verbs.conftest import World

NOW_S = 1_800_000_000.0
SITES = {site.name: site for site in (Site("a"), Site("b"), Site("paid", rate_micro_per_h=360_000, currency="EUR"))}


class Records:
    """What a client knows of boxes that do not answer now."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.store = Store(str(state), clock=lambda: NOW_S)
        boxes = {}
        for name, site in SITES.items():
            line = faulty.Transport(site)
            line.is_cut = True
            boxes[name] = Box(site, line, setsid.Backend(), unmetered.Backend(site), Keeper(line, site))
        self.ctx = Context(self.store, now_s=lambda: NOW_S, boxes=boxes)

    def plan(self, run: str, site: str = "a", **spec: Any) -> None:
        self.store.append("planned", run=run, site=plain(SITES[site]), root="", spec=history.spec(run, **spec))

    def launch(self, run: str, attempt: int = 1, lease: str = "free") -> None:
        self.store.append("launching", run=run, attempt=attempt, token="t", lease=lease)
        self.store.append("launched", run=run, attempt=attempt, tether={"launcher": "setsid", "native": "7"})

    def heard(self, run: str, status: Status, keeper: str = "gone", payload: str = "gone") -> None:
        history.heard(self.store.journal, run, status, keeper, payload)
        self.store.index.catch_up()

    def lease(self, name: str, rate: int = 0) -> None:
        self.store.append("leased", lease=history.lease(name, rate_micro_per_h=rate, currency="CNY"))

    def finish(self, run: str, state: str = "succeeded", lease: str = "free", **spec: Any) -> None:
        self.plan(run, **spec)
        self.launch(run, lease=lease)
        self.heard(run, ended(state))

    def kept(self) -> set[str]:
        """The runs whose rows would not be made anew."""
        return {run for run, *_, text, _ in self.store.index.status_texts(read_code()) if text is not None}

    def same(self) -> dict[str, Any]:
        """The document, after both ways to it gave the same, the second time too."""
        plainly = json_text(status(self.ctx).as_json())
        assert status_rows(self.ctx).json_text() == plainly
        assert status_rows(self.ctx).json_text() == plainly
        document: dict[str, Any] = json.loads(plainly)
        return document

    def row(self, run: str) -> dict[str, Any]:
        (found,) = [row for row in self.same()["runs"] if row["id"] == run]
        return dict(found)


def ended(state: str, attempt: int = 1, before: Status | None = None, said: int = 5, **end: Any) -> Status:
    """The fold of an attempt's first `said` events: begun, started, a beat, ended, sealed."""
    before = before or Status()
    events = history.events(state, attempt, before.seq)[:said]
    return fold([event | ({"seconds": 60.0, **end} if event["kind"] == "ended" else {}) for event in events], before)


def states(seen: StatusRows) -> dict[str, str]:
    return {row["id"]: row["state"] for row in map(json.loads, seen.runs)}


def until_over(world: World) -> None:
    deadline = time.monotonic() + 240
    while not all(record.is_settled for record in world.ctx.store.index.runs()):
        assert time.monotonic() < deadline
        status_rows(world.ctx)
        time.sleep(0.05)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    made = Records(tmp_path / "state")
    yield made
    made.store.close()


def random_step(records: Records, rng: random.Random) -> str:
    """Something that may be written of runs, sweeps and leases at any time, sensible or not; what it was."""
    store = records.store
    run = rng.choice(["one", "ab-1", "ab-2", "cd-1"])
    lease = rng.choice(["free", "free", "dear", "dear", "nowhere", ""])
    known = store.index.run(run)
    if known is None or rng.random() < 0.05:
        records.plan(
            run, rng.choice(list(SITES)), identity=rng.choice("ij"), sweep=run.partition("-")[0] if "-" in run else ""
        )
        return f"planned {run}"
    attempt = max(1, known.attempt + rng.choice([0, 0, 0, 1]))

    def say() -> Status:
        before = known.heard
        number = max(attempt, before.attempt) if rng.random() < 0.8 else before.attempt + 1
        how = {
            "why": rng.choice(["", "oom", "walltime"]),
            "seconds": rng.choice([0, 0.25, 60.0, 3600.1]),
            "detail": rng.choice(["", 'd\u00e9j\u00e0 "vu"\n\x1b[2J']),
        }
        word = rng.choice([*(state.value for state in State if state.is_final), "vanished"])
        return ended(word, number, before, rng.choice([1, 2, 3, 4, *[5] * 12]), **how)

    pulses = rng.choice([("gone", "gone"), ("gone", "gone"), ("alive", "alive"), ("none", "none"), ("queued", "none")])
    problem = {"path": "best.pt", "problem": "corrupt"}
    steps: dict[str, Callable[[], object]] = {
        "launched": lambda: records.launch(run, attempt, lease),
        "heard": lambda: records.heard(run, say(), *pulses),
        "beat": lambda: store.index.record_status(
            run, rng.randrange(9999), say(), *pulses, at_s=NOW_S + rng.randrange(99)
        ),
        "not a number": lambda: records.heard(
            run, fold([{"seq": 999, "attempt": 99, "kind": "beat", "progress": {"metrics": {"loss": 1e999}}}], say())
        ),
        "pulled": lambda: history.pulled(store.journal, run, problems=rng.choice([[], [problem]])),
        "stopping": lambda: store.append("stopping", run=run, attempt=attempt),
        "pulling": lambda: store.append("pulling", run=run),
        "cleaned": lambda: store.append("cleaned", run=run),
        "queueing": lambda: store.append(
            "queueing", sweep="ab", site=known.site_name, cells=[{"run": run, "attempt": attempt}], lease=lease
        ),
        "queued": lambda: store.append("queued", sweep="ab", site=known.site_name, runs=[run], tether={"native": "1"}),
        "withdrawn": lambda: store.append(
            "withdrawn", sweep="ab", site=known.site_name, runs=[run], why=rng.choice(["move", "stop"])
        ),
        "leased free": lambda: records.lease("free"),
        "leased dear": lambda: records.lease(rng.choice(["dear", lease or "dear"]), 3_600_000),
        "let go": lambda: store.append(rng.choice(["clearing", "releasing", "released", "settled"]), lease=lease),
    }
    what = rng.choice([*steps, *["heard"] * 8])
    steps[what]()
    store.index.catch_up()
    return f"{what} {run}"


@pytest.mark.campaign
def test_after_whatever_is_written_the_kept_rows_say_what_is_known(tmp_path: Path) -> None:
    kept_rows = kept_sweeps = 0
    for seed in range(12):
        rng, told, records = random.Random(seed), [f"seed {seed}"], Records(tmp_path / str(seed))
        for _ in range(120):
            told.append(random_step(records, rng))
            plainly = json_text(status(records.ctx).as_json())
            seen = status_rows(records.ctx)
            assert seen.json_text() == plainly, told
            kept_rows += len(seen.runs) - len(seen.anew.rows)
            kept_sweeps += len(seen.sweeps) - len(seen.anew.sweeps)
        records.store.close()
    assert kept_rows > 500 and kept_sweeps > 100  # else nothing was tried


@pytest.mark.parametrize("state", [state.value for state in State if state.is_final])
def test_every_end_is_shown_as_it_is_and_kept(records: Records, state: str) -> None:
    records.lease("free")
    records.finish("digits", state)
    assert records.row("digits")["state"] == state
    assert records.kept() == {"digits"}


CHANGES: dict[str, Callable[[Records], object]] = {
    "launched": lambda r: r.launch("digits", 2),
    "queueing": lambda r: r.store.append("queueing", sweep="", site="a", cells=[{"run": "digits", "attempt": 2}]),
    "heard": lambda r: r.heard("digits", ended("failed", 2)),
    "beat": lambda r: r.store.index.record_status("digits", 901, ended("failed"), "gone", "gone", NOW_S + 60),
    "pulled": lambda r: r.store.append(
        "pulled", run="digits", manifest=history.SEALED, dir="/h", receipts=[history.receipt("digits")]
    ),
    "planned anew": lambda r: r.plan("digits", identity="another"),
    "planned elsewhere": lambda r: r.plan("digits", "b"),
    "leased": lambda r: r.lease("free", 3_600_000),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_written_of_a_run_that_was_over_is_shown_at_once(records: Records, change: str) -> None:
    records.finish("digits", "failed")
    records.finish("other")
    before = records.row("digits")
    assert records.kept() == {"digits", "other"}
    CHANGES[change](records)
    assert "digits" not in records.kept()
    assert records.row("digits") != before
    assert "other" in records.kept() or change == "leased"


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (lambda r: r.plan("digits"), "it was not launched"),
        (lambda r: (r.plan("digits"), r.launch("digits")), "nothing was heard of it"),
        (lambda r: (r.finish("digits"), r.launch("digits", 2)), "its next attempt was asked for"),
        (lambda r: (r.plan("digits"), r.launch("digits"), r.heard("digits", ended("", said=3), "alive")), "it lives"),
        (lambda r: (r.plan("digits"), r.launch("digits"), r.heard("digits", ended("failed", said=4))), "not sealed"),
    ],
)
def test_a_run_whose_row_may_still_change_is_not_kept(records: Records, say: Any, why: str) -> None:
    say(records)
    records.same()
    assert not records.kept(), why


def test_what_runs_of_one_meter_spent_follows_those_beside_them_and_their_rows_are_kept(records: Records) -> None:
    records.lease("dear", 3_600_000)
    records.finish("one", lease="dear", sweep="ab")
    records.finish("alone", lease="free")
    assert records.row("one")["spent"] == {"amount": 0.06, "currency": "CNY", "micro": 60_000}
    assert records.kept() == {"one", "alone"}
    records.finish("two", lease="dear", sweep="ab")  # at the same time
    assert [row["spent"]["micro"] for row in records.same()["runs"]] == [30_000, 0, 30_000]
    records.plan("three")
    records.launch("three", lease="dear")
    records.heard("three", ended("", said=3), "alive", "alive")  # at work for a minute, all of it before they began
    assert [row["spent"]["micro"] for row in records.same()["runs"]] == [30_000, 0, 30_000, 60_000]
    beat = {"seq": 9, "attempt": 1, "kind": "beat", "at": "2026-11-21T10:03:30.000Z"}
    records.heard("three", fold([beat], ended("", said=3)), "alive", "alive")
    assert [row["spent"]["micro"] for row in records.same()["runs"]] == [20_000, 0, 20_000, 110_000]
    assert [row.id for row in status_rows(records.ctx).anew.rows] == ["three"]


def test_a_metric_that_is_called_spent_is_not_what_was_spent(records: Records) -> None:
    records.lease("dear", 3_600_000)
    records.plan("digits")
    records.launch("digits", lease="dear")
    spent = {"amount": 0.06, "currency": "CNY", "micro": 60_000}
    told = fold([{"seq": 9, "attempt": 1, "kind": "beat", "progress": {"metrics": {"spent": spent}}}], ended("failed"))
    records.heard("digits", told)
    assert records.row("digits")["progress"]["metrics"] == {"spent": spent} and records.kept()


def test_a_cell_that_joins_or_goes_on_has_its_sweep_counted_anew(records: Records) -> None:
    for cell in ("ab-1", "ab-2"):
        records.finish(cell, sweep="ab")
    records.finish("one")
    assert records.same()["sweeps"][0]["states"] == {"succeeded": 2}
    assert not status_rows(records.ctx).anew.rows  # all of it is kept, the sweep too
    records.plan("ab-3", sweep="ab")
    assert records.same()["sweeps"][0]["states"] == {"succeeded": 2, "planned": 1}
    records.launch("ab-1", 2)
    records.heard("ab-1", ended("", 2, ended("succeeded"), said=3), "alive", "alive")
    assert records.same()["sweeps"][0]["states"] == {"running": 1, "succeeded": 1, "planned": 1}
    assert records.kept() == {"ab-2", "one"}


def test_what_another_version_kept_is_not_shown(records: Records) -> None:
    records.finish("digits")
    assert records.store.index.show(
        "another version", ["digits"], lambda record, lease: ('{"state": "old"}', "[[], 0]")
    )
    assert records.row("digits")["state"] == "succeeded"


def test_a_row_is_kept_in_the_transaction_in_which_its_run_was_read(records: Records) -> None:
    records.finish("digits")
    other = sqlite3.connect(records.state / "index.sqlite", timeout=0)
    refused = []

    def meanwhile(*_: object) -> tuple[str, str]:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("UPDATE runs SET phase = 'pulling'")
        refused.append(True)
        return "{}", "[[], 0]"

    assert records.store.index.show(read_code(), ["digits"], meanwhile) and refused
    other.execute("UPDATE runs SET phase = 'pulling'")
    other.commit()
    assert not records.kept()
    other.close()


@pytest.mark.campaign
def test_where_nothing_can_be_kept_the_answer_is_the_same(records: Records) -> None:
    for n in range(3):
        records.finish(f"digits-{n}")
    other = sqlite3.connect(records.state / "index.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # a command that hangs
    plainly = json_text(status(records.ctx).as_json())
    assert status_rows(records.ctx).json_text() == plainly and not records.kept()
    other.execute("ROLLBACK")
    assert status_rows(records.ctx).json_text() == plainly and len(records.kept()) == 3
    other.close()


def test_an_index_from_before_rows_were_kept_is_built_anew(records: Records) -> None:
    records.finish("digits")
    before = records.same()
    records.store.close()
    db = sqlite3.connect(records.state / "index.sqlite")
    for statement in ("DROP TABLE shown", "DROP TABLE shown_sweeps", "PRAGMA user_version = 6"):
        db.execute(statement)
    db.commit()
    db.close()
    again = Records(records.state)
    assert again.same() == before and again.kept() == {"digits"}
    again.store.close()


@pytest.mark.campaign
def test_a_cell_that_another_client_resumed_is_shown_alive_while_a_run_beside_it_is_heard(
    world: World, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    wait = f"until [ -e {gate} ]; do sleep 0.05; done"
    sweep(
        world.ctx,
        SweepRequest(
            world.job(f"[ $SOJOURN_ATTEMPT = 2 ] || exit 3; {wait}", name="ab", sweep={"matrix": {"lr": [1, 2]}})
        ),
    )
    until_over(world)
    assert states(status_rows(world.ctx)) == {"ab-lr1": "failed", "ab-lr2": "failed"}
    shutil.copytree(world.ctx.store.state_dir, tmp_path / "elsewhere")
    other = Context(Store(str(tmp_path / "elsewhere")), boxes=world.ctx.boxes)
    resume(other, "ab-lr2")
    seen = status_rows(world.ctx)
    assert states(seen) == {"ab-lr1": "failed", "ab-lr2": "failed"} and not seen.anew.rows  # nobody was asked
    world.run(wait, name="beside")
    seen = status_rows(world.ctx)
    assert states(seen) == {"ab-lr1": "failed", "ab-lr2": "running", "beside": "running"}
    assert json.loads(seen.sweeps[0])["states"] == {"failed": 1, "running": 1}
    gate.touch()
    until_over(world)
    status_rows(world.ctx)
    seen = status_rows(world.ctx)
    assert json.loads(seen.json_text()) == {**status(world.ctx).as_json(), "at": seen.anew.at}
    assert not seen.anew.rows and json.loads(seen.sweeps[0])["states"] == {"failed": 1, "succeeded": 1}
    other.store.close()


@pytest.mark.campaign
def test_a_run_that_is_stopped_is_shown_so(world: World) -> None:
    world.run("sleep 60")
    assert states(status_rows(world.ctx)) == {"digits": "running"}
    stop(world.ctx, "digits", confirm=lambda ask: ask.name)
    until_over(world)
    assert states(status_rows(world.ctx)) == {"digits": "cancelled"}
