# ruff: noqa: E501  (a line of a log is as long as its trainer makes it)
"""Logs of `trainer_logs` again: ranks and workers side by side, bars and steps that are no training's, epochs of loops."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

from tests.box.trainer_logs import bar, log, loss

Told = Iterator[Tuple[str, Dict[str, Any]]]


# ---- Launchers, and what is no training


@log("ray: workers beside each other")
def _ray() -> Told:
    for s in (10, 20):
        for pid in (811, 812):
            text = f"\x1b[36m(RayTrainWorker pid={pid}, ip=10.0.0.3)\x1b[0m step {s}/100 loss {round(loss(s) + pid - 811, 4)}\n"
            yield text, {"step": s, "total": 100, "loss": loss(s)}


def ranks(form: str) -> Told:
    for s in (10, 20):
        for rank in (0, 1, 3):
            yield (
                form.format(rank) + f"step {s}/100 | loss {loss(s) + rank}\n",
                {"step": s, "total": 100, "loss": loss(s)},
            )


log("torchrun: [rank0]:", "torchrun --nproc_per_node 4 train.py")(lambda: ranks("[rank{}]: "))
log("torchrun: [default0]:", "torchrun --tee 3 train.py")(lambda: ranks("[default{}]:"))
log("srun: 0:", "srun --label python train.py")(lambda: ranks("{}: "))


@log("a bar of data whose title is on no list")
def _eos() -> Told:
    for n in (100, 600):
        yield bar(n, 600, "Adding EOS to each text"), {}
    yield "\n", {}
    for s in (2, 10):
        yield bar(s, 100), {"step": s, "total": 100}


@log("headings of a script", "python run.py --epochs 5")
def _headings() -> Told:
    yield "Step 1/3: downloading the data\nStep 2/3: training\n", {}
    yield "warmup steps: 500\nmax steps: 1000\nGradient accumulation steps = 4\nbest epoch: 7\n", {}
    yield "Epoch 1 | train loss 2.5\n", {"epoch": 1, "epochs": 5, "loss": 2.5}


@log("bars of one epoch each, without a title")
def _each() -> Told:
    yield (
        bar(469, 469, more=f", loss={loss(1)}"),
        {"step": 469, "total": 469, "loss": loss(1)},
    )  # so far it is all there is
    for n in (1, 79):
        yield bar(n, 79), {"step": 469, "total": 469, "loss": loss(1)}
    yield bar(3, 469, more=f", loss={loss(2)}"), {"loss": loss(2)}


@log("epochs told before untitled bars")
def _told() -> Told:
    for e in (1, 2):
        yield (
            f"\nEpoch {e}/4\n----------\n",
            {"epoch": 1, "epochs": 4} if e == 1 else {"epoch": 2, "step": 50, "total": 200, "loss": loss(50)},
        )
        for n in (1, 50):
            truth = {"epoch": e, "step": (e - 1) * 50 + n, "total": 200, "loss": loss(n)}
            yield bar(n, 50, more=f", loss={loss(n)}"), truth
        yield f"train Loss: {loss(9)} Acc: 0.71\nval Loss: 0.8112 Acc: 0.70\n", truth


@log("coqui: a step of the epoch beside the global one")
def _coqui() -> Told:
    for s in (1024, 1049):
        text = f"\x1b[1m   --> TIME: 2026-01-01 10:00:00 -- STEP: {s % 100}/100 -- GLOBAL_STEP: {s}\x1b[0m\n     | > loss: {loss(s)}  ({loss(s)})\n"
        yield text, {"step": s, "loss": loss(s)}


@log("mlx: iters")
def _mlx() -> Told:
    yield "Starting training..., iters: 600\n", {}
    yield "Iter 1: Val loss 2.865, Val took 5.1s\n", {"step": 1, "total": 600}
    text = "Iter 10: Train loss 2.612, Learning Rate 1.000e-05, It/sec 1.2, Tokens/sec 300.1, Trained Tokens 3001\n"
    yield text, {"step": 10, "total": 600, "loss": 2.612}


@log("rl_games: epochs and frames")
def _rl_games() -> Told:
    text = "fps step: 16843 fps step and policy inference: 14210 fps total: 9120 epoch: 12/1000 frames: 393216\n"
    yield text, {"epoch": 12, "epochs": 1000}


@log("flair: an epoch, and iterations of it")
def _flair() -> Told:
    for e, b in ((1, 10), (1, 90), (2, 10)):
        text = f"2026-01-01 10:00:00,123 epoch {e} - iter {b}/100 - loss {loss(b)} - time (sec): 1.20 - samples/sec: 53.1\n"
        yield text, {"epoch": e, "step": (e - 1) * 100 + b, "loss": loss(b)}


@log("a bar of one epoch titled Training", "python train.py --epochs 5")
def _titled() -> Told:
    yield bar(100, 400, "Training"), {}


@log("a schedule that names steps")
def _schedule() -> Told:
    yield "step 10/900 | loss 2.5\nlearning rate decays at step 600\n", {"step": 10, "total": 900, "loss": 2.5}
    yield "step 20/900 | loss 2.4\n", {"step": 20, "total": 900, "loss": 2.4}


@log("steps that begin again in each epoch")
def _again() -> Told:
    yield "epoch 1 step 50 loss 2.5\n", {"epoch": 1, "step": 50, "loss": 2.5}
    yield "epoch 2 step 10 loss 2.4\n", {"epoch": 2, "loss": 2.4}
    yield "epoch 2 step 90 loss 2.3\n", {"epoch": 2, "loss": 2.3}


@log("two ranks that draw one bar each, without a prefix", "torchrun --nproc_per_node 2 train.py")
def _two() -> Told:
    for n in (10, 50, 100):
        yield bar(n, 100) + bar(n - 1, 100) + bar(n, 100), {"step": n, "total": 100}
