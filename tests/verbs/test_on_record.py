"""What `why` knows from the client's own records: platform, lease, pull and sweep, each from what really happened."""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.provider import unmetered
from sojourn.core.values import Pulse
from sojourn.diagnose import evidence
from sojourn.diagnose.reason import reason
from sojourn.store import platforms
from sojourn.store.gotchas import gotchas
from sojourn.verbs.explain import why
from sojourn.verbs.explain.on_record import on_record
from sojourn.verbs.observe.reasons import scope_of
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World
from tests.verbs.faulty import Provider
from tests.verbs.field import Field

KEPT = "echo '{\"acc\": 0.5}' > out.json; echo step 10/10 loss 0.1; echo training complete"


def judged(ctx: Any, tmp_path: Path, run: str = "digits") -> tuple[why.Why, dict[str, Any]]:
    """The answer of `why`, and every observation behind it."""
    path = tmp_path / "evidence.json"
    answer = why.of_run(ctx, run, save=str(path))
    case = evidence.from_document(json.loads(path.read_text()), gotchas())
    return answer, {name: known.value for name, known in case.facts.known.items()}


def on_platform(world: World, name: str) -> None:
    world.site = replace(world.site, platform=name)
    world.ctx.store.close()
    world.ctx = world.client(unmetered.Backend(world.site))


def mount_point(path: Path) -> str:
    while not os.path.ismount(path):
        path = path.parent
    return str(path)


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("name", ["runpod", "gpushare", "lambda", "local"])
def test_the_disk_of_a_real_run_is_judged_by_its_real_mount_and_the_run_stays_healthy(
    world: World, tmp_path: Path, name: str
) -> None:
    on_platform(world, name)
    world.ended(KEPT, outputs=["out.json"])
    answer, known = judged(world.ctx, tmp_path)
    assert known["prov.kind"] == name
    is_root = mount_point(Path(world.site.base)) == "/"
    survives = {"runpod": "no", "gpushare": "no"}  # what the platform files say of "/" under their stop verb
    assert known["disk.survives"] == (survives.get(name, "unknown") if is_root else "unknown")
    if is_root and known["disk.fstype"] == "overlay":
        assert known["disk.mount_kind"] == "container"
    assert answer.judged.is_healthy and answer.exit_status == 0


def test_no_platform_makes_a_cause_of_a_run_that_ended_well(world: World, tmp_path: Path) -> None:
    world.ended(KEPT, outputs=["out.json"])
    judged(world.ctx, tmp_path)
    document = json.loads((tmp_path / "evidence.json").read_text())
    wrong = []
    for name in platforms.platforms():
        site = replace(world.site, platform=name)
        record = replace(world.record(), site_text=json.dumps(asdict(site)))
        document["scope"] = scope_of(site)
        document["probes"].update(on_record(world.ctx, record))
        case = evidence.from_document(document, gotchas())
        assert case.facts.known["prov.kind"].value == name
        answer = reason(gotchas(), case)
        wrong += [] if answer.is_healthy else [(name, answer.verdict and answer.verdict.id)]
    assert wrong == []


def test_a_copy_that_is_home_and_loads_is_known_as_such_and_before_the_pull_nothing_is(
    world: World, tmp_path: Path
) -> None:
    world.ended(KEPT, outputs=["out.json"])
    _, before = judged(world.ctx, tmp_path)
    assert not [name for name in before if name.startswith(("xfer.", "art.roster", "art.files"))]
    list(pull(world.ctx, ["digits"]))
    answer, known = judged(world.ctx, tmp_path)
    assert (known["xfer.verify"], known["xfer.load"]) == ("sha256_ok", "ok")
    assert "art.roster_missing" in known and known["art.roster_missing"] is None
    assert known["art.files"] >= 1
    assert answer.judged.is_healthy


def test_a_file_that_came_whole_and_does_not_load_is_known(world: World, tmp_path: Path) -> None:
    world.ended("echo '{\"acc\": ' > out.json", outputs=["out.json"])
    list(pull(world.ctx, ["digits"]))
    _, known = judged(world.ctx, tmp_path)
    assert known["xfer.load"] == "error"
    assert "xfer.verify" not in known and "art.roster_missing" not in known


@pytest.mark.campaign
def test_a_declared_output_that_was_never_made_says_nothing_of_the_copy(world: World, tmp_path: Path) -> None:
    world.ended("echo '{}' > out.json; exit 3", outputs=["out.json", "other.json"])
    list(pull(world.ctx, ["digits"]))
    _, known = judged(world.ctx, tmp_path)
    assert not [name for name in known if name.startswith(("xfer.", "art.roster"))]


@pytest.fixture
def rented(world: World) -> Provider:
    """The world's box on a meter, with a run that has succeeded."""
    provider = Provider(world.site)
    world.ctx.store.close()
    world.ctx = world.client(provider)
    world.ctx.sleep = lambda seconds: setattr(world, "later_s", world.later_s + seconds)
    world.run("echo '{}' > out.json", outputs=["out.json"])
    while not status(world.ctx).rows[0].owed or not world.record().is_settled:
        world.later_s += 0.1
    return provider


@pytest.mark.campaign
def test_a_lease_is_meant_to_run_until_it_is_seen_to_be_gone(world: World, rented: Provider, tmp_path: Path) -> None:
    answer, known = judged(world.ctx, tmp_path)
    assert (known["prov.intended"], known["prov.stop_only"]) == ("running", False)
    assert "prov.exists" not in known and answer.judged.is_healthy
    list(pull(world.ctx))
    down(world.ctx, DownRequest("local"), confirm=lambda ask: ask.name)
    answer, known = judged(world.ctx, tmp_path)
    assert (known["prov.exists"], known["prov.delete_acked"], known["prov.intended"]) == ("no", True, "gone")
    assert answer.judged.is_healthy


def test_a_lease_that_its_provider_lost_is_gone_and_nobody_asked_for_it(
    world: World, rented: Provider, tmp_path: Path
) -> None:
    rented.pulses = [Pulse.GONE]
    down(world.ctx, DownRequest("local"), confirm=lambda ask: ask.name)
    _, known = judged(world.ctx, tmp_path)
    assert known["prov.exists"] == "no" and "prov.delete_acked" not in known


@pytest.fixture
def box(world: World, tmp_path: Path) -> Iterator[Field]:
    made = Field(world, tmp_path, "a")
    yield made
    made.open()
    made.ctx.store.close()


@pytest.mark.campaign
def test_the_cells_of_a_sweep_are_counted_with_those_that_began(box: Field, tmp_path: Path) -> None:
    box.sweep({"lr": [1, 2]})
    box.until(lambda states: "running" in states.values())
    run = next(cell for cell, state in box.states().items() if state == "running")
    answer, known = judged(box.ctx, tmp_path, run)
    started = sum(state == "running" for state in box.states().values())
    assert (known["q.cells_total"], known["q.cells_started"]) == (2, started)
    assert answer.judged.verdict is None
    box.open()
    box.until(lambda states: set(states.values()) == {"succeeded"})
    _, known = judged(box.ctx, tmp_path, run)
    assert (known["q.cells_total"], known["q.cells_started"]) == (2, 2)
    assert "q.owner_conflict" not in known  # it was never placed elsewhere


@pytest.mark.campaign
def test_a_moved_cell_that_its_first_box_began_too_is_known_and_told(world: World, tmp_path: Path) -> None:
    boxes = Field(world, tmp_path, "a b")
    try:
        boxes.sweep({"lr": [1, 2, 3, 4]})
        boxes.until(lambda states: list(states.values()).count("running") == 2)
        moved = [record.id for record in boxes.ctx.store.index.cells("ab") if record.site_name == "b"]
        boxes.lines["b"].is_cut = True
        boxes.reconcile(repair=True, abandon=["b"])
        boxes.lines["b"].is_cut = False  # it only seemed to be gone
        boxes.reconcile(repair=True)  # which withdraws what it has not begun
        boxes.open()
        boxes.over()
        boxes.lines["b"].is_cut = True
        _, known = judged(boxes.ctx, tmp_path, moved[0])
        assert "q.owner_conflict" not in known  # the first box does not answer
        boxes.lines["b"].is_cut = False
        twice = {run: judged(boxes.ctx, tmp_path, run) for run in moved}
        assert [known["q.owner_conflict"] for _, known in twice.values()] == [True, False]
        assert twice[moved[0]][0].judged.verdict.id == "cell-on-two-boxes"  # type: ignore[union-attr]
        assert twice[moved[1]][0].judged.is_healthy
    finally:
        boxes.open()
        boxes.ctx.store.close()
