"""Every call of a save to the system, recorded and played again up to any of them: what a cut at that moment leaves.

`record(act)` runs `act` with the functions of `os` watched that change a disk; `play(calls, root)` does them again
below another folder. Both see the very functions through which `sojourn.train` and `sojourn.wire` write; a test holds
the list against what strace sees.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

# The calls that change what is on a disk, and `close`, which ends the life of a number.
WATCHED = ("open", "close", "write", "pwrite", "ftruncate", "fsync", "rename", "link", "unlink", "mkdir")
Call = tuple  # (name, result, args), paths below the recorded folder as ("", relative path)


def record(folder: Path, act: Callable[[], None]) -> list[Call]:
    """The calls of `act` that concern `folder`, in order."""
    calls: list[Call] = []
    descriptors: set[int] = set()
    real = {name: getattr(os, name) for name in WATCHED}

    def watch(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = real[name](*args, **kwargs)
            ours = [isinstance(arg, str) and arg.startswith(str(folder)) for arg in args]
            if any(ours) or (isinstance(args[0], int) and args[0] in descriptors):
                kept = [bytes(arg) if isinstance(arg, memoryview) else arg for arg in args]
                below = [("", os.path.relpath(a, str(folder))) if mine else a for a, mine in zip(kept, ours)]
                calls.append((name, result, below))
                if name == "open":
                    descriptors.add(result)
                elif name == "close":
                    descriptors.discard(args[0])
            return result

        return call

    for name in WATCHED:
        setattr(os, name, watch(name))
    try:
        act()
    finally:
        for name in WATCHED:
            setattr(os, name, real[name])
    return calls


def play(calls: list[Call], root: Path) -> None:
    """Do the calls again below `root`, and close what they left open.   Raises: OSError; AssertionError where a write
    is not whole.
    """
    numbers: dict[int, int] = {}
    for name, result, args in calls:
        now = [str(root / arg[1]) if isinstance(arg, tuple) else arg for arg in args]
        if isinstance(now[0], int):
            now[0] = numbers.pop(now[0]) if name == "close" else numbers[now[0]]
        done = getattr(os, name)(*now)
        if name == "open":
            if result in numbers:
                os.close(numbers[result])  # it was closed by other means than os.close
            numbers[result] = done
        assert name not in ("write", "pwrite") or done == result
    for number in numbers.values():
        os.close(number)


@contextmanager
def disk(image: Path, point: Path) -> Iterator[Path]:
    """The file system in `image`, mounted at `point`."""
    point.mkdir(exist_ok=True)
    with open(image, "rb") as f:  # xfs refuses a copy while the one before is not quite gone
        options = "loop,nouuid" if f.read(4) == b"XFSB" else "loop"
    subprocess.run(["mount", "-o", options, str(image), str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def make(kind: str, image: Path) -> None:
    """An empty file system, as small as its kind allows."""
    with open(image, "wb") as f:
        f.truncate((300 if kind == "xfs" else 8) << 20)
    argv = ["mkfs.xfs", "-q", "-f"] if kind == "xfs" else ["mkfs.ext4", "-q", "-F"]
    subprocess.run([*argv, str(image)], check=True, stdout=subprocess.DEVNULL)


def fresh(source: Path, image: Path) -> None:
    """Let `image` be a new file like `source`: a loop device that still has the old one would show what it knew."""
    image.unlink(missing_ok=True)
    subprocess.run(["cp", "--sparse=always", str(source), str(image)], check=True)


def cut(image: Path, mounted: Path, copy: Path, is_flushed: bool) -> None:
    """What is on the disk of the mounted `image` at this moment, as a power cut would leave it.

    The file system's dirty pages are in memory and not in the image; its journal is, as far as it was written. With
    `is_flushed` all was written back just before, which a kernel may do at any time.
    """
    if is_flushed:
        number = os.open(str(mounted), os.O_RDONLY)
        os.fsync(number)
        os.close(number)
        subprocess.run(["sync", "-f", str(mounted)], check=True)
    copy.unlink(missing_ok=True)  # as `fresh`
    while True:  # the kernel may write meanwhile, and a copy of two moments is no cut
        subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
        if subprocess.run(["cmp", "-s", str(image), str(copy)]).returncode == 0:
            return
