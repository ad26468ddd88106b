"""`verify` proves any folder without history, compares rosters both ways, and never says more than it saw."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sojourn.verbs.retrieve.verify import BadManifest, NoSuchPath, NothingToVerify, verify
from sojourn.wire import manifest as manifests
from sojourn.wire.errors import Misuse
from tests.backends import samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pulled run: two artifacts and a log."""
    root = tmp_path / "digits run"
    (root / "checkpoints").mkdir(parents=True)
    samples.write_npz(str(root / "checkpoints/best.npz"))
    samples.write_json(str(root / "metrics.json"))
    (root / "train.log").write_text("step 1\n")
    return root


def seal(folder: Path, path: Path, **changes: Any) -> Path:
    """A manifest of what is in the folder now."""
    rows = []
    for name in manifests.walk(str(folder)):
        size, sha256 = manifests.sha256_file(str(folder / name))
        rows.append({"path": name, "from": name, "bytes": size, "sha256": sha256, "role": "output"})
    path.write_text(
        json.dumps({**manifests.document("digits", 1, "2026-11-21T10:00:00.000Z", rows, ["*.png"]), **changes})
    )
    return path


def problems(found: Any) -> dict[str, str]:
    return {a.path: a.problem for a in found.artifacts if not a.ok}


def test_a_good_folder_is_good_and_every_file_is_in_the_answer(folder: Path) -> None:
    found = verify([str(folder)])
    assert (found.ok, found.exit_status, found.files) == (True, 0, 3)
    assert [a.path for a in found.artifacts] == ["checkpoints/best.npz", "metrics.json", "train.log"]
    assert all("bytes" not in a.proved for a in found.artifacts)


def test_what_a_pull_notes_in_a_folder_is_no_part_of_the_run(folder: Path, tmp_path: Path) -> None:
    manifest = seal(folder, tmp_path / "manifest.json")
    (folder / ".sojourn-home.json").write_text("{}")
    assert verify([str(folder)]).files == 3
    assert verify([str(folder)], manifest=str(manifest)).ok


def test_the_document_is_the_one_of_the_interface(folder: Path) -> None:
    document = verify([str(folder)]).as_json()
    assert (document["schema"], document["ok"]) == ("sojourn/verify/v1", True)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_one_bad_file_makes_the_answer_bad(folder: Path) -> None:
    (folder / "metrics.json").write_text('{"accuracy": 0.9')
    found = verify([str(folder)])
    assert (found.ok, found.exit_status) == (False, 1)
    assert problems(found) == {"metrics.json": "truncated"}


def test_several_paths_keep_their_names_apart(folder: Path) -> None:
    found = verify([str(folder), str(folder / "metrics.json")])
    assert [a.path for a in found.artifacts].count(f"{folder}/metrics.json") == 2
    assert found.ok


def test_what_was_named_may_be_a_link_and_what_lies_below_must_stay_below(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(folder)
    (tmp_path / "m.json").symlink_to(folder / "metrics.json")
    (folder / "also").symlink_to("checkpoints")
    assert verify([str(tmp_path / "latest")]).files == 3
    assert verify([str(tmp_path / "m.json")]).ok
    (folder / "etc").symlink_to("/etc")
    (folder / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")
    found = verify([str(folder)])
    assert problems(found) == {"etc": "escapes-root", "passwd": "escapes-root", "pipe": "escapes-root"}


def test_a_manifest_proves_the_bytes(folder: Path, tmp_path: Path) -> None:
    found = verify([str(folder)], str(seal(folder, tmp_path / "manifest.json")))
    assert found.ok
    assert all("bytes" in a.proved for a in found.artifacts)
    assert (found.roster["missing"], found.roster["never_made"]) == ([], ["*.png"])


def test_rosters_are_compared_both_ways(folder: Path, tmp_path: Path) -> None:
    manifest = seal(folder, tmp_path / "manifest.json")
    (folder / "train.log").rename(folder / "other.log")
    (folder / "metrics.json").write_text('{"accuracy": 1.0}')
    found = verify([str(folder)], str(manifest))
    assert problems(found) == {"train.log": "missing", "other.log": "mismatch", "metrics.json": "truncated"}
    assert found.roster["missing"] == ["train.log"]
    assert found.roster["unexpected"] == ["other.log"]
    assert found.roster["differs"] == ["metrics.json"]


def test_a_file_whose_bytes_are_right_and_that_does_not_load_is_bad_and_does_not_differ(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "metrics.json").write_text('{"accuracy": NaN}')
    found = verify([str(folder)], str(seal(folder, tmp_path / "manifest.json")))
    assert problems(found) == {"metrics.json": "non-finite"}
    assert found.roster["differs"] == []


def test_a_manifest_inside_the_folder_is_not_unexpected_there(folder: Path) -> None:
    assert verify([str(folder)], str(seal(folder, folder / "manifest.json"))).ok


def test_a_path_that_does_not_exist_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(NoSuchPath) as caught:
        verify([str(tmp_path / "nothing")])
    assert caught.value.exit_status == 2


def test_an_empty_folder_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NothingToVerify) as caught:
        verify([str(tmp_path)])
    assert caught.value.exit_status == 1


def test_a_manifest_that_cannot_be_trusted_is_refused(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    good = json.loads(seal(folder, path).read_text())
    row = good["files"][0]
    bad = [
        "not json",
        "[" * 100_000,
        json.dumps([]),
        json.dumps({**good, "schema": "sojourn/manifest/v9"}),
        json.dumps({**good, "files": good["files"][1:]}),
        json.dumps({**good, "files": [{**row, "path": "../x"}, *good["files"][1:]]}),
        json.dumps({**good, "files": [{**row, "path": "/etc/passwd"}]}),
        json.dumps({**good, "files": [row, row]}),
        json.dumps({**good, "files": [{**row, "bytes": "9"}]}),
    ]
    for text in bad:
        path.write_text(text)
        with pytest.raises(BadManifest) as caught:
            verify([str(folder)], str(path))
        assert caught.value.exit_status == 2
    with pytest.raises(NoSuchPath):
        verify([str(folder)], str(tmp_path / "none.json"))
    with pytest.raises(Misuse):
        verify([str(folder / "metrics.json")], str(seal(folder, path)))


def test_progress_ends_with_everything(folder: Path) -> None:
    lines: list[str] = []
    verify([str(folder)], say=lines.append)
    assert len(lines) == 3
    assert lines[-1].startswith("verified 3 of 3 files")


def test_the_answer_does_not_depend_on_how_many_cores_there_are(folder: Path) -> None:
    for n in range(20):
        samples.write_json(str(folder / f"{n}.json"))
    one, four = (verify([str(folder)], processes=n, fresh=True) for n in (1, 4))
    assert one.artifacts == four.artifacts


@pytest.mark.campaign
def test_a_verify_that_is_interrupted_leaves_no_process(folder: Path, tmp_path: Path) -> None:
    (folder / "long.json").write_text("[" + "0," * 20_000_000 + "0]")
    code = (
        "import os, signal, sys, threading\n"
        "from sojourn.verbs.retrieve.verify import verify\n"
        "threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    verify([sys.argv[1]])\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], timeout=200, capture_output=True)
    assert done.returncode == 130, done.stderr.decode()
