"""`sweep`, `status`, `stop`, `pull` and `reconcile` of a sweep: several boxes, and what becomes of them."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.core.sweep import Collision
from sojourn.store.job.cells import BadCells
from sojourn.verbs.confirm import NotConfirmed
from sojourn.verbs.launch.prepare import NotYet
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import NameTaken, run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.refresh import refresh
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.sweep.repair import StillThere
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.slots import Oversubscribed
from sojourn.verbs.sweep.stop_sweep import stop_sweep
from sojourn.verbs.sweep.sweep import SweepTaken, sweep
from sojourn.wire.errors import Refusal, Unreachable
from tests.verbs.conftest import World
from tests.verbs.field import Field, Make, fields


@pytest.fixture
def field(world: World, tmp_path: Path) -> Iterator[Make]:
    with fields(world, tmp_path) as make:
        yield make


def all_home(field: Field) -> None:
    assert all(answer.ok for answer in pull(field.ctx, ["ab"]))
    seen = field.reconcile()
    assert (seen.exit_status, seen.duplicates) == (0, ()), seen.as_json()


def test_cells_are_spread_run_watched_brought_home_and_reconciled(field: Make) -> None:
    boxes = field("a b")
    boxes.open()
    said = boxes.sweep({"lr": [0.1, 0.2], "seed": [0, 1]})
    assert (said.did, said.exit_status, len(said.new)) == ("queued", 0, 4)
    assert sorted(len(part.cells) for part in said.sites) == [2, 2]
    boxes.over()
    seen = status(boxes.ctx, ["ab"])
    (tally,) = seen.sweeps
    assert (tally["cells"], tally["states"], tally["home"]) == (4, {"succeeded": 4}, 0)
    assert {row.sweep for row in seen.rows} == {"ab"} and seen.exit_status == 110
    before = boxes.reconcile().as_json()
    assert len(before["present"]) == 4 and not before["loaded"] and boxes.reconcile().exit_status == 1
    all_home(boxes)
    assert sorted(boxes.begun()) == sorted(said.new)
    home = boxes.ctx.store.index.cells("ab")[0]
    Path(home.receipts[0].home).unlink()
    again = boxes.reconcile().as_json()
    assert again["exit"] == 1 and again["present"] and len(again["loaded"]) == 3
    assert "is missing now" in again["causes"][0]["why"]


def test_the_identical_sweep_is_a_no_op_and_new_cells_are_appended(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    again = boxes.sweep({"lr": [1, 2]})
    assert (again.did, again.new) == ("nothing", ())
    more = boxes.sweep({"lr": [1, 2, 3]})
    assert more.new == ("ab-lr3",)
    boxes.open()
    boxes.over()
    assert boxes.begun() == ["ab-lr1", "ab-lr2", "ab-lr3"]


def test_a_look_at_everything_counts_old_runs_without_listing_them(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2, 3]})
    for cell in ("ab-lr1", "ab-lr2"):
        boxes.open(cell)
    boxes.until(lambda states: states["ab-lr2"] == "succeeded" and states["ab-lr3"] == "running")
    boxes.until(lambda _: len(boxes.ctx.store.index.settled_at("a")) == 2)
    seen = status(boxes.ctx, finals=1)
    assert [row.id for row in seen.rows] == ["ab-lr2", "ab-lr3"] and (seen.hidden, seen.sweeps) == (1, ())
    assert len(status(boxes.ctx).rows) == 3


def test_a_sweep_that_was_cut_off_anywhere_goes_on_where_it_was(field: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = field("a b")
    for kind in ("swept", "queueing", "queued"):
        real = boxes.ctx.store.append

        def cut(what: str, kind: str = kind, real: object = real, **fields: object) -> object:
            real(what, **fields)  # type: ignore[operator]
            if what == kind:
                raise KeyboardInterrupt
            return {}

        monkeypatch.setattr(boxes.ctx.store, "append", cut)
        with pytest.raises(KeyboardInterrupt):
            boxes.sweep({"lr": [1, 2, 3, 4]})
        boxes.ctx = boxes.client()
    assert boxes.sweep({"lr": [1, 2, 3, 4]}).exit_status == 0
    boxes.open()
    boxes.over()
    assert sorted(boxes.begun()) == [f"ab-lr{n}" for n in (1, 2, 3, 4)]


def test_what_would_collide_is_refused_before_anything_runs(field: Make, world: World) -> None:
    boxes = field("a b")
    with pytest.raises(BadCells):
        boxes.sweep({"lr": [1, 2]}, {"name": "ab-${seed}", "sweep": {"matrix": {"lr": [1, 2], "seed": [0]}}})
    shutil.rmtree(boxes.bases["b"], ignore_errors=True)
    boxes.bases["b"] = boxes.bases["a"]  # two names of one box
    boxes.ctx = boxes.client()
    with pytest.raises(Collision, match="they are the same box"):
        boxes.sweep({"lr": [1, 2]})
    assert world.journal() == [] and boxes.begun() == []


def test_a_changed_cell_or_a_taken_name_is_refused(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1]})
    with pytest.raises(SweepTaken, match="ab-lr1 differs in envs"):
        boxes.sweep({"lr": [1]}, {"envs": {"NEW": "1"}})
    with pytest.raises(SweepTaken, match="a run has this name"):
        boxes.sweep({"lr": [1]}, {"name": "ab-lr1"})
    with pytest.raises(NameTaken, match="that of a sweep"):
        run(boxes.ctx, RunRequest(boxes.world.job("true"), name="ab"))


def test_a_site_that_does_not_answer_is_left_out_and_none_is_an_error(field: Make) -> None:
    boxes = field("a b")
    boxes.lines["a"].is_cut = True
    said = boxes.sweep({"lr": [1, 2]})
    assert set(boxes.sites().values()) == {"b"} and "a is left out" in said.remarks[0]
    boxes.lines["b"].is_cut = True
    with pytest.raises(Unreachable):
        boxes.sweep({"lr": [1, 2, 3]})


def test_more_slots_than_cores_are_refused_unless_asked_for(field: Make) -> None:
    boxes = field("a")
    with pytest.raises(Oversubscribed):
        boxes.sweep({"lr": [1]}, slots=4096)
    said = boxes.sweep({"lr": [1, 2, 3]}, slots=3, oversubscribe=True)
    assert said.sites[0].slots == 3
    boxes.until(lambda states: list(states.values()).count("running") == 3)
    assert boxes.sweep({"lr": [1, 2, 3]}, slots=4).remarks == ("--slots has no effect: there are no new cells",)
    assert boxes.sweep({"lr": [1, 2, 3, 4]}).sites[0].slots == 3  # a sweep that lives keeps its slots


def test_a_sweep_is_refused_where_nothing_could_wait_or_span_machines_as_it_asks(field: Make) -> None:
    boxes = field("a")
    for keys, said in (({"after": "prep"}, "nothing on a could wait"), ({"num_nodes": 2}, "and a has one")):
        with pytest.raises(NotYet, match=said):
            boxes.sweep({"lr": [1, 2]}, keys)
    assert not boxes.ctx.store.index.runs()


def test_a_dry_run_says_the_same_and_changes_nothing(field: Make, world: World) -> None:
    boxes = field("a b")
    said = boxes.sweep({"lr": [1, 2]}, sites=["b", "a"], slots=2, dry_run=True)
    assert said.did == "planned" and sum(len(part.cells) for part in said.sites) == 2
    assert said.next.startswith("sojourn sweep ") and said.next.endswith(" --sites b,a --slots 2")
    assert world.journal() == [] and not (boxes.bases["a"] / "runs").exists()


@pytest.mark.campaign
def test_stop_takes_what_waits_and_ends_what_lives_and_resume_continues_one(field: Make) -> None:
    boxes = field("a b")
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.until(lambda states: list(states.values()).count("running") == 2)
    with pytest.raises(NotConfirmed):
        stop_sweep(boxes.ctx, "ab", confirm=lambda ask: "a")
    said = stop_sweep(boxes.ctx, "ab", confirm=lambda ask: ask.name, grace_s=5)
    assert (len(said.taken), len(said.stopped), said.left) == (2, 2, ())
    assert set(boxes.states().values()) == {"cancelled"} and len(boxes.begun()) == 2
    assert boxes.sweep({"lr": [1, 2, 3, 4]}).did == "nothing"
    assert not boxes.reconcile(repair=True).relaunched  # what a person stopped stays stopped
    boxes.open()
    assert resume(boxes.ctx, said.taken[0]).state.value in ("running", "succeeded")


@pytest.mark.campaign
def test_one_cell_that_waits_can_be_stopped(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    said = stop(boxes.ctx, "ab-lr2", confirm=lambda ask: ask.name)
    assert said.ended and said.state.value == "cancelled"
    boxes.open()
    assert boxes.over() == {"ab-lr1": "succeeded", "ab-lr2": "cancelled"}
    assert boxes.begun() == ["ab-lr1"]


def test_a_lease_with_a_cell_that_waits_is_not_let_go(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    with pytest.raises(Refusal) as caught:
        down(boxes.ctx, DownRequest("a"), confirm=lambda ask: ask.name)
    assert "ab-lr2" in str(caught.value.fields)


@pytest.mark.campaign
def test_failed_cells_are_told_by_cause_and_repaired_with_the_identical_specification(field: Make) -> None:
    boxes = field("a")
    (boxes.folder / "fail-ab-lr2").touch()
    boxes.open()
    boxes.sweep({"lr": [1, 2, 3]})
    boxes.over()
    before = boxes.reconcile().as_json()
    assert before["failed"] == ["ab-lr2"] and len(before["present"]) == 2 and before["next"] == "sojourn pull ab"
    assert [(one["what"], one["cells"]) for one in before["causes"]] == [("failed", ["ab-lr2"])]
    spec = boxes.ctx.store.index.find("ab-lr2").run.spec
    assert boxes.reconcile(repair=True).relaunched == ("ab-lr2",)
    boxes.over()
    assert boxes.ctx.store.index.find("ab-lr2").run.spec == spec
    all_home(boxes)
    assert [boxes.begun().count(f"ab-lr{n}") for n in (1, 2, 3)] == [1, 2, 1]


@pytest.mark.campaign
def test_cells_that_failed_of_one_known_cause_are_one_group(field: Make) -> None:
    boxes = field("a")
    script = """
      case $lr in
        1) echo ok > result.json ;;
        4) exit 3 ;;
        *) echo "OSError: [Errno 28] No space left on device: 'ckpt-$lr'" >&2; exit 1 ;;
      esac
    """
    made = boxes.job({"lr": [1, 2, 3, 4]})
    text = Path(made).read_text().splitlines()
    Path(made).write_text("\n".join(f"run: {json.dumps(script)}" if t.startswith("run:") else t for t in text) + "\n")

    sweep(boxes.ctx, SweepRequest(made))
    boxes.over()
    (tally,) = status(boxes.ctx, ["ab"]).sweeps
    told = [(one["what"], one["cause"], one["cells"], one["next"]) for one in tally["causes"]]
    assert told == [
        ("failed", "disk-full", ["ab-lr2", "ab-lr3"], "sojourn why ab-lr2"),
        ("failed", None, ["ab-lr4"], "sojourn why ab-lr4"),
    ]
    causes = boxes.reconcile().as_json()["causes"]
    assert [(one["cause"], one["cells"]) for one in causes] == [("disk-full", ["ab-lr2", "ab-lr3"]), (None, ["ab-lr4"])]


@pytest.mark.campaign
def test_a_box_that_is_cut_off_goes_on_and_nothing_is_concluded(field: Make) -> None:
    boxes = field("a b")
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.lines["b"].is_cut = True
    boxes.open()
    away = [cell for cell, site in boxes.sites().items() if site == "b"]
    boxes.until(lambda states: all(states[c] == "succeeded" for c in states if c not in away))
    seen = boxes.reconcile(repair=True)
    assert sorted(seen.of("unknown")) == sorted(away) and not seen.relaunched
    boxes.lines["b"].is_cut = False
    assert set(boxes.over().values()) == {"succeeded"}
    assert sorted(boxes.begun()) == [f"ab-lr{n}" for n in (1, 2, 3, 4)]


@pytest.mark.campaign
def test_a_box_that_is_gone_for_good_is_given_up_by_name_and_its_cells_run_elsewhere(field: Make) -> None:
    boxes = field("a b")
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.until(lambda states: list(states.values()).count("running") == 2)
    lost = [cell for cell, site in boxes.sites().items() if site == "b"]
    boxes.wipe("b")
    with pytest.raises(StillThere):
        boxes.reconcile(repair=True, abandon=["a"])
    boxes.ctx = boxes.client()
    seen = boxes.reconcile(repair=True, abandon=["b"])
    assert sorted(seen.relaunched) == sorted(lost)
    assert not boxes.reconcile(repair=True).relaunched
    boxes.open()
    boxes.over()
    all_home(boxes)
    assert set(boxes.sites().values()) == {"a"}
    counts = {cell: boxes.begun().count(cell) for cell in boxes.sites()}
    assert all(count == 1 for cell, count in counts.items() if cell not in lost)


@pytest.mark.campaign
def test_what_two_boxes_began_is_told_and_a_box_that_comes_back_begins_no_more(field: Make) -> None:
    boxes = field("a b")
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.until(lambda states: list(states.values()).count("running") == 2)
    ours = [cell for cell, site in boxes.sites().items() if site == "b"]
    boxes.lines["b"].is_cut = True
    boxes.reconcile(repair=True, abandon=["b"])
    boxes.lines["b"].is_cut = False  # it only seemed to be gone
    boxes.reconcile(repair=True)
    boxes.open()
    boxes.over()
    seen = boxes.reconcile()
    assert [(one["run"], one["sites"]) for one in seen.duplicates] == [(ours[0], ["a", "b"])]
    assert seen.exit_status == 1 and boxes.begun().count(ours[1]) == 1


@pytest.mark.campaign
def test_a_root_that_its_box_has_lost_is_missing_and_is_made_anew(field: Make) -> None:
    boxes = field("a")
    boxes.open()
    boxes.sweep({"lr": [1, 2]})
    boxes.over()
    shutil.rmtree(boxes.bases["a"] / "runs" / "ab-lr1")
    assert boxes.reconcile().of("missing") == ["ab-lr1"]
    assert boxes.reconcile(repair=True).relaunched == ("ab-lr1",)
    assert set(boxes.over().values()) == {"succeeded"}


def test_a_queue_whose_keeper_died_goes_on_when_somebody_looks(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    root = boxes.bases["a"] / "queues" / "ab"
    first = json.loads((root / "keeper.json").read_text())["pid"]
    os.kill(first, signal.SIGKILL)
    boxes.open()
    assert set(boxes.over().values()) == {"succeeded"}
    assert boxes.begun() == ["ab-lr1", "ab-lr2"]


@pytest.mark.campaign
def test_a_cell_whose_keeper_died_before_it_began_anything_waits_in_its_queue_again(field: Make) -> None:
    boxes = field("a")
    boxes.sweep({"lr": [1, 2]})
    boxes.until(lambda states: "running" in states.values())
    signed = json.loads((boxes.bases["a"] / "queues" / "ab" / "keeper.json").read_text())
    os.kill(signed["pid"], signal.SIGKILL)
    boxes.open()
    index = boxes.ctx.store.index
    while not index.run("ab-lr1").heard.is_sealed:
        refresh(boxes.ctx, index.cells("ab"), mend=False)
    # The queue's keeper had begun the second, whose own keeper signed; then both were killed.
    (boxes.bases["a"] / "runs" / "ab-lr2" / "keeper.json").write_text(json.dumps(signed))
    assert boxes.states() == {"ab-lr1": "succeeded", "ab-lr2": "queued"}
    assert set(boxes.over().values()) == {"succeeded"}
    assert boxes.begun() == ["ab-lr1", "ab-lr2"]


def test_a_sweep_is_named_by_a_beginning_that_only_it_and_its_cells_have(field: Make) -> None:
    boxes = field("a")
    boxes.open()
    boxes.sweep({"lr": [1, 2]})
    index = boxes.ctx.store.index
    assert (index.sweep("a"), index.sweep("ab"), index.sweep("ab-lr1"), index.sweep("zz")) == ("ab", "ab", "", "")
    assert [record.id for record in index.named("ab-lr1")] == ["ab-lr1"]
    boxes.over()


@pytest.mark.campaign
def test_balance_moves_what_waits_on_a_slow_box_and_nothing_runs_twice(field: Make) -> None:
    boxes = field("a b")
    boxes.sweep({"lr": [1, 2, 3, 4]})
    boxes.until(lambda states: list(states.values()).count("running") == 2)
    quick = [cell for cell, site in boxes.sites().items() if site == "b"]
    for cell in quick:
        boxes.open(cell)
    boxes.until(lambda states: all(states[cell] == "succeeded" for cell in quick))
    said = boxes.sweep({"lr": [1, 2, 3, 4]}, balance=True)
    assert len(said.new) == 1 and boxes.sites()[said.new[0]] == "b"
    boxes.open()
    boxes.over()
    assert sorted(boxes.begun()) == sorted(boxes.sites())
