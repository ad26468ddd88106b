"""The reboot hook, with STAND-INS for crontab and systemd; with a real cron and real reboots: test_reboot_for_real."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from sojourn.backends import reboot
from sojourn.backends.transport import local
from sojourn.core.values import Ended
from sojourn.store.settings import BadSettings, read_site
from tests.verbs.conftest import World

FAKES = Path(__file__).parent.parent / "fakes" / "bin"
USERS = "# mine\nMAILTO=ada\n\n0 3 * * * /usr/bin/backup 100\\% --what sojourn\n@reboot echo hello\n\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's crontab, which does not exist yet."""
    path = tmp_path / "crontab"
    monkeypatch.setenv("STANDIN_CRONTAB", str(path))
    monkeypatch.setenv("PATH", f"{FAKES}:{os.environ['PATH']}")
    return path


@pytest.fixture
def root(tmp_path: Path) -> str:
    path = tmp_path / 'it\'s a 5% "base" with $HOME' / "runs" / "digits-lr0.3"
    (path / "logs").mkdir(parents=True)
    return str(path)


def lines(table: Path) -> list[str]:
    return [line for line in table.read_text().splitlines() if "# sojourn:" in line]


def remove(root: str) -> int:
    """As the keeper does."""
    return subprocess.run(json.loads(Path(root, "reboot.json").read_text())["remove"], timeout=120).returncode


def up(root: str, argv: list[str] | None = None, kind: str = "cron") -> str:
    ended = local.Backend().call(reboot.command(kind, argv or ["true"], root))
    assert isinstance(ended, Ended)
    return reboot.remark("gpu", kind, ended)


def test_the_line_starts_the_very_argv_with_the_path_of_the_call(table: Path, root: str) -> None:
    words = ["a b", "$HOME", "5%", "it's", '"']
    up(root, ["sh", "-c", 'printf "%s|" "$@"; echo "$PATH"', "sojourn", *words])
    (line,) = lines(table)
    schedule, _, command = line.partition(" ")
    assert schedule == "@reboot"
    # What cron does: `%` that is not escaped would end the command. Source: crontab(5).
    assert "%" not in command.replace("\\%", "")
    bare = {"PATH": "/usr/bin:/bin", "HOME": "/"}
    subprocess.run(["/bin/sh", "-c", command.replace("\\%", "%")], env=bare, check=True, timeout=120)
    assert Path(root, "logs/keeper.log").read_text() == "|".join([*words, os.environ["PATH"]]) + "\n"


@pytest.mark.parametrize("users", ["", USERS, USERS.rstrip("\n") + "\n"])
def test_the_users_other_lines_are_never_touched(table: Path, root: str, users: str) -> None:
    if users:
        table.write_text(users)
    up(root)
    assert table.read_text().startswith(users) and len(lines(table)) == 1
    assert remove(root) == 0
    assert table.read_text() == users if users else not table.exists()
    assert not Path(root, "reboot.json").exists() and not Path(root, "reboot.sh").exists()


def test_asking_again_changes_nothing_and_another_keeper_replaces_the_command(table: Path, root: str) -> None:
    for _ in range(3):
        up(root, ["echo", "old"])
    assert Path(f"{table}.written").read_text() == "x\n"
    up(root, ["echo", "new"])
    assert len(lines(table)) == 1 and "exec echo new" in Path(root, "reboot.sh").read_text()


def test_two_runs_have_a_line_each_and_one_goes_without_the_other(table: Path, root: str) -> None:
    other = root + "1"
    Path(other, "logs").mkdir(parents=True)
    up(root)
    up(other)
    assert len(lines(table)) == 2
    remove(root)
    (line,) = lines(table)
    assert "digits-lr0.31" in line


def test_a_crontab_that_cannot_be_read_is_never_written(table: Path, root: str) -> None:
    table.write_text(USERS)
    Path(f"{table}.deny").touch()
    said = up(root)
    assert said.startswith("the reboot hook (cron) of gpu is not available: crontab -l says: You (ada) are not allowed")
    assert "\n" not in said and table.read_text() == USERS and not Path(root, "reboot.json").exists()


def test_where_there_is_no_crontab_it_is_said_in_one_line(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "sed", "mv", "cat", "sync"):
        (tools / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tools))
    assert up(root) == "the reboot hook (cron) of gpu is not available: there is no crontab"


def test_a_path_with_a_line_break_has_no_hook() -> None:
    assert reboot.command("cron", ["true"], "/a\nb/runs/x") == []
    assert "line break" in reboot.remark("gpu", "cron", None)


def test_a_unit_is_enabled_and_taken_away_again(
    root: str, tmp_path: Path, private_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "stand-in"
    folder.mkdir()
    (folder / "state").write_text("running\n")
    (folder / "linger").write_text("yes\n")
    monkeypatch.setenv("STANDIN_SYSTEMD", str(folder))
    monkeypatch.setenv("PATH", f"{FAKES}:{os.environ['PATH']}")
    for _ in range(2):
        assert up(root, kind="systemd") == ""
    (unit,) = (private_home / ".config/systemd/user").iterdir()
    assert [path.name for path in (folder / "enabled").iterdir()] == [unit.name]
    text = unit.read_text()
    assert 'it\'s a 5%% \\"base\\" with $$HOME/runs/digits-lr0.3/reboot.sh"\n' in text and "KillMode=process" in text
    assert remove(root) == 0
    assert not unit.exists() and not list((folder / "enabled").iterdir())


def test_where_the_users_systemd_does_not_run_there_is_no_unit(root: str, private_home: Path) -> None:
    if Path("/proc/1/comm").read_text().strip() == "systemd":
        return
    said = up(root, kind="systemd")
    assert said.startswith("the reboot hook (systemd) of gpu is not available: gpu has no systemd user instance")
    assert "Nothing was started" not in said  # the run is
    assert not (private_home / ".config/systemd").exists() and not Path(root, "reboot.json").exists()


def test_a_site_may_ask_for_cron_or_systemd_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text('[sites.gpu]\nreboot_hook = "cron"\n')
    assert read_site("gpu", str(path)).options["reboot_hook"] == "cron"
    path.write_text('[sites.gpu]\nreboot_hook = "anacron"\n')
    with pytest.raises(BadSettings, match="cron, systemd, not 'anacron'"):
        read_site("gpu", str(path))


def hooked(world: World) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text('[sites.local]\nreboot_hook = "cron"\n')
    world.ctx.boxes.clear()


def test_a_run_has_its_line_while_it_lives_and_the_keeper_takes_it_away(world: World, table: Path) -> None:
    table.write_text(USERS)
    hooked(world)
    world.run("while [ ! -e $SOJOURN_RUN_DIR/go ]; do sleep 0.05; done")
    assert len(lines(table)) == 1
    (world.root() / "go").touch()
    deadline_s = time.monotonic() + 240
    while (world.root() / "reboot.json").exists():  # no client has to look for that
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert table.read_text() == USERS


def test_a_run_that_ends_at_once_leaves_no_line(world: World, table: Path) -> None:
    hooked(world)
    world.run("exit 3")
    deadline_s = time.monotonic() + 240
    while table.exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_a_hook_that_cannot_be_had_stops_no_run_and_is_a_remark(world: World, table: Path) -> None:
    hooked(world)
    Path(f"{table}.deny").touch()
    answer = world.run("sleep 60")
    assert answer.did == "launched"
    assert [
        remark for remark in answer.remarks if remark.startswith("the reboot hook (cron) of local is not available")
    ]
