"""What the tests of the whole chain share: a project, the real command line as a program, and cleaning up."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import ending

HERE = Path(__file__).parent
SRC = HERE.parent.parent / "src"
PROGRAM = ("-m", "sojourn")
PATIENT = (str(HERE / "patient.py"),)


@dataclass
class Said:
    """What one command came to."""

    rc: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The typed error: the last line of stderr, with --json."""
        found: dict[str, Any] = json.loads(self.err.strip().splitlines()[-1])
        return found


class Desk:
    """One user: a home, a project in a folder with an awkward name, and `sojourn` run there."""

    def __init__(self, home: Path, project: Path, compiled: Path) -> None:
        self.home, self.project = home, project
        self.base = home / ".local/share/sojourn"
        self.state = home / ".local/state/sojourn"
        self.env = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONPYCACHEPREFIX": str(compiled)}
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)  # a hundred starts are faster with the byte code kept
        self.env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + self.env["PATH"]
        project.mkdir(parents=True)
        shutil.copy(HERE / "train.py", project)

    def job(self, run: str = "python train.py 3 0.02", **keys: Any) -> None:
        """Write the job file; keys are written as JSON, which is YAML."""
        job = {"name": "digits", "run": run, "outputs": ["result.json", "checkpoints/best.pt"], **keys}
        lines = [f"{key}: {json.dumps(value)}" for key, value in job.items() if value is not None]
        (self.project / "sojourn.yaml").write_text("\n".join(lines) + "\n")

    def __call__(
        self,
        *words: str,
        rc: int | None = 0,
        timeout_s: float = 200,
        program: tuple[str, ...] = PROGRAM,
        **env: str,
    ) -> Said:
        """Run `sojourn WORDS...` without a terminal. Fails where the exit status is not `rc` (None: any)."""
        said = self.finish(self.start(*words, program=program, **env), timeout_s)
        assert rc is None or said.rc == rc, f"sojourn {' '.join(words)}: {said.rc}\n{said.out}\n{said.err}"
        assert "Traceback" not in said.err, said.err
        return said

    def start(self, *words: str, program: tuple[str, ...] = PROGRAM, **env: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, *program, *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv,
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def finish(self, child: "subprocess.Popen[str]", timeout_s: float = 200) -> Said:
        out, err = child.communicate(timeout=timeout_s)
        return Said(child.returncode, out, err)

    def row(self, run: str = "digits") -> dict[str, Any]:
        """The run's row of `status --json`."""
        row: dict[str, Any] = self("status", run, "--json").json["runs"][0]
        return row

    def until(
        self, holds: Callable[[dict[str, Any]], bool], run: str = "digits", within_s: float = 240
    ) -> dict[str, Any]:
        """Look at the run until `holds` of its row; the row."""
        deadline_s = time.monotonic() + within_s
        while True:
            row = self.row(run)
            if holds(row):
                return row
            assert time.monotonic() < deadline_s, row
            time.sleep(0.1)

    def gated(self) -> None:
        """Write a job that trains 8 epochs, and waits before its fourth until `gate` exists."""
        self.job(f"python train.py 8 0.02 '{self.gate}'")

    @property
    def gate(self) -> Path:
        return self.home / "gate"

    def final(self, run: str = "digits") -> dict[str, Any]:
        """Wait until it has ended, is sealed, and its keeper has left; the row."""
        self.until(lambda row: row["state"] not in ("starting", "running", "planned", "stalled"), run)
        self.is_left(run)
        return self.row(run)

    def is_left(self, run: str = "digits") -> None:
        """Wait until its keeper has left. An end is told before secrets are removed and outputs are hashed."""
        wait_for(lambda: not (self.root(run) / "keeper.json").exists() or not alive(self.keeper(run)))

    def log(self, run: str = "digits", attempt: int = 1) -> str:
        """An attempt's log as it is on the box; "" where there is none yet."""
        path = self.root(run) / f"logs/{attempt}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def root(self, run: str = "digits") -> Path:
        return self.base / "runs" / run

    def events(self, run: str = "digits") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.root(run) / "events.jsonl").read_text().splitlines()]

    def attempts(self, run: str = "digits") -> list[int]:
        """Numbers of the attempts whose process was started."""
        return [event["attempt"] for event in self.events(run) if event["kind"] == "started"]

    def journal(self, kind: str = "") -> list[dict[str, Any]]:
        records = [json.loads(line) for line in (self.state / "journal.jsonl").read_text().splitlines()]
        return [record for record in records if kind in ("", record["kind"])]

    def keeper(self, run: str = "digits") -> int:
        """The pid of the keeper in charge."""
        return int(json.loads((self.root(run) / "keeper.json").read_text())["pid"])

    def payload(self, run: str = "digits") -> int:
        """The pid of the newest attempt's training process."""
        return int(self.begun(run)["pid"])

    def begun(self, run: str) -> dict[str, Any]:
        """What the newest attempt's shim noted when it began."""
        paths = sorted((self.root(run) / "exits").glob("*.begun.json"), key=lambda p: int(p.name.split(".")[0]))
        noted: dict[str, Any] = json.loads(paths[-1].read_text())
        return noted

    def kill(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(alive(pid) for pid in pids))

    def kill_training(self, run: str = "digits") -> None:
        """SIGKILL to the training process and to the shell around it, as the oom killer of a group would. Its shim has
        noted that and left.
        """
        begun = self.begun(run)
        os.killpg(os.getpgid(begun["pid"]), signal.SIGKILL)
        wait_for(lambda: not alive(begun["pid"]) and not alive(begun["shim"]["pid"]))

    def end_all(self) -> None:
        """End every process that carries this home, and wait until none is left."""
        ending.end_all(f"HOME={self.home}")


def wait_for(holds: Callable[[], object], within_s: float = 240) -> None:
    """Look again and again until it holds."""
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come true in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where byte code is kept for this session."""
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def desk(private_home: Path, tmp_path: Path, compiled: Path) -> Iterator[Desk]:
    """A user who has written a job that takes a moment and owes two files."""
    desk = Desk(private_home, tmp_path / 'it\'s "my" żółty project', compiled)
    desk.job()
    yield desk
    desk.end_all()


@pytest.fixture
def slow(desk: Desk) -> Desk:
    """A user whose job runs until somebody ends it."""
    desk.gated()
    return desk


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A folder on another disk: what is there is home, though the machine that is released is this one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if os.stat(folder).st_dev == os.stat(tmp_path).st_dev:
            pytest.skip("this machine has one disk")
        yield Path(folder)
