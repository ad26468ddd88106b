"""Code on the box and what attempts are made of: snapshots, working copies, mounts, setup environments."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from sojourn.box.run import tree
from sojourn.wire import manifest
from tests.box.rig import Rig, found, heard, keeper_log, log, until
from tests.train import cuts


def row(path: str, data: bytes, role: str = "f") -> Dict[str, Any]:
    return {"path": path, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "role": role}


def push(rig: Rig, members: List[Tuple[tarfile.TarInfo, bytes]], rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Ask for a snapshot of an archive made by hand."""
    staging = rig.base / "staging"
    staging.mkdir(exist_ok=True)
    with tarfile.open(str(staging / "pack.tar"), "w") as pack:
        for entry, data in members:
            entry.size = len(data)
            pack.addfile(entry, io.BytesIO(data))
    return rig.call("unpack", tar=str(staging / "pack.tar"), digest=manifest.roster_digest(rows), roster=rows)


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_a_snapshot_is_immutable_complete_and_made_once(rig: Rig) -> None:
    digest = rig.snapshot({"a.py": b"print(1)\n", "bin/run": b"#!/bin/sh\n"}, executable=("bin/run",))
    folder = rig.base / "snapshots" / digest
    assert oct((folder / "tree/a.py").stat().st_mode)[-3:] == "444"
    assert oct((folder / "tree/bin/run").stat().st_mode)[-3:] == "555"
    before = (folder / "tree/a.py").stat().st_ino
    assert rig.snapshot({"a.py": b"print(1)\n", "bin/run": b"#!/bin/sh\n"}, executable=("bin/run",)) == digest
    assert (folder / "tree/a.py").stat().st_ino == before
    assert os.listdir(rig.base / "staging") == []


@pytest.mark.parametrize(
    "members, rows, code",
    [
        ([(entry("a"), b"1")], [row("a", b"2")], "hash-mismatch"),
        ([(entry("a"), b"12")], [row("a", b"1")], "hash-mismatch"),
        ([(entry("a"), b"1"), (entry("b"), b"2")], [row("a", b"1")], "hash-mismatch"),
        ([(entry("a"), b"1")], [row("a", b"1"), row("b", b"2")], "hash-mismatch"),
        ([(entry("a"), b"1"), (entry("a"), b"1")], [row("a", b"1")], "hash-mismatch"),
        ([(entry("../a"), b"1")], [row("../a", b"1")], "unsafe-path"),
        ([(entry("/a"), b"1")], [row("/a", b"1")], "unsafe-path"),
        ([(entry("a", tarfile.FIFOTYPE), b"")], [row("a", b"")], "hash-mismatch"),
        ([(entry("a", tarfile.SYMTYPE, "/etc"), b"")], [row("a", b"/etc", "l")], "unsafe-path"),
        ([(entry("d/a", tarfile.SYMTYPE, "../../x"), b"")], [row("d/a", b"../../x", "l")], "unsafe-path"),
        ([(entry("a", tarfile.SYMTYPE, "b"), b"")], [row("a", b"c", "l")], "hash-mismatch"),
        (
            [(entry("a", tarfile.SYMTYPE, "."), b""), (entry("a/b"), b"1")],
            [row("a", b".", "l"), row("a/b", b"1")],
            "unsafe-path",
        ),
    ],
)
def test_an_archive_that_is_not_its_roster_or_leads_elsewhere_leaves_nothing(
    rig: Rig, members: Any, rows: Any, code: str
) -> None:
    answer = push(rig, members, rows)
    assert (answer["ok"], answer["code"]) == (False, code)
    assert not (rig.base / "snapshots").exists() or os.listdir(rig.base / "snapshots") == []
    assert os.listdir(rig.base / "staging") in ([], ["pack.tar"])


def test_a_roster_must_be_what_its_digest_says(rig: Rig) -> None:
    answer = rig.call("unpack", tar=str(rig.base / "staging/x"), digest="0" * 64, roster=[row("a", b"1")])
    assert answer["code"] == "bad-digest"


def test_only_archives_in_staging_are_unpacked(rig: Rig, tmp_path: Path) -> None:
    rows = [row("a", b"1")]
    answer = rig.call("unpack", tar=str(tmp_path / "x.tar"), digest=manifest.roster_digest(rows), roster=rows)
    assert answer["code"] == "unsafe-path"


def test_a_cut_archive_is_refused(rig: Rig) -> None:
    rows = [row("a", b"1" * 5000)]
    push(rig, [(entry("a"), b"1" * 5000)], rows)
    staging = rig.base / "staging"
    with tarfile.open(str(staging / "cut.tar"), "w") as pack:
        info = entry("b")
        info.size = 5000
        pack.addfile(info, io.BytesIO(b"2" * 5000))
    with open(staging / "cut.tar", "r+b") as f:
        f.truncate(2000)
    rows = [row("b", b"2" * 5000)]
    answer = rig.call("unpack", tar=str(staging / "cut.tar"), digest=manifest.roster_digest(rows), roster=rows)
    assert answer["code"] in ("hash-mismatch", "os-error") and not answer["ok"]


def test_symlinks_inside_the_tree_come_along(rig: Rig) -> None:
    rows = [row("a", b"1"), row("sub/link", b"../a", "l")]
    answer = push(rig, [(entry("a"), b"1"), (entry("sub/link", tarfile.SYMTYPE, "../a"), b"")], rows)
    assert answer["ok"], answer
    root = rig.place("cat sub/link", code=manifest.roster_digest(rows))
    assert rig.finish(root)["state"] == "succeeded" and log(root) == "1"


def test_what_a_run_writes_in_place_never_reaches_the_next_one(rig: Rig) -> None:
    """A tree of more than 64 MiB: as root even a read-only file is written to."""
    digest = rig.snapshot({"large": bytes(66 << 20), "small": b"s" * 10}, executable=("small",))
    script = (
        "for f in large small; do cut -z -c 1-4 $f | tr '\\0' 0 | cut -c 1-4; printf XXXX | dd of=$f conv=notrunc; done"
    )
    for run in ("first", "second"):
        root = rig.place(script, run=run, code=digest)
        end = rig.finish(root)
        assert end["state"] == "succeeded", end
        said = log(root).splitlines()
        assert "XXXX" not in said and "ssss" in said, said
        with open(os.path.join(root.attempt(1), "large"), "rb") as f:
            assert f.read(4) == b"XXXX"


def test_a_working_copy_is_its_own_and_as_it_was_pushed(rig: Rig, tmp_path: Path) -> None:
    digest = rig.snapshot({"small": b"s" * 10, "large": b"L" * 500_000, "go": b"#!"}, executable=("go",))
    done = tree.copy(str(rig.base), digest, str(tmp_path / "copy"))
    assert done == {"files": 3, "bytes": 500_012, "linked": 0, "shared": 0}
    for name, mode in (("small", "644"), ("large", "644"), ("go", "755")):
        seen = (tmp_path / "copy" / name).stat()
        assert (oct(seen.st_mode)[-3:], seen.st_nlink) == (mode, 1)
    assert (tmp_path / "copy/large").read_bytes() == b"L" * 500_000


@pytest.fixture
def xfs(tmp_path: Path) -> Iterator[Path]:
    """A file system that shares blocks."""
    if os.getuid() != 0 or not shutil.which("mkfs.xfs"):
        pytest.skip("missing: root, or the Debian package xfsprogs")
    cuts.make("xfs", tmp_path / "image")
    with cuts.disk(tmp_path / "image", tmp_path / "xfs") as folder:
        yield folder


def test_where_the_disk_can_share_blocks_large_files_are_not_copied(xfs: Path) -> None:
    rig = Rig(xfs)
    try:
        assert rig.call("hello")["has"]["reflinks"] is True
        digest = rig.snapshot({"large": os.urandom(64 << 20), "small": b"s"})
        stored = rig.base / "snapshots" / digest / "tree/large"
        os.sync()
        free_bytes = shutil.disk_usage(xfs).free
        done = tree.copy(str(rig.base), digest, str(xfs / "copy"))
        assert (done["shared"], done["linked"]) == (1, 0)
        os.sync()
        assert free_bytes - shutil.disk_usage(xfs).free < 8 << 20
        with open(xfs / "copy/large", "r+b") as f:
            f.write(b"mine")
        tree.check(str(rig.base), digest)
        with open(stored, "r+b") as f:
            f.write(b"harm")
        with pytest.raises(tree.Damaged, match="large was changed"):
            tree.copy(str(rig.base), digest, str(xfs / "again"))
    finally:
        rig.close()


@pytest.mark.parametrize("size", [5000, 500_000])
def test_a_snapshot_that_was_written_to_starts_nothing_and_is_pushed_anew(rig: Rig, size: int) -> None:
    digest = rig.snapshot({"large": b"L" * size})
    victim = rig.base / "snapshots" / digest / "tree/large"
    os.chmod(victim, 0o644)
    victim.write_bytes(b"X" * size)
    root = rig.place('touch "$SOJOURN_RUN_DIR/ran"', code=digest)
    end = rig.finish(root)
    assert (end["state"], end["why"]) == ("failed", "prepare") and "large was changed" in end["detail"]
    assert not os.path.exists(os.path.join(root.path, "ran"))
    assert rig.call("have", kind="snapshots", names=[digest])["missing"] == [digest]
    assert rig.snapshot({"large": b"L" * size}) == digest and victim.read_bytes() == b"L" * size
    assert os.listdir(rig.base / "staging") == [] and os.listdir(rig.base / "snapshots") == [digest]
    assert rig.finish(rig.place("cmp large large", run="again", code=digest))["state"] == "succeeded"


def test_what_is_mounted_at_an_absolute_path_is_proven_before_each_attempt(rig: Rig, tmp_path: Path) -> None:
    data, target = rig.snapshot({"x.txt": b"xxx"}), str(tmp_path / "abs")
    script = "printf y | dd of='%s/x.txt' conv=notrunc" % target
    assert rig.finish(rig.place(script, mounts={target: data}))["state"] == "succeeded"
    end = rig.finish(rig.place("true", run="again", mounts={target: data}))
    assert (end["state"], end["why"]) == ("failed", "prepare") and "x.txt was changed" in end["detail"]


def test_code_that_is_not_on_the_box_is_said_plainly(rig: Rig) -> None:
    end = rig.finish(rig.place("true", code="f" * 64))
    assert (end["state"], end["detail"]) == ("failed", "snapshot ffffffffffff is not on the box")


def test_mounts_lie_where_the_job_says_and_never_over_what_exists(rig: Rig, tmp_path: Path) -> None:
    code = rig.snapshot({"train.py": b"", "data/own.txt": b"own"})
    data = rig.snapshot({"x.txt": b"x", "deep/y.txt": b"y"})
    target = str(tmp_path / "abs/data")
    script = "cat inputs/x.txt inputs/deep/y.txt one.txt '%s/x.txt'" % target
    root = rig.place(script, code=code, mounts={"inputs": data, "one.txt": data + "/x.txt", target: data})
    assert rig.finish(root)["state"] == "succeeded", log(root)
    assert log(root) == "xyxx"
    again = rig.place(script, run="again", code=code, mounts={"inputs": data, "one.txt": data + "/x.txt", target: data})
    assert rig.finish(again)["state"] == "succeeded"  # the same content at the same absolute place
    for name, mounts in {
        "over-code": {"data": data},
        "over-file": {"train.py": data + "/x.txt"},
        "over-link": {target: code},
        "outside": {"../up": data},
        "no-member": {"z": data + "/nothing"},
    }.items():
        end = rig.finish(rig.place("true", run=name, code=code, mounts=mounts))
        assert (end["state"], end["why"]) == ("failed", "prepare") and "file_mounts" in end["detail"], name


SETUP = (
    'echo made >> "$SOJOURN_RUN_DIR/../../setups"; python -c "import sys; print(sys.prefix)" > "$VIRTUAL_ENV/prefix"'
)


def test_setup_runs_once_in_an_environment_of_its_own_that_the_payload_finds_first(rig: Rig) -> None:
    script = (
        'test "$(command -v python)" = "$VIRTUAL_ENV/bin/python"; test "$(command -v pip)" = "$VIRTUAL_ENV/bin/pip"; '
    )
    script += 'test "$(cat "$VIRTUAL_ENV/prefix")" = "$VIRTUAL_ENV"'
    for name in ("a", "b"):
        root = rig.place(script, run=name, setup=SETUP)
        assert rig.finish(root)["state"] == "succeeded", log(root) + keeper_log(root)
        assert found(root, "prepared")[0]["setup"]["reused"] is (name == "b")
    assert (rig.base / "setups").read_text() == "made\n"
    other = rig.place("true", run="c", setup=SETUP + "; true")
    rig.finish(other)
    assert (rig.base / "setups").read_text() == "made\n" * 2


@pytest.mark.campaign
def test_two_runs_with_one_setup_at_once_make_it_once(rig: Rig) -> None:
    roots = [rig.place("true", run=name, setup="sleep 0.3; " + SETUP) for name in ("a", "b", "c")]
    for root in roots:
        rig.supervise(root)
    for root in roots:
        assert heard(root, "ended")["state"] == "succeeded"
    assert (rig.base / "setups").read_text() == "made\n"


@pytest.mark.campaign
def test_a_setup_that_fails_fails_the_run_with_its_output_in_the_log_and_is_made_again(rig: Rig) -> None:
    setup = 'echo trying; test -e "$SOJOURN_RUN_DIR/../../fixed" || { echo broken >&2; exit 9; }'
    root = rig.place("echo ran", setup=setup)
    end = rig.finish(root)
    assert (end["state"], end["why"], end["rc"]) == ("failed", "setup", 9)
    assert log(root) == "trying\nbroken\n" and not found(root, "started")
    (rig.base / "fixed").touch()
    rig.call("want", run="r", attempt=2, by="run")
    assert rig.finish(root)["state"] == "succeeded"
    assert log(root, 2) == "trying\nran\n"


@pytest.mark.campaign
def test_pip_installs_into_the_environment_and_not_beside_it(rig: Rig) -> None:
    code = rig.snapshot(
        {
            "pkg/pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
            "pkg/b.py": BACKEND,
        }
    )
    root = rig.place(
        'python -c "import inside, sys; assert inside.__file__.startswith(sys.prefix)"',
        code=code,
        setup="pip install -q --no-index --no-build-isolation --disable-pip-version-check ./pkg",
    )
    assert rig.finish(root)["state"] == "succeeded", log(root)


def test_an_outer_venv_s_packages_are_seen_from_the_setup_environment(rig: Rig, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(outer)], check=True, timeout=60)
    (site,) = outer.glob("lib/python*/site-packages")
    (site / "only_outside.py").write_text("")
    rig.env["PATH"] = str(outer / "bin") + os.pathsep + rig.env["PATH"]
    root = rig.place('python -c "import only_outside"', setup="true")
    assert rig.finish(root)["state"] == "succeeded", log(root)


def test_init_comes_before_setup_too(rig: Rig) -> None:
    root = rig.place('test "$MODULE" = loaded', init="export MODULE=loaded", setup='test "$MODULE" = loaded')
    assert rig.finish(root)["state"] == "succeeded", log(root)


def test_a_keeper_waiting_for_another_s_setup_obeys_a_stop(rig: Rig) -> None:
    first = rig.place("true", run="first", setup='until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done')
    second = rig.place("true", run="second", setup='until test -e "$SOJOURN_RUN_DIR/go"; do sleep 0.05; done')
    rig.supervise(first)
    until(lambda: list((rig.base / "envs").glob("*")))
    rig.supervise(second)
    heard(second, "attempt")
    rig.call("stop", run="second")
    assert heard(second, "ended")["state"] == "cancelled"
    Path(first.path, "go").touch()
    assert heard(first, "ended")["state"] == "succeeded"


BACKEND = b"""
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "inside-1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as z:
        z.writestr("inside.py", "")
        z.writestr("inside-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: inside\\nVersion: 1\\n")
        wheel = "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        z.writestr("inside-1.dist-info/WHEEL", wheel)
        z.writestr("inside-1.dist-info/RECORD", "")
    return name
"""
