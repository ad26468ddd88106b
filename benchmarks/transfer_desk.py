"""The ways of `bench_transfer`: each brings one tree to a place where it is not yet, or home from the box."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

_SHARE = float(os.environ.get("TRANSFER_SHARE", "1"))  # of the sizes below: less for a first look
SMALL, SMALL_BYTES = int(20_000 * _SHARE), 4096
MANY, MANY_BYTES = int(2_000 * _SHARE), 8192
BIG_BYTES = int(256 * _SHARE) << 20
_ALIAS, _FAR = "box1", "/workspace"
_JOB = """name: many
run: |
  mkdir -p out && cd out && head -c {total} /dev/urandom | split -b {each} -a 4 - f
outputs: ["out/*"]
"""


class Desk:
    """A user of the laboratory's first box. Inside: a shared connection of the peers stands, and one of sojourn's."""

    def __init__(self, folder: Path, config: Path) -> None:
        self.folder, self.config, self.count = folder, config, 0
        homes = {f"XDG_{what}_HOME": str(folder / what.lower()) for what in ("CONFIG", "STATE", "DATA", "CACHE")}
        os.environ.update(homes, HOME=str(folder), SOJOURN_SSH_CONFIG=str(config), XDG_RUNTIME_DIR=str(folder))
        os.environ.pop("SOJOURN_SSH_SHARING", None)
        self.shell = f"ssh -F {shlex.quote(str(config))} -o ControlPath={shlex.quote(str(folder / 'peer'))}"
        self.small, self.big = folder / "small", folder / "big"

    def __enter__(self) -> Desk:
        from sojourn.store.home import Store
        from sojourn.verbs.context import Context

        for number in range(SMALL):
            path = self.small / f"d{number % 100:02d}" / f"f{number:05d}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(SMALL_BYTES))
        self.big.mkdir()
        with open(self.big / "big.bin", "wb") as file:
            for _ in range(BIG_BYTES >> 20):
                file.write(os.urandom(1 << 20))
        self._sh(f"{self.shell} -o ControlMaster=yes -o ControlPersist=600 {_ALIAS} true")
        self.ctx = Context(Store(str(self.folder / "state/sojourn")))
        settings = self.folder / "config/sojourn/settings.toml"
        settings.parent.mkdir(parents=True)
        # On this machine's own disk: the box's root lies on a loop device.
        settings.write_text(f'[sites.{_ALIAS}]\ntransport = "ssh"\naddress = "{_ALIAS}"\nbase = "{_FAR}/sojourn"\n')
        self.box = self.ctx.box(self.ctx.site(_ALIAS))
        self.base = str(self.box.answer("hello").value["base"])
        self._run_many()
        return self

    def __exit__(self, *error: object) -> None:
        self.ctx.store.close()
        for path in [self.folder / "peer", *(self.folder / "sojourn").glob("*")]:
            subprocess.run(["ssh", "-o", f"ControlPath={path}", "-O", "exit", _ALIAS], capture_output=True, timeout=60)

    def measures(self) -> dict[str, Callable[[], float]]:
        """What is timed, by name."""
        return {
            f"push {SMALL:,} x 4 KB: sojourn": lambda: self.push(self._changed(SMALL)),
            f"push {SMALL:,} x 4 KB: rsync": lambda: self.peer_push("rsync", self.small),
            f"push {SMALL:,} x 4 KB: tar": lambda: self.peer_push("tar", self.small),
            f"push {SMALL:,} x 4 KB: tar+proof": lambda: self.peer_push("tar+proof", self.small),
            f"push 1 of {SMALL:,} changed: sojourn": lambda: self.push(self._changed(1)),
            f"push 1 of {SMALL:,} changed: rsync": lambda: self.rsync_again(self._changed(1)),
            f"push {BIG_BYTES >> 20} MiB: sojourn": self.push_big,
            f"push {BIG_BYTES >> 20} MiB: rsync": lambda: self.peer_push("rsync", self.big),
            f"push {BIG_BYTES >> 20} MiB: tar+proof": lambda: self.peer_push("tar+proof", self.big),
            f"pull {MANY:,} x 8 KB: sojourn": self.pull,
            f"pull {MANY:,} x 8 KB: rsync": lambda: self.peer_pull("rsync"),
            f"pull {MANY:,} x 8 KB: tar": lambda: self.peer_pull("tar"),
            f"pull {MANY:,} x 8 KB: tar+proof": lambda: self.peer_pull("tar+proof"),
        }

    def push(self, tree: Path) -> float:
        """What `run` does to have the tree on the box: read it, ask what is there, send what is not."""
        from sojourn.store import snapshot
        from sojourn.verbs.launch.push import ask_missing, push

        began = time.perf_counter()
        taken = snapshot.take_snapshot(str(tree), everything=True)
        lacking = frozenset(self.box.answer_all([ask_missing([taken.digest])])[0].value["missing"])
        ops, blobs = push(self.ctx, self.box, self.base, [("code", taken)], lacking)
        if ops:
            self.box.answer_all(ops, blobs, timeout_s=600)
        took = time.perf_counter() - began
        assert not self.box.answer("have", kind="snapshots", names=[taken.digest]).value["missing"]
        return took

    def push_big(self) -> float:
        """One big file of which the box has nothing."""
        self._far(f"rm -rf {self.base}/snapshots {self.base}/staging/*")
        with open(self.big / "big.bin", "r+b") as file:
            for at in range(0, BIG_BYTES, 1 << 20):
                file.seek(at)
                file.write(os.urandom(16))
        return self.push(self.big)

    def pull(self) -> float:
        """`pull` into a new folder: manifests, bytes, loading, receipts."""
        from sojourn.verbs.retrieve.pull import pull

        self.count += 1
        home = self.folder / f"home{self.count}"
        began = time.perf_counter()
        (answer,) = list(pull(self.ctx, ["many"], to=str(home)))
        took = time.perf_counter() - began
        assert answer.moved_files >= MANY, answer
        shutil.rmtree(home)
        return took

    def peer_push(self, how: str, tree: Path) -> float:
        """The tree into a new folder of the box."""
        self._far(f"rm -rf {_FAR}/peer; mkdir {_FAR}/peer")
        q = shlex.quote(str(tree))
        if how == "rsync":
            return self._sh(f"rsync -a -e {shlex.quote(self.shell)} {q}/ {_ALIAS}:{_FAR}/peer/")
        if how == "tar":
            return self._sh(f"tar -C {q} -cf - . | {self.shell} {_ALIAS} 'tar -C {_FAR}/peer -xf -'")
        sums = f"cd {q} && find . -type f -print0 | xargs -0 sha256sum > {self.folder}/sums"
        sent = f"tar -C {q} -cf - . -C {self.folder} sums | {self.shell} {_ALIAS}"
        there = f"tar -C {_FAR}/peer -xf - && sync -f {_FAR}/peer && cd {_FAR}/peer && sha256sum --quiet -c sums"
        return self._sh(f"{sums}; {sent} '{there}'")

    def peer_pull(self, how: str) -> float:
        """The run's outputs into a new folder here."""
        self.count += 1
        home = self.folder / f"peer{self.count}"
        home.mkdir()
        far = f"{self.base}/runs/many/attempts/1/out"
        if how == "rsync":
            took = self._sh(f"rsync -a -e {shlex.quote(self.shell)} {_ALIAS}:{far}/ {home}/")
        else:
            pack = f"cd {far} && " + ("sha256sum * > /tmp/sums && " if "proof" in how else "")
            also = " -C /tmp sums" if "proof" in how else ""
            check = f" && sync -f {home} && cd {home} && sha256sum --quiet -c sums" if "proof" in how else ""
            took = self._sh(f"{self.shell} {_ALIAS} '{pack}tar -cf - .{also}' | tar -C {home} -xf -{check}")
        shutil.rmtree(home)
        return took

    def rsync_again(self, tree: Path) -> float:
        """A tree of which the box has all but what changed."""
        shell = shlex.quote(self.shell)
        self._sh(f"rsync -a -e {shell} {tree}/ {_ALIAS}:{_FAR}/again/")
        self._changed(1)
        return self._sh(f"rsync -a -e {shell} {tree}/ {_ALIAS}:{_FAR}/again/")

    def _changed(self, count: int) -> Path:
        """The small tree, `count` of its files with new bytes."""
        for number in range(count):
            path = self.small / f"d{number % 100:02d}" / f"f{number:05d}"
            path.write_bytes(os.urandom(SMALL_BYTES))
        if count == 1:
            time.sleep(2.1)  # younger files are hashed again each time
        return self.small

    def _run_many(self) -> None:
        from sojourn.verbs.launch.request import RunRequest
        from sojourn.verbs.launch.run import run

        project = self.folder / "project"
        project.mkdir()
        (project / "sojourn.yaml").write_text(_JOB.format(total=MANY * MANY_BYTES, each=MANY_BYTES))
        self._started = run(self.ctx, RunRequest(str(project / "sojourn.yaml"), site=_ALIAS))
        for _ in range(200):
            from sojourn.verbs.observe.refresh import refresh_one

            record = self.ctx.store.index.run("many")
            if record and refresh_one(self.ctx, record).status.state.is_final:
                return
            time.sleep(0.3)
        raise TimeoutError("the run that makes files did not end")

    def _far(self, script: str) -> None:
        self._sh(f"{self.shell} {_ALIAS} {shlex.quote(script)}")

    def _sh(self, line: str) -> float:
        began = time.perf_counter()
        subprocess.run(["bash", "-o", "pipefail", "-c", line], check=True, timeout=900, stdin=subprocess.DEVNULL)
        return time.perf_counter() - began
