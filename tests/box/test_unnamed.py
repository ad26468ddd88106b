"""What loads by its form and no output names is told by its path; what nobody would miss is not."""

import os
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sojourn.box.run import roster, saved_files
from sojourn.box.run.root import Root, read_spec
from sojourn.wire import manifest
from tests.box.rig import Rig
from tests.box.test_roster import run_of, taken
from tests.box.test_unseen import DENIED, open_rig, refused
from tests.box.test_unseen import taken as taken_by_nobody

assert open_rig


def weights(path: Path, text: str = "w") -> None:
    """What torch.save would write, by its form."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", text)


def run_with(rig: Rig, paths: List[str], states: List[str], **spec: Any) -> Root:
    root = run_of(rig, states, {}, **spec)
    for path in paths:
        weights(Path(root.path, path), path)
    return root


def unnamed(document: Dict[str, Any]) -> List[str]:
    return [row["path"] for row in document["unnamed"]]


@pytest.mark.parametrize("state", ["succeeded", "failed"])
def test_weights_that_no_output_names_are_told(rig: Rig, state: str) -> None:
    root = run_with(rig, ["attempts/1/out/a.pt", "attempts/1/runs/train/weights/best.pt", "rank0.pt"], [state])
    rows = taken(rig)["unnamed"]
    assert [row["path"] for row in rows] == ["rank0.pt", "runs/train/weights/best.pt"]
    best = os.stat(os.path.join(root.attempt(1), "runs/train/weights/best.pt"))
    assert rows[1] == {"path": "runs/train/weights/best.pt", "bytes": best.st_size, "mtime_ns": best.st_mtime_ns}


def test_a_glob_that_matches_nothing_names_nothing(rig: Rig) -> None:
    run_with(rig, ["attempts/1/weights/best.pt"], ["succeeded"], outputs=["out/*.pt"])
    document = taken(rig)
    assert document["missing"] == ["out/*.pt"] and unnamed(document) == ["weights/best.pt"]


def test_what_nobody_would_miss_is_not_told(rig: Rig) -> None:
    root = run_with(
        rig,
        [
            "attempts/1/tmp/draft.pt",
            "attempts/1/.cache/hub/model.safetensors",
            "attempts/1/torch_cache/model.pt",
            "attempts/1/hf/blobs/model.pt",
            "attempts/1/.saving-00000001-1-2-0123abcd-0123abcd/w.pt",
            "attempts/1/env/lib/python3.11/site-packages/x/model.pt",
            "checkpoints/ckpt-t000001-s00000007.pt",
            "scratch/a.pt",
            "persist/spares/1/w.pt",
        ],
        ["succeeded"],
        scratch=["tmp/*"],
        envs={"HF_HOME": "hf"},
    )
    for name, data in (("torn.pt", b"PK\x03"), ("empty.pt", b""), ("notes.txt", b"n"), ("config.json", b"{}")):
        Path(root.attempt(1), name).write_bytes(data)
    os.symlink(root.path, os.path.join(root.attempt(1), "loop"))
    assert unnamed(taken(rig)) == []


def test_a_script_s_own_file_among_the_checkpointers_is_told(rig: Rig) -> None:
    run_with(rig, ["checkpoints/best.pt"], ["succeeded"])
    assert unnamed(taken(rig)) == ["checkpoints/best.pt"]


def test_a_folder_of_a_checkpoint_is_one_unless_an_output_names_what_loads_in_it(rig: Rig) -> None:
    root = run_with(rig, [f"attempts/1/out/checkpoint-5/{name}.pt" for name in ("w", "optim")], ["failed"], outputs=[])
    assert unnamed(taken(rig)) == ["out/checkpoint-5"]
    spec = dict(read_spec(root), outputs=["out/checkpoint-5/*.json"])
    Path(root.attempt(1), "out/checkpoint-5/config.json").write_text("{}")
    assert unnamed(dict(roster.take_manifest(root, spec, 1, ""))) == ["out/checkpoint-5"]  # type: ignore[arg-type]
    spec["outputs"] = ["out/checkpoint-*/w.pt"]
    assert unnamed(dict(roster.take_manifest(root, spec, 1, ""))) == []  # type: ignore[arg-type]


def test_what_an_output_names_through_a_link_is_named(rig: Rig) -> None:
    root = run_with(rig, ["attempts/1/exp3/model.pt"], ["succeeded"], outputs=["latest/model.pt"])
    os.symlink("exp3", os.path.join(root.attempt(1), "latest"))
    assert unnamed(taken(rig)) == []


def test_an_output_that_is_named_later_is_one_and_missing_it_is_no_lack(rig: Rig) -> None:
    run_with(rig, ["attempts/1/best.pt"], ["succeeded"], outputs=[])
    document = taken(rig, also=["best.pt", "gone.pt"])
    assert [row["path"] for row in document["files"] if row["role"] == "output"] == ["best.pt"]
    assert (document["missing"], unnamed(document)) == ([], [])
    assert rig.call("manifest", run="r", also=["best.pt"])["manifest"]["files"] == document["files"]


def test_what_was_pushed_or_mounted_counts_once_it_was_changed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    root = run_with(rig, ["attempts/1/base.pt", "attempts/1/data/big.pt", "attempts/1/one.pt"], ["succeeded"])
    contents = {}
    for path in ("base.pt", "data/big.pt", "one.pt"):
        size, sha256 = manifest.sha256_file(os.path.join(root.attempt(1), path))
        contents[path] = {"bytes": size, "sha256": sha256}
    trees = {
        "c": [dict(contents["base.pt"], path="base.pt")],
        "m": [dict(contents["data/big.pt"], path="big.pt"), dict(contents["one.pt"], path="x/one.pt")],
    }
    from sojourn.box.run import tree

    monkeypatch.setattr(tree, "read_roster", lambda base, digest: trees[digest])
    spec: Any = dict(read_spec(root), code="c", mounts={"data": "m", "one.pt": "m/x/one.pt"})
    assert unnamed(dict(roster.take_manifest(root, spec, 1, ""))) == []
    weights(Path(root.attempt(1), "base.pt"), "trained")
    weights(Path(root.attempt(1), "data/big.pt"), "trained too")
    assert unnamed(dict(roster.take_manifest(root, spec, 1, ""))) == ["base.pt", "data/big.pt"]


def test_a_folder_that_cannot_be_looked_into_may_hold_such_a_file(open_rig: Rig) -> None:  # noqa: F811
    root = run_of(open_rig, ["failed", "succeeded"], {"attempts/1/x/a": "1", "attempts/2/deep/y/a": "1"}, outputs=[])
    document = taken_by_nobody(root, "attempts/1/x", "attempts/2/deep/y")
    assert refused(document) == {"attempts/1/x": DENIED, "deep/y": DENIED}


def test_a_folder_with_more_than_can_be_searched_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    root = run_with(rig, ["attempts/1/many/%d.pt" % number for number in range(9)], ["succeeded"], outputs=[])
    unseen: Dict[str, str] = {}
    assert len(saved_files.find(root.attempt(1), [""], unseen, 6)) == 5 and list(unseen) == ["many"]
