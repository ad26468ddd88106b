"""`sojourn status --json` of everything says byte for byte what it says of the same runs asked for by name."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.core.fold import Status, fold
from sojourn.store.home import Store
from tests.store import history

AT = len('{"schema": "sojourn/status/v1", "at": "2026-11-21T10:00:00.000Z"')


def sojourn(*words: str) -> bytes:
    argv = [sys.executable, "-m", "sojourn", "status", "--json", *words]
    return subprocess.run(argv, capture_output=True, check=True, timeout=60).stdout


@pytest.fixture
def store(private_home: Path) -> Store:
    store = history.filled(private_home / ".local/state/sojourn", "a", "b")
    history.planned(store.journal, "c")
    history.planned(store.journal, "ab-1", sweep="ab")
    history.launched(store.journal, "ab-1")
    beat = {"seq": 3, "attempt": 1, "kind": "beat", "progress": {"step": 1, "metrics": {"loss": float("nan")}}}
    events = history.events("oom")
    history.heard(store.journal, "ab-1", fold([*events[:2], beat, *events[3:]], Status()))
    store.index.catch_up()
    return store


def test_the_answer_is_the_same_the_first_time_the_second_and_by_name(store: Store) -> None:
    by_name = sojourn("a", "b", "c", "ab")
    assert json.loads(by_name)["runs"][3]["progress"]["metrics"] == {"loss": "nan"}
    assert [sojourn()[AT:], sojourn()[AT:]] == [by_name[AT:]] * 2
    store.append("pulling", run="a")
    history.pulled(store.journal, "a", missing=["best.pt"])
    assert sojourn()[AT:] == sojourn("a", "b", "c", "ab")[AT:] != by_name[AT:]


def test_where_there_is_nothing_yet_the_answer_is_empty_and_nothing_is_written(private_home: Path) -> None:
    assert json.loads(sojourn())["runs"] == json.loads(sojourn())["sweeps"] == []
    assert not (private_home / ".local/state").exists()


def test_at_a_terminal_the_answer_is_indented(private_home: Path) -> None:
    history.filled(private_home / ".local/state/sojourn", "a")
    here, there = pty.openpty()
    subprocess.run([sys.executable, "-m", "sojourn", "status", "--json"], stdout=there, check=True, timeout=60)
    os.close(there)
    assert os.read(here, 100).decode().startswith('{\r\n  "schema": "sojourn/status/v1",')
    os.close(here)
