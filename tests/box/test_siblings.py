"""The list of bases may end with a container whose volume stays: what is in another base there is seen all the same."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from sojourn.box.call import Box
from sojourn.box.ops.survey import survey
from sojourn.box.system import identity
from tests.box.rig import Rig

NOBODY = 65534


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk where others than root may look, with the registry on it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        monkeypatch.setenv("SOJOURN_BOX_REGISTRY", os.path.join(folder, "registry"))
        yield Path(os.path.realpath(folder))


def give_away(volume: Path) -> None:
    """All of it belongs to whoever will look, who is not root."""
    for path, folders, files in os.walk(volume):
        for name in [".", *folders, *files]:
            shutil.chown(os.path.join(path, name), NOBODY if os.geteuid() == 0 else os.geteuid())


def restart(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The container is made anew: its home, and the registry there, are empty."""
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(folder / os.urandom(8).hex()))


def ids(answer: Dict[str, Any]) -> Dict[str, List[str]]:
    assert answer.get("ok", True), answer
    return {entry["base"]: [run["id"] for run in entry["runs"]] for entry in answer["bases"] if not entry["error"]}


def errors(answer: Dict[str, Any]) -> Dict[str, str]:
    return {entry["base"]: entry["error"] for entry in answer["bases"] if entry["error"]}


def rigs(folder: Path, *names: str) -> List[Rig]:
    for name in names:
        (folder / name).mkdir()
    return [Rig(folder / name) for name in names]


def test_a_base_knows_its_siblings_after_the_list_of_bases_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = rigs(tmp_path, "1", "2", "3")
    for number, rig in enumerate((first, second, third)):
        rig.place(run="run-%d" % number)
        rig.call("hello")
    whole = {str(first.base): ["run-0"], str(second.base): ["run-1"], str(third.base): ["run-2"]}
    for rig in (first, second, third):
        restart(monkeypatch, tmp_path)
        assert ids(rig.call("survey")) == whole
    shutil.rmtree(second.base)
    restart(monkeypatch, tmp_path)
    assert str(second.base) not in ids(third.call("survey"))


def test_a_base_alone_has_no_list(rig: Rig) -> None:
    rig.call("hello")
    assert not (rig.base / "bases").exists()


def test_what_the_client_and_the_platform_know_of_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, told, found = rigs(tmp_path, "asked", "told", "disk")
    told.place(run="told")
    found.place(run="found")
    found.call("hello")
    restart(monkeypatch, tmp_path)
    nowhere = str(tmp_path / "nowhere")
    assert ids(asked.call("survey")) == {str(asked.base): []}
    answer = asked.call("survey", bases=[str(told.base), nowhere, "relative"], tiers=[str(tmp_path / "disk"), nowhere])
    assert ids(answer) == {str(asked.base): [], str(told.base): ["told"], str(found.base): ["found"]}
    assert errors(answer) == {}
    asked.call("hello", tiers=[str(tmp_path / "disk")])  # from now on they are siblings
    restart(monkeypatch, tmp_path)
    assert set(ids(asked.call("survey"))) == {str(asked.base), str(found.base)}


def test_a_part_in_capitals_is_any_folder_and_a_variable_is_the_boxs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mnt/one", "mnt/two/deep/er", "scratch/me"):
        (tmp_path / name).mkdir(parents=True)
        identity.box_id(str(tmp_path / name))
    monkeypatch.setenv("WHO", "me")
    tiers = [str(tmp_path / name) for name in ("mnt/NAME", "scratch/$WHO", "scratch/$NOBODY")]
    found, unseen = identity.look_through(tiers, 60.0)
    wanted = {str(tmp_path / name) for name in ("mnt/one", "mnt/two/deep/er", "scratch/me")}
    assert (set(found), unseen) == (wanted, {})
    assert identity.look_through(tiers, -1.0)[1] != {}, "what was not looked through in time was not seen"


def asked_by_nobody(base: Path, **fields: Any) -> Dict[str, Any]:
    """A survey by somebody who is not root: root may look anywhere."""
    box = Box(str(base), None)  # type: ignore[arg-type]
    is_root = os.getuid() == 0
    if is_root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        return survey(box, fields)
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize("closed", ["theirs", "theirs/deep"])
def test_a_folder_of_the_volume_that_cannot_be_looked_into_is_told(volume: Path, closed: str) -> None:
    (volume / "mine").mkdir(0o700)
    (volume / "lost+found").mkdir(0)
    (volume / "theirs/deep").mkdir(parents=True)
    give_away(volume)
    (volume / closed).chmod(0)
    answer = asked_by_nobody(volume / "mine", tiers=[str(volume)])
    assert errors(answer) == {str(volume / closed): "Permission denied"}


def test_a_base_and_a_run_that_cannot_be_looked_at_are_not_taken_for_gone(volume: Path) -> None:
    (rig,) = rigs(volume, "mine")
    root = rig.place(run="closed")
    theirs = volume / "theirs"
    (theirs / "base").mkdir(parents=True)
    give_away(volume)
    os.chmod(root.path, 0)
    assert ids(asked_by_nobody(rig.base)) == {str(rig.base): ["closed"]}
    theirs.chmod(0)
    assert errors(asked_by_nobody(rig.base, bases=[str(theirs / "base")])) == {
        str(theirs / "base"): "Permission denied"
    }


def test_a_list_of_siblings_that_cannot_be_read_is_told(rig: Rig) -> None:
    (rig.base / "bases").mkdir()
    answer = rig.call("survey")
    assert "list of bases" in errors(answer)[str(rig.base)] and ids(answer) == {str(rig.base): []}


def test_the_list_holds_paths_of_any_letters(rig: Rig, tmp_path: Path) -> None:
    (other,) = rigs(tmp_path, "other")
    other.call("hello")
    rig.call("hello")
    lines = (rig.base / "bases").read_bytes().splitlines()
    assert {json.loads(line) for line in lines} == {str(rig.base), str(other.base)}
