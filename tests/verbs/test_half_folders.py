"""A checkpoint's folder that was cut short is told as a folder, with the one before it to resume from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sojourn.cli.show.verify import lines
from sojourn.verbs.retrieve.folders import half_written
from sojourn.verbs.retrieve.verify import verify


def checkpoint(at: Path, step: int, best: str = "") -> Path:
    folder = at / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    np.savez(folder / "model.npz", w=np.arange(9.0))
    np.savez(folder / "optimizer.npz", m=np.arange(900.0))
    state = {"best_model_checkpoint": best or None, "global_step": step}
    (folder / "trainer_state.json").write_text(json.dumps(state, indent=2))
    return folder


def test_the_folder_that_was_cut_short_is_named_and_the_one_before(tmp_path: Path, private_home: Path) -> None:
    checkpoint(tmp_path / "run", 400)
    cut = checkpoint(tmp_path / "run", 500)
    (cut / "trainer_state.json").unlink()
    whole = (cut / "optimizer.npz").read_bytes()
    (cut / "optimizer.npz").write_bytes(whole[: len(whole) // 2])
    answer = verify([str(tmp_path)])
    (said,) = half_written(answer.artifacts)
    assert said.startswith("run/checkpoint-500 is no checkpoint to resume from: optimizer.npz is truncated;")
    assert (
        "trainer_state.json missing, which run/checkpoint-400 has. Resume from run/checkpoint-400, by its name" in said
    )
    assert answer.as_json()["folders"] == [said] and answer.exit_status == 1
    assert any(line.startswith("folder") for line in lines(answer, 200))


def test_whole_folders_and_a_single_one_are_not(tmp_path: Path, private_home: Path) -> None:
    for step in (400, 500):
        checkpoint(tmp_path / "run", step)
    (checkpoint(tmp_path / "other", 7) / "trainer_state.json").unlink()
    assert half_written(verify([str(tmp_path)]).artifacts) == []


def test_a_best_checkpoint_of_another_machine_is_a_remark(tmp_path: Path, private_home: Path) -> None:
    checkpoint(tmp_path / "run", 400, best="/old/pod/run/checkpoint-300")
    checkpoint(tmp_path / "run", 500, best="/old/pod/run/checkpoint-400")  # it is beside it
    told = {one.path: one.remarks for one in verify([str(tmp_path)]).artifacts if one.path.endswith(".json")}
    assert told == {
        "run/checkpoint-400/trainer_state.json": (
            "best_model_checkpoint names /old/pod/run/checkpoint-300, which is not here: correct or clear it before a "
            "resume",
        ),
        "run/checkpoint-500/trainer_state.json": (),
    }
