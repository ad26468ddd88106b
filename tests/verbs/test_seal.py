"""A run is closed whole or set aside with the reason; another machine accepts it; two acceptances are compared."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sojourn.store.layout import BadLayout, Layout, hits, read_layout
from sojourn.verbs.retrieve.accept import BadAcceptance, NotIndependent, accept, compare
from sojourn.verbs.retrieve.seal import AlreadySealed, BadRunName, seal, seal_states
from sojourn.verbs.retrieve.verify import NoSuchPath, verify
from sojourn.wire import names
from sojourn.wire.errors import Misuse
from tests.backends import samples

RULES = """
[files]
leave = ["latest.*", "**/*.log"]
required = ["metrics.json", "**/best.*"]

[keys]
"metrics.json" = ["history", "best"]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project's folder with one run that has ended."""
    active = tmp_path / "project/active/lr3"
    (active / "checkpoints").mkdir(parents=True)
    samples.write_npz(str(active / "checkpoints/best.npz"))
    samples.write_json(str(active / "metrics.json"))
    (active / "checkpoints/train.log").write_text("step 1\n")
    (active / "latest.npz").write_text("half")
    return tmp_path / "project"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "layout.toml").write_text(RULES)
    return read_layout(str(tmp_path / "layout.toml"))


def test_a_run_is_sealed_whole_and_active_stays_as_it_was(root: Path, layout: Layout) -> None:
    before = sorted(path.name for path in (root / "active/lr3").rglob("*"))
    answer = seal(str(root), "lr3", layout)
    assert (answer.state, answer.exit_status, answer.files) == ("sealed", 0, 2)
    assert sorted(answer.left) == ["checkpoints/train.log", "latest.npz"]
    sealed = root / "export/lr3"
    assert sorted(p.relative_to(sealed).as_posix() for p in sealed.rglob("*") if p.is_file()) == [
        "checkpoints/best.npz",
        "metrics.json",
    ]
    assert verify([str(sealed)], str(root / "export/lr3.manifest.json")).ok
    assert sorted(path.name for path in (root / "active/lr3").rglob("*")) == before
    assert not (root / "export/.partial/lr3").exists()
    assert {run: dict(states) for run, states in seal_states(str(root), layout).runs.items()} == {
        "lr3": {"active": ("active/lr3",), "sealed": ("export/lr3",)}
    }


def test_a_sealed_run_is_never_written_again(root: Path, layout: Layout) -> None:
    seal(str(root), "lr3", layout)
    (root / "active/lr3/metrics.json").write_text("{}")
    with pytest.raises(AlreadySealed):
        seal(str(root), "lr3", layout)
    assert verify([str(root / "export/lr3")], str(root / "export/lr3.manifest.json")).ok


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("fault", ["damaged", "missing", "key", "link", "nothing"])
def test_what_does_not_prove_is_set_aside_with_the_reason(fault: str, root: Path, layout: Layout) -> None:
    active = root / "active/lr3"
    if fault == "damaged":
        raw = bytearray((active / "checkpoints/best.npz").read_bytes())
        raw[len(raw) // 2] ^= 1
        (active / "checkpoints/best.npz").write_bytes(raw)
    elif fault == "missing":
        (active / "checkpoints/best.npz").unlink()
    elif fault == "key":
        (active / "metrics.json").write_text('{"best": 1}')
    elif fault == "link":
        (active / "far").symlink_to("/etc/passwd")
    else:
        shutil.rmtree(active)
        active.mkdir()
    for attempt in (1, 2):
        answer = seal(str(root), "lr3", layout)
        assert (answer.state, answer.exit_status) == ("quarantined", 1)
        assert answer.path == str(root / f"quarantine/lr3--{attempt}")
        reason = json.loads((root / f"quarantine/lr3--{attempt}.reason.json").read_text())
        assert reason["why"] == list(answer.why) and reason["why"]
    assert not (root / "export/lr3").exists()
    word = {"damaged": "corrupt", "missing": "required", "key": "lacks history", "link": "link", "nothing": "no file"}
    assert any(word[fault] in why for why in answer.why)


def test_a_seal_that_was_ended_between_its_two_renames_is_finished(root: Path, layout: Layout) -> None:
    seal(str(root), "lr3", layout)
    (root / "export/lr3.manifest.json").rename(root / "export/.partial/lr3.manifest.json")
    with pytest.raises(AlreadySealed):
        seal(str(root), "lr3", layout)
    assert verify([str(root / "export/lr3")], str(root / "export/lr3.manifest.json")).ok


def test_names_and_folders_that_cannot_be_are_refused(root: Path, layout: Layout) -> None:
    for name in ("../x", "a/b", "", "a..b", ".x"):
        with pytest.raises(BadRunName):
            seal(str(root), name, layout)
    with pytest.raises(NoSuchPath):
        seal(str(root), "none", layout)


@pytest.mark.parametrize(
    "text, says",
    [
        ("states = 1", "not a table"),
        ("[stats]", "nearest: states"),
        ("[states]\nsealed = 'export'", "{run}"),
        ("[states]\nsealed = '../{run}'", "below the root"),
        ("[states]\nquarantine = 'q/{run}'", "{attempt}"),
        ("[states]\nsealed = 'active/{run}/sealed'", "inside each other"),
        ("[files]\nrequired = 'best.pt'", "not a list"),
        ("[", "not TOML"),
    ],
)
def test_a_bad_layout_is_refused_and_says_where(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "l.toml").write_text(text)
    with pytest.raises(BadLayout) as caught:
        read_layout(str(tmp_path / "l.toml"))
    assert says in caught.value.message


def test_globs_mean_what_they_say() -> None:
    assert hits("*.pt", "a.pt") and not hits("*.pt", "x/a.pt")
    assert hits("**/*.pt", "a.pt") and hits("**/*.pt", "x/y/a.pt") and hits("cache/**", "cache/a/b")
    assert not hits("best.*", "xbest.pt") and hits("a?.pt", "ab.pt") and not hits("a.pt", "axpt")


def accepted(root: Path, tmp_path: Path, layout: Layout, *nodes: str) -> list[str]:
    seal(str(root), "lr3", layout)
    out = []
    for node in nodes:
        copy = tmp_path / node / "lr3"
        shutil.copytree(root / "export/lr3", copy)
        to = str(tmp_path / f"{node}.json")
        assert accept(str(copy), str(root / "export/lr3.manifest.json"), to=to, node=node).path == to
        out.append(to)
    return out


def test_two_machines_accept_one_run_and_say_the_same(root: Path, tmp_path: Path, layout: Layout) -> None:
    a, b = accepted(root, tmp_path, layout, "laptop", "office")
    document = json.loads(Path(a).read_text())
    assert (document["schema"], document["node"]["name"], document["run"]) == ("sojourn/acceptance/v1", "laptop", "lr3")
    assert document["by"] and document["at"].endswith("Z") and document["runtime"]["numpy"]
    assert all("load" in row["proved"] and row["facts"] for row in document["files"])
    answer = compare(a, b)
    assert (answer.exit_status, answer.nodes, answer.files, answer.differences) == (0, ("laptop", "office"), 2, ())
    if document["node"]["boot"]:  # the test has but one
        assert answer.remarks == ("the same machine made both, as laptop and as office",)


def test_the_machine_that_made_it_does_not_accept_it_and_one_is_not_two(
    root: Path, tmp_path: Path, layout: Layout
) -> None:
    (a,) = accepted(root, tmp_path, layout, "laptop")
    with pytest.raises(NotIndependent):
        accept(str(root / "export/lr3"), str(root / "export/lr3.manifest.json"), to=str(tmp_path / "own.json"))
    assert not (tmp_path / "own.json").exists()
    with pytest.raises(NotIndependent):
        compare(a, a)


@pytest.mark.campaign
def test_what_does_not_prove_is_not_accepted(root: Path, tmp_path: Path, layout: Layout) -> None:
    seal(str(root), "lr3", layout)
    shutil.copytree(root / "export/lr3", tmp_path / "copy")
    path = tmp_path / "copy/checkpoints/best.npz"
    seen = os.stat(path)
    raw = bytearray(path.read_bytes())
    raw[99] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    to = tmp_path / "a.json"
    answer = accept(str(tmp_path / "copy"), str(root / "export/lr3.manifest.json"), to=str(to), node="office")
    assert (answer.exit_status, answer.path, to.exists()) == (1, "", False)
    to.write_text("mine")
    with pytest.raises(Misuse):
        accept(str(root / "export/lr3"), str(root / "export/lr3.manifest.json"), to=str(to), node="office")
    assert to.read_text() == "mine"


@pytest.mark.campaign
def test_acceptances_that_differ_say_where_and_changed_ones_are_refused(
    root: Path, tmp_path: Path, layout: Layout
) -> None:
    a, b = accepted(root, tmp_path, layout, "laptop", "office")
    document = json.loads(Path(b).read_text())

    def written(change: Any, *, is_signed: bool = True) -> str:
        changed = json.loads(json.dumps(document))
        change(changed)
        if is_signed:
            changed["digest"] = names.digest({k: v for k, v in changed.items() if k != "digest"})
        (tmp_path / "c.json").write_text(json.dumps(changed))
        return str(tmp_path / "c.json")

    for change in (
        lambda d: d["files"][0].update(sha256="0" * 64),
        lambda d: d["files"][0]["facts"].update(tensors=1),
        lambda d: d["files"].pop(),
        lambda d: d.update(manifest="0" * 64),
    ):
        assert compare(a, written(change)).exit_status == 1
    with pytest.raises(BadAcceptance):
        compare(a, written(lambda d: d["files"].pop(), is_signed=False))
    for text in ("", "[]", "{}"):
        (tmp_path / "c.json").write_text(text)
        with pytest.raises(BadAcceptance):
            compare(a, str(tmp_path / "c.json"))
    assert compare(a, written(lambda d: d["runtime"].update(numpy="9"))).exit_status == 0
