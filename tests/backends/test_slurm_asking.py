"""How often Slurm is asked, by commands that count: one answer serves all, and failures are asked less and less."""

import os
import subprocess
from pathlib import Path

import pytest

from sojourn.backends.slurm import output

REST_S = 60


class Login:
    """A login node whose commands note each call; squeue answers as told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, folder / "calls"
        (folder / "bin").mkdir()
        self.squeue = folder / "bin" / "squeue"
        for name in ("sacct", "scontrol"):  # these count too: where squeue failed, neither is asked
            (folder / "bin" / name).write_text(f"#!/bin/sh\necho x >>'{self.calls}'\nexit 1\n")
            (folder / "bin" / name).chmod(0o755)
        self.answers("5|RUNNING|None|N/A|n1|18:00", 0)

    def answers(self, text: str, rc: int) -> None:
        self.squeue.write_text(f"#!/bin/sh\necho x >>'{self.calls}'\necho '{text}'\nexit {rc}\n")
        self.squeue.chmod(0o755)

    def asks(self) -> int:
        """One more client looks; how often Slurm was asked so far."""
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        argv = ["sh", "-c", output.ASK, "sojourn", "5", str(REST_S), str(self.folder / "base")]
        self.said = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=True).stdout
        return len(self.calls.read_text().split())

    def later(self, by_s: int) -> None:
        """As if the kept answer had come so much earlier."""
        (kept,) = [one for one in (self.folder / "cache/sojourn").glob("squeue-*") if not one.suffix]
        at, _, rest = kept.read_text().partition(" ")
        kept.write_text(f"{int(at) - by_s} {rest}")


@pytest.fixture
def login(tmp_path: Path) -> Login:
    return Login(tmp_path)


def test_one_answer_serves_all_until_the_rest_is_over(login: Login) -> None:
    assert [login.asks() for _ in range(4)] == [1, 1, 1, 1]
    assert output.parse_answer(login.said).queue["5"].state == "RUNNING"
    login.later(REST_S)
    assert login.asks() == 2


def test_failures_in_a_row_are_asked_at_growing_distances_up_to_the_rest_and_an_answer_ends_it(login: Login) -> None:
    login.answers("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1)
    calls = login.asks()
    for wait_s in (10, 20, 40, REST_S, REST_S):
        login.later(wait_s - 5)
        assert login.asks() == calls, f"within {wait_s} s"
        assert "Unable to contact" in output.parse_answer(login.said).trouble
        login.later(5)
        assert login.asks() == calls + 1, f"after {wait_s} s"
        calls += 1
    login.answers("5|RUNNING|None|N/A|n1|18:00", 0)
    login.later(REST_S)
    assert login.asks() == calls + 1 and not output.parse_answer(login.said).trouble
    login.answers("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", 1)
    login.later(REST_S)
    assert login.asks() == calls + 2
    login.later(10)
    assert login.asks() == calls + 3, "the first failure after an answer counts from the beginning"
