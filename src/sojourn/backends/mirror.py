"""A folder of ours for a place that only takes and gives files: what goes in with the next start, what came out.

The keeper's questions are answered here, from what came out; what runs there cannot be looked at.
"""

from __future__ import annotations

import fcntl
import json
import os
import posixpath
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sojourn.backends.transport import local
from sojourn.core.ports import Mailbox
from sojourn.core.values import Ended, NoAnswer
from sojourn.store import places, private
from sojourn.wire import atomic
from sojourn.wire.errors import WorldError

UNSEEN = frozenset({"look", "reap", "bundle"})  # questions about the machine: asked here they would tell of this one
CALL_S = 600.0
REFRESH_S = 2.0  # what was listed so lately is not listed again
_NOT_SENT = ("bases", "envs", "registry", "runs")


class BadName(WorldError):
    """{site} offers a file named {name!r}, which would lie outside its folder here. It was not fetched."""

    code = "bad-name"


class Mirror:
    """The transport of a mailbox's site: files go to and come from the folder, and no command is run."""

    calls = False

    def __init__(self, site: str, box: Mailbox) -> None:
        """Makes and asks nothing. `site`: its name."""
        self._site, self.mailbox, self._here = site, box, local.Backend()
        self._folder = os.path.join(places.state_dir(), "mirrors", site.replace("/", "%2f"))
        self.base = os.path.join(self._folder, "base")
        self._listed_s = -REFRESH_S

    def call(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, limit_bytes: int = 16 << 20
    ) -> Ended | NoAnswer:
        """Nothing is run there."""
        return blind(self._site)

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None | NoAnswer:
        """Into the folder; it goes in with the next start."""
        return self._here.put(local, remote, timeout_s=timeout_s)

    def get(
        self, remote: str, local: str, *, offset: int = 0, timeout_s: float = 600.0, limit_bytes: int | None = None
    ) -> int | NoAnswer:
        """From the folder, which has all that came out."""
        return self._here.get(remote, local, offset=offset, timeout_s=timeout_s, limit_bytes=limit_bytes)

    def refresh(self, timeout_s: float = CALL_S) -> bool | NoAnswer:
        """Fetch what came out and is not here; whether there was any. Raises: WorldError."""
        with self._alone():
            items = self.mailbox.list(timeout_s=timeout_s)
            if isinstance(items, NoAnswer):
                return items
            self._listed_s, known, brought = time.monotonic(), self._known(), False
            for item in items:
                if known.get(item.name, [])[:2] == [item.version, item.bytes]:
                    continue
                path = self._path(item.name)
                aside = f"{self._folder}/coming"
                if os.path.exists(aside):
                    os.unlink(aside)
                came = self.mailbox.get(item.name, aside, timeout_s=timeout_s, limit_bytes=item.bytes)
                if isinstance(came, NoAnswer):
                    return came
                open(aside, "ab").close()  # of an empty file nothing came
                if os.path.getsize(aside) != item.bytes:
                    return NoAnswer(sent=True, kind="cut", detail=f"only a part of {item.name} arrived")
                private.folder(os.path.dirname(path))
                os.replace(aside, path)
                known[item.name] = [item.version, item.bytes, os.stat(path).st_mtime_ns]
                atomic.write_json(f"{self._folder}/came.json", known)
                brought = True
        return brought

    def pack(self, root: str) -> str:
        """A tar, below `base`, of all that a keeper of `root` needs and that did not come out of there unchanged."""
        goal, known = os.path.join(self._folder, "parcel.tgz"), self._known()
        within = os.path.relpath(root, self.base)
        private_names = {f"{within}/secrets.json", f"{within}/secrets.json.new"}  # `run` refuses such a job; see to it

        def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
            if entry.name in private_names:
                return None
            at = known.get(entry.name)
            is_there = at is not None and entry.isfile() and at[1] == entry.size
            return None if at and is_there and at[2] == os.stat(f"{self.base}/{entry.name}").st_mtime_ns else entry

        with self._alone(), tarfile.open(goal, "w:gz", compresslevel=1) as tar:
            for name in sorted(set(os.listdir(self.base)) - set(_NOT_SENT)):
                tar.add(os.path.join(self.base, name), name, filter=kept)
            tar.add(root, within, filter=kept)
        return goal

    def there(self, argv: Sequence[str], base: str) -> list[str]:
        """Words of a command as they are there: its base is `base`, its Python the one that is found there."""
        words = [base + word[len(self.base) :] if (word + "/").startswith(self.base + "/") else word for word in argv]
        is_python = words and posixpath.basename(words[0]).startswith("python")
        return ["python3", *words[1:]] if is_python else words

    def ask_here(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        """A question of the keeper's, answered in the folder once what came out is here. Raises: WorldError."""
        if time.monotonic() - self._listed_s >= REFRESH_S:
            came = self.refresh(how.get("timeout_s", CALL_S))
            if isinstance(came, NoAnswer):
                return came
        return self._here.call(["env", f"SOJOURN_BOX_REGISTRY={self._folder}/registry", *argv], **how)

    def _known(self) -> dict[str, list[Any]]:
        """What came: name -> version, bytes, mtime_ns here."""
        try:
            with open(f"{self._folder}/came.json", "rb") as f:
                found: dict[str, list[Any]] = json.load(f)
                return found
        except FileNotFoundError:
            return {}

    def _path(self, name: str) -> str:
        is_plain = name.startswith("runs/") and posixpath.normpath(name) == name and "\0" not in name
        path = os.path.join(self.base, name)
        if not is_plain or not os.path.realpath(path).startswith(os.path.realpath(self.base) + "/"):
            raise BadName(site=self._site, name=name)
        return path

    @contextmanager
    def _alone(self) -> Iterator[None]:
        private.folder(self._folder)
        with open(os.path.join(self._folder, "lock"), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Inside:
    """The transport of the keeper that answers in a mirror's folder."""

    def __init__(self, mirror: Mirror) -> None:
        self.put, self.get, self.call = mirror.put, mirror.get, mirror.ask_here


def blind(site: str) -> NoAnswer:
    """What is said where only files go in and out."""
    detail = f"{site} only transfers files and runs no commands; what a run did can be seen once it has ended"
    return NoAnswer(sent=False, kind="blind", detail=detail, next_step="sojourn status")
