"""Freeze what a version of sojourn leaves on a disk: `python tests/old/freeze.py COMMIT`, in a clone of our repository.

The code of COMMIT is taken out of git into /tmp/sojourn-old, its own command line makes the runs there (site `local`,
and a box of `by_hand`), and all that it left goes into COMMIT.tar.gz beside this file, with that version's journal.py.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OLD = Path("/tmp/sojourn-old")  # tests put another path of the same length in its place
SETTINGS = f"""[sites.rented]
transport = "local"
provider = "by_hand"
base = "{OLD}/rented"
rate = "1.19 USD/h"
began = 2026-11-21T10:00:00Z
stop = "press Destroy in the console"
stop_is_final = true
"""
OUTPUTS = ["result.json", "checkpoints/best.pt"]
KEPT = ("home/.local/state", "home/.local/share", "home/.config", "project", "rented")


def main(commit: str) -> None:
    """Make the runs and pack what they left."""
    shutil.rmtree(OLD, ignore_errors=True)
    code = OLD / "code"
    code.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=HERE.parent.parent, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(code, filter="data")
    project = OLD / "project"
    project.mkdir()
    shutil.copy(code / "tests/spine/train.py", project)
    settings = OLD / "home/.config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)

    job("good", "python train.py 3 0.02", outputs=["result.json"])  # without PyTorch it cannot prove more
    sojourn("run")
    settled("good")
    sojourn("pull", "good")
    job("bad", "python train.py 2 0.02 && exit 3")
    sojourn("run")
    settled("bad")
    job("cut", f"python train.py 8 0.02 {OLD}/never")
    sojourn("run")
    until(lambda: any((OLD / "home/.local/share/sojourn/runs/cut/checkpoints").glob("ckpt-*3*")), "a checkpoint")
    root = OLD / "home/.local/share/sojourn/runs/cut"
    events = [json.loads(line) for line in (root / "events.jsonl").read_text().splitlines()]
    payload = next(event["pid"] for event in events if event["kind"] == "started")
    keeper = json.loads((root / "keeper.json").read_text())["pid"]
    for pid in (keeper, payload):
        os.kill(pid, 9)
    settled("cut", "killed")
    job("unpulled", "python train.py 3 0.02")
    sojourn("run")
    settled("unpulled")
    job("paid", "python train.py 3 0.02", site="rented")
    sojourn("run")
    settled("paid")

    packed = HERE / f"{commit}.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        for name in KEPT:
            tar.add(OLD / name, name, filter=plain)
        tar.add(code / "src/sojourn/store/journal.py", "journal.py", filter=plain)
    print(packed, packed.stat().st_size, "bytes")
    shutil.rmtree(OLD)


def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Nothing of who made it, and nothing that is built anew."""
    if entry.name.endswith((".sqlite", "-wal", "-shm", ".zip", ".sock", ".pyc")) or "/locks/" in entry.name:
        return None
    if entry.name.startswith("rented/keepers/"):  # the same as that of `local`
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry if entry.isreg() or entry.isdir() or entry.issym() else None


def job(name: str, run: str, **keys: Any) -> None:
    """Write the job file."""
    lines = [
        f"{key}: {json.dumps(value)}" for key, value in {"name": name, "run": run, "outputs": OUTPUTS, **keys}.items()
    ]
    (OLD / "project/sojourn.yaml").write_text("\n".join(lines) + "\n")


def sojourn(*words: str) -> str:
    """The answer of the frozen version; its exit status may be what it likes."""
    found = [str(OLD / "code/src"), *(place for place in sys.path if "site-packages" in place)]
    env = {"HOME": str(OLD / "home"), "PYTHONPATH": os.pathsep.join(found), "PATH": path(), "LANG": "C.UTF-8"}
    argv = ["/usr/bin/python3", "-m", "sojourn", *words]
    done = subprocess.run(argv, cwd=OLD / "project", env=env, text=True, capture_output=True)
    print("sojourn", *words, "->", done.returncode, done.stderr.strip()[-300:])
    return done.stdout


def path() -> str:
    """The system's own Python, so that no path of this machine is in what the box tells of its processes."""
    bin_folder = OLD / "bin"
    bin_folder.mkdir(exist_ok=True)
    for name in ("python", "python3"):
        if not (bin_folder / name).exists():
            (bin_folder / name).symlink_to("/usr/bin/python3")
    return f"{bin_folder}:/usr/bin:/bin"


def settled(run: str, state: str = "") -> None:
    """Wait until it has ended, is sealed, and its keeper has left."""

    def is_so() -> bool:
        row = json.loads(sojourn("status", run, "--json"))["runs"][0]
        return row["state"] in ([state] if state else ["succeeded", "failed"])

    until(is_so, f"the end of {run}")
    time.sleep(3)
    sojourn("status", run)


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it, a minute at most."""
    give_up = time.monotonic() + 60
    while not holds():
        if time.monotonic() > give_up:
            raise SystemExit(f"no {what}")
        time.sleep(0.3)


if __name__ == "__main__":
    main(sys.argv[1])
