"""Orders of steps, drawn by seed, against the law; and that the judge and the steps are what they claim to be."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.law import steps
from tests.law.campaign import campaign
from tests.law.conftest import Scene
from tests.law.oracle import Named
from tests.law.order import How, Verdict
from tests.violation import held

SOME = 200  # seeds that together hold every kind of step


def verdict_of(verdicts: list[Verdict]) -> None:
    """Fail with the stories of what broke. What was played is printed (`pytest -s`)."""
    done: Counter[str] = sum((one.steps for one in verdicts), Counter())
    judged, early = sum(one.judged for one in verdicts), sum(one.early for one in verdicts)
    said = f"{judged} releases and removals judged, {early} before the honest end"
    print(f"{len(verdicts)} orders, {said}, steps: {dict(done)}")  # noqa: T201
    broken = [one for one in verdicts if one.broken]
    held(not broken, "\n\n".join("\n".join([str(one), *one.story]) for one in broken))
    late = [one for one in verdicts if one.cut]
    assert not late, "\n\n".join("\n".join([str(one), *one.story]) for one in late)


@pytest.mark.trials(test=4, campaign=400, soak=2000)
@pytest.mark.timeout(3 * 3600)
def test_nothing_that_is_owed_is_let_go_unnamed(trial_count: int, tmp_path: Path) -> None:
    verdicts = campaign(range(trial_count), tmp_path)
    verdict_of(verdicts)
    assert sum(one.judged for one in verdicts) > len(verdicts) / 2, "most orders must get as far as a release"


def test_a_seed_is_one_order_for_ever_and_all_kinds_of_steps_come() -> None:
    orders = [steps.draw(random.Random(seed)) for seed in range(SOME)]
    assert orders == [steps.draw(random.Random(seed)) for seed in range(SOME)]
    assert {step.name for order in orders for step in order} == set(steps.STEPS)


def losses(scene: Scene, named: Named | None = None) -> list[str]:
    """What the judge would say if everything were let go now."""
    found = []
    for root in scene.order.machine.roots:
        found += list(scene.order.oracle.judge(root, named or Named()))
    return [line.rpartition("/runs/")[2] for line in found]


def test_the_judge_sees_what_is_not_home_and_what_is(scene: Scene) -> None:
    placed = scene.run(scene.act("succeeds", "result.json", "out/n.txt"))
    assert len(losses(scene)) == 2
    scene.order.pull(scene.ann)
    assert losses(scene) == []
    (scene.ann.home / "r0/result.json").write_text("{}")
    assert losses(scene) == ["r0: result.json lies at attempts/1/result.json, is not home and was not named"]
    roots = {"r0": placed.root}
    assert losses(scene, Named(roots, {}, abandon=frozenset({"r0"}))) == []
    assert losses(scene, Named(roots, {}, abandon=frozenset({"r0:checkpoint"}))) != []
    assert losses(scene, Named({"r0": Path("/elsewhere")}, {}, abandon=frozenset({"r0"}))) != []
    assert losses(scene, Named(roots, {}, lines=["r0: result.json is owed but was never written"])) != []
    shutil.rmtree(placed.root / "attempts/1/out")
    shutil.rmtree(scene.ann.home)
    assert any("out/n.txt was sealed, is lost" in line for line in losses(scene))


def test_the_judge_sees_life_checkpoints_and_earlier_attempts(scene: Scene) -> None:
    placed = scene.run(scene.act("fails", "m.npy", checkpoints=(5, 9)), scene.act("hangs"))
    assert any("ckpt-t000001-s00000009.pt" in line for line in losses(scene))
    assert not any("s00000005" in line for line in losses(scene))
    scene.order.go_on(placed)
    said = losses(scene)
    assert any("lives" in line for line in said) and any("attempts/1/m.npy" in line for line in said)


def test_an_answer_with_no_law_behind_it_is_broken(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge is heard where the law is taken out: a release that asks for nothing."""
    from sojourn.core import law

    scene.run(scene.act("succeeds", "result.json"))
    real = law.judge_release
    blind: Callable[..., law.Judgement] = lambda *given, **more: law.Judgement(())  # noqa: E731
    monkeypatch.setattr(law, "judge_release", blind)
    scene.order.down(scene.ann, "paid", How())
    monkeypatch.setattr(law, "judge_release", real)
    assert len(scene.order.verdict.broken) == 1 and "result.json" in scene.order.verdict.broken[0]
