"""A set of files comes home as a set: judged whole while its files are staged, and when only one is fetched anew."""

from pathlib import Path
from typing import Any

import pytest

from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World

MAKE = """
python3 - <<'END'
import json, os, struct
os.mkdir("model")
weights = {}
for n in (1, 2):
    name = f"model-{n:05}-of-00002.safetensors"
    head = json.dumps({f"w{n}": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}).encode()
    with open("model/" + name, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + struct.pack("<3f", 1, 2, 3))
    weights[f"w{n}"] = name
with open("model/model.safetensors.index.json", "w") as f:
    json.dump({"metadata": {"total_size": 24}, "weight_map": weights}, f)
if os.environ.get("LOSE"):
    os.remove("model/model-00002-of-00002.safetensors")
END
"""


def pulled(world: World, to: Path) -> Any:
    (answer,) = pull(world.ctx, ["digits"], to=str(to))
    return answer


def test_a_whole_set_comes_home_good_and_stays_good_when_one_file_is_fetched_again(
    world: World, tmp_path: Path
) -> None:
    world.ended(MAKE, outputs=["model/*"])
    home = tmp_path / "home"
    answer = pulled(world, home)
    assert answer.ok and answer.receipts == 3
    for name in ("model.safetensors.index.json", "model-00002-of-00002.safetensors"):
        (home / "model" / name).unlink()
        answer = pulled(world, home)
        assert answer.ok and (answer.moved_files, answer.receipts) == (1, 3), name


@pytest.mark.campaign
def test_a_set_that_loses_a_file_on_the_box_is_no_longer_good_though_its_index_is_the_same(
    world: World, tmp_path: Path
) -> None:
    world.ended(MAKE, outputs=["model/*"])
    home = tmp_path / "home"
    assert pulled(world, home).ok
    (world.root() / "attempts/1/model/model-00002-of-00002.safetensors").unlink()
    problems = {a.path: a.problem for a in pulled(world, home).artifacts if not a.ok}
    assert problems.get("model/model.safetensors.index.json") == "missing-shard"


def test_a_set_that_the_run_left_incomplete_is_not_called_good(world: World, tmp_path: Path) -> None:
    world.ended(MAKE, outputs=["model/*"], envs={"LOSE": "1"})
    answer = pulled(world, tmp_path / "home")
    problems = {artifact.path: artifact.problem for artifact in answer.artifacts if not artifact.ok}
    assert problems == {"model/model.safetensors.index.json": "missing-shard"}
