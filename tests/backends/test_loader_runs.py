"""What trainers leave beside weights: YAML with tags, sets of ZeRO, masks, logs that nobody wrote to."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn.backends.proof.judge import Judgement, judge_file
from sojourn.verbs.retrieve.verify import verify

TRAINERS = Path(__file__).parent.parent / "trainers"


def judged(path: Path) -> Judgement:
    return judge_file(str(path), path.name)


@pytest.mark.parametrize(
    ("text", "problem", "said"),
    [
        ("a: 1\nb: [1, 2.5, .nan]\n", "", ""),
        ("", "", ""),
        ("- &x [1, 2]\n- *x\n", "", ""),
        ("a: !custom {b: 1}\n", "", "!custom"),
        ("a: !!python/tuple [1, 2]\n", "", ""),
        ("a: !!python/object:argparse.Namespace {b: 1}\n", "", "argparse.Namespace"),
        ("a: !!python/object/apply:pathlib.PosixPath [data]\n", "", "pathlib.PosixPath"),
        ("a: !!python/name:a.b.Thing ''\n", "", "a.b.Thing"),
        ("a: !!python/object/apply:os.system [reboot]\n", "unsafe", "os.system"),
        ("a: !!python/object/apply:a.b.run [reboot]\n", "unsafe", "a.b.run"),
        ("a: !!python/object/apply:a.b.Thing {args: [--run]}\n", "unsafe", "a.b.Thing"),
        ("a: !!python/object/new:subprocess.Popen [[reboot]]\n", "unsafe", "subprocess.Popen"),
        (
            "a: !!python/object/new:type {args: [z], state: {extend: !!python/name:exec ''}}\n",
            "unsafe",
            "builtins.exec",
        ),
        ("a: !!python/object/new:a.b.C {state: {extend: !!python/name:a.b.run ''}}\n", "unsafe", "extend"),
        ("a: !!python/name:os.system ''\n", "unsafe", "os.system"),
        ("a: !!python/name:eval ''\n", "unsafe", "builtins.eval"),
        ("a: !!python/object/new:type {args: [z]}\n", "unsafe", "builtins.type"),
        ("a: !!python/module:subprocess ''\n", "unsafe", "subprocess"),
        ("a: [1, 2\n", "truncated", ""),
        ("a: 1\n b: 2\nc: 3\n", "unparseable", ""),
        ("just words\n", "unparseable", ""),
    ],
)
def test_yaml_is_parsed_and_its_tags_are_named(text: str, problem: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    found = judged(tmp_path / "a.yaml")
    assert (found.problem, found.kind) == (problem, "yaml"), found.detail
    assert said in " ".join((*found.remarks, found.detail))
    assert problem or (("load" in found.proved) == (not said))


def test_yaml_that_names_itself_a_million_times_is_read_once(tmp_path: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "a.yaml").write_text("\n".join(rows) + "\n")
    assert judged(tmp_path / "a.yaml").problem == ""


def problems(folder: Path) -> dict[str, str]:
    return {a.path: a.problem for a in verify([str(folder)], fresh=True).artifacts if not a.ok}


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["deepspeed", "deepspeed3"])
def test_a_zero_checkpoint_lacks_no_rank_and_no_folder(name: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(TRAINERS / name, whole)
    assert problems(whole) == {}
    for path in sorted((whole / "global_step4").iterdir()):
        kept = path.read_bytes()
        path.unlink()
        assert set(problems(whole).values()) == {"missing-shard"}, path.name
        path.write_bytes(kept)
    (whole / "latest").write_text("global_step8\n")
    assert problems(whole) == {"latest": "missing-shard"}


def test_another_programs_latest_is_only_unknown(tmp_path: Path) -> None:
    for text in ("epoch 3, best so far", "run-7", ""):
        (tmp_path / "latest").write_text(text)
        found = judged(tmp_path / "latest")
        assert (found.problem, found.kind) == ("", "unknown")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_minus_infinity_in_a_mask_is_a_remark_and_elsewhere_damage(dtype: str, tmp_path: Path) -> None:
    mask = np.triu(np.full((300, 300), -np.inf), 1).astype(dtype)
    worse = {"nan": mask.copy(), "plus": -mask, "weights": mask + np.float32(0.5)}
    worse["nan"][5, 5] = np.nan
    np.savez(tmp_path / "good.npz", attn=mask, attn_mask=mask + np.float32(0.5))
    found = judged(tmp_path / "good.npz")
    assert (found.problem, "minus infinity in a mask or buffer: attn, attn_mask" in found.remarks) == ("", True)
    for name, values in worse.items():
        np.savez(tmp_path / "bad.npz", w=values)
        assert judged(tmp_path / "bad.npz").problem == "non-finite", name
    late = np.concatenate([np.ones(1 << 20), np.full(9, -np.inf)]).astype(dtype)
    np.savez(tmp_path / "bad.npz", w=late)
    assert judged(tmp_path / "bad.npz").problem == "non-finite"
    np.savez(tmp_path / "bad.npz", w=late[::-1].copy())
    assert judged(tmp_path / "bad.npz").problem == "non-finite"


@pytest.mark.torch
def test_a_mask_in_a_buffer_of_a_module_is_a_remark(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net: Any = torch.nn.Linear(2, 2)
    net.register_buffer("causal", torch.full((4, 4), float("-inf")).triu(1) + 1)
    torch.save(net, tmp_path / "a.pt")
    assert judged(tmp_path / "a.pt").problem == ""
    bits = torch.zeros(4, 4, dtype=torch.bfloat16).masked_fill(torch.ones(4, 4).triu(1) > 0, float("-inf"))
    torch.save({"causal": bits}, tmp_path / "b.pt")
    assert judged(tmp_path / "b.pt").problem == ""


def test_an_event_file_that_was_never_written_to_is_good(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1795418586.vm"
    path.touch()
    found = judged(path)
    assert (found.problem, found.remarks) == ("", ("an event file without events",))
    (tmp_path / "a.tfrecord").touch()
    assert judged(tmp_path / "a.tfrecord").problem == "empty"


@pytest.mark.campaign
def test_real_folders_say_how_far_they_are_proven(tmp_path: Path) -> None:
    found = verify([str(TRAINERS)], fresh=True)
    assert {a.path: a.problem for a in found.artifacts if not a.ok} == {}
    states = {a.path: a.state for a in found.artifacts}
    assert {state for path, state in states.items() if path.endswith("training_args.bin")} == {"content-read"}
    assert {path for path, state in states.items() if state == "bytes-only"} == {
        path for path in states if path.endswith("README.md") or path == "PROVENANCE.md"
    }
