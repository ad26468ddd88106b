"""Byte code beside the keeper: used where it is sound, passed over where it is not, gone with its keeper."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from sojourn.box.system import compiled
from tests.box.rig import Rig


def byte_code(rig: Rig) -> list[Path]:
    return sorted(rig.keeper.parent.glob("*.zip"))


def spoil_source(rig: Rig) -> None:
    """Keep the keeper's first step alone: whatever else answers comes from somewhere else."""
    with zipfile.ZipFile(rig.keeper) as whole:
        first = whole.read("__main__.py")
    with zipfile.ZipFile(rig.keeper, "w") as rest:
        rest.writestr("__main__.py", first)


def test_the_first_hello_keeps_byte_code_that_later_calls_run_from(rig: Rig) -> None:
    assert rig.call("roots")["ok"] and not byte_code(
        rig
    )  # nobody has checked yet that the keeper is what its name says
    assert rig.call("hello")["ok"]
    assert len(byte_code(rig)) == 1
    spoil_source(rig)
    assert rig.call("roots")["ok"]


def test_no_byte_code_is_made_of_a_damaged_keeper(rig: Rig) -> None:
    with open(rig.keeper, "ab") as f:
        f.write(b"\n")
    assert rig.call("hello")["code"] == "keeper-damaged" and not byte_code(rig)


def test_a_run_from_byte_code_ends_as_any_other(rig: Rig) -> None:
    rig.call("hello")
    assert rig.finish(rig.place("exit 3"))["rc"] == 3


def test_byte_code_that_cannot_be_read_is_passed_over(rig: Rig) -> None:
    rig.call("hello")
    (path,) = byte_code(rig)
    whole = path.read_bytes()
    for bad in (b"", b"garbage", whole[: len(whole) // 2], bytes(len(whole))):
        path.write_bytes(bad)
        assert rig.call("hello")["ok"]


def test_where_it_cannot_be_written_the_keeper_answers_all_the_same(rig: Rig) -> None:
    os.mkdir(compiled.name(str(rig.keeper)))
    assert rig.call("hello")["ok"] and rig.call("roots")["ok"]


def test_cleaning_counts_it_as_its_keepers(rig: Rig) -> None:
    rig.place()
    rig.call("hello")
    (path,) = byte_code(rig)
    rows = {row["name"]: row for row in rig.call("usage")["things"] if row["kind"] == "keepers"}
    assert rows[path.name]["used_by"] == rows[rig.keeper.name]["used_by"] == ["r"]
    assert rig.call("remove", kind="keepers", names=[path.name])["kept"] and path.exists()


def test_what_is_there_is_never_replaced(rig: Rig) -> None:
    rig.call("hello")
    (path,) = byte_code(rig)
    before = os.stat(path)
    compiled.keep(str(rig.keeper))
    assert os.stat(path).st_ino == before.st_ino and rig.call("hello")["ok"]
