"""A box whose login shell lies below the framed answers: every command ends in a word and shows the other boxes."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adversary import hostile_shell
from tests.adversary.stage import everything, ours
from tests.violation import held

COMMANDS = [
    line.split()
    for line in """
status
status --json
watch live fine --limit 4s
logs digits --tail 2
why live
doctor sick
gpu sick
reap sick
recover sick
clean sick
pull digits
pull
down sick --confirm sick
down sick --already-stopped --confirm sick
stop live --confirm live
resume digits
plan newer.yaml
run newer.yaml
""".strip().splitlines()
]
HANG_S = 240  # a guard: on a quiet machine all take less than 75 s
CLEARED = re.compile(rb"you owe is home|was released|nothing to stop|nothing was stopped")
JOB = "name: {0}\nsite: {1}\nrun: {2}\noutputs: [result.json]\n"


class Client:
    """One home with two boxes behind an ssh of ours, and what stood in it when all was well."""

    def __init__(self, top: Path) -> None:
        self.top, self.home, self.project = top, top / "home", top / "home/project"
        (top / "bin").mkdir()
        self.ssh = hostile_shell.program(top / "bin")
        (self.home / ".config/sojourn").mkdir(parents=True)
        self.project.mkdir()
        metered = 'provider = "by_hand"\nrate = "1 USD/h"\nstop = "press Destroy"\nstop_is_final = true\n'
        with open(self.home / ".config/sojourn/settings.toml", "w") as file:
            for name in ("sick", "well"):
                (top / name).mkdir(mode=0o700)
                file.write(f'[sites.{name}]\ntransport = "ssh"\naddress = "{name}"\nbase = "{top / name}"\n')
                file.write(f'python = "{sys.executable}"\n{metered if name == "sick" else ""}')
        quick = "echo '{}' > result.json"
        for name, site, run in (
            ("digits", "sick", quick), ("live", "sick", "exec sleep 900"), ("fine", "well", quick),
            ("newer", "sick", quick),
        ):  # fmt: skip
            (self.project / f"{name}.yaml").write_text(JOB.format(name, site, f'"{run}"'))
        for name in ("digits", "live", "fine"):
            ended = self("run", f"{name}.yaml")
            assert ended.returncode == 0, ended.stderr.decode()
        shutil.copytree(self.home, top / "kept", symlinks=True)

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "SOJOURN"))}
        own = {"HOME": str(self.home), "PATH": f"{self.ssh.parent}:{os.environ['PATH']}", "COLUMNS": "160"}
        registry = {"SOJOURN_BOX_REGISTRY": str(self.top / "registry"), "SOJOURN_SSH_SHARING": "off"}
        return subprocess.run(
            [sys.executable, "-m", "sojourn", *words], cwd=self.project, env={**kept, **own, **registry},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG_S,
        )  # fmt: skip

    def back(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.top / "kept", self.home, symlinks=True)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    made = Client(tmp_path_factory.mktemp("shells"))
    try:
        yield made
    finally:
        hostile_shell.turn(made.ssh, "")
        made("stop", "live", "--confirm", "live")


def tried(client: Client, name: str, code: str, words: list[str]) -> None:
    client.back()
    before, began = everything(client.home), time.monotonic()
    hostile_shell.turn(client.ssh, code)
    ended = client(*words)
    seconds = time.monotonic() - began
    said = f"{' '.join(words)} against {name}: {ended.returncode} after {seconds:.1f} s\n"
    print(said, end="")
    said += f"{ended.stdout.decode()[-800:]}\n{ended.stderr.decode()[-1500:]}"
    assert ended.returncode not in (70, -9) and b"Traceback" not in ended.stderr, said
    assert not any(control in ended.stdout + ended.stderr for control in (b"\x1b", b"\x00")), said
    if words[0] in ("status", "watch"):
        assert b"fine" in ended.stdout, said
    if words[0] in ("down", "clean"):
        assert ended.returncode != 0 or not CLEARED.search(ended.stdout + ended.stderr), said
    if "--already-stopped" in words and not code.startswith("#before"):
        held(ended.returncode in (3, 4, 5), f"it let us in, so it is not stopped: {said}")
    after = everything(client.home)
    changed = [one for one in {*before, *after} if before.get(one) != after.get(one) and not ours(one)]
    assert not changed, f"{said}\n{changed}"


@pytest.mark.campaign(keep=2)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", hostile_shell.FAST)
def test_what_a_hostile_shell_says_ends_every_command_in_a_word(client: Client, name: str, words: list[str]) -> None:
    tried(client, name, hostile_shell.FAST[name], words)


@pytest.mark.campaign
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", hostile_shell.SLOW)
def test_a_shell_that_keeps_silent_or_drips_ends_every_command_too(client: Client, name: str, words: list[str]) -> None:
    tried(client, name, hostile_shell.SLOW[name], words)
