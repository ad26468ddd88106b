"""What cannot be looked into is unknown, and not absent: it is in the manifest, with its path and the reason."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest

from sojourn.box.run import roster
from sojourn.box.run.root import Root, read_spec
from sojourn.box.system import globs
from sojourn.wire import atomic
from tests.box.rig import Rig
from tests.box.test_roster import run_of

NOBODY = 65534
DENIED = "it cannot be looked into: Permission denied"
WEIGHTS = {"attempts/1/out/a.json": "1", "attempts/1/out/ckpt/model.json": "2"}


@pytest.fixture
def open_rig() -> Iterator[Rig]:
    """A box where others than root may look."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Rig(Path(os.path.realpath(folder)))


def taken(root: Root, *closed: str) -> Dict[str, Any]:
    """A manifest taken by somebody who may not enter these folders. Root may look anywhere, so root steps down."""
    for path, folders, _ in os.walk(root.base):
        for name in [".", *folders]:
            shutil.chown(os.path.join(path, name), NOBODY if os.geteuid() == 0 else os.geteuid())
    spec = read_spec(root)
    for path in closed:
        os.chmod(os.path.join(root.path, path), 0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        found: Any = roster.take_manifest(root, spec, 1, "2026-01-01T00:00:00Z")
    finally:
        if is_root:
            os.seteuid(0)
        for path in closed:
            os.chmod(os.path.join(root.path, path), 0o700)
    return dict(found)


def refused(document: Dict[str, Any]) -> Dict[str, str]:
    return {row["path"]: row["why"] for row in document["refused"]}


@pytest.mark.parametrize(
    "outputs, closed, named",
    [
        (["out"], "out/ckpt", "out/ckpt"),
        (["out/*"], "out/ckpt", "out/ckpt"),
        (["out/*/model.json", "out/a.json"], "out/ckpt", "out/ckpt/model.json"),
        (["out/**/*.json"], "out/ckpt", "out/ckpt"),
        (["out"], "out", "out"),
        (["out/ckpt/model.json"], "out/ckpt", "out/ckpt/model.json"),
        (["**/*.json"], ".", "."),
    ],
)
@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_a_folder_of_outputs_that_cannot_be_listed_is_named_and_nothing_was_never_made(
    open_rig: Rig, outputs: List[str], closed: str, named: str, state: str
) -> None:
    root = run_of(open_rig, [state], WEIGHTS, outputs=outputs)
    document = taken(root, os.path.normpath("attempts/1/" + closed))
    assert refused(document)[named] == DENIED, document["refused"]
    assert document["missing"] == []


def test_what_was_sealed_and_can_no_longer_be_looked_at_is_not_lost(open_rig: Rig) -> None:
    root = run_of(open_rig, ["succeeded"], WEIGHTS, outputs=["out"])
    atomic.write_json(root.manifest, taken(root))
    document = taken(root, "attempts/1/out/ckpt")
    assert document["gone"] == [] and refused(document) == {"out/ckpt": DENIED}


def test_a_folder_of_an_older_attempt_is_named_by_its_place(open_rig: Rig) -> None:
    files = dict(WEIGHTS, **{"attempts/2/out/a.json": "3"})
    root = run_of(open_rig, ["killed", "succeeded"], files, outputs=["out"])
    assert refused(taken(root, "attempts/1/out/ckpt")) == {"attempts/1/out/ckpt": DENIED}


@pytest.mark.parametrize("closed", ["checkpoints", "checkpoints/ckpt-t000001-s00000005"])
def test_checkpoints_that_cannot_be_looked_into_are_named(open_rig: Rig, closed: str) -> None:
    name = "checkpoints/ckpt-t000001-s00000005/"
    root = run_of(open_rig, ["killed"], {name + "a.distcp": "x", name + "sojourn-seal.json": "{}"})
    assert refused(taken(root, closed)) == {closed: DENIED}


def test_a_path_that_is_too_long_to_be_opened_is_not_seen(tmp_path: Path) -> None:
    here = os.open(str(tmp_path), os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    unseen: Dict[str, str] = {}
    assert list(globs.hits(str(tmp_path), "**/*.pt", unseen=unseen)) == []
    ((path, why),) = unseen.items()
    assert set(path) == {"d", "/"} and why.endswith("File name too long")


def test_a_chain_of_links_that_is_too_long_is_not_seen_and_a_circle_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/m.json").write_text("{}")
    (tmp_path / "link0").symlink_to("d")
    for n in range(50):
        (tmp_path / ("link%d" % (n + 1))).symlink_to("link%d" % n)
    (tmp_path / "circle").symlink_to("circle")
    unseen: Dict[str, str] = {}
    assert list(globs.hits(str(tmp_path), "link50/m.json", unseen=unseen)) == []
    assert unseen["link50"].endswith("Too many levels of symbolic links")
    none: Dict[str, str] = {}
    assert list(globs.hits(str(tmp_path), "circle/m.json", unseen=none)) == [] and none == {}
