"""Constraints of a job against what a box has."""

import pytest

from sojourn.core.need import GIB, Need, lacks

BOX = {"cpus": 8.0, "memory_bytes": 32 * GIB, "disk_free_bytes": 200 * GIB, "gpus": ["NVIDIA A100-SXM4-80GB"] * 2}


@pytest.mark.parametrize(
    "need",
    [
        Need(),
        Need((("A100", 2),)),
        Need((("a100-80gb", 1),)),
        Need((("H100", 1), ("A100", 1))),
        Need(cpus=8, memory_gib=32, disk_gib=200),
        Need(cpus=4),
    ],
)
def test_a_box_that_has_it_lacks_nothing(need: Need) -> None:
    assert lacks(need, **BOX) == ()


@pytest.mark.parametrize(
    ("need", "words"),
    [
        (Need((("A100", 3),)), "needs A100:3; it has NVIDIA A100-SXM4-80GB, NVIDIA A100-SXM4-80GB"),
        (Need((("A10", 1),)), "needs A10:1"),
        (Need((("H100", 1), ("L4", 1))), "needs H100:1 or L4:1"),
        (Need(cpus=8.5), "needs 8.5 CPUs; it has 8"),
        (Need(memory_gib=33), "needs 33 GiB of memory; it has 32.0 GiB"),
        (Need(disk_gib=201), "needs 201 GiB of disk; 200.0 GiB are free"),
    ],
)
def test_what_is_lacking_is_said(need: Need, words: str) -> None:
    (lack,) = lacks(need, **BOX)
    assert lack.startswith(words)


def test_a_box_without_a_gpu_says_so() -> None:
    assert lacks(Need((("A100", 1),)), **{**BOX, "gpus": []}) == ("needs A100:1; it has no GPU",)


def test_everything_lacking_is_said_at_once() -> None:
    assert len(lacks(Need((("A100", 9),), 99, False, 999, False, 9999), **BOX)) == 4


def test_only_what_is_constrained_enters_the_identity() -> None:
    assert Need().as_plain() == {}
    assert Need((("A100", 1),), 4.0, True, 24.0, True, 100.0).as_plain() == {
        "accelerators": ["A100:1"],
        "cpus": "4+",
        "memory": "24+",
        "disk_size": "100",
    }
