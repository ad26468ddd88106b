"""Out of memory in figures: how much was used, tried, free and allowed, where the evidence has it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.cli.show import findings as show
from sojourn.core.values import Finding
from sojourn.diagnose import evidence
from sojourn.diagnose.facts.pods import _bytes
from sojourn.diagnose.facts.words import of_end
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

HERE = Path(__file__).parent / "specimens"
GIB = 1 << 30


def verdict(document: dict[str, Any]) -> Finding:
    found = reason(gotchas(), evidence.from_document(document, gotchas())).verdict
    assert found is not None
    return found


def figures(finding: Finding) -> dict[str, Any]:
    return {one.what: one.value for one in finding.evidence if isinstance(one.value, int) and one.value > 1000}


def test_a_kill_at_the_limit_tells_peak_and_limit() -> None:
    case = json.loads((HERE / "bundles/memory-limit-hits-a-worker.json").read_text())
    found = verdict(case["evidence"])
    # The keeper's last beat was before the worker grew; the group's own mark has the peak.
    assert figures(found) == {
        "cg.mem_peak": 250 << 20,
        "cg.mem_beat_peak": 38985728,
        "run.rss_peak": 7319552,
        "cg.mem_max": 250 << 20,
    }
    shown = "\n".join(show.details(found, 100))
    assert "cg.mem_peak = 250.0 MiB" in shown and "cg.mem_max = 250.0 MiB" in shown


def test_slurm_tells_what_it_measured_and_what_was_granted() -> None:
    table = "JobID|State|ExitCode|ReqMem|MaxRSS\n9|FAILED|0:0|16G|\n9.0|OUT_OF_MEMORY|0:125||16698732K\n"
    found = verdict({"scope": ["universal", "slurm"], "probes": {"sacct -P": {"rc": 0, "stdout": table}}})
    assert found.id == "slurm-out-of-memory"
    assert figures(found) == {"sl.maxrss": 16698732 << 10, "sl.reqmem": 16 * GIB}


def test_a_pod_tells_the_limit_of_the_container_that_was_killed() -> None:
    case = json.loads((HERE / "facts/k8s-pod-oom.json").read_text())
    probes = {case["probe"]: {"rc": 0, "stdout": case["stdout"]}}
    found = verdict({"scope": ["universal", "kubernetes"], "probes": probes})
    assert found.id == "k8s-out-of-memory" and figures(found) == {"k.mem_limit": 64 << 20}


@pytest.mark.parametrize(
    ("quantity", "size"),
    [("64Mi", 64 << 20), ("16Gi", 16 * GIB), ("512M", 512_000_000), ("1e9", 10**9), ("2k", 2000), ("1500m", 1),
     ("1.5Gi", 3 * GIB // 2), ("", None), ("16GB", None), ("-1", None)],
)  # fmt: skip
def test_a_quantity_is_read_as_kubernetes_writes_it(quantity: str, size: int | None) -> None:
    assert _bytes(quantity) == size


@pytest.mark.parametrize(
    ("said", "tried", "free", "total"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.45 GiB. GPU 0 has a total capacity of"
            " 5.78 GiB of which 606.62 MiB is free. Including non-PyTorch memory, this process has 4.30 GiB in use.",
            1.45 * GIB, 606.62 * (1 << 20), 5.78 * GIB,
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.70 GiB. GPU 0 has a total capacty of"
            " 6.00 GiB of which 0 bytes is free. Of the allocated memory 2.93 GiB is allocated by PyTorch",
            1.7 * GIB, 0, 6 * GIB,
        ),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB"
            " already allocated; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)",
            2.87 * GIB, 19.75 * (1 << 20), 14.76 * GIB,
        ),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
         8 * GIB, None, None),
    ],
)  # fmt: skip
def test_a_full_gpu_tells_tried_free_and_total(said: str, tried: int, free: int | None, total: int | None) -> None:
    found = of_end(f"step 3\n{said}\n")
    kept = [found.get(name) for name in ("run.gpu_tried", "run.gpu_free", "run.gpu_total")]
    assert kept == [None if size is None else int(size) for size in (tried, free, total)]


def test_the_verdict_of_a_full_gpu_has_its_figures() -> None:
    said = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
    said += " of which 1.00 GiB is free."
    document = {"scope": ["universal"], "probes": {"log": {"stdout": f"torch.OutOfMemoryError: {said}"}}}
    assert figures(verdict(document)) == {"run.gpu_tried": 2 * GIB, "run.gpu_free": GIB, "run.gpu_total": 8 * GIB}
