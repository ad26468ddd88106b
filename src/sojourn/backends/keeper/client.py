"""Calls to the keeper of a box: one question, one framed answer. Installs the keeper if it is missing."""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from sojourn.backends.bounds import SICK
from sojourn.backends.keeper import bootstrap, decode
from sojourn.backends.keeper.decode import BadAnswer
from sojourn.backends.keeper.shapes import Wrong, path, preview
from sojourn.core.ports import Transport
from sojourn.core.values import Ended, NoAnswer, Site
from sojourn.store import parcel as packed
from sojourn.wire import framing, quote
from sojourn.wire.errors import WorldError

_SAID_BYTES = 600
# A command that asks a box several things waits for a silent one once: what it asks right after is not sent.
SILENT_S, AGAIN_S = 10.0, 3.0


@dataclass(frozen=True)
class Answer:
    """A keeper's answer. `value`: its JSON; `blobs`: the byte frames after it, in order."""

    value: Mapping[str, Any]
    blobs: Sequence[bytes] = field(default_factory=tuple)


class KeeperRefused(WorldError):
    """{site}: {message}."""

    # The box understood and refuses; `code` is the keeper's own word (name-taken, no-such-run, hash-mismatch, ...).
    code = "keeper-refused"

    def __init__(self, *, site: str, code: str, message: str, value: Mapping[str, Any]) -> None:
        super().__init__(site=site, message=message.rstrip("."))
        self.code = code  # type: ignore[misc]
        self.value = value


class NoFrames(WorldError):
    """{site} answered, but the answer did not come from a keeper (exit status {rc}): {said}."""

    code = "no-frames"


class NoPython(WorldError):
    """No Python 3.8 or newer was found on {site}; tried: {tried}. Set `python` in the site's settings."""

    code = "no-python"


class NoBase(WorldError):
    """{site}: {why}. Set `base` in the site's settings to a writable folder on a disk that lasts."""

    code = "no-base"


class OpenToOthers(WorldError):
    """{site}: {what}, so another user of that machine could run code as you. {mend}, or set `base` in the site's
    settings to a folder that only you can write to.
    """

    code = "open-to-others"


class Keeper:
    """The keeper of one site. Holds only what it has learned about the box, which a second one could learn too."""

    def __init__(
        self,
        transport: Transport,
        site: Site,
        parcel: ModuleType | Any = packed,
        unseen: Callable[[str], NoAnswer | None] = lambda op: None,
    ) -> None:
        """`unseen`: the answer to questions that are not asked there."""
        self.unseen = unseen
        self.transport = transport
        self.site = site
        self.parcel = parcel
        self._silent: tuple[NoAnswer, float] | None = None  # what was waited for in vain, and until when
        self._python_there = ""  # the last to answer: asking it again needs no search

    @property
    def file(self) -> str:
        """The name of the keeper we talk to: its content."""
        return _keeper_of(self.parcel)[0]

    def ask(
        self,
        op: str,
        blobs: Sequence[bytes] = (),
        *,
        timeout_s: float = 30.0,
        **fields: Any,
    ) -> Answer | NoAnswer:
        """One call. Every op is safe to repeat, so a NoAnswer may simply be asked again. An answer is decoded by the
        shape of its op, and never longer than one can be (`decode`). Right after a call that was waited for in vain
        nothing is sent, and the answer is the same.

        `blobs`: data for the op. Raises: KeeperRefused (the box refuses), BadAnswer, NoFrames, NoPython, NoBase, and
        what `transport.put` raises.
        """
        if (no := self.unseen(op)) is not None:
            return no
        request = {"op": op, "base": self.site.base, **fields}
        stdin = framing.pack_json(request) + b"".join(framing.pack(blob) for blob in blobs)
        most = decode.limit_bytes(op, request)
        ended = self._call(op, stdin, timeout_s, most)
        put = self.put_where_missing(op, ended, timeout_s) if isinstance(ended, Ended) else False
        if isinstance(put, NoAnswer):
            return put
        if put:
            ended = self._call(op, stdin, timeout_s, most)
        if isinstance(ended, NoAnswer):
            return ended
        answer = self.read(op, ended)
        return self.decoded(op, request, answer.value, answer.blobs)

    def ask_all(
        self, ops: Sequence[Mapping[str, Any]], blobs: Sequence[bytes] = (), *, timeout_s: float = 30.0
    ) -> list[Answer] | NoAnswer:
        """Several ops in one call, done in order: one answer each.

        Each is {"op": its name, and its fields}. Raises as `ask`, at the first refusal: earlier ops were done, later
        ones were not.
        """
        for one in ops:
            if (no := self.unseen(str(one["op"]))) is not None:
                return no
        said = self.ask("batch", blobs, timeout_s=timeout_s, ops=list(ops))
        if isinstance(said, NoAnswer):
            return said
        stamps = {key: value for key, value in said.value.items() if key != "answers"}
        rest = iter(said.blobs)
        answers = []
        for asked, value in zip(ops, said.value["answers"], strict=False):  # none after a refused one
            whole = {**value, **stamps, "ok": value["ok"]}
            if not value["ok"]:
                raise self._refused(str(asked["op"]), whole)
            mine = tuple(itertools.islice(rest, value["frames"]))
            answers.append(self.decoded(str(asked["op"]), {"base": self.site.base, **asked}, whole, mine))
        return answers

    @property
    def train_file(self) -> str:
        """The name of the training side we would install there: its content."""
        return _train_of(self.parcel)[0]

    def put_train(self, base: str, *, timeout_s: float = 120.0) -> None | NoAnswer:
        """Install the training side below `base`. Idempotent. Raises: what `transport.put` raises."""
        return self._put(_train_of(self.parcel), f"{base}/train", timeout_s)

    def put_where_missing(self, op: str, ended: Ended, timeout_s: float) -> bool | NoAnswer:
        """Install the keeper if this answer reports it missing or damaged; returns whether it did. Raises: BadAnswer,
        and what `transport.put` raises.
        """
        folder = self._misses_keeper(op, ended)
        return bool(folder) and (self._put(_keeper_of(self.parcel), folder, timeout_s) or True)

    def _call(self, op: str, stdin: bytes, timeout_s: float, limit_bytes: int) -> Ended | NoAnswer:
        if self._silent and time.monotonic() - self._silent[1] < AGAIN_S:
            return replace(self._silent[0], sent=False)
        began_s = time.monotonic()
        call = functools.partial(self.transport.call, stdin=stdin, timeout_s=timeout_s, limit_bytes=limit_bytes)
        ended = call(self.argv())
        if isinstance(ended, Ended) and bootstrap.asks_for_search(ended.rc, ended.stdout):
            ended = call(self.argv(search=True))
        now_s = time.monotonic()
        is_late = now_s - began_s >= SILENT_S
        self._silent = (ended, now_s) if is_late and isinstance(ended, NoAnswer) else None
        return self.whole(op, ended)

    def argv(self, *, search: bool = False) -> list[str]:
        """The argv of a call."""
        alone = getattr(self.transport, "is_alone", False)
        return bootstrap.argv(self.site.base, self.file, self.python(), search=search, alone=alone)

    def whole(self, op: str, ended: Ended | NoAnswer) -> Ended | NoAnswer:
        """The same. Raises: BadAnswer for what did answer, but nothing that a transport can read."""
        if isinstance(ended, NoAnswer) and ended.kind in SICK:
            raise BadAnswer(site=self.site.name, op=op, what=ended.detail)
        return ended

    def _misses_keeper(self, op: str, ended: Ended) -> str:
        """The folder where the keeper must be installed, "" if one answered. Raises: BadAnswer."""
        absent = bootstrap.missing(ended.rc, ended.stdout)
        if absent is not None:
            return self._keepers(op, f"{absent.base}/keepers")
        try:
            said = self.read(op, ended).value
        except KeeperRefused as no:
            said = no.value
        except WorldError:
            return ""
        # A batch is answered even if one of its ops was refused: the last.
        last = (said.get("answers") or [said])[-1] if isinstance(said.get("answers", []), list) else {}
        is_damaged = isinstance(last, dict) and last.get("code") == "keeper-damaged"
        return self._keepers(op, os.path.dirname(str(last.get("keeper")))) if is_damaged else ""

    def _keepers(self, op: str, folder: str) -> str:
        """The folder, if a keeper may be put there on the box's word: below the base it was asked for."""
        base, _, last = folder.rpartition("/")
        if last != "keepers" or not self._is_path(folder) or not decode.is_base(self.site.base, base):
            raise BadAnswer(site=self.site.name, op=op, what=f"a keeper belongs in {preview(folder)}")
        return folder

    def _is_path(self, text: str) -> bool:
        try:
            return bool(path(text))
        except Wrong:
            return False

    def python(self) -> str:
        """The Python of the box to try first, "" if none is known."""
        if self.site.python or self.site.transport != "local":
            return self._python_there or self.site.python
        import sys

        # Not the venv's own link: the venv may be gone before the run ends, its base Python hardly.
        return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)

    def _put(self, pack: tuple[str, bytes], folder: str, timeout_s: float) -> None | NoAnswer:
        with tempfile.NamedTemporaryFile(prefix="sojourn-") as f:
            f.write(pack[1])
            f.flush()
            return self.transport.put(f.name, f"{folder}/{pack[0]}", timeout_s=max(timeout_s, 60.0))

    def read(self, op: str, ended: Ended) -> Answer:
        """The frames of an answer, not yet decoded. Raises: KeeperRefused, BadAnswer, NoFrames, NoPython, NoBase."""
        site = self.site.name
        try:
            found = list(framing.frames(ended.stdout))
        except framing.Torn as error:
            cut = "; the answer is over the limit" if ended.truncated else ""
            raise NoFrames(site=site, rc=ended.rc, said=f"{error}{cut}") from error
        if not found or found[0][0] != b"J":
            if tried := bootstrap.tried(ended.rc, ended.stderr):
                raise NoPython(site=site, tried=tried)
            why, path = bootstrap.open_to_others(ended.rc, ended.stderr)
            if why == "owner":
                raise OpenToOthers(site=site, what=f"{path} belongs to another user", mend="Move it away there")
            if why:
                mend = f"Run `chmod go-w {quote.join([path])}` there"
                raise OpenToOthers(site=site, what=f"others may write to {path}", mend=mend)
            if why := bootstrap.no_folder(ended.rc, ended.stderr):
                raise NoBase(site=site, why=why)
            said = (ended.stderr.strip() or ended.stdout.strip())[-_SAID_BYTES:].decode("utf-8", "replace")
            raise NoFrames(site=site, rc=ended.rc, said=said or "nothing at all")
        value = found[0][1]
        if not isinstance(value, dict) or any(kind != b"B" for kind, _ in found[1:]):
            raise BadAnswer(site=site, op=op, what="it is not one object and the bytes that belong to it")
        if value.get("ok") is not True:
            raise self._refused(op, value)
        return Answer(value, tuple(data for _, data in found[1:]))

    def decoded(self, op: str, request: Mapping[str, Any], value: Any, blobs: Sequence[bytes] = ()) -> Answer:
        """A valid answer. Raises: BadAnswer."""
        try:
            found = decode.decode(op, request, value, blobs)
        except Wrong as wrong:
            raise BadAnswer(site=self.site.name, op=op, what=str(wrong)) from wrong
        self._python_there = str(found.get("by") or "")
        return Answer(found, blobs)

    def _refused(self, op: str, value: Any) -> WorldError:
        try:
            no = decode.refusal(value)
        except Wrong as wrong:
            return BadAnswer(site=self.site.name, op=op, what=str(wrong))
        return KeeperRefused(site=self.site.name, code=no["code"], message=no["message"], value=no)


def _keeper_of(parcel: Any) -> tuple[str, bytes]:
    with _packing:  # a process that asks a hundred boxes at once packs one keeper, not one per thread
        return _packed_keeper(parcel)


def _train_of(parcel: Any) -> tuple[str, bytes]:
    with _packing:
        return _packed_train(parcel)


_packing = threading.Lock()


@functools.cache
def _packed_keeper(parcel: Any) -> tuple[str, bytes]:
    name, data = parcel.keeper_bytes()
    return name, data


@functools.cache
def _packed_train(parcel: Any) -> tuple[str, bytes]:
    name, data = parcel.train_bytes()
    return name, data
