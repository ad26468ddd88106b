"""A job that was mended: under the same name where the run left nothing, from its checkpoint where it left work."""

import json
import shutil
from pathlib import Path

import pytest

from sojourn.backends.provider import unmetered
from sojourn.core.values import State
from sojourn.verbs.launch import revise
from sojourn.verbs.launch.plan import plan
from sojourn.verbs.launch.recode import OtherJob
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import NotResumable, resume
from sojourn.verbs.launch.run import NameTaken, run
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.takeover.recover import recover
from tests.verbs.conftest import World

TYPO = "echo oops; exit 3"
WORK = "mkdir -p checkpoints; echo 1 > out.json; exit 3"
GOOD = "echo 2 > out.json"
OWED = ["out.json"]


def over(world: World, run: str = "digits") -> None:
    while not world.record(run).is_settled:
        status(world.ctx)


def test_a_run_that_left_nothing_is_replaced_and_its_evidence_stays(world: World) -> None:
    world.ended(TYPO, outputs=OWED)
    assert plan(world.ctx, RunRequest(world.job(GOOD, outputs=OWED))).decision["do"] == "replace"
    said = world.ended(GOOD, outputs=OWED)
    assert (said.attempt, said.did) == (2, "launched") and "kept as digits@1" in " ".join(said.remarks)
    old = world.record("digits@1")
    assert (old.status.state, old.heard.attempt, old.run.root) == (State.FAILED, 1, f"{world.root()}@1")
    assert "oops" in (Path(old.run.root) / "logs/1.log").read_text()
    assert [row.id for row in status(world.ctx).rows] == ["digits"]
    assert [row.id for row in status(world.ctx, ["digits@1"]).rows] == ["digits@1"]
    assert status(world.ctx, ["dig"]).rows[0].id == "digits"
    assert [one.run for one in pull(world.ctx, [])] == ["digits"]
    assert down(world.ctx, DownRequest("digits"), confirm=lambda ask: ask.name).runs == ("digits@1", "digits")


def test_a_run_that_was_cut_off_while_it_replaced_another_goes_on_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ended(TYPO, outputs=OWED)
    for kind in ("revised", "planned", "launching"):
        real = world.ctx.store.append

        def cut(what: str, kind: str = kind, real: object = real, **fields: object) -> None:
            if what == kind:
                raise KeyboardInterrupt
            real(what, **fields)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(world.ctx.store, "append", cut)
            with pytest.raises(KeyboardInterrupt):
                world.run(GOOD, outputs=OWED)
    assert world.ended(GOOD, outputs=OWED).attempt == 2
    assert sorted(path.name for path in world.root().parent.iterdir()) == ["digits", "digits@1"]
    assert world.record("digits@1").heard.attempt == 1


def test_where_work_is_at_stake_two_ways_are_named_and_nothing_is_changed(world: World) -> None:
    world.ended(WORK, outputs=OWED)
    with pytest.raises(NameTaken) as caught:
        world.run(GOOD, outputs=OWED)
    assert "it left attempts/1/out.json" in caught.value.message
    assert "sojourn resume digits --with-code new" in caught.value.next and "--new" in caught.value.next
    assert world.record().attempt == 1


def test_what_appears_between_the_question_and_the_move_keeps_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ended(TYPO, outputs=OWED)
    real = revise.replaced

    def late(ctx: object, record: object) -> str:
        (world.root() / "attempts/1/out.json").write_text("1")
        return real(ctx, record)  # type: ignore[arg-type]

    monkeypatch.setattr("sojourn.verbs.launch.run.replaced", late)
    with pytest.raises(Exception, match=r"left attempts/1/out\.json"):
        world.run(GOOD, outputs=OWED)
    assert world.root().is_dir() and world.record().id == "digits"


def test_a_run_that_succeeded_without_an_output_is_not_replaced(world: World) -> None:
    world.ended("true")
    with pytest.raises(NameTaken):
        world.run("echo other")


@pytest.mark.campaign
def test_resume_with_new_code_goes_on_from_the_checkpoint_and_is_recorded(world: World) -> None:
    (world.project / "train.py").write_text("import sys; open('out.json', 'w').write('1'); sys.exit(3)")
    made = "python3 train.py"
    world.ended(made, outputs=OWED)
    first = world.record().run
    (world.project / "train.py").write_text("open('out.json', 'w').write('22')")
    said = resume(world.ctx, "digits", new_code=True)
    over(world)
    assert said.attempt == 2 and "train.py changed" in said.why or said.state is State.SUCCEEDED
    record = world.record()
    assert record.status.state is State.SUCCEEDED and record.run.earlier == (first.spec_digest,)
    assert record.run.code_digest != first.code_digest
    assert (world.root() / "run.json").exists() and len(list((world.root() / "specs").iterdir())) == 1
    assert run(world.ctx, RunRequest(str(world.project / "sojourn.yaml"))).did == "nothing"
    (answer,) = pull(world.ctx, ["digits"])
    assert answer.ok
    (receipt,) = [one for one in world.record().receipts if one.path == "out.json"]
    assert receipt.code == record.run.code_digest


@pytest.mark.campaign
def test_a_plain_resume_after_that_runs_the_newest_code(world: World) -> None:
    world.ended(WORK, outputs=OWED)
    world.job("echo second; echo 1 > out.json; exit 4", outputs=OWED)
    resume(world.ctx, "digits", new_code=True)
    over(world)
    resume(world.ctx, "digits")
    over(world)
    assert (world.root() / "logs/3.log").read_text().strip() == "second"


def test_an_intent_to_resume_with_new_code_that_was_cut_off_is_made_good_by_a_plain_resume(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ended(WORK, outputs=OWED)
    world.job("echo second; exit 4", outputs=OWED)
    real = world.ctx.store.append

    def cut(what: str, **fields: object) -> None:
        if what == "launching":
            raise KeyboardInterrupt
        real(what, **fields)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(world.ctx.store, "append", cut)
        with pytest.raises(KeyboardInterrupt):
            resume(world.ctx, "digits", new_code=True)
    assert not status(world.ctx).rows[0].reason.startswith("the box has a run of this name")
    resume(world.ctx, "digits")
    over(world)
    assert (world.root() / "logs/2.log").read_text().strip() == "second"


@pytest.mark.campaign
def test_new_code_may_owe_more_and_nothing_else_may_change(world: World) -> None:
    world.ended(WORK, outputs=OWED)
    world.job(GOOD, outputs=[], envs={"A": "1"})
    with pytest.raises(OtherJob) as caught:
        resume(world.ctx, "digits", new_code=True)
    assert "envs, outputs" in caught.value.message and world.record().attempt == 1
    world.job(GOOD + "; echo 3 > more.json", outputs=[*OWED, "more.json"])
    resume(world.ctx, "digits", new_code=True)
    over(world)
    assert world.record().status.state is State.SUCCEEDED
    assert {row["path"] for row in json.loads((world.root() / "manifest.json").read_text())["files"]} >= {"more.json"}


def test_a_run_that_lives_gets_no_new_code(world: World) -> None:
    world.run("sleep 60")
    world.job("sleep 61")
    with pytest.raises(NotResumable, match="running"):
        resume(world.ctx, "digits", new_code=True)


@pytest.mark.campaign
def test_a_client_that_lost_its_records_recovers_the_newest_code_and_the_revisions(world: World) -> None:
    world.ended(TYPO, outputs=OWED)
    world.ended(WORK, outputs=OWED)
    world.job("echo second; exit 4", outputs=OWED)
    resume(world.ctx, "digits", new_code=True)
    over(world)
    digest = world.record().run.spec_digest
    world.ctx.store.close()
    shutil.rmtree(world.ctx.store.state_dir)
    world.ctx = world.client(unmetered.Backend(world.site))
    found = {one.id: one.did for one in recover(world.ctx, "local").runs}
    assert found == {"digits": "recovered", "digits@1": "recovered"}
    assert world.record().run.spec_digest == digest
    assert world.record("digits@1").attempt == 1
