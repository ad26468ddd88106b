# ruff: noqa: E501  (a line of a log is as long as its trainer makes it)
"""Logs as public trainers print them, made here in their formats, with what is true at each point of them.

A log is a list of (text, truth). A truth names what the log lets one know at that point: `epoch` as printed, `epochs`,
`step` and `total` of the whole training (in samples where the trainer counts those), `loss` of the training. What it
leaves out must not be shown.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

Log = List[Tuple[str, Dict[str, Any]]]
Maker = Callable[[], Tuple[str, Log]]
LOGS: dict[str, Maker] = {}


def log(
    name: str, command: str = "python train.py"
) -> Callable[[Callable[[], Iterator[tuple[str, dict[str, Any]]]]], Any]:
    """Registers a log under `trainer: what`; `command`: what it was started with."""

    def register(make: Callable[[], Iterator[tuple[str, dict[str, Any]]]]) -> Any:
        LOGS[name] = lambda: (command, list(make()))
        return make

    return register


def loss(step: int) -> float:
    """A loss that falls."""
    return round(3.0 / (1 + step / 50), 4)


def bar(step: int, total: int, title: str = "", more: str = "", rate: str = "9.61it/s") -> str:
    """One drawing of tqdm's bar."""
    done = int(10 * step / total)
    head = f"{title}: " if title else ""
    return f"\r{head}{int(100 * step / total):3d}%|{'█' * done}{' ' * (10 - done)}| {step}/{total} [00:{step % 60:02d}<01:02, {rate}{more}]"


def hf(step: int, total: int, epochs: int, as_text: bool = False) -> str:
    """The dict that Hugging Face's Trainer prints."""
    q = "'" if as_text else ""
    epoch = round(step / total * epochs, 2)
    return f"\n{{'loss': {q}{loss(step)}{q}, 'grad_norm': {q}1.25{q}, 'learning_rate': {q}4.5e-05{q}, 'epoch': {q}{epoch}{q}}}\n"


# ---- PyTorch's examples


def mnist(epochs: int, first: int = 1, planned: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Using cuda device\n", {}
    for e in range(first, epochs + 1):
        for n in (0, 640, 32000, 57600):
            s = (e - 1) * 60000 + n
            text = f"Train Epoch: {e} [{n}/60000 ({n / 600:.0f}%)]\tLoss: {loss(n):.6f}\n"
            yield text, {"epoch": e, "step": s, "total": planned and planned * 60000, "loss": loss(n)}
        text = f"\nTest set: Average loss: 0.0{e}23, Accuracy: 98{e}0/10000 (98%)\n\n"
        yield text, {"epoch": e, "step": s, "total": planned and planned * 60000, "loss": loss(57600)}


log("mnist: three epochs")(lambda: mnist(3))
log("mnist: --epochs", "python main.py --epochs 14 --lr 1.0")(lambda: mnist(4, planned=14))
log("mnist: resumed")(lambda: mnist(6, first=5))


def wlm(epochs: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for e in (1, 2, 3):
        for b in (200, 1000, 2800):
            text = f"| epoch {e:3d} | {b:5d}/ 2983 batches | lr 20.00 | ms/batch 5.35 | loss {loss(b):5.2f} | ppl   252.01\n"
            truth = {
                "epoch": e,
                "step": (e - 1) * 2983 + b,
                "total": epochs and epochs * 2983,
                "loss": round(loss(b), 2),
            }
            yield text, truth
        bars = "-" * 89
        yield f"{bars}\n| end of epoch {e:3d} | time: 34.52s | valid loss  5.60 | valid ppl   271.50\n{bars}\n", truth


log("word_language_model: no flag")(lambda: wlm(None))
log("word_language_model: --epochs", "python main.py --cuda --epochs 6 --model Transformer")(lambda: wlm(6))


def imagenet(first: int, epochs: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "=> creating model 'resnet50'\n", {}
    for e in (first, first + 1):
        for b in (1, 11, 4991):
            text = (
                f"Epoch: [{e}][{b:4d}/5005]\tTime  0.313 ( 0.325)\tData  0.001 ( 0.010)\tLoss {loss(b):.4e} (5.4321e+00)"
                f"\tAcc@1  12.50 (  9.11)\tAcc@5  31.25 ( 25.00)\n"
            )
            told = float(f"{loss(b):.4e}")
            truth = {"epoch": e, "step": e * 5005 + b, "total": epochs and epochs * 5005, "loss": told}
            yield text, truth
        for b in (1, 11):
            yield f"Test: [ {b:3d}/196]\tTime  0.9 ( 0.9)\tLoss 1.5321e+00 (1.6e+00)\tAcc@1  66.41 ( 66.41)\n", truth
        yield " *   Acc@1 61.100 Acc@5 84.300\n", truth


log("imagenet: from the start")(lambda: imagenet(0, None))
log("imagenet: --epochs, resumed", "python main.py -a resnet50 --epochs 90 /data --resume checkpoint.pth.tar")(
    lambda: imagenet(30, 90)
)


@log("dcgan: losses of two networks")
def _dcgan() -> Iterator[tuple[str, dict[str, Any]]]:
    for e in (0, 1):
        for b in (0, 50, 1550):
            text = f"[{e}/25][{b}/1583] Loss_D: 0.{b:04d} Loss_G: 2.1 D(x): 0.7 D(G(z)): 0.2 / 0.1\n"
            yield text, {"epoch": e, "step": e * 1583 + b, "total": 25 * 1583}


# ---- torchvision and its kin


def references(first: int, epochs: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Not using distributed mode\nLoading data\nTook 12.1\nCreating model\nStart training\n", {}
    for e in (first, first + 1):
        for b in (0, 10, 1250):
            text = (
                f"Epoch: [{e}]  [{b:4d}/1251]  eta: 0:13:29  lr: 0.1  img/s: 512.3  loss: {loss(b):.4f} (6.8000)  "
                "acc1: 0.0 (1.2)  time: 0.64  data: 0.14  max mem: 3412\n"
            )
            truth = {"epoch": e, "step": e * 1251 + b, "total": epochs and epochs * 1251, "loss": loss(b)}
            yield text, truth
        yield f"Epoch: [{e}] Total time: 0:13:20\n", truth
        yield (
            "Test:   [  0/50]  eta: 0:01:02  loss: 5.1000 (5.1)  acc1: 9.3 (9.3)  time: 1.2  data: 1.0  max mem: 3412\n",
            truth,
        )
        yield "Test:  Total time: 0:00:20\nTest:  Acc@1 11.2 Acc@5 30.1\n", truth


log("torchvision: references")(lambda: references(0, None))
log("torchvision: --epochs", "torchrun --nproc_per_node=8 train.py --model resnet50 --epochs 90")(
    lambda: references(44, 90)
)


@log("detr: averaged stats after a test", "python main.py --epochs 300 --coco_path /data/coco")
def _detr() -> Iterator[tuple[str, dict[str, Any]]]:
    for e in (0, 1):
        for b in (0, 10, 14780):
            text = f"Epoch: [{e}]  [{b:5d}/14786]  eta: 2:10:11  lr: 0.000100  class_error: 51.0  loss: {loss(b):.4f} (30.1)\n"
            truth = {"epoch": e, "step": e * 14786 + b, "total": 300 * 14786, "loss": loss(b)}
            yield text, truth
        yield "Test:  [   0/2500]  eta: 0:30:00  class_error: 40.0  loss: 20.1000 (20.1)  loss_ce: 1.1 (1.1)\n", truth
        yield "Averaged stats: class_error: 38.0  loss: 19.5000 (20.0)  loss_ce: 1.0 (1.0)\nIoU metric: bbox\n", truth


@log("swin: epochs named")
def _swin() -> Iterator[tuple[str, dict[str, Any]]]:
    for b in (0, 10, 1240):
        text = (
            f"[2026-01-01 10:00:0{b % 10} swin_tiny](main.py 210): INFO Train: [3/300][{b}/1251]\teta 0:13:29 lr 0.000100\t"
            f"time 0.6 (0.7)\tloss {loss(b):.4f} (6.8)\tgrad_norm 1.9 (2.1)\tmem 8000MB\n"
        )
        yield text, {"epoch": 3, "step": 3 * 1251 + b, "total": 300 * 1251, "loss": loss(b)}


def timm(epochs: int | None, head: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield f"Training with a single process on 1 device (cuda:0).\n{head}", {}
    for e in (0, 1):
        for b in (0, 50, 1250):
            text = (
                f"Train: {e} [{b:>4d}/1251 ({100 * b // 1250:>3d}%)]  Loss: {loss(b):#.3g} (6.90)  Time: 0.432s,  592.10/s  "
                "(0.441s,  580.00/s)  LR: 1.000e-05  Data: 0.010 (0.021)\n"
            )
            truth = {
                "epoch": e,
                "step": e * 1251 + b,
                "total": epochs and epochs * 1251,
                "loss": float(f"{loss(b):#.3g}"),
            }
            yield text, truth
        text = (
            "Test: [   0/97]  Time: 1.1 (1.1)  Loss:   6.502 ( 6.502)  Acc@1:   0.781 (  0.781)  Acc@5:   3.1 (  3.1)\n"
        )
        yield text, truth
        yield "Current checkpoints:\n ('./output/train/checkpoint-0.pth.tar', 1.25)\n", truth


log("timm: no flag")(lambda: timm(None))
log("timm: --epochs", "python train.py /data --model resnet50 --epochs 200")(lambda: timm(200))
log("timm: with a cool-down", "python train.py /data --epochs 300")(
    lambda: timm(310, "Scheduled epochs: 310. LR stepped per epoch.\n")
)


# ---- Hugging Face


def trainer(total: int, epochs: int, as_text: bool = False, before: str = "", eval_total: int = 0) -> Iterator[Any]:
    if before:
        yield before, {}
    truth: dict[str, Any] = {}
    for s in (1, 10, total // 2, total - 1, total):
        yield bar(s, total), {**truth, "step": s, "total": total}
        truth = {"epoch": int(round(s / total * epochs, 2)), "step": s, "total": total, "loss": loss(s)}
        yield hf(s, total, epochs, as_text), truth
        if eval_total:
            for n in (1, eval_total // 2, eval_total):
                yield bar(n, eval_total), truth
            told = round(s / total * epochs, 2)
            yield f"\n{{'eval_loss': 1.9, 'eval_accuracy': 0.41, 'eval_runtime': 3.1, 'epoch': {told}}}\n", truth
    yield (
        f"{{'train_runtime': 99.1, 'train_samples_per_second': 12.0, 'train_loss': 1.5, 'epoch': {float(epochs)}}}\n",
        truth,
    )


DATA_BARS = "".join(bar(n, 600, "Map", rate="5120.11 examples/s") for n in (100, 600)) + "\n"
TRL_BARS = "".join(
    bar(n, 600, title, rate="21480.02 examples/s") + "\n" * (n == 600)
    for title in ("Adding EOS to train dataset", "Tokenizing train dataset", "Truncating train dataset")
    for n in (200, 600)
)
log("hf: plain")(lambda: trainer(120, 3))
log("hf: numbers as text")(lambda: trainer(120, 1, as_text=True))
log("hf: a small evaluation")(lambda: trainer(500, 2, eval_total=13))
log("hf: an evaluation longer than the training")(lambda: trainer(60, 2, eval_total=700))
log("hf: --num_train_epochs", "python run_clm.py --num_train_epochs 3 --output_dir out")(lambda: trainer(300, 3))
log("trl: bars of data before")(lambda: trainer(100, 1, before=DATA_BARS + TRL_BARS))
log("trl: an untitled bar of data before")(
    lambda: (
        (text, truth)
        for text, truth in trainer(100, 1, before="".join(bar(n, 600, rate="8123.44it/s") for n in (300, 600)) + "\n")
    )
)


@log("trl: GRPO")
def _grpo() -> Iterator[tuple[str, dict[str, Any]]]:
    rewards = ", ".join(f"'rewards/check_{n}/mean': 0.{n}, 'rewards/check_{n}/std': 0.1" for n in range(12))
    for s in (1, 5, 40):
        yield bar(s, 200, rate="41.20s/it"), {**({"epoch": 0, "loss": 0.01} if s > 1 else {}), "step": s, "total": 200}
        text = (
            f"\n{{'loss': 0.01, 'grad_norm': 0.2, 'learning_rate': 1e-06, 'num_tokens': {s}000.0, "
            f"'completions/mean_length': 91.2, {rewards}, 'reward': 0.52, 'reward_std': 0.11, 'kl': 0.0, 'epoch': 0.0{s % 9}}}\n"
        )
        yield text, {"epoch": 0, "step": s, "total": 200, "loss": 0.01}


@log("ms-swift: step and total in the dict")
def _swift() -> Iterator[tuple[str, dict[str, Any]]]:
    for s in (5, 10):
        text = (
            f"{{'loss': {loss(s)}, 'grad_norm': 1.1, 'learning_rate': 9e-05, 'memory(GiB)': 20.1, 'train_speed(iter/s)': 0.5, "
            f"'epoch': 0.{s:02d}, 'global_step/max_steps': '{s}/100', 'percentage': '{s}.00%', 'elapsed_time': '20s'}}\n"
        )
        yield text, {"epoch": 0, "step": s, "total": 100, "loss": loss(s)}


def no_trainer(title: str, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "01/01/2026 10:00:00 - INFO - __main__ - ***** Running training *****\n", {}
    yield "01/01/2026 10:00:00 - INFO - __main__ -   Total optimization steps = 400\n", {}
    for s in (1, 17, 333):
        yield bar(s, 400, title, f", lr=1e-6, {key}={loss(s)}", "1.93it/s"), {"step": s, "total": 400, "loss": loss(s)}


log("accelerate: no_trainer", "accelerate launch run.py --max_train_steps 400")(lambda: no_trainer("", "loss"))
log("diffusers: Steps")(lambda: no_trainer("Steps", "step_loss"))
log("kohya: steps")(lambda: no_trainer("steps", "avr_loss"))
