"""`gpu`: what nvidia-smi prints, judged; on this machine for real; and through a stand-in of the driver's library.

The rows have the form that nvidia-smi(1) of drivers 470 to 570 prints with `--format=csv,noheader`; no card was asked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.probes.cards import QUERY
from sojourn.cli.show import gpu as show
from sojourn.verbs.explain import gpu
from tests.verbs.conftest import World

pytest_plugins = ["tests.lab.nvml_fixtures"]

LOOP = QUERY + " --loop-ms=200"
APPS = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader"
CARD = {
    "index": "0",
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-0a5f2d3c",
    "pci.bus_id": "00000000:04:00.0",
    "driver_version": "550.54.15",
    "compute_cap": "9.0",
    "memory.total": "81559 MiB",
    "memory.used": "4 MiB",
    "utilization.gpu": "0 %",
    "utilization.memory": "0 %",
    "temperature.gpu": "31",
    "power.draw": "69.28 W",
    "power.limit": "700.00 W",
    "clocks.sm": "345 MHz",
    "clocks.max.sm": "1980 MHz",
    "ecc.errors.uncorrected.volatile.total": "0",
    "remapped_rows.failure": "No",
    "remapped_rows.pending": "No",
    "persistence_mode": "Enabled",
    "mig.mode.current": "Disabled",
}
BUSY = {"utilization.gpu": "99 %", "power.draw": "640.10 W", "clocks.sm": "1905 MHz", "temperature.gpu": "64"}
HOT = {**BUSY, "clocks.sm": "1110 MHz", "temperature.gpu": "88", "clocks_event_reasons.hw_thermal_slowdown": "Active"}


def row(**changes: str) -> str:
    fields = QUERY.partition("--query-gpu=")[2].split(" ")[0].split(",")
    usual = {name: "Not Active" if name.startswith("clocks_event") else "[N/A]" for name in fields}
    told = {**usual, **CARD, **{key.replace("__", "."): value for key, value in changes.items()}}
    return ", ".join(told[name] for name in fields) + "\n"


def card(index: int = 0, **changes: Any) -> str:
    return row(index=str(index), uuid=f"GPU-{index}", **{key.replace(".", "__"): v for key, v in changes.items()})


def entry(stdout: str = "", rc: int = 0, stderr: str = "", **more: Any) -> dict[str, Any]:
    return {"rc": rc, "stdout": stdout, "stderr": stderr, **more}


def judged(world: World, probes: Mapping[str, Any], matmul: bool = False) -> gpu.Gpu:
    looked = {"host": "gpu-box", "launch": {"alone": True}, "probes": probes, "facts": {"box.alone": True}}
    return gpu.judge_gpus(world.ctx.box(world.site), looked, matmul)


def ids(answer: gpu.Gpu) -> list[str]:
    return [f"{f.status} {f.id}" for f in answer.findings]


def test_an_idle_card_is_healthy_and_its_clocks_are_not_judged(world: World) -> None:
    answer = judged(world, {LOOP: entry(card() * 10)})
    assert (ids(answer), answer.exit_status, answer.facts["words"]) == ([], 0, "")
    (one,) = answer.facts["cards"]
    assert (one["name"], one["memory_bytes"], one["looks"]) == ("NVIDIA H100 80GB HBM3", 81559 << 20, 10)
    assert one["judged"].startswith("idle") and one["clock_share"] is None and one["throttle"] is None
    assert answer.next == "sojourn gpu --matmul"


def test_an_idle_card_whose_clocks_are_held_back_is_not_called_slow(world: World) -> None:
    slow = card(**{"clocks_event_reasons.hw_slowdown": "Active", "clocks.sm": "210 MHz"})
    assert ids(judged(world, {LOOP: entry(slow * 10)})) == []


def test_a_card_that_works_at_its_pace_is_healthy(world: World) -> None:
    answer = judged(world, {LOOP: entry(card(**BUSY) * 10)})
    assert ids(answer) == [] and answer.facts["cards"][0]["judged"] == "under load"
    assert answer.facts["cards"][0]["clock_share"] == 0.962 and answer.next == "sojourn doctor"


def test_a_hot_card_is_slow_under_load_and_named_among_its_healthy_neighbours(world: World) -> None:
    looks = "".join(card(i, **(HOT if i == 2 else BUSY)) for _ in range(10) for i in range(4))
    answer = judged(world, {LOOP: entry(looks)})
    assert (ids(answer), answer.exit_status) == (["confirmed gpu-throttled"], 10)
    assert answer.findings[0].title.startswith("card 2: ")
    assert [one["throttle"] for one in answer.facts["cards"]] == [[], [], ["hw_thermal_slowdown"], []]


def test_one_look_at_full_power_among_ten_is_no_throttling(world: World) -> None:
    looks = card(**BUSY) * 9 + card(**{**BUSY, "clocks_event_reasons.hw_slowdown": "Active"})
    assert ids(judged(world, {LOOP: entry(looks)})) == []


@pytest.mark.parametrize(
    ("probe", "found", "status"),
    [
        (entry(card(), 15, "Unable to determine the device handle for GPU 1: GPU is lost\n"), "gpu-hardware-fault", 11),
        (
            entry(
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the"
                " latest NVIDIA driver is installed and running.\n",
                9,
            ),
            "driver-not-loaded",
            11,
        ),
        (
            entry("", 18, "Failed to initialize NVML: Driver/library version mismatch\n"),
            "nvml-version-mismatch",
            11,
        ),
        (entry("No devices were found\n", 6), "no-gpu-in-container", 11),
    ],
)
def test_what_the_driver_says_is_told_by_its_own_name(
    world: World, probe: Mapping[str, Any], found: str, status: int
) -> None:
    answer = judged(world, {QUERY: probe})
    assert (f"confirmed {found}" in ids(answer), answer.exit_status) == (True, status), ids(answer)


def test_xid_of_the_kernels_log_is_told_though_the_card_answers(world: World) -> None:
    log = "[ 9100.000001] NVRM: Xid (PCI:0000:04:00): 48, pid=1234, name=python, DBE at partition 3, subpartition 0\n"
    answer = judged(world, {LOOP: entry(card() * 10), "dmesg": entry(log)})
    assert answer.exit_status == 11 and ids(answer)[0] == "confirmed gpu-hardware-fault"
    assert answer.facts["xid"] == [48]


def test_memory_that_nobody_seen_accounts_for_is_told_and_nobody_is_named(world: World) -> None:
    held = {
        "device holders": entry("pid start uid state cpu_s comm devices ppid age_s kind run why\n", hidden=0, nodes=1)
    }
    answer = judged(world, {LOOP: entry(card(**{"memory.used": "71000 MiB"}) * 10), APPS: entry(""), **held})
    assert (ids(answer), answer.facts["holders"]) == (["confirmed orphan-holds-vram"], [])
    hidden = {"device holders": {**held["device holders"], "hidden": 3}}  # somebody's, who may not be looked into
    answer = judged(world, {LOOP: entry(card(**{"memory.used": "71000 MiB"}) * 10), APPS: entry(""), **hidden})
    assert "confirmed orphan-holds-vram" not in ids(answer) and answer.facts["hidden"] == 3


def test_a_process_the_driver_lists_and_nobody_here_has_is_never_called_an_orphan(world: World) -> None:
    answer = judged(world, {LOOP: entry(card() * 10), APPS: entry("GPU-0, 31337, 70000 MiB\n")})
    (one,) = answer.facts["holders"]
    assert (one["kind"], one["pid"], one["gpu_bytes"]) == ("unproven", 31337, 70000 << 20)


def test_a_product_that_comes_out_different_is_a_broken_card(world: World) -> None:
    said = (
        '{"torch": "2.4.0", "cuda": "12.4", "avail": true, "archs": ["sm_90"]}\n{"begin": [0]}\n'
        '{"card": 0, "ok": false, "said": "the same product came out different", "tflops": 611.2}\n'
    )
    answer = judged(world, {LOOP: entry(card(**BUSY) * 10), "matmul": entry(said)}, matmul=True)
    assert (ids(answer), answer.exit_status) == (["confirmed gpu-hardware-fault"], 11)
    assert "came out different" in "\n".join(show.lines(answer, 100))


def test_a_machine_without_a_card_is_told_in_words_and_nothing_is_wrong(world: World) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    answer = gpu.gpu(world.ctx, "local", matmul=True)
    assert answer.exit_status == 0 and answer.facts["cards"] == []
    text = "\n".join(show.lines(answer, 200))
    assert "no NVIDIA driver" in text and "there is no usable GPU" in text


@pytest.mark.usefixtures("driver")
def test_the_drivers_library_is_asked_ten_times_and_a_lost_card_stops_nobody(world: World) -> None:
    answer = gpu.gpu(world.ctx, "local", seconds=0.5)
    (one,) = answer.facts["cards"]
    assert one["name"] == "NVIDIA A100-SXM4-80GB" and one["looks"] >= 2 and one["util_pct"] == 97
    assert (ids(answer), answer.exit_status) == (["confirmed gpu-hardware-fault"], 11)


def test_the_program_is_asked_where_the_library_cannot_be_loaded(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in that replays what a card said."""
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    (tmp_path / "row").write_text(card(**BUSY))
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in --query-gpu*) cat {tmp_path}/row;; -q) echo "CUDA Version : 12.4";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    answer = gpu.gpu(world.ctx, "local", seconds=0.5)
    assert answer.facts["cards"][0]["judged"] == "under load" and answer.facts["cuda"] == "12.4"
    assert (ids(answer), answer.exit_status) == ([], 0)
