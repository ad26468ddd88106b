"""The writer process: takes a checkpoint's copy from shared memory, while it is being made, and does everything slow.

A fresh Python (never a fork of the training) with only the standard library, and isal if the training has it. It
ignores the training's signals, and dies with it: by a kernel signal where Linux provides it, else because its socket
ends; and before anything becomes visible it checks that the training still lives. Messages are JSON, one per packet:

    {"op": "reserve", "bytes"}                                -> {"ok": true}
    {"op": "save", "path", "token", "keep", "damaged", "step", "at_s", "bytes", "outline": [offset, bytes], "best"},
        followed by {"copied": bytes} ... up to all of them, or null if no more will come
                                                              -> {"ok": true, "name", "direct", "cpu_s", "said": [...]}
    if it did not go well                                     -> {"ok": false, "errno", "detail", "file"}
                                                              or {"ok": false, "superseded": token}
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from sojourn.formats.torch import write as torch_write
from sojourn.train.saving.commit import Orphaned, Shelf, Superseded

START = (
    "import sys; sys.path[:] = [sys.argv[1], *sys.path, *filter(None, sys.argv[2:3])]; "
    "from sojourn.train.saving.writer import main; main(sys.argv[3:])"
)
PACKET_BYTES = 128 << 10
_BLOCK = 4096
_CHUNK = 32 << 20  # written at once while the copy is made
_TAIL = 64 << 20  # and once it is complete: a disk rests between two of them
_LARGE = 64 << 20  # from here on O_DIRECT is worth a probe, and hashing runs beside writing
_LATE = 4096  # spans to rewrite; with more of them, writing waits for hashing
_DIRECT = getattr(os, "O_DIRECT", 0)
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG, linux/prctl.h


def main(argv: list[str]) -> None:
    """`argv`: descriptor of the socket, descriptor of the memory, pid of the training, "1" if its main thread starts
    this.
    """
    channel, memory, parent = socket.socket(fileno=int(argv[0])), int(argv[1]), int(argv[2])
    if sys.platform == "linux":
        if argv[3] == "1":  # the kernel sends it when the *thread* that made the child ends
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    Writer(channel, memory, parent).serve()


class Writer:
    """Answers requests from `channel` until it closes. `memory` is the shared memory; `parent` the training's pid."""

    def __init__(self, channel: socket.socket, memory: int, parent: int) -> None:
        self.channel, self.memory, self.parent = channel, memory, parent
        self.image = memoryview(b"")
        self.is_direct: bool | None = None  # unknown until probed
        self.copied = 0
        self.prune: Callable[[], None] = lambda: None
        self.said: list[str] = []
        self.usual = _score()

    def serve(self) -> None:
        """Until the training ends."""
        _be_victim(self.usual, True)
        while os.getppid() == self.parent:
            packet = self.channel.recv(PACKET_BYTES)
            if not packet:
                return
            try:
                answer = self.answer(json.loads(packet.decode("utf-8")))
            except Orphaned:
                return
            text = json.dumps(answer).encode("utf-8")
            try:
                self.channel.send(text)
            except OSError:
                return
            self.prune()  # nobody waits for that

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        """The result of one request.   Raises: Orphaned."""
        self.said = []
        try:
            return self.reserve(int(job["bytes"])) if job["op"] == "reserve" else self.save(job)
        except Superseded as e:
            return {"ok": False, "superseded": e.fields["theirs"]}
        except OSError as e:
            return {
                "ok": False,
                "errno": e.errno,
                "detail": e.strerror or str(e),
                "file": e.filename,
                "said": self.said,
            }
        except (ValueError, KeyError, MemoryError, RuntimeError):  # the last: no thread available
            return {"ok": False, "errno": None, "detail": traceback.format_exc()[-2000:], "file": None}

    def reserve(self, size_bytes: int) -> dict[str, Any]:
        """Get the pages now: a shortage is an error here, rather than a SIGBUS in the training."""
        os.ftruncate(self.memory, size_bytes)
        os.posix_fallocate(self.memory, 0, size_bytes)
        return {"ok": True}

    def save(self, job: dict[str, Any]) -> dict[str, Any]:
        """Seal the image while it is copied, write it, publish it; `best`: make it best.pt."""
        self.copied = 0
        _be_victim(self.usual, False)
        try:
            return self._save(job)
        finally:
            self.await_copy(job["bytes"], None)
            _be_victim(self.usual, True)

    def _save(self, job: dict[str, Any]) -> dict[str, Any]:
        size = os.fstat(self.memory).st_size
        if len(self.image) != size:
            self.image = memoryview(mmap.mmap(self.memory, size))
        at, length = job["outline"]
        plan = torch_write.again(bytes(self.image[at : at + length]))
        if plan.bytes != job["bytes"]:
            raise ValueError(f"the outline says {plan.bytes} bytes, the request {job['bytes']}")
        place = (job["path"], job["token"], job["keep"])
        shelf = Shelf(*place, self.said.append, set(job["damaged"]), self.check, prunes_later=True)
        self.prune = shelf.prune

        def write(aside: str) -> str:
            flags = self.choose(aside, plan.bytes)
            put(plan, self.image, aside, flags, self.check, lambda there: self.await_copy(plan.bytes, there))
            return plan.sums_sha256

        name = shelf.commit(write, plan.bytes, job["step"], job["at_s"])
        if job["best"]:
            try:
                shelf.make_best(name)
            except OSError as e:
                self.said.append(f"best.pt is NOT brought up to date: {e.strerror}; {name} holds the best state")
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = used.ru_utime + used.ru_stime
        return {"ok": True, "name": name, "direct": bool(self.is_direct), "cpu_s": cpu_s, "said": self.said}

    def await_copy(self, size_bytes: int, there: Callable[[int], None] | None) -> None:
        """Follow the copy of that size until it is complete; `there` None: nobody needs it any more.

        Raises: Orphaned; ValueError if it will never be complete.
        """
        while self.copied < size_bytes:
            packet = self.channel.recv(PACKET_BYTES)
            if not packet:
                raise Orphaned
            word = json.loads(packet.decode("utf-8"))["copied"]
            self.copied = sys.maxsize if word is None else word
            if there is not None:
                if word is None:
                    raise ValueError("the state could not be copied")
                there(self.copied)

    def check(self) -> None:
        """Raises: Orphaned if the training is gone."""
        if os.getppid() != self.parent:
            raise Orphaned
        try:
            if not self.channel.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise Orphaned
        except BlockingIOError:
            pass

    def choose(self, aside: str, size_bytes: int) -> int:
        """The flags to open with: O_DIRECT if the disk is faster with it, tested once by writing both ways."""
        if size_bytes < _LARGE or not _DIRECT:
            return 0
        if self.is_direct is None:
            try:
                direct_s = _timed(aside, self.image[:_CHUNK], _DIRECT)
                self.is_direct = direct_s < _timed(aside, self.image[:_CHUNK], 0)
            except OSError as e:
                if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                self.is_direct = False
        return _DIRECT if self.is_direct else 0


def _score() -> int | None:
    """How likely the kernel is to kill this process when out of memory; None if it does not say."""
    try:
        with open("/proc/self/oom_score_adj") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def _be_victim(usual: int | None, is_idle: bool) -> None:
    """Without a save under way this process is the one to kill when memory runs out: nothing is lost with it. While it
    holds the only copy of a state it is as valuable as the training.
    """
    if usual is None:
        return
    try:
        with open("/proc/self/oom_score_adj", "w") as f:
            f.write(str(max(usual, 500) if is_idle else usual))
    except OSError:
        pass


def put(
    plan: torch_write.Plan,
    image: memoryview,
    aside: str,
    flags: int,
    check: Callable[[], None] = lambda: None,
    arrive: Callable[[Callable[[int], None]], None] = lambda there: None,
) -> None:
    """Seal the image and write it as the file `aside`, fsynced. A large one is written while it is copied, and hashed
    once complete: parts already written that hashing changes are written again.

    `image` reaches at least to the next whole block after the plan's bytes. `arrive(there)` returns once all pieces are
    in it, and meanwhile calls `there(n)` once the first `n` bytes are complete.
    Raises: OSError, and what `check` and `arrive` raise.
    """
    at_byte, moved = {"there": 0, "sealed": 0, "issued": 0}, threading.Condition()
    late: list[tuple[int, int]] = []

    def tell(count: int, *names: str) -> None:
        with moved:
            at_byte.update(dict.fromkeys(names, count))
            moved.notify()

    def placed(start: int, stop: int) -> None:
        with moved:
            if start < at_byte["issued"]:
                late.append((start, stop))
        tell(stop, "sealed")

    def seal() -> None:
        arrive(lambda count: tell(count, "there"))
        tell(sys.maxsize, "there")
        plan.seal(image, placed)

    with ThreadPoolExecutor(1) as pool:
        sealing = pool.submit(seal)
        sealing.add_done_callback(lambda _: tell(sys.maxsize, "there", "sealed"))
        if plan.bytes < _LARGE:
            sealing.result()
        end = -(-plan.bytes // _BLOCK) * _BLOCK
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | flags, 0o644)
        try:
            at = 0
            while at < end:
                with moved:
                    stop = min(at + (_CHUNK if at_byte["there"] < end else _TAIL), end)
                    while at_byte["there"] < stop or (len(late) > _LATE and at_byte["sealed"] < stop):
                        moved.wait()
                    at_byte["issued"] = stop
                if sealing.done():
                    sealing.result()
                _pwrite(fd, image, at, stop)
                at = stop
                check()
            sealing.result()
            if late:
                _rewrite(aside, image, late)
            os.ftruncate(fd, plan.bytes)
            os.fsync(fd)
        finally:
            os.close(fd)


def _rewrite(aside: str, image: memoryview, spans: list[tuple[int, int]]) -> None:
    """Rewrite these spans, in whole blocks. Not with O_DIRECT, which would wait for each."""
    fd = os.open(aside, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for start, stop in spans:
            _pwrite(fd, image, start // _BLOCK * _BLOCK, -(-stop // _BLOCK) * _BLOCK)
    finally:
        os.close(fd)


def _pwrite(fd: int, image: memoryview, at: int, stop: int) -> None:
    while at < stop:
        at += os.pwrite(fd, image[at:stop], at)


def _timed(aside: str, data: memoryview, flags: int) -> float:
    """Seconds to write and fsync `data` as a new file, then removed.   Raises: OSError."""
    began_s = time.monotonic()
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | flags, 0o644)
    try:
        _pwrite(fd, data, 0, len(data))
        os.fsync(fd)
        return time.monotonic() - began_s
    finally:
        os.close(fd)
        os.unlink(aside)
