"""Cut after every single call of a save, on real file systems: what was said to be saved is there, and loads."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.formats.torch import write as torch_write
from sojourn.formats.torch import zip as torch_zip
from sojourn.formats.torch.values import Damaged
from sojourn.train.saving import commit, sealed, writer
from sojourn.wire import atomic
from tests.train import cuts
from tests.train.killing import SOURCE, environment
from tests.violation import held

TOLD = {
    "here": "a file, saved inside step",
    "there": "a file, by the writer process",
    "folder": "a folder, as by FSDP and other trainers",
}
CUT = """\
Every call of a save that changes the disk is recorded and replayed on a file system in an image, up to each of them;
then the image is copied under the mounted file system, as a power cut would leave it, mounted and read. Held: what was
committed before exists and loads, and everything with a checkpoint's name is whole."""
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts disks")
FILE = "state.pt"
WAYS = ("here", "there", "folder")
CUTS = 100  # until one loses something, where a neighbor calls sync(2) all the time


def save(folder: Path, way: str, step: int, best: bool = False) -> None:
    """What a Checkpointer (here), its writer process (there), or an adapter (folder) does for one save."""
    payload = bytes([step]) * 5000
    plan = torch_write.plan({"state": {"step": step, "bytes": payload}}, {"step": step})

    def write_here(aside: str) -> str:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            plan.write_to(fd)
            os.fsync(fd)
        finally:
            os.close(fd)
        return plan.sums_sha256

    def write_there(aside: str) -> str:
        image = memoryview(bytearray(-(-plan.bytes // 4096) * 4096))
        for at, size, view in plan.places():
            image[at : at + size] = view()
        again = torch_write.again(plan.outline())
        writer.put(again, image, aside, 0)
        return again.sums_sha256

    def fill(aside: str) -> None:
        os.mkdir(os.path.join(aside, "part"))
        write_here(os.path.join(aside, "part", FILE))

    mine = commit.Shelf(str(folder), 1, 2, print)
    if way == "folder":
        mine.commit_folder(fill, plan.bytes, step, 0.0, {"step": step})
        return
    name = mine.commit(write_here if way == "here" else write_there, plan.bytes, step, 0.0)
    if best:
        mine.make_best(name)


def recorded(folder: Path, way: str) -> tuple[list[Any], int]:
    """(the calls of the fourth save, which prunes and links best.pt; how many of them until it counts as committed)."""
    for step in (1, 2, 3):
        save(folder, way, step)
    calls = cuts.record(folder, lambda: save(folder, way, 4, best=True))
    published = next(
        i for i, (name, _, args) in enumerate(calls) if name == "rename" and args[1][1].startswith("ckpt-")
    )
    return calls, next(i for i, (name, _, _) in enumerate(calls) if name == "fsync" and i > published) + 1


def check(folder: Path, committed: list[int], where: str) -> None:
    """Whole files only, and all that was committed and not pruned since."""
    steps = []
    for path in folder.glob("ckpt-*"):
        if path.is_dir():
            sealed.check(str(path))
        found = torch_zip.read_zip(str(path / "part" / FILE if path.is_dir() else path))
        assert found.tree["state"]["bytes"] == bytes([found.facts["step"]]) * 5000, where
        steps.append(found.facts["step"])
    assert set(committed) <= set(steps), (where, committed, steps)
    if (folder / "best.pt").exists():
        torch_zip.read_zip(str(folder / "best.pt"))


def base(tmp_path: Path, way: str) -> Path:
    """A folder with the checkpoints 2 and 3, as it is before the recorded save."""
    folder = tmp_path / "base"
    folder.mkdir()
    for step in (1, 2, 3):
        save(folder, way, step)
    return folder


@pytest.mark.parametrize("way", WAYS)
def test_a_kill_after_every_single_call_leaves_whole_files_and_the_one_before(way: str, tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    calls, committed_at = recorded(tmp_path / "recorded", way)
    folder = base(tmp_path, way)
    for count in range(len(calls) + 1):
        copy = tmp_path / ("cut%d" % count)
        shutil.copytree(str(folder), str(copy))
        cuts.play(calls[:count], copy)
        commit.Shelf(str(copy), 2, 2, print).sweep()  # as the next start does
        check(copy, [4] if count >= committed_at else [3], "killed after %d calls" % count)
        left = {path.name for path in copy.iterdir() if not re.fullmatch(r"ckpt-.*|best\.pt", path.name)}
        assert left == {"latest.json"}, "killed after %d calls" % count


def cut_at(kind: str, way: str, tmp_path: Path, counts: Any, flushed: bool) -> int:
    """Cut after each of `counts(calls)` calls; how many cuts that was."""
    (tmp_path / "recorded").mkdir()
    calls, committed_at = recorded(tmp_path / "recorded", way)
    image, point, copy = tmp_path / "image", tmp_path / "mounted", tmp_path / "copy"
    cuts.make(kind, tmp_path / "empty")
    with cuts.disk(tmp_path / "empty", point):
        for step in (1, 2, 3):
            save(point, way, step)
    for count in counts(len(calls)):
        cuts.fresh(tmp_path / "empty", image)
        with cuts.disk(image, point):
            cuts.play(calls[:count], point)
            cuts.cut(image, point, copy, flushed)
        with cuts.disk(copy, point):  # the journal is played
            where = "%s, %s, cut after %d of %d calls" % (kind, way, count, len(calls))
            check(point, [4] if count >= committed_at else [3], where)
    return len(counts(len(calls)))


@pytest.mark.campaign(keep=1)
@ROOT
@pytest.mark.lab
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_power_cut_after_a_call_loses_nothing_that_was_committed(kind: str, tmp_path: Path) -> None:
    """Around the calls that matter: every fsync and rename, and the very end. Every single one in `make campaign`."""
    calls, _ = recorded(tmp_path, "there")
    turning = {i + 1 for i, (name, _, _) in enumerate(calls) if name in ("fsync", "rename")} | {len(calls)}
    (tmp_path / "lab").mkdir()
    cut_at(kind, "there", tmp_path / "lab", lambda count: sorted(turning), flushed=False)


@ROOT
@pytest.mark.lab
@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_power_cut_after_every_single_call_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    """Writes docs/reliability.md."""
    from tests import reliability

    began_s, rows = time.monotonic(), {}
    for kind, way, flushed in itertools.product(("ext4", "xfs"), WAYS, (False, True)):
        folder = tmp_path / f"{kind}-{way}-{flushed}"
        folder.mkdir()
        name = f"{kind}, {TOLD[way]}, {'all written back just before' if flushed else 'nothing written back'}"
        rows[name] = cut_at(kind, way, folder, lambda count: range(count + 1), flushed)
        shutil.rmtree(str(folder))
    lines = [CUT, "", *reliability.table("cuts, each held", rows)]
    reliability.put("Power is cut after every call of a save", lines, time.monotonic() - began_s)


@ROOT
@pytest.mark.lab
def test_a_file_that_was_written_durably_outlives_a_power_cut_right_after(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    calls = cuts.record(tmp_path / "recorded", lambda: atomic.write_json(str(tmp_path / "recorded/a.json"), [1]))
    image, point, copy = tmp_path / "image", tmp_path / "mounted", tmp_path / "copy"
    cuts.make("ext4", image)
    with cuts.disk(image, point):
        cuts.play(calls, point)
        cuts.cut(image, point, copy, is_flushed=False)
    with cuts.disk(copy, point):
        held((point / "a.json").exists(), "a file that was called durable is gone after a power cut")
        assert (point / "a.json").read_bytes() == (tmp_path / "recorded/a.json").read_bytes()


@ROOT
@pytest.mark.lab
def test_without_the_fsync_of_the_folder_a_power_cut_would_lose_it(tmp_path: Path) -> None:
    """That the laboratory really cuts: the same save with its fsyncs left out is lost, or not whole. Whatever else runs
    here may call sync(2) right before the cut, so it is cut until one loses something.
    """
    (tmp_path / "recorded").mkdir()
    calls, _ = recorded(tmp_path / "recorded", "there")
    careless = [call for call in calls if call[0] != "fsync"]
    empty, image, point, copy = (tmp_path / name for name in ("empty", "image", "mounted", "copy"))
    cuts.make("ext4", empty)
    with cuts.disk(empty, point):
        for step in (1, 2, 3):
            save(point, "there", step)
    for _ in range(CUTS):
        cuts.fresh(empty, image)
        with cuts.disk(image, point):
            cuts.play(careless, point)
            cuts.cut(image, point, copy, is_flushed=False)
        with cuts.disk(copy, point):
            try:
                check(point, [4], "careless")
            except (AssertionError, Damaged):
                return
    pytest.fail(f"{CUTS} cuts lost nothing")


@pytest.mark.lab
def test_the_recorded_calls_are_all_that_the_kernel_sees(tmp_path: Path) -> None:
    """strace and the record agree, call by call, so that no write goes past the record."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    calls, _ = recorded(tmp_path / "a", "there")
    code = (
        "import os, pathlib, sys; sys.path[:0] = [%r, %r]; from tests.train import test_cuts as t\n"
        "p = pathlib.Path(sys.argv[1]); [t.save(p, 'there', n) for n in (1, 2, 3)]\n"
        "os.path.exists('/begin'); t.save(p, 'there', 4, best=True)"
    ) % (str(SOURCE), str(SOURCE.parent))
    argv = ["strace", "-f", "-qq", "-o", str(tmp_path / "trace"), "-e", "trace=file,desc", "-y"]
    done = subprocess.run(
        [*argv, sys.executable, "-c", code, str(tmp_path / "b")],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout.decode()
    said = (tmp_path / "trace").read_text().partition('"/begin"')[2].splitlines()
    kinds = {"openat": "open", "pwrite64": "pwrite", "newfstatat": "", "linkat": "link", "renameat": "rename",
             "renameat2": "rename", "unlinkat": "unlink", "mkdirat": "mkdir"}  # fmt: skip
    seen = []
    for line in said:
        hit = re.match(r"\d+ +(\w+)\((.*)", line)
        if hit and str(tmp_path / "b") in line:
            kind = kinds.get(hit.group(1), hit.group(1))
            changes = kind != "open" or "O_CREAT" in line or "O_DIRECTORY" in line and "O_NONBLOCK" not in line
            if kind in cuts.WATCHED and changes:
                seen.append(kind)
    reads = {"close"}  # listing a folder opens and closes it too
    assert [n for n in seen if n not in reads] == [name for name, _, _ in calls if name not in reads]
