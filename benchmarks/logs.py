"""Logs of many megabytes as trainings write them, each with its own way to be slow to read; made from a seed."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

END = (
    b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
)
_WORDS = (
    "the model said that connection memory error failed timeout rank killed device node loss disk space process file"
    " network worker signal aborted refused denied import module missing shape tensor cuda nccl kernel image version"
    " token sample answer question because without between where after again never always nothing something"
).split()


def bars(dice: random.Random) -> Iterator[bytes]:
    """tqdm: bars that are drawn over, and a line an epoch."""
    for n in itertools.count():
        share = n % 1000
        bar = "█" * (share // 100) + "▌"
        yield (
            f"\rEpoch {n // 1000}/90: {share // 10:3d}%|{bar:<10}| {share}/1000 [{n % 60:02d}:{share % 60:02d}"
            f"<00:{n % 50:02d}, {dice.uniform(1, 9):.2f}it/s, loss={dice.random():.4f}, lr=0.0003]"
        ).encode()
        if share == 999:
            yield b"\n"


def nccl(dice: random.Random) -> Iterator[bytes]:
    """NCCL_DEBUG=INFO of 64 ranks on eight nodes."""
    kinds = (
        "NCCL INFO Channel {a:02d}/{b:02d} : {a}[{b}] -> {b}[{a}] via P2P/CUMEM/read",
        "NCCL INFO Channel {a:02d}/0 : {a}[{b}] -> {b}[{a}] [receive] via NET/IB/{c}/GDRDMA",
        "NCCL INFO NET/IB : Using [{c}]mlx5_{c}:1/RoCE [RO]; OOB eth0:10.0.{a}.{b}<0>",
        "NCCL INFO Connected all rings, use ring PXN 0 GDR 1",
        "NCCL INFO [Proxy Progress] Device {c} CPU core {a}",
        "NCCL INFO AllReduce: opCount {n:x} sendbuff 0x7f{n:08x}00 recvbuff 0x7f{n:08x}00 count {n} datatype 7 op 0"
        " root 0 comm 0x55{n:06x} [nranks={a}] stream 0x56{n:06x}",
        "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL INFO ncclCommInitRank comm 0x{n:012x} rank {a} nranks 64 cudaDev {c} nvmlDev {c} busId {n:x}"
        " commId 0x{n:016x} - Init COMPLETE",
        "NCCL INFO misc/socket.cc:{a} -> 6 Connection closed by remote peer node{b}.cluster<{n}>, retrying",
    )
    while True:
        a, b, c = dice.randrange(64), dice.randrange(64), dice.randrange(8)
        text = dice.choice(kinds).format(a=a, b=b, c=c, n=dice.randrange(1 << 30))
        yield f"node{b}:{1000 + a}:{2000 + a} [{c}] {text}\n".encode()


def warnings(dice: random.Random) -> Iterator[bytes]:
    """The same few warnings between steps, thousands of times."""
    kinds = (
        "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:{n}: UserWarning: This DataLoader will"
        " create 16 worker processes in total. Our suggested max number of worker in current system is 8, which is"
        " smaller than what this DataLoader is going to create.",
        "[rank{c}]:W1121 10:{a:02d}:{b:02d}.000 {n} torch/_dynamo/convert_frame.py:906] [0/8] torch._dynamo hit"
        " config.recompile_limit (8)",
        "W0000 00:00:{n}.{a} {n} cuda_dnn.cc:8] Unable to register cuDNN factory: Attempting to register factory",
        "WARNING:urllib3.connectionpool:Retrying (Retry(total={c}, connect=None)) after connection broken by"
        " 'ReadTimeoutError(\"Read timed out. (read timeout=10)\")': /api/models/{n}",
        "libpng warning: iCCP: known incorrect sRGB profile",
        "Corrupt JPEG data: {n} extraneous bytes before marker 0xd9",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {n}.0",
    )
    for n in itertools.count():
        text = dice.choice(kinds).format(a=n % 60, b=n % 50, c=n % 8, n=n)
        yield f"{text}\nstep {n}/1000000 loss={dice.random():.5f} lr=0.0003\n".encode()


def tracebacks(dice: random.Random) -> Iterator[bytes]:
    """An exception that is caught and printed at every step."""
    for n in itertools.count():
        yield (
            f"step {n}/1000000 loss={dice.random():.5f}\nTraceback (most recent call last):\n"
            f'  File "/srv/train/data.py", line {dice.randrange(9999)}, in fetch\n    return self.cache[key]\n'
            "           ~~~~~~~~~~^^^^^\n"
            f"KeyError: 'sample-{n}'\n\nDuring handling of the above exception, another exception occurred:\n\n"
            f'Traceback (most recent call last):\n  File "/srv/train/data.py", line {dice.randrange(999)}, in get\n'
            "    response = session.get(url, timeout=10)\n"
            "requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset"
            f" by peer')) for {n}\n"
        ).encode()


def json_lines(dice: random.Random) -> Iterator[bytes]:
    """Structured logs: every line has an id of letters and digits, and words that patterns wait for."""
    for n in itertools.count():
        row = {
            "ts": f"2026-11-21T10:{n % 60:02d}:00Z",
            "level": dice.choice(("info", "warning", "error")),
            "trace_id": f"{dice.getrandbits(128):032x}",
            "msg": dice.choice(
                ("request timed out", "connection refused, will retry", "no such file or directory", "ok")
            ),
            "error_rate": dice.random(),
            "killed": 0,
            "step": n,
            "loss": dice.random(),
            "host": f"gpu-{dice.getrandbits(32):08x}.cluster.local",
        }
        yield json.dumps(row).encode() + b"\n"


def wide_json(dice: random.Random) -> Iterator[bytes]:
    """Lines of four thousand letters, no key of which comes twice."""
    while True:
        row = {
            f"k{dice.getrandbits(40):x}{dice.choice(_WORDS)}": f"{dice.choice(_WORDS)} {dice.getrandbits(60):x}"
            for _ in range(90)
        }
        yield json.dumps(row).encode() + b"\n"


def one_line(dice: random.Random) -> Iterator[bytes]:
    """No line end at all: a bar that is drawn by backspaces, with words between."""
    for n in itertools.count():
        yield f"{n}/1000 [=>..] - ETA: 0s - loss: {dice.random():.4f} - error: {dice.random():.2f} killed: 0".encode()
        yield b"\b" * 60


def dicts(dice: random.Random) -> Iterator[bytes]:
    """The Trainer of Hugging Face."""
    for n in itertools.count():
        row = {
            "loss": round(dice.random(), 4),
            "grad_norm": dice.random(),
            "lr": 1e-5 * dice.random(),
            "epoch": n / 1000,
        }
        yield f"{row}\n".encode()
        if n % 50 == 0:
            judged = {"eval_loss": dice.random(), "eval_runtime": 12.3, "eval_samples_per_second": 99.1, "epoch": n}
            yield f"{judged}\n".encode()


def chinese(dice: random.Random) -> Iterator[bytes]:
    """Words of another script around numbers, and sentences that differ."""
    words = "训练 正在 进行 显存 不足 警告 连接 超时 重试 磁盘 空间 进程 被杀 加载 模型 权重 完成 损失 学习率 准确率"
    for n in itertools.count():
        rest = "".join(dice.choices(words.split(), k=6))
        yield f"[{n}] 第 {n // 100}/90 轮 损失: {dice.random():.4f} 学习率: 0.0003 {rest}\n".encode()


def prose(dice: random.Random) -> Iterator[bytes]:
    """Samples that a language model wrote: no line like another, and words of errors in all of them."""
    for n in itertools.count():
        yield f"sample {n}: {' '.join(dice.choices(_WORDS, k=14))}\n".encode()


def names(dice: random.Random) -> Iterator[bytes]:
    """What a loader or a copy lists: paths with hashes and words, none like another."""
    for n in itertools.count():
        word = dice.choice(_WORDS)
        yield (
            f"loaded /data/{word}/{dice.getrandbits(160):040x}/{dice.choice(_WORDS)}_error_{n}.jpg: out of 4096 files,"
            f" {dice.choice(_WORDS)} killed {dice.getrandbits(64):016x} exit code 0\n"
        ).encode()


def ray(dice: random.Random) -> Iterator[bytes]:
    """Many actors, each with its name, pid and address before every line."""
    for n in itertools.count():
        yield (
            f"\x1b[36m(RayTrainWorker pid={dice.randrange(1 << 20)}, ip=10.0.{n % 250}.{dice.randrange(250)})\x1b[0m"
            f" [rank {n % 512}] step {n} loss={dice.random():.5f}, worker died 0 times, retries after timeout: 0\n"
        ).encode()


def matching(dice: random.Random) -> Iterator[bytes]:
    """Nothing but messages that the catalog knows, no two alike and of many ranks."""
    kinds = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n} MiB for {word}",
        "OSError: [Errno 28] No space left on device: '/data/{word}/{n}.pt'",
        "RuntimeError: DataLoader worker (pid {n}) is killed by signal: Killed. {word}",
        "[E ProcessGroupNCCL.cpp:{n}] Watchdog caught collective operation timeout: WorkNCCL({word})",
        "ConnectionResetError: [Errno 104] Connection reset by peer {word}",
        "ModuleNotFoundError: No module named '{word}'",
    )
    for n in itertools.count():
        word = "".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=9))
        yield f"[rank{dice.randrange(64)}]: {dice.choice(kinds).format(n=n, word=word)}\n".encode()


KINDS: dict[str, Callable[[random.Random], Iterator[bytes]]] = {
    "bars of tqdm": bars,
    "NCCL INFO of 64 ranks": nccl,
    "warnings again and again": warnings,
    "tracebacks again and again": tracebacks,
    "JSON lines with ids": json_lines,
    "wide JSON lines": wide_json,
    "one line without end": one_line,
    "dicts of a Trainer": dicts,
    "Chinese": chinese,
    "samples of a language model": prose,
    "paths with hashes": names,
    "actors of Ray": ray,
    "only messages of errors": matching,
}


def write(path: Path, kind: str, size_bytes: int) -> None:
    """A log of that kind and size, which ends with a GPU that is out of memory."""
    dice = random.Random(kind)
    source = KINDS[kind](dice)
    block = b"".join(itertools.islice(source, 2000))
    written = 0
    with path.open("wb") as f:
        while written < size_bytes - len(block):
            written += f.write(block)
            block = b"".join(itertools.islice(source, 2000))
        f.write(b"\n" + END)
