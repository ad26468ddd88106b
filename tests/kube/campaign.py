"""One trial of faults on a namespace: a run, five blows at seeded moments, and what must hold whatever they were.

The payload keeps a ledger and a lock on the claim (tests/crash/payload), so that two at once, work that was lost and a
run that is called dead while it lives are all seen from outside.
"""

import fcntl
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sojourn.store.home import Store
from sojourn.verbs.confirm import Ask
from sojourn.verbs.context import Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.wire.errors import WorldError
from tests.kube.cluster import Cluster
from tests.kube.nodes import signalled
from tests.kube.store import Refused
from tests.person import ROOT

ARGS = ["3", "12", "64", "0.15"]  # epochs, steps, size, pause in s
DEAD = ("failed", "killed", "oom", "timeout", "lost", "preempted")
RUNS = "app.kubernetes.io/component=run"
BLOWS, LIMIT_S = 5, 240.0


class Trial:
    """`seed` decides which blows fall, and when. `breaches`: what did not hold."""

    def __init__(self, seed: int, folder: Path, cluster: Cluster) -> None:
        self.dice, self.cluster, self.folder = random.Random(seed), cluster, folder
        self.claim = cluster.nodes.claim("ml", "sojourn")
        self.breaches: list[str] = []
        self.story: list[str] = []
        self.strays = 0  # processes of nodes that the cluster has given up
        self.ctx = Context(Store())
        self.undo: list[tuple[float, Callable[[], Any]]] = []
        project = folder / "project"
        project.mkdir()
        (project / "train.py").write_text((ROOT / "tests/crash/payload/train.py").read_text())
        told = {"name": "r", "site": "k8s:lab/ml", "envs": {"LEDGER": "/mnt/sojourn/ledger"},
                "run": " ".join([sys.executable, "train.py", *ARGS]), "outputs": ["weights.npy"]}  # fmt: skip
        self.file = project / "sojourn.yaml"
        self.file.write_text(json.dumps(told))

    def play(self) -> None:
        """All of it; what breaks is a breach."""
        deadline_s, blows = time.monotonic() + LIMIT_S, BLOWS
        next_s = time.monotonic() + self.dice.uniform(0.1, 1.0)
        while True:
            if blows and time.monotonic() >= next_s:
                blows -= 1
                self._blow()
                next_s = time.monotonic() + self.dice.uniform(0.2, 1.2)
            self._mend(time.monotonic())
            state = self._look()
            if state == "succeeded":
                break
            if time.monotonic() > deadline_s:
                self.breaches.append(f"no end within {LIMIT_S:g} s; it is {state}")
                return
        self._mend(float("inf"))
        self._home()

    def _look(self) -> str:
        """Ask; run again what is dead. What may be called dead holds no lock."""
        before = self._is_held()
        rows = self._said(lambda: status(self.ctx, ["r"]).rows) if self.ctx.store.index.run("r") else []
        state = rows[0].state.value if rows else "none"
        if state in DEAD and before and self._is_held() and not self.strays:
            record = self.ctx.store.index.find("r")
            self.breaches.append(f"{state} while it lives (attempt {record.attempt}): {rows[0].reason}")
        if state in ("none", "planned", *DEAD):
            self._said(lambda: run(self.ctx, RunRequest(str(self.file))))
        time.sleep(0.2)
        return state

    def _said(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except WorldError as no:
            self.story.append(f"  {no.code}: {no.message[:150]}")
            return []

    def _is_held(self) -> bool:
        """Whether a payload lives."""
        try:
            with open(self.claim / "ledger.alone", "rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def _blow(self) -> None:
        name = self.dice.choice(sorted(BLOW))
        self.story.append(name)
        BLOW[name](self)

    def _mend(self, now_s: float) -> None:
        due, self.undo = [row for row in self.undo if row[0] <= now_s], [row for row in self.undo if row[0] > now_s]
        for _, act in due:
            act()

    def later(self, seconds: float, act: Callable[[], Any]) -> None:
        """Undo a blow after a while."""
        self.undo.append((time.monotonic() + seconds, act))

    def pod(self) -> Any:
        """One that runs, or None."""
        running = [one for one in self.cluster.pods(RUNS) if one["status"]["phase"] == "Running"]
        return self.dice.choice(running) if running else None

    def _home(self) -> None:
        to = self.folder / "results"
        list(pull(self.ctx, ["r"], to=str(to)))
        lines = [json.loads(line) for line in (self.claim / "ledger").read_text().splitlines()]
        ends = [line for line in lines if line["kind"] == "end"]
        if not ends:
            self.breaches.append("it succeeded, and no payload came to its end")
        if not self.strays and any(line["kind"] == "begin" and not line["alone"] for line in lines):
            self.breaches.append("two payloads at once")
        done = [0]
        for line in lines if not self.strays else ():
            if line["kind"] == "committed":
                done.append(line["step"])
            if line["kind"] == "goes-on" and line["step"] < max(done):
                self.breaches.append(f"it went on from step {line['step']} though {max(done)} was committed")
        (weights,) = to.rglob("weights.npy")
        if weights.read_bytes() != reference(self.folder.parent):
            self.breaches.append("other weights than of a run that nothing hit")
        down(self.ctx, DownRequest("k8s:lab/ml"), confirm=lambda ask: name_of(ask))
        left = [one["metadata"]["name"] for one in (*self.cluster.pods(), *self.cluster.store.all("jobs", "ml"))]
        if left:
            self.breaches.append(f"left behind: {', '.join(left)}")


def name_of(ask: Ask) -> str:
    """As somebody types it."""
    return ask.name


def reference(folder: Path) -> bytes:
    """The weights of a run that nothing hit; made once."""
    there = folder / "reference"
    if not (there / "weights.npy").exists():
        there.mkdir(exist_ok=True)
        words = [sys.executable, str(ROOT / "tests/crash/payload/train.py"), *ARGS]
        env = {"LEDGER": str(there / "ledger"), "PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
        subprocess.run(words, cwd=there, env=env, check=True, timeout=120)
    return (there / "weights.npy").read_bytes()


def _answers(trial: Trial, *said: Any) -> None:
    rest = iter(said)
    trial.cluster.faults.append(lambda method, path: next(rest, None) if method != "STREAM" else None)


def _cut_stream(trial: Trial) -> None:
    rest = iter(["cut"])
    trial.cluster.faults.append(lambda method, path: next(rest, None) if method == "STREAM" else None)


def _expired(trial: Trial) -> None:
    kept = dict(trial.cluster.tokens)
    trial.cluster.tokens.clear()
    trial.later(1.0, lambda: trial.cluster.tokens.update(kept))


def _evict(trial: Trial) -> None:
    if (pod := trial.pod()) is not None:
        trial.cluster.evict(pod, grace_s=trial.dice.choice([1, 5]))


def _lose(trial: Trial) -> None:
    if (pod := trial.pod()) is not None and not trial.cluster.nodes.lost:
        node = pod["spec"]["nodeName"]
        trial.cluster.lose(node)
        trial.later(1.5, lambda: trial.cluster.find(node))


def _give_up(trial: Trial) -> None:
    """The node object is removed while its processes live on; it comes back, empty, a little later."""
    if (pod := trial.pod()) is None or trial.cluster.nodes.lost:
        return
    node = pod["spec"]["nodeName"]
    trial.strays += 1
    trial.cluster.lose(node)
    trial.cluster.forget(node)

    def back() -> None:
        with trial.cluster.store.lock:
            trial.cluster.node(node)
            trial.cluster.nodes.lost.discard(node)

    trial.later(3.0, back)


def _delete(trial: Trial) -> None:
    for job in trial.cluster.store.all("jobs", "ml")[-1:]:
        trial.cluster.kubectl("delete", "job", job["metadata"]["name"], "--cascade=foreground", "--wait=false", rc=None)


def _quota(trial: Trial) -> None:
    try:
        value = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        trial.cluster.store.create("resourcequotas", "ml", value)
    except Refused:
        return
    trial.later(1.5, lambda: trial.cluster.store.remove("resourcequotas", "ml", "q"))


def _kill(trial: Trial, which: str) -> None:
    """The keeper, or all of the pod, as the kernel kills."""
    pod = trial.pod()
    process = trial.cluster.nodes.running.get(pod["metadata"]["uid"]) if pod else None
    if process is None:
        return
    if which == "pod":
        signalled(process, 9)
        return
    try:
        pid = json.loads((trial.claim / "runs/r/keeper.json").read_text())["pid"]
    except (OSError, ValueError, KeyError):
        return
    inner = trial.cluster.nodes.pid(pod["metadata"]["uid"])
    subprocess.run(["nsenter", "-t", str(inner), "-p", "-m", "kill", "-KILL", str(pid)], capture_output=True)


BLOW: dict[str, Callable[[Trial], None]] = {
    "the API answers 429": lambda t: _answers(t, *[Refused(429, "TooManyRequests", "slow down", retry_s=1)] * 2),
    "the API answers 500": lambda t: _answers(t, *[Refused(500, "InternalError", "etcd")] * 3),
    "the connection is cut": lambda t: _answers(t, "cut", "cut"),
    "a stream is cut": _cut_stream,
    "versions are forgotten": lambda t: t.cluster.store.forget(),
    "the token expires": _expired,
    "a pod is evicted": _evict,
    "a node is lost and comes back": _lose,
    "a node is given up": _give_up,
    "the Job is deleted": _delete,
    "the quota shrinks": _quota,
    "the keeper is killed": lambda t: _kill(t, "keeper"),
    "the pod is killed": lambda t: _kill(t, "pod"),
}
