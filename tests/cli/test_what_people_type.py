"""Small things that people type, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.cli.show.verify import artifacts
from sojourn.core.artifact import Artifact


def said(words: list[str], capsys: pytest.CaptureFixture[str], rc: int) -> str:
    assert main(words) == rc
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.out + captured.err


def test_the_next_command_names_the_job_file_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.yaml").write_text("name: x\nrun: echo hi\n")
    assert "sojourn plan d.yaml" in said(["smoke", "d.yaml"], capsys, 2)
    from sojourn.cli.main import _with_file

    assert _with_file("sojourn run --new", ["run", "d.yaml"]) == "sojourn run d.yaml --new"
    assert _with_file("sojourn run (again)", ["run", "my d.yaml"]) == "sojourn run 'my d.yaml' (again)"
    for words in (["run"], ["run", "--", "d.yaml"], ["status", "d.yaml"]):
        assert _with_file("sojourn run", words) == "sojourn run"
    assert _with_file("sojourn plan e.yaml", ["plan", "d.yaml"]) == "sojourn plan e.yaml"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gpus: 2", 'say `resources: {accelerators: "A100:2"}`'),
        ("resources: {gpus: 2}", "`accelerators` counts GPUs"),
        ("resources: {num_gpus: 2}", "`accelerators` counts GPUs"),
    ],
)
def test_gpus_are_accelerators(
    text: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    private_home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.yaml").write_text(f"name: x\nrun: echo hi\n{text}\n")
    assert hint in said(["plan", "d.yaml"], capsys, 2)


def test_a_filter_without_a_hit_is_no_empty_history() -> None:
    from sojourn.cli.show.status import lines
    from sojourn.verbs.answers import StatusReport

    report = StatusReport((), "2026-11-26T10:00:00Z")
    assert lines(report, 80)[0] == "no runs yet"
    assert lines(report, 80, sought="is running")[0] == "no run is running"


def test_runs_of_others_on_a_shared_box_are_one_line_each() -> None:
    from sojourn.cli.show.down import lines
    from sojourn.verbs.answers import Down

    others = tuple(f"lab:/home/{'a' * 60}/share/sojourn/run-{n}  killed, not touched" for n in range(9))
    answer = Down("lab", "lab", ("x",), True, False, "", (), (), (), (), 0, "USD", "", beside=others)
    shown = [line for line in lines(answer, 80) if line.startswith("beside")]
    assert len(shown) == 6 and all(len(line) <= 80 for line in shown)
    assert shown[0].endswith("run-0  killed, not touched") and "and 4 more" in shown[-1]


def test_remarks_of_one_kind_are_one_line() -> None:
    alike = [
        Artifact(
            f"checkpoint-{n}/optimizer.pt",
            "torch_zip",
            proved=("bytes", "structure", "load", "content"),
            remarks=(f"the same value everywhere in {n} of 12 tensors: exp_avg",),
        )
        for n in range(1, 8)
    ]
    shown = [line for line in artifacts(alike, 300) if line.startswith("remark")]
    assert len(shown) == 1 and "(also checkpoint-2/optimizer.pt, " in shown[0] and "and 3 more)" in shown[0]
