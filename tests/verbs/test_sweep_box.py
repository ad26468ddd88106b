"""What a box has for a sweep: its GPUs as slots, its room for all cells, and a budget for all of them."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.verbs.sweep import slots
from sojourn.verbs.sweep.cells import BudgetShared
from sojourn.verbs.sweep.request import SweepRequest
from sojourn.verbs.sweep.sweep import sweep
from tests.lab.machine_faults import need_root
from tests.verbs.conftest import World
from tests.verbs.field import Field

GPUS = [{"index": n, "uuid": f"GPU-{name}", "name": "NVIDIA A100-SXM4-80GB"} for n, name in enumerate(("aaaa", "bbbb"))]
# Its own card into what it owes, once as many cells of the box have begun as it has cards.
CARD = """
touch {folder}/began-$SOJOURN_RUN_ID
while [ $(ls {folder} | grep -c began-) -lt 2 ]; do sleep 0.05; done
printf '{{"card": "%s"}}' "$CUDA_VISIBLE_DEVICES" > result.json
"""


@pytest.fixture
def box(world: World, tmp_path: Path) -> Iterator[Field]:
    made = Field(world, tmp_path, "a")
    yield made
    made.open()
    made.ctx.store.close()


def job(box: Field, script: str, cells: int, **keys: object) -> str:
    told = {"name": "ab", "outputs": ["result.json"], "candidates": ["a"], **keys}
    return box.world.job(script, **{"sweep": {"matrix": {"lr": list(range(cells))}}, **told})


def test_cells_of_a_box_with_two_gpus_run_side_by_side_each_on_its_own(
    box: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = slots.ask_sites
    monkeypatch.setattr(  # what a driver would say: this machine has none
        "sojourn.verbs.sweep.sweep.ask_sites",
        lambda *asked: [replace(one, hello={**one.hello, "gpus": GPUS}) for one in ask(*asked)],
    )
    said = sweep(box.ctx, SweepRequest(job(box, CARD.format(folder=box.folder), 4)))
    assert (said.sites[0].slots, said.sites[0].gpus) == (2, ("GPU-aaaa", "GPU-bbbb"))
    assert set(box.over().values()) == {"succeeded"}
    paths = (box.bases["a"] / "runs").glob("*/attempts/1/result.json")
    cards = [json.loads(path.read_text())["card"] for path in paths]
    assert len(cards) == 4 and set(cards) == {"GPU-aaaa", "GPU-bbbb"}


def test_a_box_without_inodes_for_all_cells_is_refused_before_anything_runs(box: Field) -> None:
    need_root()
    base = box.bases["a"]
    base.mkdir()
    for number in range(30):
        (box.world.project / f"module{number}.py").touch()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2g,nr_inodes=1000", "none", str(base)]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("this machine may not mount")
    try:
        assert not sweep(box.ctx, SweepRequest(job(box, "true", 2)), dry_run=True).findings
        said = sweep(box.ctx, SweepRequest(job(box, "true", 60)))
        assert (said.did, said.exit_status) == ("blocked", 11)
        assert "inode" in str(said.findings)
        assert not (base / "runs").exists() and not box.ctx.store.index.cells("ab")
    finally:
        subprocess.run(["umount", "-l", str(base)], check=True)


def test_the_budget_of_a_sweep_is_shared_out_and_a_cell_keeps_its_share_when_others_come(box: Field) -> None:
    box.open()
    keys = {"sweep": {"matrix": {"lr": [1, 2]}, "budget": "8 USD"}}
    assert sweep(box.ctx, SweepRequest(job(box, "echo {} > result.json", 2, **keys))).did == "queued"
    shares = {run.id: run.local["budget"] for run in box.ctx.store.index.cells("ab")}
    assert set(map(tuple, shares.values())) == {(4_000_000, "USD")}
    keys["sweep"]["matrix"] = {"lr": [1, 2, 3, 4]}
    with pytest.raises(BudgetShared, match="its budget of 8.00 USD is already divided among 2 cells"):
        sweep(box.ctx, SweepRequest(job(box, "echo {} > result.json", 4, **keys)))
    keys["sweep"]["budget"] = "12 USD"
    assert len(sweep(box.ctx, SweepRequest(job(box, "echo {} > result.json", 4, **keys))).new) == 2
    later = {run.id: run.local["budget"] for run in box.ctx.store.index.cells("ab")}
    assert {run: later[run] for run in shares} == shares and later["ab-lr3"] == [2_000_000, "USD"]
    box.over()
