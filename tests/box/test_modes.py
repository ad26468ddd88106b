"""What the keeper writes is its user's alone, whatever umask it was started with; what the job writes is the job's."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

from tests.box.rig import Rig, heard, until

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
OTHER = 54321
_LOOK = """import os, sys
os.chdir(sys.argv[1])  # what lies above is not the keeper's
os.setgroups([]); os.setgid(%d); os.setuid(%d)
for path in sys.argv[2:]:
    try:
        open(path, "rb").read(); print("read", path)
    except PermissionError: pass
""" % (OTHER, OTHER)


def with_umask(rig: Rig, umask: int) -> None:
    rig.within = ["sh", "-c", 'umask %03o; exec "$@"' % umask, "sh"]


def open_to_others(folder: Path) -> Dict[str, str]:
    found = {}
    for path in [folder, *folder.rglob("*")]:
        mode = os.lstat(path).st_mode
        if mode & 0o077 and not path.is_symlink():
            found[str(path.relative_to(folder))] = oct(mode & 0o777)
    return found


def test_all_that_is_ours_is_closed_and_the_payload_keeps_its_umask(rig: Rig) -> None:
    code = rig.snapshot({"train.py": b"x"})
    for umask in (0o022, 0o000):
        with_umask(rig, umask)
        run = "r%o" % umask
        root = rig.place("umask; echo x > out; mkdir d; exit 3", run=run, outputs=["out"], code=code)
        rig.finish(root)
        left = open_to_others(Path(root.path))
        assert Path(root.log(1)).read_text().split()[0] == "%04o" % umask
        mine = {"attempts/1/out", "attempts/1/d", "attempts/1/train.py"}
        assert set(left) == mine, left
        assert left["attempts/1/out"] == oct(0o666 & ~umask) and left["attempts/1/train.py"] == oct(0o644 & ~umask)
    assert os.stat(rig.base / "runs").st_mode & 0o777 == 0o700


@AS_ROOT
def test_another_user_reads_neither_the_log_nor_the_job_of_a_run_that_lives(rig: Rig) -> None:
    with_umask(rig, 0)
    root = rig.place('echo "$TOKEN"; sleep 600', envs={"TOKEN": "hush"})
    rig.supervise(root)
    heard(root, "beat")
    until(lambda: b"hush" in Path(root.log(1)).read_bytes())
    rig.base.chmod(0o755)
    (rig.base / "open").write_text("x")
    (rig.base / "open").chmod(0o644)
    files = ["open"] + [os.path.relpath(path, rig.base) for path in (root.log(1), root.run, root.events, root.want)]
    done = subprocess.run([sys.executable, "-c", _LOOK, str(rig.base), *files], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("read open\n", 0), done  # the first shows that it can read at all
    assert open_to_others(Path(root.path)).keys() <= {"attempts/1"}


def test_a_root_that_an_earlier_keeper_left_open_is_closed_when_a_keeper_signs_on(rig: Rig) -> None:
    root = rig.place("true")
    opened = [root.path, root.logs, root.exits, str(rig.base / "runs")]
    for path in opened:
        os.chmod(path, 0o755)
    os.chmod(root.run, 0o644)
    Path(root.logs, "keeper.log").write_text("")
    os.chmod(os.path.join(root.logs, "keeper.log"), 0o644)
    rig.finish(root)
    assert open_to_others(Path(root.path)) == {} and os.stat(rig.base / "runs").st_mode & 0o077 == 0


def test_a_keeper_that_a_call_starts_knows_the_umask_of_its_user(rig: Rig) -> None:
    with_umask(rig, 0o027)
    root = rig.place("umask")
    argv = rig.call("hello", run="r")["argv"]
    words = ["sh", "-c", '"$@" </dev/null >/dev/null 2>&1 &', "sh", *argv]
    assert rig.call("command", run="r", argv=argv, words=words, timeout_s=30.0)["ok"]
    heard(root, "sealed")
    assert Path(root.log(1)).read_text().split()[0] == "0027"
