"""A stand-in of the NVIDIA driver's library that answers by a text file: two A100, the second lost."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

STUB = Path(__file__).parent / "nvml_stub.c"
STATE = """count 2
name.0 NVIDIA A100-SXM4-80GB
uuid.0 GPU-aaaa
mem_total.0 81920
mem_used.0 1024
util.0 97
temp.0 61
power.0 312500
lost.1 1
"""


@pytest.fixture
def nvml(tmp_path: Path) -> dict[str, str]:
    """The environment in which the stand-in is the driver's library."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("missing Debian package: gcc (with libc6-dev)")
    folder = tmp_path / "driver"
    folder.mkdir()
    library = str(folder / "libnvidia-ml.so.1")
    argv = [compiler, "-shared", "-fPIC", "-w", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, str(STUB)]
    subprocess.run(argv, check=True, timeout=60)
    (folder / "state").write_text(STATE)
    return {"LD_LIBRARY_PATH": str(folder), "NVML_STUB": str(folder / "state")}


@pytest.fixture
def driver(nvml: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers that are started from here find the stand-in."""
    for name, value in nvml.items():
        monkeypatch.setenv(name, value)
