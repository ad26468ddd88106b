"""The same for real: a box whose interpreter spoils what the real keeper answers, and a process for each command."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary import hostile
from tests.adversary.stage import Stage, everything, ours

# Each command with one way, each way with a command; and `status` with all that do not take its patience.
TRIALS = [
    ("status", "type", 5),
    ("status", "drop", 5),
    ("status", "deep", 5),
    ("status", "cut", 5),
    ("status", "extra", 5),
    ("status", "elsewhere", 5),
    ("status --timeout 3s", "endless", 3),
    ("status --timeout 3s", "silent", 3),
    ("status --timeout 3s", "dribble", 3),
    ("watch live fine --limit 2s", "type", 5),
    ("logs digits", "type", 5),
    ("pull digits --to out", "text", 5),
    ("verify out", "text", None),
    ("why live", "drop", 5),
    ("doctor sick", "text", 5),
    ("gpu sick", "type", 5),
    ("reap sick", "drop", 5),
    ("recover sick", "text", 5),
    ("clean sick", "type", 5),
    ("stop live --confirm live", "other argv", None),
    ("resume live", "other argv", None),
    ("run newer.yaml", "other argv", 5),
    ("down sick", "text", None),
]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    path = hostile.program(made.top, os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    try:
        made.settings(str(path))
        for name in ("fine", "digits", "live"):
            rc, _, err = made.play("run", str(made.project / f"{name}.yaml"))
            assert rc == 0, err
        yield made
    finally:
        hostile.turn(path, "true")
        made.end_all()


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize(("words", "way", "status"), TRIALS, ids=[f"{words}-{way}" for words, way, _ in TRIALS])
def test_a_command_of_its_own_ends_in_a_word(stage: Stage, words: str, way: str, status: int | None) -> None:
    path = stage.top / "python3"
    before, began = everything(stage.home), time.monotonic()
    hostile.turn(path, way)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "sojourn", *words.split()],
            cwd=stage.project,
            env={**os.environ, **stage.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=240,
        )
    finally:
        hostile.turn(path, "true")
    said = f"{words} against {way}: {ended.returncode}\n{ended.stdout.decode()[-800:]}\n{ended.stderr.decode()[-1500:]}"
    assert ended.returncode not in (70, -9) and b"Traceback" not in ended.stderr, said
    assert status is None or ended.returncode == status, said
    assert not any(control in ended.stdout + ended.stderr for control in (b"\x1b", b"\x00")), said
    after = everything(stage.home)
    changed = [one for one in {*before, *after} if before.get(one) != after.get(one) and not ours(one)]
    assert not changed and not list(Path(stage.top).rglob("pwned")), f"{said}\n{changed}"
    assert time.monotonic() - began < 200, said
    if words.startswith(("status", "watch")):
        assert b"fine" in ended.stdout, said
