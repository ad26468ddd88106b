"""`why RUN`: what a run's box says in one connection, and nothing concluded where it says nothing."""

import json
import os
import signal
import time
from pathlib import Path

from sojourn.cli.show import why as show
from sojourn.verbs.explain import why
from sojourn.verbs.observe.status import status
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World

LINE = "import time, itertools\nfor i in itertools.count():\n    print('step', i, flush=True); time.sleep(0.2)\n"


def said(answer: why.Why) -> str:
    return "\n".join(show.lines(answer, 100))


def test_an_ended_run_is_judged_by_its_box_in_one_connection(world: World) -> None:
    world.ended("echo step 1/10; echo 'OSError: [Errno 24] Too many open files'; exit 1")
    calls = world.transport.calls
    answer = why.of_run(world.ctx, "digits")
    assert world.transport.calls == calls + 1
    assert answer.judged.verdict is not None and answer.judged.verdict.id == "too-many-open-files"
    assert answer.exit_status == 1
    assert answer.row is not None and answer.row.state.value == "failed"
    document = answer.as_json()
    assert document["verdict"]["status"] == "confirmed" and document["run"]["id"] == "digits"


def test_a_run_killed_by_hand_is_not_called_out_of_memory(world: World, tmp_path: Path) -> None:
    (world.project / "go.py").write_text(LINE)
    world.run("exec python3 go.py")
    begun = Path(world.site.base) / "runs/digits/exits/1.begun.json"
    os.kill(json.loads(begun.read_text())["pid"], signal.SIGKILL)
    while not world.record().is_settled:
        status(world.ctx)
        time.sleep(0.05)
    kept = tmp_path / "kept.json"
    answer = why.of_run(world.ctx, "digits", save=str(kept))
    assert answer.judged.verdict is not None and answer.judged.verdict.id == "killed-unknown"
    again = why.of_evidence(str(kept))
    assert again.judged.verdict is not None and again.judged.verdict.id == "killed-unknown"
    assert "memory" in said(answer)  # what was ruled out, and by what


def test_a_run_that_finished_is_healthy(world: World) -> None:
    world.ended("echo step 10/10 loss 0.1; echo training complete")
    answer = why.of_run(world.ctx, "digits")
    assert (answer.judged.is_healthy, answer.exit_status) == (True, 0)


def test_a_box_that_does_not_answer_is_blind_and_nothing_is_dead(world: World) -> None:
    (world.project / "go.py").write_text(LINE)
    world.run("python3 go.py")
    world.transport.is_cut = True
    answer = why.of_run(world.ctx, "digits")
    assert (answer.judged.verdict, answer.judged.is_healthy, answer.exit_status) == (None, False, 10)
    assert answer.row is not None and answer.row.state.value == "running" and answer.row.reach.ok is False
    assert "verdict  blind" in said(answer)


def test_a_run_whose_root_is_gone_is_undetermined(world: World) -> None:
    world.ended("true")
    root = Path(world.site.base) / "runs/digits"
    root.rename(root.with_name("moved"))
    answer = why.of_run(world.ctx, "digits")
    assert answer.exit_status == 10 and "no such run" in said(answer)


def test_what_the_keeper_saw_at_a_bad_end_comes_home_and_speaks_when_the_box_is_gone(world: World) -> None:
    world.ended("echo step 1/10; echo 'OSError: [Errno 24] Too many open files'; exit 1", outputs=[])
    list(pull(world.ctx, ["digits"], to=str(world.project / "home")))
    assert (world.project / "home/evidence/1.json").is_file()
    world.transport.is_cut = True
    answer = why.of_run(world.ctx, "digits")
    assert answer.judged.verdict is not None and answer.judged.verdict.id == "too-many-open-files"
    assert (
        answer.row is not None and not answer.row.reach.ok and "its keeper recorded" in " ".join(said(answer).split())
    )
    assert why.of_run(world.ctx, "digits", attempt=2).judged.verdict is None
