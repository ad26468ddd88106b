"""A second `verify` reads what changed and nothing else; one that was killed goes on; `--fresh` reads all."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from sojourn.verbs.retrieve.verify import Verified, verify
from tests.backends import samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two artifacts and a log, written a while ago."""
    root = tmp_path / "results"
    root.mkdir()
    samples.write_npz(str(root / "best.npz"))
    samples.write_json(str(root / "metrics.json"))
    (root / "train.log").write_text("step 1\n")
    return root


def settled(path: Path) -> None:
    """Wait until what was just written is old enough for its times to tell a change (0.1 s; 2.5 s on coarse clocks)."""
    newest = max(max(os.stat(p).st_mtime, os.stat(p).st_ctime) for p in [path, *path.rglob("*")])
    while time.time() - newest < (0.11 if newest % 1 else 2.51):
        time.sleep(0.02)


def remembered(found: Verified) -> set[str]:
    return {a.path for a in found.artifacts if a.remembered}


def test_what_is_unchanged_is_not_read_again_and_says_when_it_was(folder: Path) -> None:
    settled(folder)
    first, second = verify([str(folder)]), verify([str(folder)])
    assert (first.remembered, second.remembered) == (0, 3)
    assert all(a.remembered.endswith("Z") for a in second.artifacts)
    same = [replace(a, remembered="") for a in second.artifacts]
    assert same == list(first.artifacts)
    assert verify([str(folder)], fresh=True).remembered == 0


def test_damage_of_the_same_size_with_its_times_set_back_is_seen(folder: Path) -> None:
    settled(folder)
    assert verify([str(folder)]).ok
    path = folder / "metrics.json"
    seen = os.stat(path)
    with path.open("r+b") as f:
        f.seek(100)
        f.write(b"\x00" * 8)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    found = verify([str(folder)])
    assert remembered(found) == {"best.npz", "train.log"}
    assert [a.path for a in found.artifacts if not a.ok] == ["metrics.json"]


def test_a_bad_file_is_read_every_time_and_a_moved_one_too(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"a": ')
    settled(folder)
    assert [verify([str(folder)]).exit_status for _ in range(2)] == [1, 1]
    (folder / "best.npz").rename(folder / "best.json")
    found = verify([str(folder)])
    assert {a.path: a.problem for a in found.artifacts if not a.ok} == {
        "best.json": "mismatch",
        "metrics.json": "truncated",
    }


def test_a_remembered_file_is_still_held_against_the_manifest(folder: Path, tmp_path: Path) -> None:
    from sojourn.wire import manifest

    settled(folder)
    verify([str(folder)])
    rows = []
    for name in manifest.walk(str(folder)):
        size, sha256 = manifest.sha256_file(str(folder / name))
        rows.append({"path": name, "bytes": size, "sha256": sha256 if name != "train.log" else "0" * 64})
    (tmp_path / "m.json").write_text(json.dumps(manifest.document("r", 1, "2026-11-21T10:00:00.000Z", rows, [])))
    found = verify([str(folder)], str(tmp_path / "m.json"))
    assert found.remembered == 3
    assert {a.path: a.proved for a in found.artifacts if a.ok}["best.npz"][0] == "bytes"
    assert {a.path: a.problem for a in found.artifacts if not a.ok} == {"train.log": "mismatch"}


def test_a_shard_is_judged_again_when_its_neighbour_went(tmp_path: Path) -> None:
    root = tmp_path / "model"
    root.mkdir()
    for n in (1, 2):
        path = root / f"model-0000{n}-of-00002.safetensors"
        safetensors.numpy.save_file({f"w{n}": np.arange(9.0)}, path)
    settled(root)
    assert verify([str(root)]).ok
    assert verify([str(root)]).remembered == 2
    (root / "model-00002-of-00002.safetensors").unlink()
    found = verify([str(root)])
    assert [(a.problem, a.remembered) for a in found.artifacts] == [("missing-shard", "")]


@pytest.mark.campaign
def test_a_verify_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for n in range(6):
        samples.write_json(str(root / f"{n}.json"))
    (root / "long.jsonl").write_text('{"a": [' + "1.5, " * 4_000_000 + "1]}\n")
    settled(root)
    # The largest file is begun first and takes longest: it keeps the process busy while the small ones are proven.
    code = (
        "import sys\nfrom sojourn.verbs.retrieve.verify import verify\nverify([sys.argv[1]], say=print, processes=2)\n"
    )
    argv = [sys.executable, "-u", "-c", code, str(root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("verified 3 of 7"):
                process.send_signal(signal.SIGKILL)
                break
    found = verify([str(root)])
    assert found.ok
    assert found.remembered >= 3
