"""Make tests/trainers/NAME: what each trainer leaves behind, by the trainer's own code, as small as it goes.

    .venv/bin/python scripts/trainer_folders.py [NAME...]

Needs requirements/adapters.txt (transformers, accelerate, lightning). peft, timm, ultralytics and deepspeed are taken
from the folders in PYTHONPATH (an unpacked wheel or source is enough); what these want beside PyTorch and never use
for a checkpoint (cv2, torchvision, ...) is stood in for. tests/trainers/PROVENANCE.md says what was made with what.
"""

# mypy: disable-error-code="import-not-found,misc"
from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

GOAL = Path(__file__).resolve().parent.parent / "tests/trainers"
os.environ.update(HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="true", TRANSFORMERS_VERBOSITY="error", YOLO_OFFLINE="true")


def hf(out: str) -> None:
    """transformers.Trainer: two checkpoints of a tiny GPT-2, the last model, logs of TensorBoard."""
    _train(out, report_to=["tensorboard"])


def _train(out: str, model: Any = None, **more: Any) -> Any:
    import torch
    import transformers

    transformers.set_seed(0)
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    model = model or transformers.GPT2LMHeadModel(config)
    rows = [{"input_ids": torch.arange(8) + n % 8, "labels": torch.arange(8) + n % 8} for n in range(16)]
    args = transformers.TrainingArguments(
        output_dir=out,
        max_steps=4,
        save_steps=2,
        logging_steps=1,
        per_device_train_batch_size=2,
        save_total_limit=2,
        disable_tqdm=True,
        **{"report_to": [], **more},
    )
    trainer = transformers.Trainer(model=model, args=args, train_dataset=rows)
    trainer.train()
    trainer.save_model()
    trainer.save_state()
    trainer.save_metrics("train", {"train_loss": 3.2, "epoch": 0.5})
    return trainer


def peft(out: str) -> None:
    """peft's LoRA under the same Trainer."""
    import peft as library
    import transformers

    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    lora = library.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
    _train(out, library.get_peft_model(transformers.GPT2LMHeadModel(config), lora))


def accelerate(out: str) -> None:
    """Accelerator.save_state, twice, with a scheduler, a scaler's place and an object of the user's own."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    class Own:
        def state_dict(self) -> dict[str, Any]:
            import numpy as np

            return {"best": np.float64(0.5), "history": [1.0, 0.5], "seen": {3, 5}}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            raise NotImplementedError

    torch.manual_seed(0)
    project = ProjectConfiguration(project_dir=out, automatic_checkpoint_naming=True)
    runner = Accelerator(project_config=project, cpu=True)
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=2, shuffle=True)
    net, optimizer, schedule, data = runner.prepare(net, optimizer, schedule, data)
    runner.register_for_checkpointing(Own())
    for (x,) in data:
        runner.backward(net(x).square().sum())
        optimizer.step()
        schedule.step()
    runner.save_state()
    runner.save_state()
    runner.save_model(net, os.path.join(out, "model"))


def lightning(out: str) -> None:
    """Lightning's Trainer: checkpoints of ModelCheckpoint, loggers of CSV and TensorBoard, hyperparameters."""
    import warnings

    import lightning as L
    import torch
    from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    warnings.simplefilter("ignore")

    class Net(L.LightningModule):
        def __init__(self, rate: float, out: Path, options: argparse.Namespace) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.body = torch.nn.Linear(4, 2)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.body(batch[0]).square().mean()
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val", self.body(batch[0]).square().mean())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.rate)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    torch.manual_seed(0)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=2)
    saves = ModelCheckpoint(monitor="val", save_last=True, save_top_k=2, filename="{epoch}-{val:.3f}")
    trainer = L.Trainer(
        default_root_dir=out,
        max_epochs=2,
        accelerator="cpu",
        log_every_n_steps=1,
        logger=[CSVLogger(out, "csv"), TensorBoardLogger(out, "tb")],
        callbacks=[saves, EarlyStopping("val", patience=9), LearningRateMonitor()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Net(0.01, Path("data"), argparse.Namespace(depth=2)), data, data)


def timm(out: str) -> None:
    """timm's CheckpointSaver and update_summary, called as train.py calls them; args.yaml as it writes it."""
    _stand_in()
    import torch
    import yaml
    from timm.utils import CheckpointSaver, NativeScaler, update_summary

    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    args = argparse.Namespace(model="tiny", lr=0.1, mean=None, device_modules=None, aug_splits=0)
    Path(out, "args.yaml").write_text(yaml.safe_dump(vars(args), default_flow_style=False))
    saver = CheckpointSaver(
        net, optimizer, args=args, amp_scaler=NativeScaler("cpu"), checkpoint_dir=out, recovery_dir=out, max_history=2
    )
    for epoch in range(3):
        saver.save_checkpoint(epoch, metric=50.0 + epoch)
        update_summary(
            epoch,
            {"loss": 1.0 / (epoch + 1)},
            {"loss": 1.1, "top1": 50.0 + epoch},
            filename=os.path.join(out, "summary.csv"),
            write_header=epoch == 0,
        )
    saver.save_recovery(3, 7)


def ultralytics(out: str) -> None:
    """A YOLO of ultralytics, pickled whole in half precision as BaseTrainer.save_model does; args.yaml, results.csv."""
    _stand_in()
    import copy
    import datetime
    import io

    import torch
    import yaml
    from ultralytics import __version__
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.utils import DEFAULT_CFG_DICT, IterableSimpleNamespace

    torch.manual_seed(0)
    layers = {
        "nc": 1,
        "backbone": [[-1, 1, "Conv", [4, 3, 2]], [-1, 1, "C2f", [8, True]]],
        "head": [[[1], 1, "Detect", ["nc"]]],
    }
    net = DetectionModel({**layers, "scales": {"n": [0.33, 0.25, 64]}, "scale": "n", "ch": 3}, ch=3, verbose=False)
    net.args = IterableSimpleNamespace(**{**DEFAULT_CFG_DICT, "model": "tiny.yaml"})
    net.names = {0: "thing"}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    saved = {
        "epoch": 1,
        "best_fitness": 0.5,
        "model": None,
        "ema": copy.deepcopy(net).half(),
        "updates": 3,
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "scaler": {"scale": 65536.0, "growth_factor": 2.0},
        "train_args": vars(net.args),
        "train_metrics": {"metrics/mAP50(B)": 0.5, "fitness": 0.5},
        "train_results": {"epoch": [1], "train/box_loss": [1.0]},
        "date": datetime.datetime(2026, 11, 1).isoformat(),
        "version": __version__,
        "license": "AGPL-3.0 (https://ultralytics.com/license)",
    }
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    Path(out, "weights").mkdir()
    for name in ("last.pt", "best.pt"):
        Path(out, "weights", name).write_bytes(buffer.getvalue())
    Path(out, "args.yaml").write_text(yaml.safe_dump(vars(net.args), sort_keys=False, allow_unicode=True))
    Path(out, "results.csv").write_text("epoch,time,train/box_loss,metrics/mAP50(B)\n1,2.5,1.0,0.5\n2,5.1,0.9,0.6\n")


def deepspeed(out: str, stage: int = 2) -> None:
    """The folder of DeepSpeedEngine.save_checkpoint, two ranks: names, keys and classes as engine.py, stage_1_and_2.py
    and stage3.py write them; the classes are DeepSpeed's own source, the numbers ours.
    """
    _stand_in()
    from collections import OrderedDict

    import torch
    from deepspeed.runtime.fp16.loss_scaler import DynamicLossScaler
    from deepspeed.runtime.zero.config import ZeroStageEnum
    from deepspeed.utils.tensor_fragment import fragment_address

    tag, ranks = "global_step4", 2
    Path(out, tag).mkdir()
    scaler = DynamicLossScaler(65536.0, 2.0, 1000, 1, 1, False, True)
    shapes = OrderedDict(weight=torch.Size([2, 4]), bias=torch.Size([2]))
    places = OrderedDict(weight=fragment_address(numel=8, start=0), bias=fragment_address(numel=2, start=8))
    config = {"zero_optimization": {"stage": stage}, "train_batch_size": 2, "fp16": {"enabled": True}}
    for rank in range(ranks):
        flat = torch.randn(5)
        partition = {"state": {0: {"step": torch.tensor(4.0), "exp_avg": flat, "exp_avg_sq": flat.square()}}}
        groups = [{"lr": 0.001, "betas": (0.9, 0.999), "params": [0]}]
        states = {
            "loss_scaler": scaler,
            "dynamic_loss_scale": True,
            "overflow": False,
            "zero_stage": ZeroStageEnum(stage),
            "partition_count": [ranks] if stage < 3 else ranks,
            ("base_optimizer_state" if stage < 3 else "optimizer_state_dict"): {**partition, "param_groups": groups},
            ("single_partition_of_fp32_groups" if stage < 3 else "fp32_flat_groups"): [flat],
            "param_slice_mappings": [places],
        }
        name = f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        torch.save({"optimizer_state_dict": states, "ds_config": config, "ds_version": "0.19.8"}, Path(out, tag, name))
        model = {
            "module": OrderedDict(weight=torch.randn(2, 4).half(), bias=torch.randn(2).half()),
            "buffer_names": [],
            "optimizer": None,
            "param_shapes": [shapes],
            "frozen_param_shapes": None,
            "lr_scheduler": {"last_batch_iteration": 4},
            "random_ltd": None,
            "sparse_tensor_module_names": set[str](),
            "skipped_steps": 0,
            "global_steps": 4,
            "global_samples": 8,
            "dp_world_size": ranks,
            "mp_world_size": 1,
            "ds_config": config,
            "ds_version": "0.19.8",
        }
        if stage == 3:
            torch.save(model, Path(out, tag, f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"))
        elif not rank:
            torch.save(model, Path(out, tag, "mp_rank_00_model_states.pt"))
    Path(out, "latest").write_text(tag)


def deepspeed3(out: str) -> None:
    """The same of ZeRO-3, where each rank has a part of the model too."""
    deepspeed(out, 3)


class _Any(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that are not installed, and that nothing which is saved comes from: any name in them is a class."""

    names = frozenset(
        "torchvision cv2 hjson cpuinfo ninja msgpack matplotlib polars seaborn thop requests psutil PIL"
        " ultralytics_thop einops py3nvml nvidia scipy tqdm pydantic pydantic_core".split()
    )

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        root = name.partition(".")[0]
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if root in self.names else None

    def create_module(self, spec: Any) -> types.ModuleType:
        class Module(types.ModuleType):
            __version__ = "0.20.0"

            def __getattr__(self, name: str) -> Any:
                if name.startswith("__"):
                    raise AttributeError(name)
                return _Any(name, (), {"__init__": lambda self, *a, **k: None, "__class_getitem__": lambda k: k})

        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def _stand_in() -> None:
    """After everything that is installed: what is here is used."""
    sys.meta_path.append(_Absent())
    known = importlib.metadata.version

    def version(name: str) -> str:
        return "0.26.0" if name in _Absent.names else known(name)

    importlib.metadata.version = version  # type: ignore[assignment]


def main() -> None:
    """Make the folders named, or all."""
    made = (hf, peft, accelerate, lightning, timm, ultralytics, deepspeed, deepspeed3)
    every = {make.__name__: make for make in made}
    for name in sys.argv[1:] or every:
        goal = GOAL / name
        shutil.rmtree(goal, ignore_errors=True)
        goal.mkdir(parents=True)
        every[name](str(goal))
        size_bytes = sum(path.stat().st_size for path in goal.rglob("*") if path.is_file())
        print(json.dumps({"name": name, "files": sum(p.is_file() for p in goal.rglob("*")), "bytes": size_bytes}))


if __name__ == "__main__":
    main()
