"""Results of a sweep at 80 columns, as CSV, and as a picture."""

import csv
import io
from pathlib import Path

import pytest

from sojourn.cli.main import main
from sojourn.cli.show import picture, results
from sojourn.cli.show.text import width
from sojourn.core.outcome import Outcome, comparisons, grouped
from sojourn.verbs.sweep.measured import File
from sojourn.verbs.sweep.results import Measured, Metric, Results

CELLS = tuple(
    Measured(
        f"ab-lr{lr}-seed{seed}",
        "gpu1",
        1,
        {"lr": lr, "seed": seed},
        {"accuracy": float(lr) + int(seed) / 100, "gamma": 3.0},
        (File("metrics.json", "0" * 64, {}),),
    )
    for lr in ("0.1", "0.2")
    for seed in ("0", "1")
)


def answer(name: str = "ab") -> Results:
    outcomes = [Outcome(c.run, c.values, c.metrics) for c in CELLS]
    groups = grouped(outcomes, ["seed"])
    return Results(
        name,
        5,
        CELLS,
        (Metric("gamma"), Metric("accuracy", "max", "name")),
        ("lr", "seed"),
        ("seed",),
        {"wd": "0"},
        groups,
        comparisons(groups, {"accuracy": "max", "gamma": ""}),
        (("ab-lr0.3-seed0", "failed: exit status 3"),),
        next="sojourn reconcile ab",
    )


def test_groups_stand_with_their_spread_and_each_change_of_one_variable_below() -> None:
    lines = results.lines(answer(), 80)
    assert lines == [
        "sweep    ab, 4 of 5 cells loaded",
        "metric   accuracy, higher is better (from its name)",
        "metric   gamma, direction unknown: set one with --metric gamma=max",
        "fixed    wd 0",
        "seeds    seed",
        "",
        "lr   N  accuracy          gamma",
        "0.1  2  0.105 +-0.0071    3 +-0",
        "0.2  2  0.205 +-0.0071 *  3 +-0",
        "* best mean; +- is the standard deviation",
        "",
        "best     lr=0.2: accuracy 0.205 +-0.0071, from 0.2 to 0.21 over 2 seeds",
        "         (ab-lr0.2-seed0, ab-lr0.2-seed1)",
        "",
        "effect   of changing one variable, all else equal",
        "         lr 0.1 -> 0.2: accuracy 0.105 -> 0.205 (+0.1, better, ranges apart)",
        "         lr 0.1 -> 0.2: gamma 3 -> 3 (+0, ranges overlap)",
        "left out 1: failed: exit status 3: ab-lr0.3-seed0",
        "next     sojourn reconcile ab",
    ]
    assert all(width(line) <= 80 for line in lines)


def test_csv_has_a_row_for_each_cell() -> None:
    rows = list(csv.DictReader(io.StringIO("\n".join(results.csv_lines(answer())))))
    assert [row["run"] for row in rows] == [cell.run for cell in CELLS]
    assert rows[3]["accuracy"] == repr(0.2 + 0.01) and rows[3]["lr"] == "0.2" and rows[3]["wd"] == ""


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_picture_is_a_real_one_of_its_kind(tmp_path: Path, suffix: str, head: bytes) -> None:
    path = picture.write(answer("a$b"), str(tmp_path / f"ab.{suffix}"))
    assert Path(path).read_bytes().startswith(head)
    if suffix == "svg":
        assert "accuracy (higher is better)" in Path(path).read_text()
        assert "lr=0.2" in Path(path).read_text()


def test_what_cannot_be_drawn_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(picture.NoPicture, match="png, svg, pdf"):
        picture.write(answer(), str(tmp_path / "ab.bmp"))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)  # as where it is not installed
    with pytest.raises(picture.NoPicture, match="not installed") as raised:
        picture.write(answer(), str(tmp_path / "ab.png"))
    assert raised.value.next == "pip install 'sojourn[plot]'" and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [["results"], ["results", "ab", "--csv", "--json"], ["job.yaml", "--csv"], ["job.yaml", "ab"]]
)
def test_flags_of_results_go_with_results_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *words]) == 2
    said = capsys.readouterr()
    assert not said.out and "sojourn sweep --help" in said.err
