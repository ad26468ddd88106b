"""Calls to the keeper of a box: one question, one framed answer. Puts the keeper there when it is not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from sojourn.backends.client import bootstrap
from sojourn.core.ports import Transport
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.store import parcel as packed
from sojourn.wire import framing
from sojourn.wire.errors import WorldError

_SAID_BYTES = 600


@dataclass(frozen=True)
class Answer:
    """What a keeper answered. `value`: its JSON; `blobs`: the byte frames after it, in order."""

    value: Mapping[str, Any]
    blobs: Sequence[bytes] = field(default_factory=tuple)


class KeeperRefused(WorldError):
    """{site}: {message}."""

    # The box understood and says no; `code` is the keeper's own word (name-taken, no-such-run, hash-mismatch, ...).
    code = "keeper-refused"

    def __init__(self, *, site: str, code: str, message: str, value: Mapping[str, Any]) -> None:
        super().__init__(site=site, message=message.rstrip("."))
        self.code = code  # type: ignore[misc]
        self.value = value


class NoFrames(WorldError):
    """{site} answered without a keeper's words (exit status {rc}): {said}."""

    code = "no-frames"


class NoPython(WorldError):
    """{site} has no Python 3.8 or newer that we can find; tried: {tried}. Name one with `python` in the site's
    settings.
    """

    code = "no-python"


class NoBase(WorldError):
    """{site}: {why}. Name a folder that can be written, on a disk that lasts, with `base` in the site's settings."""

    code = "no-base"


class Keeper:
    """The keeper of one site. Holds no state but what it learned of the box: a second one would miss nothing."""

    def __init__(self, transport: Transport, site: Site, parcel: ModuleType | Any = packed) -> None:
        self.transport = transport
        self.site = site
        self.parcel = parcel
        self._packed: tuple[str, bytes] | None = None

    @property
    def file(self) -> str:
        """The name of the keeper we speak to: its content."""
        return self._pack()[0]

    def ask(
        self,
        op: str,
        blobs: Sequence[bytes] = (),
        *,
        timeout_s: float = 30.0,
        limit_bytes: int = 64 << 20,
        **fields: Any,
    ) -> Answer | NoAnswer:
        """One call. Every op is safe to repeat, so a NoAnswer may simply be asked again.

        Raises: KeeperRefused (the box says no), NoFrames, NoPython, NoBase, and what `transport.put` raises.
        """
        request = {"op": op, "base": self.site.base, **fields}
        stdin = framing.pack_json(request) + b"".join(framing.pack(blob) for blob in blobs)
        argv = bootstrap.argv(self.site.base, self.file, self._python())
        ended = self.transport.call(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
        folder = self._misses_keeper(ended) if isinstance(ended, Ended) else ""
        if folder:
            put = self._put(self._pack(), folder, timeout_s)
            if put is not None:
                return put
            ended = self.transport.call(argv, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
        return ended if isinstance(ended, NoAnswer) else self._read(ended)

    def ship_train(self, base: str, *, timeout_s: float = 120.0) -> str | NoAnswer:
        """Put the training side there where it is not yet; its file name (run.json's `train`). Idempotent."""
        name, data = self.parcel.train_bytes()
        answer = self.ask("have", kind="train", names=[name], timeout_s=timeout_s)
        if isinstance(answer, NoAnswer):
            return answer
        if answer.value["missing"]:
            put = self._put((name, data), f"{base}/train", timeout_s)
            if put is not None:
                return put
        return str(name)

    def _misses_keeper(self, ended: Ended) -> str:
        """The folder that the keeper must be put into, "" where one answered."""
        absent = bootstrap.missing(ended.rc, ended.stdout)
        if absent is not None:
            return f"{absent.base}/keepers"
        try:
            self._read(ended)
        except KeeperRefused as no:
            return os.path.dirname(str(no.value.get("keeper"))) if no.code == "keeper-damaged" else ""
        except WorldError:
            return ""
        return ""

    def _python(self) -> str:
        if self.site.python or self.site.transport != "local":
            return self.site.python
        import sys

        # Not the venv's own link: the venv may be gone before the run ends, the Python it was made from hardly.
        return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)

    def _pack(self) -> tuple[str, bytes]:
        if self._packed is None:
            name, data = self.parcel.keeper_bytes()
            self._packed = (name, data)
        return self._packed

    def _put(self, pack: tuple[str, bytes], folder: str, timeout_s: float) -> None | NoAnswer:
        with tempfile.NamedTemporaryFile(prefix="sojourn-") as f:
            f.write(pack[1])
            f.flush()
            return self.transport.put(f.name, f"{folder}/{pack[0]}", timeout_s=max(timeout_s, 60.0))

    def _read(self, ended: Ended) -> Answer:
        site = self.site.name
        try:
            found = list(framing.frames(ended.stdout))
        except framing.Torn as error:
            cut = "; the answer is over the limit" if ended.truncated else ""
            raise NoFrames(site=site, rc=ended.rc, said=f"{error}{cut}") from error
        if not found or found[0][0] != b"J":
            if tried := bootstrap.tried(ended.rc, ended.stderr):
                raise NoPython(site=site, tried=tried)
            if why := bootstrap.no_folder(ended.rc, ended.stderr):
                raise NoBase(site=site, why=why)
            said = (ended.stderr.strip() or ended.stdout.strip())[-_SAID_BYTES:].decode("utf-8", "replace")
            raise NoFrames(site=site, rc=ended.rc, said=said or "nothing at all")
        value = found[0][1]
        if not value.get("ok"):
            code, message = str(value.get("code", "world")), str(value.get("message", "no reason given"))
            raise KeeperRefused(site=site, code=code, message=message, value=value)
        return Answer(value, tuple(data for kind, data in found[1:] if kind == b"B"))
