"""`doctor --code`: every rule is seen to fire on a piece of code, and to be quiet on one that does it right."""

import json
from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.store.gotchas import gotchas
from sojourn.verbs.project.codecheck.source import Sight, source_of
from sojourn.verbs.project.doctor_code import NoSuchCode, doctor_code, look

PIECES = Path(__file__).parent / "code"
FILES = sorted(PIECES.glob("*/*.txt"))
CATALOG = {gotcha.id: gotcha for gotcha in gotchas()}


def traps(text: str) -> list[Sight]:
    return look([source_of("train.py", text)])


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_a_piece_of_code_is_judged_as_its_name_says(file: Path) -> None:
    found = [sight for sight in traps(file.read_text()) if sight.gotcha == file.parent.name]
    kind = file.stem.split("-")[0]
    assert bool(found) == (kind != "miss"), found
    if kind == "likely":
        assert not any(sight.is_sure for sight in found)


def test_every_trap_of_the_catalog_has_a_piece_that_hits_and_one_that_misses() -> None:
    named = {
        condition.removeprefix("code.traps contains ")
        for gotcha in CATALOG.values()
        for condition in gotcha.confirm
        if condition.startswith("code.traps contains ")
    }
    pieces = {folder.name for folder in PIECES.iterdir()}
    assert named - pieces == set() and pieces - set(CATALOG) == set()
    bare = [p for p in sorted(pieces) for kind in ("hit", "miss") if not list((PIECES / p).glob(f"{kind}-*.txt"))]
    assert bare == []


def test_a_condition_on_code_names_the_gotcha_it_stands_in() -> None:
    wrong = [g.id for g in CATALOG.values() for c in g.confirm if "code.traps" in c and c.split()[-1] != g.id]
    assert wrong == []


def test_places_are_named_and_the_same_trap_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n")
    (tmp_path / "b.py").write_text("import torch\n\ntorch.autograd.set_detect_anomaly(True)\n")
    (finding,) = doctor_code(str(tmp_path)).findings
    assert finding.id == "debug-modes-left-on" and finding.status == "confirmed" and finding.was == "T12"
    assert [evidence.source for evidence in finding.evidence] == ["a.py:2", "b.py:3"]


def test_what_stands_in_another_file_is_seen(tmp_path: Path) -> None:
    hit = (PIECES / "same-order-every-epoch/hit-1.txt").read_text()
    (tmp_path / "data.py").write_text(hit)
    assert "same-order-every-epoch" in doctor_code(str(tmp_path)).facts["code.traps"]
    (tmp_path / "loop.py").write_text("def begin(sampler, epoch):\n    sampler.set_epoch(epoch)\n")
    assert "same-order-every-epoch" not in doctor_code(str(tmp_path)).facts["code.traps"]


def test_a_job_that_protects_its_saves_has_none_that_tear(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text((PIECES / "saved-in-place/hit-1.txt").read_text())
    job = tmp_path / "sojourn.yaml"
    job.write_text("run: python3 train.py\n")
    before = doctor_code(str(tmp_path))
    assert "saved-in-place" in before.facts["code.traps"]
    assert any("protect: saves" in finding.fix for finding in before.findings)
    job.write_text("run: python3 train.py\nprotect: saves\n")
    assert "saved-in-place" not in doctor_code(str(tmp_path)).facts["code.traps"]


def test_code_is_read_and_never_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('ran', 'w')\nimport nothing_of_this_name\n1 / 0\n")
    answer = doctor_code(str(tmp_path / "train.py"))
    assert answer.exit_status == 0 and answer.facts["files"] == 1
    assert not list(tmp_path.glob("ran")) and not Path("ran").exists()


def test_a_file_that_is_no_python_is_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("print 'two'\n")
    (tmp_path / "null.py").write_bytes(b"a = 1\0")
    (tmp_path / "deep.py").write_text("total = " + " + ".join(["loss"] * 400) + "\n")
    (tmp_path / "train.py").write_text("import torch\ntorch.autograd.set_detect_anomaly(True)\n")
    answer = doctor_code(str(tmp_path))
    assert answer.facts["unread"] == ["deep.py", "null.py", "old.py"] and len(answer.findings) == 1


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_where_there_is_no_python_it_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(NoSuchCode):
        doctor_code(str(tmp_path / name))


def test_the_command_answers_as_the_doctor_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text((PIECES / "loss-kept-with-graph/hit-1.txt").read_text())
    assert main(["doctor", "--code", str(tmp_path), "--json"]) == 10
    written = json.loads(capsys.readouterr().out)
    assert written["schema"] == "sojourn/doctor/v1" and written["exit"] == 10
    (finding,) = written["findings"]
    assert finding["id"] == "loss-kept-with-graph" and finding["evidence"][0]["source"] == "train.py:8"
    assert main(["doctor", "--code", str(tmp_path)]) == 10
    shown = capsys.readouterr().out
    assert "[loss-kept-with-graph]" in shown and "total += loss" in shown
    assert main(["doctor", "lab", "--code", str(tmp_path)]) == 2
