# ruff: noqa: E501  (a line of a log is as long as its trainer makes it)
"""More logs of `trainer_logs`: Lightning, Keras, detectors, language models, reinforcement learning, launchers."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

from tests.box.trainer_logs import bar, log, loss

Told = Iterator[Tuple[str, Dict[str, Any]]]
LINE, THIN = "\u2501", "\u2578"


# ---- Lightning


def lightning(first: int, epochs: int | None, is_said: bool, command_total: int | None = None) -> Told:
    if is_said:
        yield "GPU available: False, used: False\nTPU available: False, using: 0 TPU cores\n", {}
    yield "\rSanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 40.1it/s]\n", {}
    for e in (first, first + 1):
        for b in (1, 50, 100):
            more = f", v_num=0, train_loss={loss(b)}" if not is_said else f", train_loss={loss(b)}"
            truth = {"epoch": e, "step": e * 100 + b, "total": command_total, "loss": loss(b)}
            yield bar(b, 100, f"Epoch {e}", more), truth
        yield bar(5, 20, "Validation DataLoader 0") + bar(20, 20, "Validation DataLoader 0"), truth
    yield "\n`Trainer.fit` stopped: `max_epochs=9` reached.\n" * (epochs is not None), truth


log("lightning: tqdm")(lambda: lightning(0, None, False))
log("lightning: without a logger, resumed")(lambda: lightning(4, 6, True))
log("lightning: --max_epochs", "python train.py --trainer.max_epochs=10")(lambda: lightning(0, None, False, 1000))


def rich(first: int, last: int, named: str = "v_num: 0.000 train_loss") -> Told:
    total = (last + 1) * 100 if last > 0 else None
    for e in (first, first + 1):
        for b in (1, 50, 100):
            line = LINE * (b // 5) + THIN + " " + LINE * 10
            text = f"\r\x1b[37mEpoch {e}/{last} \x1b[0m {line} \x1b[37m{b}/100\x1b[0m 0:00:05 • 0:00:06 9.50it/s {named}: {loss(b)}"
            truth = {"epoch": e, "step": e * 100 + b, "total": total, "loss": loss(b)}
            yield text, truth
        yield f"\r\x1b[37mValidation\x1b[0m {LINE * 12} \x1b[37m20/20\x1b[0m 0:00:01 • 0:00:00 40.1it/s", truth


log("lightning: rich")(lambda: rich(0, 9))
log("lightning: rich, without a logger")(lambda: rich(0, 9, "loss"))
log("lightning: rich, resumed")(lambda: rich(5, 19))
log("lightning: rich, epochs without an end")(lambda: rich(0, -2))


@log("lightning: version 1 counts its validation, too")
def _old() -> Told:
    for e in (0, 1):
        yield bar(55, 110, f"Epoch {e}", f", loss={loss(55)}, v_num=0"), {"epoch": e, "loss": loss(55)}


# ---- Keras


def keras(first: int, last: int, epochs: int) -> Told:
    for e in range(first, last + 1):
        yield (
            f"Epoch {e}/{epochs}\n",
            {"epoch": e, "epochs": epochs}
            if e == first
            else {"epoch": e, "step": (e - 1) * 469, "total": epochs * 469, "loss": loss(469)},
        )
        for b in (1, 120, 469):
            text = f"\r\x1b[1m{b}/469\x1b[0m \x1b[32m{LINE * 5}\x1b[0m\x1b[37m{LINE * 9}\x1b[0m \x1b[1m1s\x1b[0m 3ms/step - accuracy: 0.81 - loss: {loss(b)}"
            truth = {"epoch": e, "step": (e - 1) * 469 + b, "total": epochs * 469, "loss": loss(b)}
            yield text, truth
        yield " - val_accuracy: 0.79 - val_loss: 0.71\n", truth


log("keras: bars")(lambda: keras(1, 3, 5))
log("keras: resumed")(lambda: keras(4, 5, 10))


@log("keras: two lines an epoch, then evaluate()")
def _quiet() -> Told:
    for e in (1, 2):
        before = {"epoch": 1, "step": 469, "total": 938, "loss": loss(469)} if e == 2 else {"epochs": 2}
        yield f"Epoch {e}/2\n", {**before, "epoch": e}
        truth = {"epoch": e, "step": e * 469, "total": 938, "loss": loss(469)}
        yield f"469/469 - 3s - 6ms/step - accuracy: 0.90 - loss: {loss(469)} - val_loss: 0.31\n", truth
    yield f"\r 1/79 {LINE * 9} 1s 12ms/step\r79/79 {LINE * 9} 0s 2ms/step\n", truth


# ---- Detectors


def ultralytics(is_new: bool) -> Told:
    head = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    yield "Starting training for 100 epochs...\n", {}
    for e in (1, 2):
        yield "\n" + head, {"epoch": 1, "epochs": 100, "loss": {"box_loss": 1.2}} if e == 2 else {}
        for b in (1, 8):
            row = f"\r{e:>11}/100      2.51G      1.2{b}      3.4{b}      1.1{b}         16        640: "
            end = (
                f"{int(b / 8 * 100)}% {LINE * 6} {b}/8 5.3it/s 2.0s"
                if is_new
                else f"{int(b / 8 * 100)}%|█████     | {b}/8 [00:02<00:02,  3.1it/s]"
            )
            yield row + end, {"epoch": e, "epochs": 100}
        val = "\r                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|████| 4/4 [00:01<00:00,  3.1it/s]\n"
        yield (
            val + "                   all        128        929      0.640      0.537      0.605      0.446\n",
            {"epoch": e, "epochs": 100},
        )


log("ultralytics: tqdm")(lambda: ultralytics(False))
log("ultralytics: its own bar")(lambda: ultralytics(True))


@log("yolov5: from 0 to the last")
def _yolov5() -> Told:
    truth: dict[str, Any] = {}
    for e in (3, 4):
        yield "\n      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size\n", truth
        truth = {"epoch": e, "epochs": 300}
        row = f"\r{e:>11}/299      3.71G    0.04{e}    0.06{e}    0.02{e}         23        640: 100%|██████████| 8/8 [00:02<00:00,  3.1it/s]\n"
        yield row, truth


@log("yolox: epoch and iter")
def _yolox() -> Told:
    for b in (10, 100):
        text = (
            f"2026-01-01 10:00:00 | INFO     | yolox.core.trainer:270 - epoch: 3/300, iter: {b}/1850, mem: 4817Mb, "
            f"iter_time: 0.3s, data_time: 0.0s, total_loss: {loss(b)}, iou_loss: 3.1, l1_loss: 0.0, lr: 1.0e-04, size: 640, ETA: 1:00\n"
        )
        yield text, {"epoch": 3, "step": 2 * 1850 + b, "total": 300 * 1850, "loss": loss(b)}


@log("mmengine: by epochs")
def _mmengine() -> Told:
    yield "2026/01/01 09:00:00 - mmengine - INFO - train_cfg = dict(by_epoch=True, max_epochs=12, val_interval=1)\n", {}
    for e in (1, 2):
        for b in (50, 450):
            text = f"2026/01/01 10:00:00 - mmengine - INFO - Epoch(train)  [{e}][{b:3d}/469]  lr: 1.0e-02  eta: 0:12:01  time: 0.1  loss: {loss(b)}\n"
            truth = {"epoch": e, "step": (e - 1) * 469 + b, "total": 12 * 469, "loss": loss(b)}
            yield text, truth
        yield (
            f"2026/01/01 10:00:00 - mmengine - INFO - Epoch(val) [{e}][79/79]    accuracy/top1: 61.0  loss: 0.9  time: 0.1\n",
            truth,
        )


@log("mmengine: by iterations")
def _mmengine_iters() -> Told:
    text = "2026/01/01 10:00:00 - mmengine - INFO - Iter(train) [  100/80000]  lr: 1e-2  eta: 3:00:00  time: 0.1  loss: 0.5\n"
    truth = {"step": 100, "total": 80000, "loss": 0.5}
    yield text, truth
    yield "2026/01/01 10:00:00 - mmengine - INFO - Iter(val) [ 50/500]    eta: 0:01:00  time: 0.1\n", truth


@log("mmcv: epochs from the workflow")
def _mmcv() -> Told:
    yield "2021-01-01 10:00:00,123 - mmdet - INFO - workflow: [('train', 1)], max: 12 epochs\n", {}
    text = "2021-01-01 10:00:00,123 - mmdet - INFO - Epoch [2][50/7330]\tlr: 1.978e-02, eta: 10:01:02, time: 0.4, loss_cls: 0.3, loss: 1.21\n"
    yield text, {"epoch": 2, "step": 7330 + 50, "total": 12 * 7330, "loss": 1.21}


@log("detectron2: SOLVER.MAX_ITER", "python train_net.py --config-file c.yaml SOLVER.MAX_ITER 90000")
def _detectron() -> Told:
    yield "[01/01 10:00:00 d2.engine.train_loop]: Starting training from iteration 0\n", {}
    for s in (19, 39):
        text = f"[01/01 10:00:00 d2.utils.events]:  eta: 0:10:00  iter: {s}  total_loss: {loss(s)}  loss_cls: 0.5  time: 0.2  lr: 0.0005  max_mem: 900M\n"
        yield text, {"step": s, "total": 90000, "loss": loss(s)}


# ---- Language models


def nanogpt(planned: int | None) -> Told:
    yield "tokens per iteration will be: 16,384\nnumber of parameters: 10.65M\n", {}
    yield "step 0: train loss 4.2874, val loss 4.2823\n", {"step": 0, "total": planned, "loss": 4.2874}
    for s in (0, 10, 240):
        yield f"iter {s}: loss {loss(s):.4f}, time 52.11ms, mfu 3.20%\n", {"step": s, "total": planned, "loss": loss(s)}


log("nanogpt: no flag", "python train.py config/train_shakespeare_char.py")(lambda: nanogpt(None))
log("nanogpt: --max_iters", "python train.py --max_iters=2000 --eval_iters=20")(lambda: nanogpt(2000))


@log("nanochat: step of total")
def _nanochat() -> Told:
    for s in (5, 26086):
        text = f"step {s:05d}/26087 ({100 * s / 26087:.2f}%) | loss: {loss(s):.6f} | lrm: 0.10 | dt: 5156.08ms | tok/sec: 83,412 | mfu: 4.91\n"
        truth = {"step": s, "total": 26087, "loss": round(loss(s), 6)}
        yield text, truth
    yield "Step 26087 | Validation bpb: 0.8113\n", {"step": 26087, "loss": truth["loss"]}


@log("a plain loop: step N of M")
def _of() -> Told:
    for s in (1, 5, 60):
        yield f"step {s} of 100, loss = {loss(s)}\n", {"step": s, "total": 100, "loss": loss(s)}


def torchtune(epochs: int | None) -> Told:
    for e, s in ((1, 100), (1, 1000), (2, 1100)):
        text = f"\r{e}|{s}|Loss: {loss(s)}: {(s - 1) % 1000 // 10:3d}%|███       | {(s - 1) % 1000 + 1}/1000 [01:00<09:00,  1.6it/s]"
        yield text, {"epoch": e, "step": s, "total": epochs and epochs * 1000, "loss": loss(s)}


log("torchtune: no flag", "tune run lora_finetune_single_device --config llama3/8B_lora")(lambda: torchtune(None))
log("torchtune: epochs=3", "tune run lora_finetune_single_device --config c epochs=3")(lambda: torchtune(3))


@log("megatron: iteration of iterations")
def _megatron() -> Told:
    for s in (100, 200):
        text = (
            f" [2026-01-01 10:00:00] iteration {s:8d}/  500000 | consumed samples: {s * 256:12d} | elapsed time per iteration (ms): 500.1 | "
            f"learning rate: 1.5E-05 | global batch size:   256 | lm loss: {loss(s):.6E} | loss scale: 1.0 | grad norm: 1.203 | number of skipped iterations:   0 |\n"
        )
        truth = {"step": s, "total": 500000, "loss": loss(s)}
        yield text, truth
    yield " validation loss at iteration 200 | lm loss value: 6.512E+00 | lm loss PPL: 6.7E+02 |\n", truth


@log("torchtitan: step and loss", "torchrun train.py --training.steps 1000")
def _titan() -> Told:
    for s in (1, 10):
        text = f"[titan] 2026-01-01 10:00:00,123 - root - INFO - step: {s:2}  loss: {loss(s):7.4f}  grad_norm:  1.25  memory: 12.10GiB(20%)  tps: 3,000  mfu: 30.1%\n"
        yield text, {"step": s, "total": 1000, "loss": loss(s)}


@log("litgpt: steps beside iterations")
def _litgpt() -> Told:
    for s in (1, 25):
        text = f"Epoch 1 | iter {s * 4} step {s} | loss train: {loss(s)}, val: n/a | iter time: 300.11 ms (step)\n"
        yield text, {"epoch": 1, "step": s, "loss": loss(s)}


@log("fairseq: progress lines")
def _fairseq() -> Told:
    for s in (100, 200):
        text = f"2026-01-01 10:00:00 | INFO | train_inner | epoch 001:    {s} / 1500 loss={loss(s)}, nll_loss=9.1, ppl=540.1, wps=9000, ups=2, num_updates={s}, lr=1e-05\n"
        truth = {"epoch": 1, "step": s, "loss": loss(s)}
        yield text, truth
    yield (
        "2026-01-01 10:00:00 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.1 | nll_loss 7.9 | num_updates 200\n",
        truth,
    )


@log("open_clip: samples from epoch 0", "python -m open_clip_train.main --epochs 32")
def _clip() -> Told:
    for e in (0, 1):
        text = f"2026-01-01,10:00:00 | INFO | Train Epoch: {e} [  640/60000 (1%)] Data (t): 0.1 Batch (t): 0.5, 500.1/s LR: 0.0005 Logit Scale: 14.2 Contrastive_loss: 6.2 (6.3) Loss: 6.2{e} (6.3)\n"
        yield text, {"epoch": e, "step": e * 60000 + 640, "total": 32 * 60000, "loss": float(f"6.2{e}")}


@log("xgboost: rounds")
def _xgboost() -> Told:
    for s in (0, 10, 90):
        yield f"[{s}]\ttrain-rmse:{loss(s)}\teval-rmse:0.91\n", {"step": s}


@log("fastai: a table")
def _fastai() -> Told:
    yield "epoch     train_loss  valid_loss  accuracy  time    \n", {}
    for e in (0, 1):
        yield (
            f"{e}         {loss(e):.6f}    0.610000    0.812000  00:10     \n",
            {"epoch": e, "loss": round(loss(e), 6)},
        )


# ---- Reinforcement learning


@log("cleanrl: steps of the environment", "python ppo.py --total-timesteps 500000 --num-steps 128")
def _cleanrl() -> Told:
    for s in (26, 4096):
        yield f"global_step={s}, episodic_return=[21.]\nSPS: 1234\n", {"step": s, "total": 500000}


@log("stable-baselines3: tables")
def _sb3() -> Told:
    for n in (1, 2):
        text = (
            "-----------------------------------------\n| rollout/                |             |\n|    ep_rew_mean          | 21.3        |\n"
            f"| time/                   |             |\n|    iterations           | {n}           |\n|    total_timesteps      | {n * 2048}        |\n"
            f"| train/                  |             |\n|    loss                 | {loss(n)}      |\n|    value_loss           | 57.2        |\n-----------------------------------------\n"
        )
        yield text, {"step": n * 2048, "loss": loss(n)}


@log("rsl_rl: learning iterations")
def _rsl() -> Told:
    for n in (7, 8):
        text = f"\x1b[1m Learning iteration {n}/20 \x1b[0m\nComputation: 16196 steps/s (collection: 8.8s, learning 3.2s)\nMean action noise std: 0.05\nMean reward: -19.4\nTotal timesteps: {n * 196608}\nETA: 164.6s\n"
        yield text, {"step": n, "total": 20}


@log("verl: a titled bar and its metrics")
def _verl() -> Told:
    for s in (1, 2):
        shown = {"step": s, "total": 105}
        yield (
            f"\x1b[36m(TaskRunner pid=4411)\x1b[0m step:{s} - actor/pg_loss:0.01 - actor/grad_norm:0.5 - critic/rewards/mean:0.2\n",
            shown if s > 1 else {"step": 1},
        )
        yield (
            f"\x1b[36m(TaskRunner pid=4411)\x1b[0m Training Progress:   {s}%|          | {s}/105 [01:00<1:44:00, 60.1s/it]\n",
            shown,
        )
