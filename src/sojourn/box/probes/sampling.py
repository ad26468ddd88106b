"""GPUs watched for a while, on request while they multiply: an idle GPU says nothing about its health.

A Python with torch computes the product, in its own process, on unused GPUs. The output is that of `nvidia-smi
--query-gpu=... --loop-ms=...`: a row per GPU and look.
"""

from __future__ import annotations

import os
import select
import subprocess
import time

from sojourn.box.probes import cards
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.system import raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

MATMUL = "matmul"
LOOP_MS = 200
_LOAD_S = 90.0  # importing torch from a cold network disk
_FREE_MIB = 2048  # for the three squares, and CUDA itself
_IDLE_PCT = 20
_NO_TORCH = 3
_BYTES = 1 << 16

# Arguments: seconds, kind of device, their indices. One JSON object per line. The same product must be identical to the
# last bit each time, and some of its rows equal to the CPU's.
_PROGRAM = r"""
import json, sys, time

def say(**what):
    print(json.dumps(what), flush=True)

try:
    import torch
except ImportError as error:
    say(no_torch=str(error)[:300])
    sys.exit(3)
seconds, kind, wanted = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
archs = torch.cuda.get_arch_list() if kind == "cuda" else []
say(torch=torch.__version__, cuda=torch.version.cuda, avail=kind == "cpu" or torch.cuda.is_available(), archs=archs)
if kind == "cuda" and not torch.cuda.is_available():
    try:
        torch.zeros(1).cuda()
    except Exception as error:
        say(failed=" ".join(str(error).split())[:300])
    sys.exit(0)
work = {}
for name in wanted:
    try:
        device = torch.device(kind, int(name))
        major = torch.cuda.get_device_capability(device)[0] if kind == "cuda" else 0
        n, dtype = (8192, torch.float16) if major >= 7 else (4096 if kind == "cuda" else 256, torch.float32)
        torch.manual_seed(0)
        a, b = (torch.randn(n, n).to(dtype) for _ in range(2))
        there = a.to(device), b.to(device)
        first = there[0] @ there[1]
        near = (first[:4].float().cpu() - a[:4].float() @ b.float()).abs().max().item()
        work[name] = [there, first, near / n ** 0.5, 0, n]
    except Exception as error:
        say(card=int(name), ok=False, said=" ".join(str(error).split())[:300])
say(begin=sorted(map(int, work)))
until = time.monotonic() + seconds
began = time.monotonic()
last = {}
try:
    while work and time.monotonic() < until:
        for name, one in work.items():
            for _ in range(8):
                last[name] = one[0][0] @ one[0][1]
                one[3] += 1
        for out in last.values():
            out[0, 0].item()
    took = time.monotonic() - began
    for name, (there, first, near, count, n) in work.items():
        same, close = bool(torch.equal(last[name], first)), near < 0.05
        wrong = "" if same and close else "the same product came out different" if not same else "the product is wrong"
        say(card=int(name), ok=not wrong, said=wrong, tflops=round(2e-12 * n ** 3 * count / took, 2))
except Exception as error:
    for name in work:
        say(card=int(name), ok=False, said=" ".join(str(error).split())[:300])
"""


def deadline_s(sample: Dict[str, Any]) -> float:
    """The longest time `take` may need."""
    return seconds_of(sample) + (_LOAD_S * 2 + 60.0 if sample.get("matmul") else 5.0)


def seconds_of(sample: Dict[str, Any]) -> float:
    """How long to watch GPUs, a minute at most."""
    return max(0.2, min(float(sample.get("seconds") or 2.0), 60.0))


def collect(context: AttemptContext, sample: Dict[str, Any]) -> Dict[str, raw.Entry]:
    """The answer of `cards`, with the rows of all looks within `seconds`; and MATMUL, if `matmul` requests it.

    `sample`: {"seconds", "matmul", "python", "init", "device"}: `init` is the site's shell line, `python` its Python.
    """
    found = cards.collect(context)
    query = next((name for name in found if "--query-gpu" in name), "")
    if not query or found[query]["rc"] == raw.NO_PROGRAM:
        if sample.get("matmul"):
            if sample.get("device") != "cpu":
                return dict(found, **{MATMUL: raw.text("", 1, "there is no usable GPU")})
            found[MATMUL] = _multiply(sample, ["0"], lambda: None)
        return found
    texts = [found[query]["stdout"]]

    def again() -> None:
        texts.append(str(cards.collect(context, only_query=True).get(query, {}).get("stdout") or ""))

    if sample.get("matmul"):
        idle, busy = _idle(query, texts[0])
        del texts[0]
        found[MATMUL] = _multiply(sample, idle, again) if idle else raw.text("", 1, "no GPU is free: " + busy)
        if busy and idle:
            found[MATMUL]["stderr"] += "left out: %s\n" % busy
    until_s = time.monotonic() + seconds_of(sample)
    while not sample.get("matmul") and time.monotonic() < until_s:
        time.sleep(LOOP_MS / 1000.0)
        again()
    if len(texts) > 1:
        found["%s --loop-ms=%d" % (query, LOOP_MS)] = dict(found.pop(query), stdout="".join(texts))
    return found


def _idle(query: str, text: str) -> Tuple[List[str], str]:
    """(indices of unused GPUs, words about the others)."""
    head = query.partition("--query-gpu=")[2].split(" ")[0].split(",")
    idle, busy = [], []
    for line in text.splitlines():
        row = dict(zip(head, line.split(", ")))
        used, total, util = (_number(row.get(name)) for name in ("memory.used", "memory.total", "utilization.gpu"))
        if util is not None and util >= _IDLE_PCT:
            busy.append("GPU %s is busy (%d %%)" % (row.get("index"), util))
        elif used is not None and total is not None and total - used < _FREE_MIB:
            busy.append("GPU %s has %d MiB free" % (row.get("index"), total - used))
        elif str(row.get("index", "")).isdigit():
            idle.append(str(row["index"]))
    return idle, ", ".join(busy)


def _number(text: Any) -> float | None:
    word = str(text or "").split(" ")[0]
    return float(word) if word.replace(".", "", 1).isdigit() else None


def _multiply(sample: Dict[str, Any], indices: List[str], look: Any) -> raw.Entry:
    """Let a Python with torch multiply, and `look` at the GPUs meanwhile; its output, and what was tried."""
    tried = []
    for python in _pythons(sample):
        entry = _one(python, sample, indices, look)
        if entry["rc"] not in (_NO_TORCH, 126, raw.NO_PROGRAM):
            return dict(entry, python=python)
        tried.append("%s: %s" % (python, "no torch" if entry["rc"] == _NO_TORCH else "does not start"))
    return raw.text("", raw.NO_PROGRAM, "no Python with torch: %s\n" % "; ".join(tried))


def _pythons(sample: Dict[str, Any]) -> List[str]:
    """The site's own; the one its `init` puts on the PATH; the environments made by jobs' `setup`, newest first."""
    made = []
    envs = str(sample.get("envs") or "")
    try:
        made = [os.path.join(envs, name, "bin/python") for name in os.listdir(envs)]
    except OSError:
        made = []
    made = sorted((path for path in made if os.path.exists(path)), key=os.path.getmtime, reverse=True)
    return list(dict.fromkeys([one for one in (sample.get("python"), "python3", "python") if one] + made[:3]))


def _one(python: str, sample: Dict[str, Any], indices: List[str], look: Any) -> raw.Entry:
    seconds = seconds_of(sample)
    shell = '%s\nexec "$@"' % (sample.get("init") or ":")
    program = [python, "-c", _PROGRAM, str(seconds), str(sample.get("device") or "cuda")] + indices
    child = subprocess.Popen(
        ["bash", "-c", shell, "sojourn"] + program,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID"),
    )
    assert child.stdout is not None and child.stderr is not None
    until_s = time.monotonic() + _LOAD_S
    text, has_begun = b"", False
    fd = child.stdout.fileno()
    ear = select.poll()
    ear.register(fd, select.POLLIN)
    while time.monotonic() < until_s:
        if has_begun:
            look()
        if ear.poll(LOOP_MS):
            part = os.read(fd, _BYTES)
            text += part
            if not part:
                break
            if not has_begun and b'"begin"' in text:
                has_begun, until_s = True, time.monotonic() + seconds + 30.0
    try:
        child.wait(0 if time.monotonic() >= until_s else 10.0)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(10.0)
        return raw.text(raw.plain(text), raw.NO_ANSWER, "no answer in time\n")
    said = child.stderr.read(1 << 14)
    return raw.text(raw.plain(text), child.returncode, raw.plain(said[-2000:]))
