"""How many cells at once a box takes, and on which GPUs; how much room a sweep's part needs."""

from typing import Any

import pytest

from sojourn.core.need import Need
from sojourn.store.records import RunRecord
from sojourn.verbs.launch.preflight import CELL_INODES, Room, room_for_cells
from sojourn.verbs.sweep.slots import Oversubscribed, lanes

A100 = "NVIDIA A100-SXM4-80GB"


def box(*gpus: str, cpus: int = 4, **more: Any) -> dict[str, Any]:
    return {"gpus": [{"name": gpu, "uuid": f"GPU-{n}"} for n, gpu in enumerate(gpus)], "cpus": cpus, **more}


def test_each_gpu_is_a_slot_and_a_box_without_has_one() -> None:
    assert lanes("b", box(A100, A100), Need()) == ("GPU-0", "GPU-1")
    assert lanes("b", box(), Need()) == ("",)
    assert lanes("b", box(A100, A100), Need(), slots=1) == ("GPU-0",)


def test_a_cell_that_needs_several_gpus_gets_a_group_of_those_that_fit() -> None:
    need = Need(accelerators=(("A100", 2),))
    assert lanes("b", box(A100, "Tesla T4", A100, A100, A100), need) == ("GPU-0,GPU-2", "GPU-3,GPU-4")


def test_a_gpu_without_an_identity_is_named_by_its_number() -> None:
    assert lanes("b", {"gpus": [{"name": A100}, {"name": A100}]}, Need()) == ("0", "1")


def test_more_slots_than_gpus_or_cpus_need_to_be_asked_for() -> None:
    with pytest.raises(Oversubscribed, match="3 slots, but GPUs for only 2"):
        lanes("b", box(A100, A100), Need(), slots=3)
    assert lanes("b", box(A100, A100), Need(), slots=3, oversubscribe=True) == ("GPU-0", "GPU-1", "GPU-0")
    with pytest.raises(Oversubscribed, match="3 slots, but CPUs for only 2"):
        lanes("b", box(cpus=4), Need(cpus=2.0), slots=3)
    with pytest.raises(Oversubscribed, match="CPUs for only 1"):
        lanes("b", box(cpus=64, cgroup={"cpu_quota": 1.5}), Need(), slots=2)


def test_gpus_that_another_run_of_ours_may_use_are_not_shared_unasked() -> None:
    other = RunRecord("other", "b", 0.0, 1, "t", "b", "launched", 0, 0.0, "", "", "", "", "", 1, 0)
    with pytest.raises(Oversubscribed, match="other is running there"):
        lanes("b", box(A100), Need(), others=[other])
    assert lanes("b", box(), Need(), others=[other]) == ("",)


def test_a_job_that_chooses_its_gpus_itself_is_given_none() -> None:
    assert lanes("b", box(A100, A100), Need(), envs={"CUDA_VISIBLE_DEVICES": "1"}) == ("",)


def test_the_code_counts_once_and_its_copies_for_every_cell() -> None:
    one = Room(bytes=1000, inodes=300, copied_bytes=100, copied_inodes=20)
    many = room_for_cells(one, 11)
    assert many.inodes == 300 + 10 * (20 + CELL_INODES) and many.copied_bytes == 1100
    assert room_for_cells(one, 1) == one
