"""One client and two boxes, `sick` and `well`, played once for real and then as often as wanted from what was recorded.

A command is the real one, from argv to exit status; its records, settings and home are real files. What plays is the
transport: it gives the answers that the real keeper gave to the same question, changed as a trial says.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.launcher import setsid
from sojourn.backends.provider import unmetered
from sojourn.backends.transport import local
from sojourn.backends.transport.local import NoSuchFile
from sojourn.cli.main import main
from sojourn.core.values import Ended, NoAnswer, Place, Site
from sojourn.store.home import Store
from sojourn.verbs import context
from sojourn.verbs.context import Box, Context
from sojourn.wire import framing
from sojourn.wire.errors import WorldError
from tests import ending

# In an order in which each finds what it needs.
COMMANDS = [
    line.split()
    for line in """
status
status --json
status live
watch live fine --limit 3s
logs live
logs digits --tail 2
why live
doctor sick
gpu sick
reap sick
recover sick
clean sick
plan newer.yaml
reconcile cells
handbook live
pull digits --to out
down sick
clean sick digits --confirm digits
stop live --confirm live
resume live
run newer.yaml
""".strip().splitlines()
]
Key = tuple[str, ...]
Change = Callable[[Key, int, Ended], Ended | NoAnswer]


@dataclass
class Recorded:
    """What the box said to one command: by question, in order; and how the client's records were before it."""

    argv: list[str]
    before: Path
    rc: int
    said: dict[Key, list[Ended]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    def questions(self) -> list[tuple[Key, int]]:
        return [(key, at) for key, some in self.said.items() if key[0] != "script" for at in range(len(some))]


@dataclass
class Outcome:
    """What a command came to."""

    rc: int
    out: bytes
    err: str
    seconds: float
    outside: list[str]  # what changed in the home, outside of what is ours
    argvs: list[list[str]]  # that were run on the box
    puts: list[str]
    refused: list[str]  # codes of what the border, or the box, refused


class Clock:
    def __init__(self) -> None:
        self.later_s = 0.0

    def now_s(self) -> float:
        return time.time() + self.later_s

    def sleep(self, seconds: float) -> None:
        self.later_s += seconds


def key_of(argv: Sequence[str], stdin: bytes) -> Key:
    """The question that a call is."""
    if not stdin.startswith(framing.MAGIC):
        return ("script", hashlib.sha256(argv[2].encode()).hexdigest()[:12])
    request = next(framing.frames(stdin))[1]
    ops = request["ops"] if request["op"] == "batch" else [request]
    return tuple(str(op["op"]) for op in ops)


class Recorder(local.Backend):
    """The real transport, writing down. Without streams: what comes is to be in `files`, by its path."""

    stream = None  # type: ignore[assignment]

    def __init__(self, site: Site | None = None) -> None:
        super().__init__(site)
        self.said: dict[Key, list[Ended]] = {}
        self.files: dict[str, bytes] = {}

    def call(self, argv: Sequence[str], *, stdin: bytes = b"", **how: Any) -> Ended | NoAnswer:
        answer = super().call(argv, stdin=stdin, **how)
        assert isinstance(answer, Ended), (argv, answer)
        self.said.setdefault(key_of(argv, stdin), []).append(answer)
        return answer

    def get(self, remote: str, local: str, **how: Any) -> int | NoAnswer:
        self.files[remote] = Path(remote).read_bytes()
        return super().get(remote, local, **how)


class Player:
    """The recorded answers, each changed by `change`. What was asked more often than then is answered as the last."""

    def __init__(
        self, said: dict[Key, list[Ended]], change: Change | None = None, files: dict[str, bytes] | None = None
    ) -> None:
        self._said, self._change, self._files = said, change, files or {}
        self._asked: dict[Key, int] = {}
        self.argvs: list[list[str]] = []
        self.puts: list[str] = []
        self.heard = 0

    def call(self, argv: Sequence[str], *, stdin: bytes = b"", limit_bytes: int = 1 << 20, **how: Any) -> Any:
        self.heard += 1
        self.argvs.append(list(argv))
        if self.heard > 500:
            raise AssertionError("a box was asked 500 times by one command")
        key = key_of(argv, stdin)
        at = self._asked.get(key, 0)
        self._asked[key] = at + 1
        some = self._said.get(key)
        if not some:
            return NoAnswer(sent=True, kind="timeout", detail="nobody was asked that before")
        at = min(at, len(some) - 1)
        answer = some[at] if self._change is None or key[0] == "script" else self._change(key, at, some[at])
        if isinstance(answer, NoAnswer):
            return answer
        cut = answer.stdout[:limit_bytes]
        return Ended(answer.rc, cut, answer.stderr[:limit_bytes], truncated=len(cut) < len(answer.stdout))

    def put(self, local: str, remote: str, *, timeout_s: float = 600.0) -> None:
        self.puts.append(remote)

    def get(self, remote: str, local: str, *, offset: int = 0, **how: Any) -> int:
        if remote not in self._files:
            raise NoSuchFile(path=remote)
        data = self._files[remote][offset:][: how.get("limit_bytes")]
        with open(local, "ab") as out:
            out.write(data)
        return len(data)


class Noting(Keeper):
    """The client's real keeper, noting what it refused to take from `sick`."""

    def __init__(self, transport: Any, site: Site, refused: list[str]) -> None:
        super().__init__(transport, site)
        self._refused_codes = refused

    def ask(self, *args: Any, **how: Any) -> Any:
        return self._noted(super().ask, *args, **how)

    def ask_all(self, *args: Any, **how: Any) -> Any:
        return self._noted(super().ask_all, *args, **how)

    def _noted(self, ask: Callable[..., Any], *args: Any, **how: Any) -> Any:
        try:
            return ask(*args, **how)
        except WorldError as error:
            self._refused_codes.append(error.code)
            raise


class Stage:
    """Both boxes and the client, below one folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home, self.project = top / "home", top / "home/project"
        self.bases = {name: top / "boxes" / name for name in ("sick", "well")}
        self.env = {
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "XDG_DATA_HOME": str(self.home / ".local/share"),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "SOJOURN_BOX_REGISTRY": str(top / "boxes/registry"),
            "COLUMNS": "100",
        }
        self.recorded: dict[str, Recorded] = {}
        self.refused: list[str] = []
        self._build()

    def _build(self) -> None:
        for base in self.bases.values():
            base.mkdir(parents=True)
        self.project.mkdir(parents=True)
        (self.home / ".ssh").mkdir()
        (self.home / ".bashrc").write_text("# mine\n")
        (self.home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAAA mine\n")
        (self.project / "train.py").write_text("print('train')\n")
        self.settings()
        for name, run in (
            ("digits", "for i in 1 2 3; do echo step $i; done; echo '{\"loss\": 0.5}' > result.json"),
            ("live", "echo up; exec sleep 900"),
        ):
            self.job(name, run)
        self.job("fine", "echo '{}' > result.json", "well")
        with open(self.project / "cells.yaml", "w") as f:
            f.write('name: cells\nsite: sick\nrun: echo "{}" > result.json\noutputs: [result.json]\n')
            f.write("sweep: {matrix: {seed: [1, 2]}}\n")
        self.job("newer", "echo '{}' > result.json")

    def settings(self, python: str = "") -> None:
        path = self.home / ".config/sojourn/settings.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = []
        for name, base in self.bases.items():
            rows.append(f'[sites.{name}]\ntransport = "local"\nlauncher = "setsid"\nbase = "{base}"\n')
            rows.append(f'python = "{python}"\n' if python and name == "sick" else "")
        path.write_text("".join(rows))

    def job(self, name: str, run: str, site: str = "sick") -> None:
        keys = {"name": name, "site": site, "run": run, "outputs": ["result.json"]}
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
        (self.project / f"{name}.yaml").write_text(text)

    @contextlib.contextmanager
    def client(self, transports: dict[str, Any], at: Clock | None = None) -> Iterator[None]:
        """While inside, commands of this process are this client's, and reach these boxes; the rest is real."""
        kept = {name: os.environ.get(name) for name in self.env}
        real_box, real_open, here = context._box, Context.open, os.getcwd()

        def box(place: Place) -> Box:
            site = place.site
            transport = transports[site.name]
            keeper = Noting(transport, site, self.refused)
            return Box(site, transport, setsid.Backend(), unmetered.Backend(site), keeper)

        def opened(**how: Any) -> Context:
            return Context(Store(), **how, **({} if at is None else {"now_s": at.now_s, "sleep": at.sleep}))

        os.environ.update(self.env)
        os.chdir(self.project)
        context._box, Context.open = box, opened  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            context._box, Context.open = real_box, real_open  # type: ignore[method-assign]
            os.chdir(here)
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def play(self, *argv: str) -> tuple[int, bytes, str]:
        """One command for real, unrecorded."""
        with self.client({name: local.Backend() for name in self.bases}):
            return spoken(list(argv))

    def record(self, name: str, *argv: str) -> Recorded:
        """One command for real; what `sick` said to it, and how our records were before."""
        before = self.top / "records" / name
        # A copy of the index is none that we left, and is built anew: so the command is to begin without one here too.
        for path in (self.home / ".local/state/sojourn").glob("index.sqlite*"):
            path.unlink()
        shutil.copytree(self.home, before, symlinks=True)
        recorder = Recorder()
        with self.client({"sick": recorder, "well": local.Backend()}):
            rc, _, err = spoken(list(argv))
        assert rc not in (2, 3, 5, 70), (argv, rc, err)
        one = Recorded(list(argv), before, rc, recorder.said, recorder.files)
        self.recorded[name] = one
        return one

    def trial(self, name: str, change: Change | None = None) -> Outcome:
        """The recorded command again, from the same records, with the answers of `sick` changed."""
        one = self.recorded[name]
        shutil.rmtree(self.home)
        shutil.copytree(one.before, self.home, symlinks=True)
        before = everything(self.home)
        sick, well = Player(one.said, change, one.files), Player(self.well())
        self.refused.clear()
        began = time.process_time()  # of our own work: its clock does not wait, and the machine may be busy
        with self.client({"sick": sick, "well": well}, Clock()):
            rc, out, err = spoken(one.argv)
        seconds = time.process_time() - began
        after = everything(self.home)
        outside = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path) and not ours(path)]
        return Outcome(rc, out, err, seconds, outside, sick.argvs, sick.puts, list(self.refused))

    def well(self) -> dict[Key, list[Ended]]:
        if not hasattr(self, "_well"):
            recorder = Recorder()
            with self.client({"sick": Player({}), "well": recorder}):
                spoken(["status", "--json"])
            self._well = recorder.said
        return self._well

    def set(self) -> None:
        """Play what is recorded: a run that is over, one that lives, a sweep, one of another box; each command once."""
        for name in ("fine", "digits", "live"):
            rc, _, err = self.play("run", str(self.project / f"{name}.yaml"))
            assert rc == 0, err
        rc, _, err = self.play("sweep", str(self.project / "cells.yaml"))
        assert rc == 0, err
        deadline = time.monotonic() + 240
        while self.play("status", "--json")[1].count(b'"state": "succeeded"') < 4:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        self.play("status")
        for words in COMMANDS:
            self.record(" ".join(words), *words)

    def end_all(self) -> None:
        """End every keeper and payload of these boxes."""
        ending.end_all(f"XDG_STATE_HOME={self.env['XDG_STATE_HOME']}")


def spoken(argv: list[str]) -> tuple[int, bytes, str]:
    """(exit status, stdout, stderr) of a command in this process."""
    wrapped = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = wrapped
    try:
        rc = main(argv)
    finally:
        sys.stdout, sys.stderr = kept
    out, err = (one.detach().getvalue() for one in wrapped)
    return rc, out, err.decode("utf-8", "replace")


def everything(home: Path) -> dict[str, str]:
    """Each file, link and folder below, with what it is."""
    found = {}
    for folder, folders, files in os.walk(home):
        for name in (*folders, *files):
            full = os.path.join(folder, name)
            path = os.path.relpath(full, home)
            if os.path.islink(full):
                found[path] = "-> " + os.readlink(full)
            elif os.path.isdir(full):
                found[path] = "a folder"
            else:
                found[path] = hashlib.sha256(Path(full).read_bytes()).hexdigest()
    return found


OURS = (".local/state/sojourn", ".cache/sojourn", ".local/share/sojourn/home", "project/out")


def ours(path: str) -> bool:
    """Whether a command of ours may write there."""
    return any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in OURS)
