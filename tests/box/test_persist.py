"""Folders that outlive their attempt, checkpoints that are carried along, and the command that resumes from them."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run import copying, job, saved_files
from sojourn.box.run.root import Root
from sojourn.box.supervise import persist
from sojourn.box.system import machine
from sojourn.wire import atomic
from tests.box.rig import Rig, found, log

END = "kill -9 $$"  # of the payload, as a kernel does it


def archive(*parts: bytes) -> bytes:
    """What torch.save writes, as far as the outer format goes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as f:
        for number, part in enumerate(parts):
            f.writestr(zipfile.ZipInfo("archive/data/%d" % number), part)
    return out.getvalue()


def again(rig: Rig, root: Root, number: int = 2) -> dict[str, Any]:
    """Ask for attempt `number`, and see it to its end."""
    assert rig.call("want", run=root.id, attempt=number, by="resume")["ok"]
    return rig.finish(root)


# ---- Persisted folders


def test_a_persisted_folder_is_there_again_in_every_attempt(rig: Rig) -> None:
    root = rig.place(
        "mkdir -p out/deep; echo $SOJOURN_ATTEMPT >> out/deep/log; cat out/deep/log; %s" % END, persist=["out"]
    )
    assert rig.finish(root)["state"] == "killed"
    again(rig, root, 2)
    again(rig, root, 3)
    assert Path(root.attempt(3), "out/deep/log").read_text() == "1\n2\n3\n"
    assert not os.path.lexists(os.path.join(root.attempt(1), "out"))
    assert found(root, "prepared")[-1]["persisted"] == ["out"]


def test_what_was_pushed_into_it_is_there_and_never_put_over_what_an_attempt_wrote(rig: Rig) -> None:
    code = rig.snapshot({"out/kept.txt": b"pushed\n", "out/changed.txt": b"pushed\n"})
    script = "cat out/kept.txt out/changed.txt; echo mine > out/changed.txt; echo new > out/new.txt; %s" % END
    root = rig.place(script, persist=["out"], code=code)
    rig.finish(root)
    again(rig, root)
    assert log(root, 2).split()[:2] == ["pushed", "mine"]
    assert sorted(os.listdir(os.path.join(root.attempt(2), "out"))) == ["changed.txt", "kept.txt", "new.txt"]


def test_a_keeper_killed_at_any_moment_of_the_move_loses_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    code = rig.snapshot({"a/pushed.txt": b"pushed", "b/c/pushed.txt": b"pushed"})
    root = rig.place("true", persist=["a", "b/c"], code=code)
    root.make_folders()
    spec: Any = {"persist": ["a", "b/c"], "code": code}
    for number in (1, 2):
        os.makedirs(os.path.join(root.attempt(number), "a"))
        os.makedirs(os.path.join(root.attempt(number), "b/c"))
    Path(root.attempt(1), "a/made.txt").write_text("a")
    Path(root.attempt(1), "b/c/made.txt").write_text("c")
    os.makedirs(root.persist)
    atomic.write_json(root.lent, {"to": 1, "host": machine.host()})

    class Killed(Exception):
        pass

    left = [0]

    def counted(real: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise Killed
            return real(*args, **named)

        return call

    for name in ("rename", "unlink", "makedirs"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    cuts = 0
    for moment in range(100):
        left[0] = moment
        try:
            persist.park(root, spec)
            persist.lend(root, spec, 2)
        except Killed:
            cuts += 1
        else:
            break
    left[0] = 10**9
    assert cuts > 5
    assert Path(root.attempt(2), "a/made.txt").read_text() == "a"
    assert Path(root.attempt(2), "b/c/made.txt").read_text() == "c"
    persist.park(root, spec)  # and back again
    assert Path(root.kept, "a/made.txt").read_text() == "a"


def test_an_attempt_on_another_machine_whose_end_nobody_saw_keeps_its_own(rig: Rig) -> None:
    root = rig.place("true", persist=["out"])
    root.make_folders()
    os.makedirs(os.path.join(root.attempt(1), "out"))
    Path(root.attempt(1), "out/model.txt").write_text("mine")
    os.makedirs(root.persist)
    atomic.write_json(root.lent, {"to": 1, "host": "another"})
    persist.park(root, {"persist": ["out"]})
    assert Path(root.kept, "out/model.txt").read_text() == "mine"
    assert Path(root.attempt(1), "out/model.txt").read_text() == "mine"


def test_outputs_are_found_while_no_attempt_has_them(rig: Rig) -> None:
    root = rig.place("mkdir out; echo x > out/model.txt; %s" % END, persist=["out"], outputs=["out/model.txt"])
    rig.finish(root)
    persist.park(root, {"persist": ["out"]})
    answer = rig.call("manifest", run="r")
    assert [row["path"] for row in answer["manifest"]["files"] if row["role"] == "output"] == ["out/model.txt"]


@pytest.mark.parametrize("path", ["/etc", "../out", "out/..", "."])
def test_a_box_takes_no_folder_outside_the_working_copy(path: str) -> None:
    assert "persist" in job.trouble({"argv": ["true"], "persist": [path]})


# ---- Checkpoints that nobody persisted


def test_the_newest_whole_checkpoint_is_carried_into_the_next_attempt(rig: Rig) -> None:
    script = "ls -R; mkdir -p out; cp ../../whole.pt out/a.pt; cp ../../whole.pt out/b.pt; %s" % END
    root = rig.place(script)
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.finish(root)
    whole, torn = Path(root.attempt(1), "out/a.pt"), Path(root.attempt(1), "out/b.pt")
    torn.write_bytes(torn.read_bytes()[:-30])
    again(rig, root)
    assert "a.pt" in log(root, 2) and "b.pt" not in log(root, 2)
    prepared = found(root, "prepared")[-1]
    assert prepared["carried"] == ["out/a.pt"]
    assert prepared["resumes"] == "attempts/2/out/a.pt"
    assert whole.read_bytes() == archive(b"weights"), "the original stays"


def test_what_was_pushed_is_no_checkpoint_of_the_run(rig: Rig) -> None:
    code = rig.snapshot({"pretrained.pt": archive(b"somebody's")})
    root = rig.place("echo ${SOJOURN_RESUME_FROM-none}; %s" % END, code=code, resume_argv=["echo", "resumed"])
    rig.finish(root)
    again(rig, root)
    assert log(root, 2) == "none\n"


def test_files_of_one_save_go_along_and_older_ones_stay(rig: Rig) -> None:
    root = rig.place(END)
    rig.finish(root)
    folder = Path(root.attempt(1), "out")
    folder.mkdir()
    for name, age_s in (("model.pt", 1), ("optimizer_state.pt", 0), ("epoch_1.pt", 900)):
        (folder / name).write_bytes(archive(name.encode()))
        os.utime(folder / name, (time.time() - age_s, time.time() - age_s))
    again(rig, root)
    assert found(root, "prepared")[-1]["carried"] == ["out/model.pt", "out/optimizer_state.pt"]


def test_a_folder_of_the_trainer_is_carried_only_when_it_is_whole(rig: Rig) -> None:
    root = rig.place(END)
    rig.finish(root)
    for step in (10, 20):
        folder = Path(root.attempt(1), "out/checkpoint-%d" % step)
        folder.mkdir(parents=True)
        (folder / "training_args.bin").write_bytes(archive(b"args"))
        (folder / "model.safetensors").write_bytes(safetensors(64))
        if step == 10:
            (folder / "trainer_state.json").write_text('{"global_step": 10}')
            os.utime(folder / "trainer_state.json", (1e9, 1e9))
    again(rig, root)
    assert found(root, "prepared")[-1]["carried"] == ["out/checkpoint-10"]


def test_a_folder_that_lacks_what_the_one_before_it_has_is_not_whole(tmp_path: Path) -> None:
    for name, files, at_s in (
        ("checkpoint-10", ("config.json", "model.safetensors", "optimizer.bin", "rng_0.pkl"), 100),
        ("checkpoint-20", ("config.json", "model.safetensors", "optimizer.bin", "rng_0.pkl", "rng_1.pkl"), 200),
        ("checkpoint-30", ("config.json", "model.safetensors"), 300),
        ("best-1", ("config.json",), 300),
        ("weights-1", ("config.json", "model.safetensors"), 300),
    ):
        folder = tmp_path / name
        folder.mkdir()
        for file in files:
            data = {"json": b"{}", "safetensors": safetensors(64), "pkl": b"\x80\x04K\x01."}
            (folder / file).write_bytes(data.get(file.split(".")[1], b"x"))
        os.utime(folder, (at_s, at_s))
    whole = {path.name for path in tmp_path.iterdir() if saved_files.is_whole(str(path))}
    assert whole == {"checkpoint-10", "checkpoint-20", "weights-1"}


# ---- The second command line


def test_resume_runs_in_place_of_run_once_there_is_a_checkpoint(rig: Rig) -> None:
    script = "echo first; mkdir -p out; [ -e ../../go ] && cp ../../whole.pt out/model.pt; %s" % END
    resume = ["bash", "-c", 'echo "resumes ${SOJOURN_RESUME_FROM#$SOJOURN_RUN_DIR/}"; exit 3']
    root = rig.place(script, persist=["out"], resume_argv=resume)
    Path(root.path, "whole.pt").write_bytes(archive(b"weights"))
    rig.finish(root)
    Path(root.path, "go").touch()
    again(rig, root, 2)
    assert log(root, 2) == "first\n", "there was no checkpoint yet"
    assert again(rig, root, 3)["rc"] == 3
    assert log(root, 3) == "resumes attempts/3/out/model.pt\n"


def test_what_resumes_is_the_last_rather_than_the_best_of_one_save(rig: Rig) -> None:
    root = rig.place("true", persist=["out"])
    root.make_folders()
    folder = Path(root.attempt(1), "out")
    folder.mkdir(parents=True)
    spec: Any = {"persist": ["out"]}
    for name, age_s in (("epoch_1.pt", 9), ("last.pt", 2), ("best.pt", 1)):
        (folder / name).write_bytes(archive(name.encode()))
        os.utime(folder / name, (time.time() - age_s, time.time() - age_s))
    assert persist.checkpoint(root, spec, 1) == str(folder / "last.pt")
    os.utime(folder / "last.pt", (1e9, 1e9))
    os.utime(folder / "epoch_1.pt", (1e9, 1e9))
    assert persist.checkpoint(root, spec, 1) == str(folder / "best.pt"), "it is much newer"
    for name in ("model.pt", "optimizer.pt"):
        (folder / name).write_bytes(archive(name.encode()))
    (folder / "best.pt").unlink()
    assert persist.checkpoint(root, spec, 1) == str(folder / "model.pt")
    (folder / "checkpoint-9").mkdir()
    (folder / "checkpoint-9/model.safetensors").write_bytes(safetensors(64))
    os.utime(folder / "checkpoint-9/model.safetensors", (1e9, 1e9))
    (folder / "model.safetensors").write_bytes(safetensors(64))  # as the Trainer does in the end
    assert persist.checkpoint(root, spec, 1) == str(folder / "checkpoint-9")


@pytest.mark.campaign
def test_a_torn_file_in_a_persisted_folder_is_put_aside(rig: Rig) -> None:
    root = rig.place(
        "ls -A out || true; mkdir -p out; head -c 100 ../../whole.pt > out/model.pt; %s" % END, persist=["out"]
    )
    Path(root.path, "whole.pt").write_bytes(archive(b"weights" * 50))
    rig.finish(root)
    again(rig, root)
    assert log(root, 2).split("\n")[0] == ".torn-model.pt"
    assert found(root, "prepared")[-1]["torn"] == ["out/model.pt"]
    assert "resumes" not in found(root, "prepared")[-1]


# ---- What is whole


def safetensors(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def numpy_file(size: int) -> bytes:
    header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % size).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4 * size)


def hdf5_file(size: int) -> bytes:
    head = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0]) + bytes(8)
    return (head + bytes(16) + size.to_bytes(8, "little")).ljust(size, b"\0")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("model.pt", archive(b"a" * 1000, b"b")),
        ("model.safetensors", safetensors(1000)),
        ("weights.npy", numpy_file(500)),
        ("model.h5", hdf5_file(3000)),
        ("state.pkl", b"\x80\x04K\x01."),
        ("checkpoint.json", b'{"a": [1, 2]}'),
    ],
)
def test_a_file_that_lacks_bytes_is_not_whole(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert saved_files.is_whole(str(path))
    assert [one.path for one in saved_files.find(str(tmp_path))] == [name]
    for keep in {0, 1, 3, len(data) // 2, len(data) - 1}:
        path.write_bytes(data[:keep])
        assert not saved_files.is_whole(str(path)), keep


@pytest.mark.parametrize("name", ["train.csv", "data.npy", "config.json", "metrics.json", "tokenizer.bin", ".model.pt"])
def test_what_is_no_checkpoint_by_its_name_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    assert saved_files.find(str(tmp_path)) == []


def test_real_files_of_numpy_are_whole(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    numpy.save(tmp_path / "weights.npy", numpy.arange(10.0))
    numpy.savez(tmp_path / "model.npz", a=numpy.arange(10), b=numpy.zeros((3, 4)))
    assert len(saved_files.find(str(tmp_path))) == 2
    assert all(saved_files.is_whole(str(path)) for path in tmp_path.iterdir())


def test_a_copy_has_the_bytes_times_and_modes_and_shares_no_inode(tmp_path: Path) -> None:
    source = tmp_path / "a"
    (source / "deep").mkdir(parents=True)
    (source / "deep/file").write_bytes(b"x" * 9_000_000)
    (source / "deep/file").chmod(0o750)
    (source / "link").symlink_to("deep/file")
    os.utime(source / "deep/file", (1e9, 1e9))
    copying.copy(str(source), str(tmp_path / "b"))
    made = os.stat(tmp_path / "b/deep/file")
    assert made.st_ino != os.stat(source / "deep/file").st_ino
    assert (made.st_mode & 0o777, made.st_mtime) == (0o750, 1e9)
    assert (tmp_path / "b/deep/file").read_bytes() == b"x" * 9_000_000
    assert os.readlink(tmp_path / "b/link") == "deep/file"


def test_looking_at_a_large_folder_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_files, "MOST_ENTRIES", 10)
    for number in range(30):
        (tmp_path / ("step_%d.pt" % number)).write_bytes(b"x")
    assert len(saved_files.find(str(tmp_path))) == 10


def test_unfinished_saves_go_with_the_next_attempt_and_those_of_others_stay(rig: Rig) -> None:
    ours, theirs = "out/deep/.saving-1-17-4711-0a1b2c3d-44556677", "out/.saving-mine"
    script = f"mkdir -p {ours} {theirs}; echo half > {ours}/m.pt; echo x > {theirs}/m.pt; ls -A out/deep; {END}"
    root = rig.place("[ $SOJOURN_ATTEMPT = 1 ] || exec ls -A out out/deep; " + script, persist=["out"], outputs=["out"])
    assert rig.finish(root)["state"] == "killed"
    again(rig, root, 2)
    assert not os.path.lexists(os.path.join(root.attempt(2), ours))
    assert Path(root.attempt(2), theirs, "m.pt").read_text() == "x\n"
    answer = rig.call("manifest", run="r")["manifest"]
    assert answer["gone"] == [] and [row["path"] for row in answer["files"] if row["role"] == "output"] == [
        f"{theirs}/m.pt"
    ]


# ---- What attempts remove


@pytest.mark.parametrize(
    ("meanwhile", "gone", "removed"),
    [("", [], 1), ("out/b", ["out/b"], 1), ("out/a", ["out/a"], 0)],
    ids=["nothing", "another file", "the same file"],
)
def test_what_a_later_attempt_removed_is_history_and_what_vanished_while_none_lived_is_lost(
    rig: Rig, meanwhile: str, gone: list[str], removed: int
) -> None:
    script = "case $SOJOURN_ATTEMPT in 1) mkdir out; echo 1 > out/a; echo 2 > out/b; echo 3 > own; %s;; esac; " % END
    root = rig.place(script + "rm -f out/a; echo 4 > out/c", persist=["out"], outputs=["out", "own"])
    rig.finish(root)
    if meanwhile:
        os.unlink(os.path.join(root.attempt(1), meanwhile))
    assert again(rig, root)["state"] == "succeeded"
    for document in (rig.call("manifest", run="r", fresh=fresh)["manifest"] for fresh in (False, True)):
        assert [row["path"] for row in document["gone"]] == gone
        assert document["removed"] == removed
    os.unlink(os.path.join(root.attempt(2), "out/c"))
    os.unlink(os.path.join(root.attempt(1), "own"))
    document = rig.call("manifest", run="r", fresh=True)["manifest"]
    assert [row["path"] for row in document["gone"]] == sorted([*gone, "out/c", "own"])
