"""What goes to the box is named by its content, the same wherever it is packed, and needs nothing but a Python."""

import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import List

import pytest

from sojourn.store import parcel

SRC = Path(parcel.__file__).parents[2]


def test_a_parcel_is_named_by_its_content() -> None:
    name, data = parcel.keeper_bytes()
    assert name == "keeper-%s.pyz" % hashlib.sha256(data).hexdigest()
    name, data = parcel.train_bytes()
    assert name == "train-%s.zip" % hashlib.sha256(data).hexdigest()
    assert parcel.keeper_bytes() == parcel.keeper_bytes()


def test_the_keeper_holds_box_and_wire_and_no_other_room() -> None:
    _, data = parcel.keeper_bytes()
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert names == sorted(names) and "__main__.py" in names
    assert {name.split("/")[1] for name in names if name.count("/") > 1} == {"box", "wire"}
    _, data = parcel.train_bytes()
    names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    assert {name.split("/")[1] for name in names if name.count("/") > 1} <= {"train", "wire", "formats"}


def test_no_time_or_mode_of_this_machine_is_in_it() -> None:
    for entry in zipfile.ZipFile(io.BytesIO(parcel.keeper_bytes()[1])).infolist():
        assert entry.date_time == (1980, 1, 1, 0, 0, 0) and entry.compress_type == zipfile.ZIP_DEFLATED
        assert entry.external_attr == 0o100644 << 16 and entry.create_system == 3 and not entry.extra


def other_pythons() -> List[str]:
    """Pythons of other versions: those that lie beside this one (as pyenv and its like keep them), and the system's."""
    beside = Path(os.path.realpath(sys.base_prefix)).parent.glob("*/bin/python3")
    return [str(path) for path in sorted(beside)] + ["/usr/bin/python3"] * os.path.exists("/usr/bin/python3")


def test_every_python_on_this_machine_packs_the_same_bytes_and_runs_them(tmp_path: Path) -> None:
    name, data = parcel.keeper_bytes()
    keeper = tmp_path / name
    keeper.write_bytes(data)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from sojourn.store import parcel; print(parcel.keeper_bytes()[0])"
    )
    tried = 0
    for python in [sys.executable] + other_pythons():
        version = subprocess.run([python, "-c", "import sys; print(sys.version_info >= (3, 8))"], capture_output=True)
        argv = [python, "-I", "-S", str(keeper), "--version"]
        if version.stdout.strip() != b"True":
            old = subprocess.run(argv, capture_output=True, timeout=60)
            assert old.returncode != 0 and b"Traceback" not in old.stderr, old.stderr
            continue
        done = subprocess.run([python, "-c", code, str(SRC)], capture_output=True, timeout=60)
        assert done.stdout.decode().strip() == name, (python, done.stderr)
        said = subprocess.run(argv, capture_output=True, timeout=60)
        assert said.returncode == 0 and name.encode() in said.stdout, (python, said.stderr)
        tried += 1
    assert tried >= 1


def test_packing_is_quick_enough_to_do_it_each_time() -> None:
    import time

    best = min(_timed(time.process_time) for _ in range(5))
    assert best < 0.2  # of CPU, 20 ms on an idle machine; this one may be busy


def _timed(clock: "type[object] | object") -> float:
    began = clock()  # type: ignore[operator]
    parcel.keeper_bytes()
    return clock() - began  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("command", ["shim", "supervise"])
def test_what_rests_on_the_box_loads_little(tmp_path: Path, command: str) -> None:
    """The shim needs neither JSON nor typing; the keeper needs no typing, dataclasses, subprocess or shutil."""
    name, data = parcel.keeper_bytes()
    (tmp_path / name).write_bytes(data)
    forbidden = {
        "shim": ["json", "typing", "re", "hashlib", "subprocess"],
        "supervise": ["typing", "dataclasses", "subprocess", "shutil", "tarfile", "tempfile", "pathlib", "inspect"],
    }
    code = "import sys; sys.path.insert(0, sys.argv[1]); import sojourn.box.supervise.%s; print(*sys.modules)" % command
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path / name)], capture_output=True, timeout=60
    )
    loaded = set(done.stdout.decode().split())
    assert done.returncode == 0 and "sojourn.box.supervise." + command in loaded, done.stderr
    assert loaded.isdisjoint(forbidden[command]), loaded & set(forbidden[command])


def test_a_pack_that_was_damaged_where_it_is_kept_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel.compiled, "DATA", str(tmp_path))
    name, data = parcel.keeper_bytes()
    (kept,) = tmp_path.glob("__pycache__/keeper.*.pack")
    damaged = bytearray(kept.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    kept.write_bytes(damaged)
    assert parcel.keeper_bytes() == (name, data)
