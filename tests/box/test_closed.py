"""A run's folder that cannot be looked into is unknown: not gone, not over, and what it uses is not unused."""

import os
import time
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from sojourn.box.call import Box
from sojourn.box.ops.clean import remove, usage
from sojourn.box.ops.roots import roots
from sojourn.box.ops.since import since
from tests.box.rig import Rig
from tests.box.test_siblings import NOBODY, give_away, rigs, volume

assert volume

WHY = "it cannot be looked into: Permission denied"


def by_nobody(act: Callable[[Box, Dict[str, Any]], Dict[str, Any]], rig: Rig, **fields: Any) -> Dict[str, Any]:
    """An op by somebody who is not root, to whom a closed folder is closed."""
    is_root = os.getuid() == 0
    if is_root:
        os.setresuid(NOBODY, NOBODY, 0)
    try:
        return act(Box(str(rig.base), None), fields)  # type: ignore[arg-type]
    finally:
        if is_root:
            os.setresuid(0, 0, 0)


@pytest.fixture
def closed(volume: Path) -> Rig:  # noqa: F811
    """A box with a run whose folder cannot be looked into, and code that no other run uses."""
    (rig,) = rigs(volume, "box")
    root = rig.place(run="closed")
    code = rig.base / "snapshots/abc"
    (code / "tree").mkdir(parents=True)
    old_s = time.time() - 86_400
    give_away(volume)
    os.utime(code, (old_s, old_s))
    os.chmod(root.path, 0)
    return rig


def test_it_is_listed_and_nothing_counts_as_unused(closed: Rig) -> None:
    found = by_nobody(usage, closed)
    assert [(row["id"], row["lives"]) for row in found["runs"]] == [("closed", WHY)]
    kept = {row["name"]: row["keep"] for row in found["things"] if row["kind"] == "snapshots"}
    assert kept == {"abc": "closed cannot be looked into, and may use it"}
    did = by_nobody(remove, closed, kind="snapshots", names=["abc"])
    assert [row["name"] for row in did["kept"]] == ["abc"] and (closed.base / "snapshots/abc").exists()


def test_its_keeper_and_its_process_are_unknown(closed: Rig) -> None:
    (row,) = by_nobody(since, closed, runs={"closed": 7, "never": 0})["runs"]
    assert (row["id"], row["keeper"], row["payload"], row["offset"]) == ("closed", "unknown", "unknown", 7)
    assert [row["id"] for row in by_nobody(since, closed, runs=None)["runs"]] == ["closed"]
    assert [row["id"] for row in by_nobody(roots, closed)["runs"]] == ["closed"]


@pytest.mark.parametrize("act", [usage, roots, since])
def test_a_list_of_runs_that_cannot_be_seen_is_an_error_with_its_path(
    volume: Path,  # noqa: F811
    act: Callable[[Box, Dict[str, Any]], Dict[str, Any]],
) -> None:
    (rig,) = rigs(volume, "box")
    rig.place()
    give_away(volume)
    (rig.base / "runs").chmod(0)
    with pytest.raises(PermissionError, match="runs"):
        by_nobody(act, rig, runs=None)


def test_what_cannot_be_looked_into_itself_is_kept(volume: Path) -> None:  # noqa: F811
    (rig,) = rigs(volume, "box")
    inner = rig.base / "envs/abc-py/lib"
    inner.mkdir(parents=True)
    give_away(volume)
    os.utime(inner.parent, (0, 0))
    inner.chmod(0)
    (row,) = [row for row in by_nobody(usage, rig)["things"] if row["kind"] == "envs"]
    assert row["keep"] == f"{inner} cannot be looked into: Permission denied"
    assert by_nobody(remove, rig, kind="envs", names=["abc-py"])["removed"] == [] and inner.exists()
