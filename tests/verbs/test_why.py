"""`why` answers from a file: cause first, with evidence; healthy and undetermined are answers too."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.cli.show import why as show
from sojourn.verbs.explain import why

OOM = "Traceback (most recent call last):\n  File x\ntorch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB\n"


def log(tmp_path: Path, text: str) -> str:
    file = tmp_path / "train.log"
    file.write_bytes(text.encode())
    return str(file)


def test_a_cause_in_a_log_is_told_with_its_line_and_its_fix(tmp_path: Path) -> None:
    answer = why.of_log(log(tmp_path, OOM))
    said = answer.as_json()
    assert said["verdict"] == {
        "id": "gpu-out-of-memory",
        "was": "U10",
        "title": "The GPU ran out of memory",
        "status": "confirmed",
    }
    first = said["findings"][0]
    assert first["evidence"][0]["source"] == "line 3"
    assert first["fix"] and first["never"]
    assert (said["healthy"], answer.exit_status) == (False, 1)
    assert answer.said.startswith("torch.OutOfMemoryError")
    json.dumps(said, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "healthy", "status"),
    [
        ("Epoch 1/3 loss=0.4\nEpoch 2/3 loss=0.3\n", True, 0),
        ("hello\n", False, 10),
        ("", False, 10),
    ],
)
def test_a_log_without_a_cause_is_healthy_or_undetermined_and_never_dead(
    tmp_path: Path, text: str, healthy: bool, status: int
) -> None:
    answer = why.of_log(log(tmp_path, text))
    assert answer.as_json()["verdict"] is None
    assert (answer.as_json()["healthy"], answer.exit_status) == (healthy, status)


def test_a_file_that_is_not_there_or_is_no_evidence_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(why.CannotRead, match="No such file"):
        why.of_log(str(tmp_path / "gone"))
    with pytest.raises(why.CannotRead):
        why.of_evidence(str(tmp_path / "gone"))
    for text in ("x", "[]", '{"schema":"sojourn/run/v1"}', '{"probes":[]}', "[" * 100_000):
        with pytest.raises(why.BadEvidence):
            why.of_evidence(log(tmp_path, text))


def test_nothing_of_a_log_reaches_the_terminal_as_a_command(tmp_path: Path) -> None:
    answer = why.of_log(log(tmp_path, "\x1b]0;title\x07CUDA out of memory \x1b[2J\x9b5n\u202e\n"))
    lines = show.lines(answer, 80)
    assert all(line.isprintable() for line in lines)
    assert max(len(line) for line in lines) <= 80


def test_what_is_open_names_the_probe(tmp_path: Path) -> None:
    document = {"facts": {"run.alive": False, "run.exit_signal": 9, "run.exit_record": True}}
    answer = why.of_evidence(log(tmp_path, json.dumps(document)))
    said = "\n".join(show.lines(answer, 80))
    assert "undetermined" in said and said.endswith("next     sojourn gotchas search WORDS")
    assert "cg.oom_kill_delta" in said and "'cgroup'" in said


def test_the_command_exits_as_its_help_says(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sojourn", "why"]
    found = subprocess.run(
        [*command, "--log", log(tmp_path, OOM)], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 1
    assert "verdict  confirmed: The GPU ran out of memory" in found.stdout
    neither = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert neither.returncode == 2
    assert "RUN, --log FILE or --evidence FILE" in neither.stderr
