"""What version 0b11faf left on a disk is read, listed, brought home and let go by today's client; and the other way."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.store.home import Store
from sojourn.store.journal import Journal
from tests.spine.conftest import Desk

HERE = Path(__file__).resolve().parent
FROZEN = HERE / "0b11faf.tar.gz"
WAS = b"/tmp/sojourn-old"
RUNS = {"good": "succeeded", "bad": "failed", "cut": "killed", "unpulled": "succeeded", "paid": "succeeded"}


@pytest.fixture
def old() -> Iterator[Path]:
    """The frozen folders, unpacked at a path that is as long as the one that they were made at."""
    top = Path(f"/tmp/sj-{uuid.uuid4().hex[:8]}")
    assert len(str(top)) == len(WAS)
    top.mkdir(mode=0o700)
    try:
        with tarfile.open(FROZEN) as tar:
            tar.extractall(top, filter="data")
        for path in top.rglob("*"):
            if path.is_file() and path.suffix not in (".pyz", ".pt"):
                data = path.read_bytes()
                if WAS in data:
                    seen = path.stat()
                    path.write_bytes(data.replace(WAS, os.fsencode(top)))
                    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        yield top
    finally:
        shutil.rmtree(top)


def keeper(top: Path) -> Path:
    return next((top / "home/.local/share/sojourn/keepers").glob("*.pyz"))


def sojourn(top: Path, *words: str, rc: int = 0) -> Any:
    """The JSON answer of today's client in the old home."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    env |= {"HOME": str(top / "home"), "PYTHONPATH": str(HERE.parents[1] / "src")}
    argv = [sys.executable, "-m", "sojourn", *words, "--json"]
    done = subprocess.run(argv, cwd=top / "project", env=env, text=True, capture_output=True, timeout=200)
    assert done.returncode == rc and "Traceback" not in done.stderr, f"{words}: {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_the_old_journal_is_whole_and_its_runs_are_listed(old: Path) -> None:
    with Store(str(old / "home/.local/state/sojourn")) as store:
        assert store.gaps() == ()
        assert {run.id: run.status.state.value for run in store.index.runs()} == RUNS
    rows = {row["id"]: row["state"] for row in sojourn(old, "status")["runs"]}
    assert rows == RUNS
    assert sojourn(old, "status", "good")["runs"][0]["is_home"]


def test_the_first_new_line_seals_the_old_ones(old: Path) -> None:
    state = old / "home/.local/state/sojourn"
    with Store(str(state)) as store:
        store.append("pulling", run="unpulled")
        assert store.gaps() == ()
    path = state / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind":"planned","run":"good"', b'"kind":"planned","run":"gold"'))
    with Store(str(state)) as store:
        assert store.gaps()


def test_what_the_old_one_left_on_a_box_is_brought_home(old: Path) -> None:
    answer = sojourn(old, "pull", "unpulled")
    assert answer["ok"] and answer["receipts"] == 2
    assert sojourn(old, "status", "unpulled")["runs"][0]["is_home"]


def test_the_old_journal_py_reads_what_is_written_today(tmp_path: Path) -> None:
    with tarfile.open(FROZEN) as tar:
        tar.extract("journal.py", tmp_path, filter="data")
    spec = importlib.util.spec_from_file_location("old_journal", tmp_path / "journal.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path = str(tmp_path / "state/journal.jsonl")
    new, old = Journal(path), module.Journal(path)
    new.append("planned", run="a")
    old.append("launching", run="a", attempt=1)
    new.append("launched", run="a", attempt=1, tether=None)
    records, _ = old.records()
    assert [(record["n"], record["kind"]) for record in records] == [(1, "planned"), (2, "launching"), (3, "launched")]
    with Store(str(tmp_path / "state")) as store:
        assert store.gaps() == ()


def test_down_lists_what_stands_on_an_old_lease_and_lets_go_of_nothing(old: Path) -> None:
    sojourn(old, "down", "rented", rc=4)
    assert [lease["id"] for lease in sojourn(old, "leases")["leases"]] == ["local", "rented"]


def test_a_run_of_an_old_keeper_is_followed_stopped_and_sealed_by_todays_client(desk: Desk, old: Path) -> None:
    shutil.copy(keeper(old), desk.home)
    with_old = (str(HERE / "with_old_keeper.py"), str(desk.home / keeper(old).name))
    desk.gated()
    desk("run", program=with_old)
    assert keeper(old).stem.removeprefix("keeper-") == json.loads((desk.root() / "keeper.json").read_text())["digest"]
    assert desk.row()["state"] == "running"
    assert desk("logs", "digits").out
    desk("stop", "digits", "--confirm", "digits")
    row = desk.final()
    assert row["state"] == "cancelled" and (desk.root() / "manifest.json").exists()
