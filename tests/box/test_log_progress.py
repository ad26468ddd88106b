"""Steps and metrics out of the lines that trainings print by default. Each line is as the tool prints it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.log_progress import LogProgress
from sojourn.box.run.progress import Progress
from sojourn.box.trackers import numbers
from tests.box.rig import Rig, found, until

SAID: dict[str, tuple[str, dict[str, Any]]] = {
    "nanogpt": (
        "step 0: train loss 4.2, val loss 4.3\niter 120: loss 1.2176, time 52.1ms, mfu 3.2%\n",
        {"step": 120, "metrics": {"train_loss": 4.2, "val_loss": 4.3, "loss": 1.2176}},
    ),
    "hf": (
        "  8%|8         | 10/120 [00:01<00:11,  9.6it/s]\n"
        "{'loss': '3.894', 'grad_norm': '1.554', 'learning_rate': '3e-05', 'epoch': '0.07812'}\n",
        {
            "step": 10,
            "total": 120,
            "epoch": 0,
            "metrics": {"loss": 3.894, "grad_norm": 1.554, "learning_rate": 3e-05, "epoch": 0.07812},
        },
    ),
    "hf that evaluates": (
        " 50%|##### | 60/120 [00:01<00:11,  9.6it/s]\n{'loss': 2.0, 'epoch': 1.0}\n"
        " 10%|# | 1/13 [00:00<00:01, 9it/s]\n{'eval_loss': 1.8, 'eval_accuracy': 0.4, 'epoch': 1.0}\n",
        {
            "step": 60,
            "total": 120,
            "epoch": 1,
            "metrics": {"loss": 2.0, "epoch": 1.0, "eval_loss": 1.8, "eval_accuracy": 0.4},
        },
    ),
    "keras 2": (
        "Epoch 3/10\n\r  1/469 [....] - ETA: 1:00 - loss: 2.3\r"
        "120/469 [======>.......................] - ETA: 3s - loss: 0.3012 - accuracy: 0.9101",
        {"step": 1058, "total": 4690, "epoch": 3, "metrics": {"loss": 0.3012, "accuracy": 0.9101}},
    ),
    "keras 3": (
        "Epoch 2/5\n\r\x1b[1m120/469\x1b[0m \x1b[32m━━━━━\x1b[0m\x1b[37m━━━\x1b[0m \x1b[1m1s\x1b[0m 3ms/step - "
        "accuracy: 0.8012 - loss: 0.6512",
        {"step": 589, "total": 2345, "epoch": 2, "metrics": {"accuracy": 0.8012, "loss": 0.6512}},
    ),
    "lightning": (
        "Epoch 0:   2%|▏         | 20/1000 [00:01<01:20, 12.1it/s, v_num=0, train_loss=0.513]",
        {"step": 20, "epoch": 0, "metrics": {"train_loss": 0.513}},
    ),
    "lightning, resumed": (
        "Training: |          | 101/? [00:00<00:00, 868.80it/s, train_loss=1e-5]",
        {"step": 101, "metrics": {"train_loss": 1e-05}},
    ),
    "epochs and steps": (
        "Epoch [3/10], Step [100/600], Loss: 0.1234\n",
        {"step": 1300, "total": 6000, "epoch": 3, "metrics": {"loss": 0.1234}},
    ),
    "epochs alone": (
        "Epoch 3/10 - train loss 0.52 - val acc 81.2\n",
        {"step": 3, "total": 10, "unit": "epoch", "epoch": 3, "metrics": {"train_loss": 0.52, "val_acc": 81.2}},
    ),
    "step of total": (
        "step 100/1000 | loss 2.31 | lr 3e-4\n",
        {"step": 100, "total": 1000, "metrics": {"loss": 2.31, "lr": 0.0003}},
    ),
    "torchvision": (
        "Epoch: [3][100/600]\tTime  0.5 ( 0.6)\tLoss 6.9e+00 (7.0e+00)\tAcc@1 1.0 (1.0)\n",
        {"step": 1900, "epoch": 3, "metrics": {"loss": 6.9}},
    ),
    "timm": (
        "Train: 0 [ 100/1251 (  8%)]  Loss: 6.93 (6.94)  Time: 0.5s\n",
        {"step": 100, "epoch": 0, "metrics": {"loss": 6.93}},
    ),
    "mmengine": (
        "2026/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [3][100/600]  lr: 1.0e-02  eta: 0:12:01  loss: 0.5123\n",
        {"step": 1300, "epoch": 3, "metrics": {"lr": 0.01, "loss": 0.5123}},
    ),
    "mmengine by iterations": (
        "2026/01/01 10:00:00 - mmengine - INFO - Iter(train) [  100/80000]  lr: 1e-2  eta: 3:00:00  loss: 0.5\n",
        {"step": 100, "total": 80000, "metrics": {"lr": 0.01, "loss": 0.5}},
    ),
    "ultralytics": (
        "      3/100      2.51G      1.234      3.456         16        640:  50%|█████     | 4/8 [00:02<00:02]",
        {"step": 3, "total": 100, "unit": "epoch", "epoch": 3},
    ),
    "megatron": (
        " iteration      100/  500000 | consumed samples:  25600 | learning rate: 1.500E-05 | lm loss: 6.912E+00 |\n",
        {"step": 100, "total": 500000, "metrics": {"learning_rate": 1.5e-05, "lm_loss": 6.912}},
    ),
    "deepspeed": (
        "steps: 100 loss: 2.1034 iter time (s): 0.5 samples/sec: 64.1\n",
        {"step": 100, "metrics": {"loss": 2.1034, "samples/sec": 64.1}},
    ),
    "torchtune": (
        "1|100|Loss: 1.2345:  10%|█         | 100/1000 [01:00<09:00,  1.6it/s]",
        {"step": 100, "epoch": 1, "metrics": {"loss": 1.2345}},
    ),
    "detectron2": (
        "[01/01 10:00:00 d2.utils.events]:  eta: 0:10:00  iter: 19  total_loss: 1.234  loss_cls: 0.5  lr: 0.0005\n",
        {"step": 19, "metrics": {"total_loss": 1.234, "loss_cls": 0.5, "lr": 0.0005}},
    ),
}


def told(path: Path, text: str | bytes, pattern: str = "") -> dict[str, Any] | None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    progress = LogProgress(str(path), pattern)
    progress.look()
    if progress.value is None:
        return None
    assert progress.value["source"] == "log" and progress.value["at"]
    return {name: value for name, value in progress.value.items() if name not in ("at", "source") and value != {}}


@pytest.mark.parametrize("name", SAID)
def test_the_usual_lines_tell_their_progress(tmp_path: Path, name: str) -> None:
    text, expected = SAID[name]
    assert told(tmp_path / "1.log", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Downloading data:  45%|████      | 45/100 [00:02<00:03, 20MB/s]\n",
        "Loading checkpoint shards:  50%|## | 1/2 [00:00<00:01, 1.0it/s]\n",
        "Map (num_proc=4): 10%|# | 100/1000 [00:00<00:01, 1it/s]\n",
        "Validation DataLoader 0:  10%|# | 1/10 [00:00<00:01, 1it/s]\n",
        "Using device cuda:0\nhttp://localhost:6006 step up\nTotal params: 66\nversion 1.2/3.4\nloaded 3/4 files\n",
        b"\xff\xfe\x00garbage\r\r\n\n" * 100,
        "",
    ],
)
def test_what_is_no_progress_tells_none(tmp_path: Path, text: str | bytes) -> None:
    assert told(tmp_path / "1.log", text) is None


def test_a_line_of_an_epoch_alone_does_not_turn_steps_back(tmp_path: Path) -> None:
    text = "Epoch 1/5\n 469/469 [===>] - loss: 0.5\nEpoch 2/5\n"
    expected = {"step": 469, "total": 2345, "epoch": 2, "metrics": {"loss": 0.5}}
    assert told(tmp_path / "1.log", text) == expected


def test_only_what_is_new_is_read_and_a_rotated_log_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    path.write_text("step 1/9 | loss 3\n")
    progress = LogProgress(str(path))
    assert progress.look() and not progress.look()
    with path.open("a") as f:
        f.write("step 2/9 | lo")
    assert progress.look() and progress.value and progress.value["step"] == 2
    with path.open("a") as f:
        f.write("ss 2.5\n")
    assert progress.look() and progress.value["metrics"] == {"loss": 2.5}
    path.write_text("step 3/9\n")
    assert progress.look() and progress.value["step"] == 3


def test_of_a_flood_the_end_counts(tmp_path: Path) -> None:
    flood = b"x" * 3_000_000 + b"\n" + b"step 7/9\n"
    assert told(tmp_path / "1.log", flood) == {"step": 7, "total": 9}


def test_the_jobs_own_pattern_is_all_that_counts(tmp_path: Path) -> None:
    pattern = r"it=(?P<step>\d+) of (?P<total>\d+): (?P<loss>[\d.naif]+)"
    said = told(tmp_path / "1.log", "step 5/6 loss 1\nit=1,000 of 9: 1\nit=30 of 90: 0.25\nit=31 of 90: nan\n", pattern)
    assert said == {"step": 31, "total": 90, "metrics": {"loss": 0.25}}


@pytest.mark.campaign
def test_a_pattern_that_runs_for_ever_is_given_up(tmp_path: Path) -> None:
    assert told(tmp_path / "1.log", "a" * 60 + "!\n", r"(?P<step>(a+)+)$") is None


def test_a_file_of_the_training_itself_wins(tmp_path: Path) -> None:
    (tmp_path / "1.log").write_text("step 5/6\n")
    progress = Progress(str(tmp_path / "1.json"), LogProgress(str(tmp_path / "1.log")))
    assert progress.look() and progress.step == 5
    (tmp_path / "1.json").write_text(json.dumps({"step": 50, "total": 60}))
    assert progress.look() and progress.step == 50
    (tmp_path / "1.log").write_text("step 6/6\n")
    assert not progress.look() and progress.step == 50


def test_a_script_that_only_prints_has_progress_in_its_beats(rig: Rig) -> None:
    script = 'for n in 1 2 3; do echo "iter $n: loss 0.$n"; sleep 0.3; done; until [ -e ../../go ]; do sleep 0.05; done'
    root = rig.place(script + "; echo iter 4: loss 0.4")
    rig.supervise(root)
    assert until(lambda: [beat for beat in found(root, "beat") if (beat.get("progress") or {}).get("step") == 3])
    Path(root.path, "go").touch()
    assert until(lambda: found(root, "sealed"))
    last = [beat["progress"] for beat in found(root, "beat") if beat.get("progress")][-1]
    assert (last["step"], last["metrics"]) == (4, {"loss": 0.4}), "the last lines count too"


def test_a_real_bar_of_tqdm_is_read(tmp_path: Path) -> None:
    pytest.importorskip("tqdm")
    import subprocess

    code = "import tqdm\nfor i in tqdm.tqdm(range(40), postfix={'loss': 0.5}): pass\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env={**os.environ, "COLUMNS": "100"})
    assert told(tmp_path / "1.log", done.stderr) == {"step": 40, "total": 40, "metrics": {"loss": 0.5}}


# ---- An attempt that begins anew


def killed_and_again(rig: Rig, first: str, later: str) -> Any:
    """Two attempts of a script that prints `first`, saves and dies, and then prints `later`; the root."""
    root = rig.place(
        "if [ $SOJOURN_ATTEMPT = 1 ]; then %s; cp ../../m.npy out-model.npy; kill -9 $$; fi; %s; sleep 600"
        % (first, later)
    )
    Path(root.path, "m.npy").write_bytes(b"\x80 as good as whole")
    rig.finish(root)
    assert rig.call("want", run="r", attempt=2, by="resume")["ok"]
    rig.supervise(root)
    assert until(lambda: [beat for beat in found(root, "beat") if beat["attempt"] == 2 and beat.get("progress")])
    return root


LOOP = "for n in %s; do echo iter $n: loss 1; done"


def test_a_second_attempt_that_begins_at_the_first_step_is_told(rig: Rig) -> None:
    root = killed_and_again(rig, LOOP % "0 1 2 3 4 5", LOOP % "0 1")
    assert until(lambda: found(root, "restarted"))
    assert found(root, "restarted")[0]["step"] == 0
    assert found(root, "restarted")[0]["resumes"] == "attempts/2/out-model.npy"


@pytest.mark.campaign
@pytest.mark.parametrize("later", [LOOP % "4 5 6", 'printf "0/90 [00:00<?, 1it/s]\\r41/90 [00:01<00:02, 1it/s]\\r"'])
def test_one_that_resumes_is_not(rig: Rig, later: str) -> None:
    root = killed_and_again(rig, LOOP % "0 1 2 3 4 5", later)
    seen = len(found(root, "beat"))
    assert until(lambda: len(found(root, "beat")) > seen + 3)
    assert found(root, "restarted") == []


def test_a_rate_is_no_part_of_the_name_behind_it() -> None:
    line = "Epoch 24/24 ━━━━━━ 100/100 0:00:00 • 0:00:00 124.64it/s loss: 0.005"
    assert numbers.metrics(line, False) == {"loss": 0.005}
