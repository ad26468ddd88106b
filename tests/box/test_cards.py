"""Cards in the evidence: a stand-in of the driver's library answers, or of its program. No real card was asked here."""

from __future__ import annotations

import os
from pathlib import Path

from sojourn.wire import atomic
from tests.box.rig import Rig

pytest_plugins = ["tests.lab.nvml_fixtures"]


def test_cards_are_told_as_nvidia_smi_tells_them(rig: Rig, nvml: dict[str, str]) -> None:
    rig.env.update(nvml)
    root = rig.place("exit 1")
    rig.finish(root)
    probes = atomic.read_json(root.evidence(1))["probes"]
    name = next(name for name in probes if name.startswith("nvidia-smi --query-gpu="))
    entry = probes[name]
    assert entry["rc"] == 15 and "GPU 1" in entry["stderr"] and "lost" in entry["stderr"]
    head = name.split("=")[1].split(" ")[0].split(",")
    row = dict(zip(head, entry["stdout"].strip().split(", ")))
    told = {key: row[key] for key in ("index", "name", "memory.total", "memory.used", "utilization.gpu", "power.draw")}
    assert told == {
        "index": "0",
        "name": "NVIDIA A100-SXM4-80GB",
        "memory.total": "81920 MiB",
        "memory.used": "1024 MiB",
        "utilization.gpu": "97 %",
        "power.draw": "312.50 W",
    }
    assert row["clocks.sm"] == row["remapped_rows.failure"] == "[N/A]"  # the stand-in does not know: neither do we
    assert "Driver Version" in probes["nvidia-smi -q"]["stdout"]


def test_a_driver_that_is_not_loaded_says_so_by_its_number(rig: Rig, nvml: dict[str, str]) -> None:
    os.unlink(nvml["NVML_STUB"])
    rig.env.update(nvml)
    root = rig.place("exit 1")
    rig.finish(root)
    probes = atomic.read_json(root.evidence(1))["probes"]
    entry = next(entry for name, entry in probes.items() if name.startswith("nvidia-smi --query-gpu="))
    assert (entry["rc"], entry["stdout"]) == (9, "") and "Driver Not Loaded" in entry["stderr"]


def test_where_there_is_no_library_the_program_is_asked(rig: Rig, tmp_path: Path) -> None:
    """The program is a stand-in that answers one form of the query, as a driver before 535 does."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "nvidia-smi"
    program.write_text(
        '#!/bin/sh\ncase "$1" in *clocks_event*) echo "Field \\"x\\" is not a valid field to query."; exit 2;;'
        ' --query-gpu*) echo "0, NVIDIA T4";; *) echo "Driver Version : 470.1";; esac\n'
    )
    program.chmod(0o755)
    rig.env["PATH"] = "%s:%s" % (bin_folder, rig.env["PATH"])
    root = rig.place("exit 1")
    rig.finish(root)
    probes = atomic.read_json(root.evidence(1))["probes"]
    name = next(name for name in probes if name.startswith("nvidia-smi --query-gpu="))
    assert "clocks_throttle_reasons." in name and probes[name]["stdout"] == "0, NVIDIA T4\n"
    assert probes[name]["source"] == "nvidia-smi"
