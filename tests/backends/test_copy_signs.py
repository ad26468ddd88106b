"""What stores a file on a box gives signs of life while it hashes and flushes for long, and is given up when silent."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from sojourn.backends import bounds
from sojourn.backends.bounds import Keep
from sojourn.backends.ssh import copy as ssh_copy
from sojourn.backends.ssh.talk import Limits, talk

CONTENT = bytes(range(256)) * 256 * 16 * 40  # forty megabytes: three blocks of hashing


def argv(folder: Path, program: str, *more: str) -> list[str]:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    target = str(folder / "target")
    return [
        "sh",
        "-c",
        program,
        "sojourn",
        target,
        ssh_copy.part_name(target, sha256),
        str(len(CONTENT)),
        sha256,
        *more,
    ]


def tool(folder: Path, name: str, script: str) -> None:
    """A program of the box's that is slower than ours."""
    (folder / "bin").mkdir(exist_ok=True)
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def environ(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}


def clock(folder: Path) -> None:
    """Each look at the clock is 30 s after the last one."""
    count = folder / "count"
    count.write_text("0")
    tool(folder, "date", f"n=$(cat {count}); n=$((n + 30)); echo $n > {count}; echo $n")


def test_hashing_gives_a_sign_for_each_block_that_took_long(tmp_path: Path) -> None:
    clock(tmp_path)
    done = subprocess.run(
        argv(tmp_path, ssh_copy.STORE, "0", "600"), input=CONTENT, capture_output=True, env=environ(tmp_path)
    )
    assert (done.returncode, done.stdout) == (0, b"") and (tmp_path / "target").read_bytes() == CONTENT
    assert len(done.stderr) >= 3 * bounds.LEAST_BYTES and not done.stderr.strip()
    asked = subprocess.run(argv(tmp_path, ssh_copy.ASK), capture_output=True, env=environ(tmp_path))
    assert asked.stdout == b"whole\n" and len(asked.stderr) >= 3 * bounds.LEAST_BYTES


def test_a_quick_box_gives_none(tmp_path: Path) -> None:
    done = subprocess.run(argv(tmp_path, ssh_copy.STORE, "0", "700"), input=CONTENT, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert os.stat(tmp_path / "target").st_mode & 0o777 == 0o700


def test_flushing_gives_signs_until_it_is_done(tmp_path: Path) -> None:
    tool(tmp_path, "sleep", "exec /bin/sleep 0.05")  # an hour passes in minutes
    tool(tmp_path, "dd", '/bin/dd "$@"; rc=$?; case "$*" in *bs=65536*) /bin/sleep 3;; esac; exit $rc')
    done = subprocess.run(
        argv(tmp_path, ssh_copy.STORE, "0", "600"), input=CONTENT, capture_output=True, env=environ(tmp_path)
    )
    assert done.returncode == 0 and len(done.stderr) >= bounds.LEAST_BYTES and not done.stderr.strip()


@pytest.mark.parametrize("is_hung", [True, False])
def test_a_disk_that_hangs_is_silence_and_one_that_is_slow_is_not(tmp_path: Path, is_hung: bool) -> None:
    clock(tmp_path)
    tool(
        tmp_path,
        "dd",
        f'case "$*" in *bs={ssh_copy.HASHED_BYTES}*) /bin/sleep {60 if is_hung else 0.6};; esac; exec /bin/dd "$@"',
    )
    (tmp_path / "target").write_bytes(CONTENT)
    words = " ".join(f"'{word}'" for word in argv(tmp_path, ssh_copy.ASK)[3:])
    (tmp_path / "ask").write_text(ssh_copy.ASK)
    shell = f"printf 'cafe ready\\n'; printf 'cafe ready\\n' >&2; sh {tmp_path}/ask {words}; printf '\\ncafe end 0\\n'"
    out, err = Keep(1000), Keep(1 << 16)
    script = ["env", f"PATH={environ(tmp_path)['PATH']}", "sh", "-c", shell]
    found = talk(script, "cafe", b"", b"", out, err, Limits(60.0, quiet_s=1.5), is_shared=False)
    assert found.why == ("quiet" if is_hung else "ended")
