"""`init` on small projects in the public styles of trainers: what it proposes without an edit, or says to add."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shutil import copytree

import pytest

from sojourn.store.job.read import read_job
from sojourn.verbs.project.init import init

PROJECTS = Path(__file__).parents[1] / "projects"
FROM = '"$SOJOURN_RESUME_FROM"'


@dataclass(frozen=True)
class Form:
    """`says`: words of the note for a script that nothing resumes; "" where it needs no edit."""

    run: str
    persist: tuple[str, ...]
    outputs: tuple[str, ...]
    resume: str = ""
    says: str = ""


FORMS = {
    "accelerate_text": Form(
        "python3 run_no_trainer.py --output_dir out --checkpointing_steps epoch",
        ("out",),
        ("out/*", "out/epoch_*/*"),
        f" --resume_from_checkpoint {FROM}",
    ),
    "cartpole": Form("python3 train_ppo.py", ("models",), ("logs/*", "models/ppo_cartpole.zip")),
    "chargpt": Form("python3 chargpt.py", ("out",), ("out/chargpt/model.pt",)),
    "chat": Form("python3 train.py --output_dir out", ("out",), ("out/*",), f" --resume_from_checkpoint {FROM}"),
    "deepspeed_lm": Form("python3 train.py", ("experiments",), ("experiments/base/*",)),
    "hf_last": Form("python3 train.py", ("out",), ("out/*", "out/final/*")),
    "imagenet": Form(
        "python3 main.py",
        ("checkpoint.pth.tar", "model_best.pth.tar"),
        ("checkpoint.pth.tar", "model_best.pth.tar"),
        f" --resume {FROM}",
    ),
    "jax_regression": Form("python3 train.py", ("ckpt",), ("ckpt/params.pkl",)),
    "keras_digits": Form("python3 train.py", ("backup",), ("weights/best.keras", "digits.keras")),
    "lightning_last": Form("python3 train.py", ("ckpts",), ("ckpts/*", "final.ckpt")),
    "lightning_plain": Form(
        "python3 train.py",
        (),
        ("lightning_logs/version_*/checkpoints/*.ckpt",),
        says='trainer.fit(..., ckpt_path=os.environ.get("SOJOURN_RESUME_FROM")), and `persist: [lightning_logs]`',
    ),
    "made": Form(
        "python3 src/fit.py --steps 80 --save-dir runs/base", ("runs",), ("runs/base/last.npz",), f" --resume {FROM}"
    ),
    "orbax_lm": Form("python3 train.py", ("runs",), ("runs/lm/*",)),
    "timm_images": Form("python3 train.py", ("output",), ("output/train/base/*",), f" --resume {FROM}"),
    "yolo": Form(
        "python3 train.py",
        (),
        ("runs/segment/train*/weights/*.pt", "runs/segment/train*/results.csv"),
        says='model = YOLO(os.environ.get("SOJOURN_RESUME_FROM", "yolo11n.pt"))',
    ),
    "yolov5": Form(
        "python3 train.py",
        ("runs",),
        (
            "runs/train/exp*/weights/last.pt",
            "runs/train/exp*/weights/best.pt",
            "runs/train/exp*/opt.yaml",
        ),
        f" --resume {FROM}",
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_project_of_a_public_style_is_understood(name: str, tmp_path: Path) -> None:
    form, folder = FORMS[name], tmp_path / "project"
    copytree(PROJECTS / name, folder)
    draft = init(str(folder))
    job = read_job(draft.path)
    assert (job.run, job.persist, job.outputs) == (form.run, form.persist, form.outputs)
    assert (job.resume or "") == (form.run + form.resume if form.resume else "")
    if form.says:
        assert draft.notes[0].startswith("NOTHING RESUMES THIS SCRIPT") and form.says in draft.notes[0]
    else:
        assert not any("NOTHING RESUMES" in note for note in draft.notes)


def test_most_forms_need_no_edit() -> None:
    assert len(FORMS) >= 12 and sum(not form.says for form in FORMS.values()) >= len(FORMS) * 10 / 12


def test_data_beside_the_folder_is_named(tmp_path: Path) -> None:
    copytree(PROJECTS / "timm_images", tmp_path / "project")
    (tmp_path / "data/imagenette").mkdir(parents=True)
    (tmp_path / "data/imagenette/a.jpg").write_bytes(b"x" * 2048)
    notes = init(str(tmp_path / "project"), dry_run=True).notes
    assert any("train.py:24 reads ../data/imagenette (2.0 KiB), outside this folder" in note for note in notes), notes


LOOP = "for step in range(9):\n    loss.backward()\n    torch.save(state, 'model.pt')\n"


@pytest.mark.parametrize(
    ("source", "is_kept"),
    [
        ("import torch, os\nif os.path.exists('model.pt'): state = torch.load('model.pt')\n" + LOOP, True),
        ("import torch\n" + LOOP + "print(torch.load('model.pt'))\n", False),  # only at the end, to test it
        ("import torch\nstate = torch.load('pretrained.pt')\n" + LOOP, False),  # another file
        ("import torch\ndef again(): return torch.load('model.pt')\n" + LOOP, False),  # nothing calls it
        ("import torch\ndef again(): return torch.load('model.pt')\nstate = again()\n" + LOOP, True),
    ],
)
def test_only_what_is_loaded_before_the_first_save_is_kept(source: str, is_kept: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    draft = init(str(tmp_path))
    assert read_job(draft.path).persist == (("model.pt",) if is_kept else ())
    assert draft.notes[0].startswith("NOTHING RESUMES THIS SCRIPT") is not is_kept


ARGUMENTS = "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments('outputs/bert')\n"


@pytest.mark.parametrize(
    ("source", "run", "persist"),
    [
        (
            "from pathlib import Path\nimport torch\nOUT = Path('ckpts')\nckpts = sorted(OUT.glob('step_*.pt'))\n"
            "if ckpts: state = torch.load(ckpts[-1])\nfor s in range(9):\n    loss.backward()\n"
            "    torch.save(state, OUT / f'step_{s}.pt')\n",
            "python3 train.py",
            ("ckpts",),
        ),
        (
            ARGUMENTS + "from transformers.trainer_utils import get_last_checkpoint\n"
            "last = get_last_checkpoint('outputs/bert')\nTrainer(args=args).train(resume_from_checkpoint=last)\n",
            "python3 train.py",
            ("outputs",),
        ),
        (
            "import torch\nfrom omegaconf import OmegaConf\ncfg = OmegaConf.load('c.yaml')\n"
            "path = cfg.train.out_dir + '/last.ckpt'\nstate = torch.load(path)\nloss.backward()\n"
            "torch.save(state, path)\n",
            "python3 train.py",
            ("exp",),
        ),
        (
            "import argparse, torch\np = argparse.ArgumentParser()\n"
            "p.add_argument('--save-model', action='store_true')\nloss.backward()\ntorch.save(m, 'mnist_cnn.pt')\n",
            "python3 train.py --save-model",
            (),
        ),
        (
            "from trl import SFTConfig, SFTTrainer, TrlParser\nif __name__ == '__main__':\n"
            "    args = TrlParser(SFTConfig).parse_args_and_config()\n    SFTTrainer(args=args).train()\n",
            "python3 train.py --output_dir out",
            (),
        ),
    ],
)
def test_values_and_flags_are_followed(source: str, run: str, persist: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "c.yaml").write_text("train:\n  out_dir: exp/base\n")
    job = read_job(init(str(tmp_path)).path)
    assert (job.run, job.persist) == (run, persist)


def test_what_nothing_calls_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, dataclasses\nfrom tools import save\nconfig = dataclasses.replace(config, x=1)\n"
        "loss.backward()\nsave('a.pt')\n"
    )
    (tmp_path / "tools.py").write_text(
        "import torch\ndef save(path): torch.save(m, path)\ndef export(): torch.save(m, str(True))\n"
    )
    assert init(str(tmp_path), dry_run=True).outputs == ("a.pt",)


def test_a_filmed_training_is_not_the_training(tmp_path: Path) -> None:
    (tmp_path / "record_training.py").write_text((PROJECTS / "made/src/record_training.py").read_text())
    (tmp_path / "main.py").write_text("import torch\nloss.backward()\ntorch.save(m, 'm.pt')\n__name__ == '__main__'\n")
    assert init(str(tmp_path), dry_run=True).script == "main.py"


@pytest.mark.parametrize(
    ("text", "run", "resume"),
    [
        ("EPOCHS=${EPOCHS:-5}\npython train.py --epochs $EPOCHS\n", "python train.py --epochs 5", ""),
        ("python prepare.py\npython train.py --epochs 5\n", "bash train.sh", "python train.py --epochs 5"),
        ('python train.py \\\n  --epochs 5 "$@"\n', "python train.py --epochs 5", ""),
        ("for s in 1 2; do python train.py --seed $s; done\n", "bash train.sh", "python3 train.py"),
    ],
)
def test_a_shell_script_tells_the_command(text: str, run: str, resume: str, tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("#!/bin/bash\nset -e\n" + text)
    (tmp_path / "prepare.py").write_text("open('data.txt', 'w')\n")
    (tmp_path / "train.py").write_text(
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--resume')\n"
        "a = p.parse_args()\nloss.backward()\ntorch.save(m, 'm.pt')\n"
    )
    job = read_job(init(str(tmp_path)).path)
    assert job.run == run
    assert job.resume == (resume or run) + f" --resume {FROM}"
