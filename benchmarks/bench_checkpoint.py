"""What a checkpoint costs a training, against the limits of this machine and against other ways.

The state is 1 GB of float32 in 64 tensors, on a GPU where there is one. SOJOURN_BENCH_GB sets another size; of more
than 2 GB our own part is measured alone, since the others' copies would not fit beside it. The limits are a memcpy of
the state, and its bytes to this disk by O_DIRECT and buffered, both fsynced, and from it. Each round takes them right
before and right after what we do, and the mean is the round's: on a rented box one and the same read took three times
as long a few seconds later. Every reading begins when the disk has nothing left to do, and removing the checkpoint
before is in none of them, nor in the others', but for
`torch.save`, `save_file` and their renames. A training is held up in two ways:
one that computes on every core, and one that leaves a core free, as most do whose work is on a GPU; what it loses is
taken against the same training without a save right before and right after, for a minute later this box computes a
tenth faster or slower. Without PyTorch there is nothing to compare and nothing is measured.
"""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.other_savers import dcp, safetensors_save, torch_save
from benchmarks.protocol import Row

GB = float(os.environ.get("SOJOURN_BENCH_GB", "1"))
IS_LARGE = GB > 2
TITLE = f"A checkpoint of {GB:g} GB: stall, durability" + ("" if IS_LARGE else ", lost time, restore")
ROUNDS = 9
BYTES = int(GB * 1e9) // 256 * 256
T = TypeVar("T")
_TENSORS = 64
_CHUNK = 32 << 20


class Readings:
    """Several figures of one run of `act`; asked for one after the other, `act` runs once for all of them."""

    def __init__(self, act: Callable[[], dict[str, float]]) -> None:
        self.act = act
        self.pending: dict[str, float] = {}

    def all(self, *names: str) -> dict[str, Callable[[], float]]:
        """A measure for each of these figures."""

        def read(name: str) -> float:
            if name not in self.pending:
                self.pending = self.act()
            return self.pending.pop(name)

        return {name: partial(read, name) for name in names}


@contextmanager
def prepare(folder: Path) -> Iterator[dict[str, Callable[[], float]]]:
    """The state, a Checkpointer with its writer, and PyTorch's two ways."""
    if importlib.util.find_spec("torch") is None:
        yield {}
        return
    import torch

    from sojourn.train import Checkpointer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    state = {f"w{i}": torch.randn(BYTES // _TENSORS // 4, device=device) for i in range(_TENSORS)}
    said = StringIO()
    with redirect_stderr(said):
        ckpt = Checkpointer(folder=folder / "ours", state=state, every_steps=1, keep=1)
        began = time.perf_counter()
        ckpt.step()
        first_s = time.perf_counter() - began
        ckpt.wait()

    target = Target(torch, state, device)

    def write(flags: int) -> float:
        rest(folder / "dcp")
        return written(folder / "limit", target.image, flags)

    def limits() -> dict[str, float]:
        rest(folder / "dcp")
        return {"memcpy": target.copy(), "direct": write(getattr(os, "O_DIRECT", 0))}

    def save() -> dict[str, float]:
        rest(folder / "dcp")
        before = cpu_s()
        begin = time.perf_counter()
        ckpt.step()
        stall_s = time.perf_counter() - begin
        if not ckpt.wait():
            raise RuntimeError(said.getvalue()[-500:])
        durable_s = time.perf_counter() - begin
        while len(list((folder / "ours").glob("ckpt-*.pt"))) > 1:
            time.sleep(0.01)  # the older one goes; others shall not pay for it
        return {"stall": stall_s, "durable": durable_s, "cpu": cpu_s() - before}

    def ours() -> dict[str, float]:
        return between(limits, save) | {"buffered": write(0)}

    names = ("memcpy", "direct", "stall", "durable", "cpu", "buffered")
    measures = {"first": lambda: first_s} | Readings(ours).all(*names)
    if not IS_LARGE:
        measures.update(others(torch, state, folder, device, ckpt))
    with redirect_stderr(said):
        yield measures
    ckpt.close()


def others(torch: Any, state: dict[str, Any], folder: Path, device: str, ckpt: Any) -> dict[str, Callable[[], float]]:
    """PyTorch's two ways, what a training loses by each, and reading back."""
    save, save_safe = torch_save(torch, state, folder), safetensors_save(state, folder)
    begin_dcp, end_dcp = dcp(state, folder)
    cores = torch.get_num_threads()

    def calm(act: Callable[[], T]) -> T:
        rest(folder / "dcp")
        return act()

    def read(act: Callable[[str], Any]) -> float:
        return calm(lambda: cold(newest(folder), act))

    def restore() -> dict[str, float]:
        back = partial(restored, state)
        return between(lambda: {"cold": read(read_all)}, lambda: {"restore": read(back)})

    def trained(name: str, work: Work) -> dict[str, Callable[[], float]]:
        def run(begin: Callable[[], Any] = lambda: None, end: Callable[[], Any] = lambda: None) -> float:
            return calm(lambda: work.run(begin, end))

        def late() -> dict[str, float]:
            ways: dict[str, tuple[Callable[[], Any], ...]] = {
                "ours": (lambda: ckpt.step(), lambda: ckpt.wait()),
                "save": (save,),
                "safe": (save_safe,),
                "dcp": (begin_dcp, end_dcp),
            }
            told, before_s = {}, run()
            for way, acts in ways.items():
                with_s, after_s = run(*acts), run()
                told[f"{name}_{way}"] = with_s - (before_s + after_s) / 2
                before_s = after_s
            return told

        return Readings(late).all(f"{name}_ours", f"{name}_save", f"{name}_safe", f"{name}_dcp")

    return {
        **trained("all", Work(torch, device, cores)),
        **trained("some", Work(torch, device, max(1, cores - 1))),
        "save": partial(calm, lambda: timed(save)),
        "safe": partial(calm, lambda: timed(save_safe)),
        **Readings(lambda: calm(lambda: by_dcp(begin_dcp, end_dcp))).all("dcp_stall", "dcp_durable"),
        **Readings(restore).all("cold", "restore"),
        "load": lambda: read(partial(torch.load, weights_only=True)),
    }


def rows(medians: dict[str, float]) -> list[Row]:
    """Seconds, and what they are to the limits and to the others."""
    if not medians:
        return []
    m, gigabytes = medians, BYTES / 1e9
    disk_s = min(m["direct"], m["buffered"])
    own = [
        Row("limit: memcpy of the state", m["memcpy"], "s"),
        Row("limit: its bytes to the disk, O_DIRECT, 32 MiB at once, fsync", m["direct"], "s"),
        Row("limit: its bytes to the disk, buffered, fsync", m["buffered"], "s"),
        Row("stall: `Checkpointer.step`", m["stall"], "s"),
        Row("stall of `Checkpointer.step`, in memcpys", m["stall"] / m["memcpy"], "x", limit=2, goal=1.3),
        Row("stall of the very first save (memory is touched)", m["first"], "s"),
        Row("durable: Checkpointer", m["durable"], "s"),
        Row(
            "durable: Checkpointer, in best disk writes",
            m["durable"] / disk_s,
            "x",
            limit=3,
            goal=1.8 if IS_LARGE else 1.3,
        ),
        Row("CPU seconds a GB, both processes", m["cpu"] / gigabytes, "s", limit=4, goal=2),
    ]
    if IS_LARGE:
        return own
    return [
        *own,
        Row("stall: `dcp.async_save`", m["dcp_stall"], "s"),
        Row("stall: `torch.save`, fsync, rename", m["save"], "s"),
        Row("stall: `safetensors.torch.save_file`, fsync, rename", m["safe"], "s"),
        Row("durable: `dcp.async_save`", m["dcp_durable"], "s"),
        Row("durable: Checkpointer, in `dcp.async_save`s", m["durable"] / m["dcp_durable"], "x", limit=1, goal=0.5),
        *lost(m, "all", "on every core"),
        *lost(m, "some", "with a core free"),
        Row("restore: cold read of the bytes", m["cold"], "s"),
        Row("restore: `torch.load`", m["load"], "s"),
        Row("restore: Checkpointer, every byte checked", m["restore"], "s"),
        Row("restore: Checkpointer, in cold reads", m["restore"] / m["cold"], "x", limit=6, goal=1.3),
    ]


def lost(m: dict[str, float], name: str, what: str) -> list[Row]:
    """How much later a training ends that saves once."""
    ours_s, save_s = m[f"{name}_ours"], m[f"{name}_save"]
    return [
        Row(f"a training {what} ends later by, Checkpointer", ours_s, "s"),
        Row("the same, `dcp.async_save`", m[f"{name}_dcp"], "s"),
        Row("the same, `torch.save`", save_s, "s"),
        Row("the same, `safetensors.torch.save_file`", m[f"{name}_safe"], "s"),
        Row("lost by Checkpointer, of `torch.save`'s", ours_s / max(1e-3, save_s), "x", limit=0.5, goal=0.1),
    ]


class Target:
    """Memory that is touched already, to copy the state to: the limit of any stall, and what the disk is given."""

    def __init__(self, torch: Any, state: dict[str, Any], device: str) -> None:
        self.torch, self.state, self.device = torch, state, device
        self.image = mmap.mmap(-1, BYTES // 4096 * 4096 + 4096)
        self.flat = torch.frombuffer(self.image, dtype=torch.uint8)
        if device == "cuda":
            self.flat = torch.empty(len(self.image), dtype=torch.uint8, pin_memory=True)
        self.copy()

    def copy(self) -> float:
        """Seconds of one copy."""
        begin, at = time.perf_counter(), 0
        for tensor in self.state.values():
            size = tensor.numel() * 4
            if self.device == "cpu":
                ctypes.memmove(self.flat.data_ptr() + at, tensor.data_ptr(), size)
            else:
                self.flat[at : at + size].copy_(tensor.view(self.torch.uint8), non_blocking=True)
            at += size
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return time.perf_counter() - begin


class Work:
    """A training that computes for about two seconds on so many cores, with a save in its first quarter."""

    def __init__(self, torch: Any, device: str, cores: int) -> None:
        self.torch, self.device, self.cores = torch, device, cores
        self.x = torch.randn(1024, 1024, device=device)
        self.steps = 1
        self.run(lambda: None, lambda: None)
        self.steps = max(8, int(2.0 / self.run(lambda: None, lambda: None)))

    def run(self, begin: Callable[[], Any], end: Callable[[], Any]) -> float:
        """Seconds until the last step is done; `end` waits for the save behind the clock."""
        threads = self.torch.get_num_threads()
        self.torch.set_num_threads(self.cores)
        began = time.perf_counter()
        for step in range(self.steps):
            if step == self.steps // 4:
                begin()
            for _ in range(8):
                self.x = self.x @ self.x
                self.x /= self.x.norm()
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        took_s = time.perf_counter() - began
        end()
        self.torch.set_num_threads(threads)
        return took_s


def by_dcp(begin: Callable[[], None], end: Callable[[], None]) -> dict[str, float]:
    """Seconds until `begin` comes back, and until `end` does."""
    began = time.perf_counter()
    begin()
    stall_s = time.perf_counter() - began
    end()
    return {"dcp_stall": stall_s, "dcp_durable": time.perf_counter() - began}


def between(limits: Callable[[], dict[str, float]], act: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What `act` says, and the means of what the limits were before and after it."""
    before, told, after = limits(), act(), limits()
    return told | {name: (before[name] + after[name]) / 2 for name in before}


def rest(left: Path) -> None:
    """Until the folder `left` is gone and the disk has nothing left to do."""
    shutil.rmtree(left, ignore_errors=True)
    os.sync()
    time.sleep(0.3)


def timed(act: Callable[[], Any]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def written(path: Path, image: mmap.mmap, flags: int) -> float:
    """Seconds until the bytes of `image` are a file, fsynced."""
    data, began = memoryview(image), time.perf_counter()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags, 0o644)
    try:
        for at in range(0, len(data), _CHUNK):
            os.pwrite(fd, data[at : at + _CHUNK], at)
        os.fsync(fd)
        return time.perf_counter() - began
    finally:
        os.close(fd)
        path.unlink()


def newest(folder: Path) -> str:
    """The checkpoint that is there."""
    return str(max((folder / "ours").glob("ckpt-*.pt")))


def cold(path: str, act: Callable[[str], Any]) -> float:
    """Seconds of `act(path)` when nothing of the file is in memory."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return timed(lambda: act(path))


def read_all(path: str) -> None:
    """Read every byte into one buffer that is used again."""
    buffer = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as f:
        while f.readinto(buffer):
            pass


def restored(state: dict[str, Any], path: str) -> None:
    """What the next start does: check every byte, put the state back in place."""
    from sojourn.formats.torch import zip as torch_zip
    from sojourn.train.saving.arrays import thaw

    tree = torch_zip.read_zip(path).tree
    for name, tensor in thaw(tree["state"], share=True).items():
        state[name].copy_(tensor)


def cpu_s() -> float:
    """CPU seconds of this process and of its children that live."""
    total, ticks, me = 0.0, os.sysconf("SC_CLK_TCK"), os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            row = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(row[1]) == me or path.parent.name == str(me):
            total += (int(row[11]) + int(row[12])) / ticks
    return total


__all__ = ["ROUNDS", "TITLE", "prepare", "rows"]
