"""From a `sweep` to its cells: what they are called, what each of them runs, and what is refused."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.store.job.cells import BadCells, BadQueue, Cell, expand, job_of, sweep_name
from sojourn.store.job.values import JobFile, SweepSpec
from sojourn.wire.names import is_name
from tests.store.jobs import read


def queued(folder: Path, lines: str | bytes, name: str = "ab") -> tuple[Cell, ...]:
    (folder / "queue.txt").write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    return expand(read(folder, f"name: {name}\nrun: x\nsweep: {{queue: queue.txt}}\n"))


def test_a_matrix_makes_every_combination_with_names_one_can_read(folder: Path) -> None:
    job = read(folder, "name: digits\nrun: t ${lr}\nsweep: {matrix: {lr: [0.10, 1e-2], seed: [0, 1]}}\n")
    cells = expand(job)
    assert [c.name for c in cells] == [
        "digits-lr0.10-seed0",
        "digits-lr0.10-seed1",
        "digits-lr1e-2-seed0",
        "digits-lr1e-2-seed1",
    ]
    assert cells[1].values == {"lr": "0.10", "seed": "1"}


def test_a_cells_job_has_its_values_wherever_they_were_named(folder: Path) -> None:
    text = (
        "name: d\nrun: t --lr ${LR} --out ${OUT}\nenvs: {LR: 5, OUT: 'o/${LR}', KEPT: k}\n"
        "outputs: ['o/${LR}/best.pt']\nsweep: {matrix: {LR: [0.1, 0.2]}}\n"
    )
    job = read(folder, text)
    one = job_of(job, expand(job)[1])
    assert one.run == "t --lr 0.2 --out ${OUT}"
    assert one.envs == {"LR": "0.2", "OUT": "o/0.2", "KEPT": "k"}
    assert one.outputs == ("o/0.2/best.pt",) and one.name == "d-lr0.2" and one.sweep is None


def test_a_name_may_say_itself_what_a_cell_is_called(folder: Path) -> None:
    job = read(folder, "name: n-${lr}-${seed}\nrun: x\nsweep: {matrix: {lr: [1, 2], seed: [3]}}\n")
    assert [c.name for c in expand(job)] == ["n-1-3", "n-2-3"] and sweep_name(job) == "n"
    with pytest.raises(BadCells, match="cell 1 and cell 2 of the sweep are both called n-3"):
        expand(read(folder, "name: n-${seed}\nrun: x\nsweep: {matrix: {lr: [1, 2], seed: [3]}}\n"))


def test_a_random_search_draws_the_same_for_the_same_seed_and_a_larger_count_keeps_what_is_there(folder: Path) -> None:
    text = "name: d\nrun: t ${lr}\nsweep: {random: {lr: loguniform(1e-5, 1e-2), width: [8, 16]}, count: %d, seed: %d}\n"
    few, many, other = (expand(read(folder, text % one)) for one in ((20, 0), (200, 0), (20, 1)))
    assert few == expand(read(folder, text % (20, 0))) and few == many[:20] and few != other
    assert [cell.name for cell in few[:2]] == ["d-r0", "d-r1"]
    rates = sorted(float(cell.values["lr"]) for cell in many)
    assert rates[0] >= 1e-5 and rates[-1] <= 1e-2 and 1e-4 < rates[100] < 1e-3, "even in its logarithm"
    assert 70 < sum(cell.values["width"] == "8" for cell in many) < 130
    more = "name: d\nrun: x\nsweep:\n  random:\n    depth: int(1, 3)\n    lr: loguniform(1e-5, 1e-2)\n  count: 20\n"
    wider = expand(read(folder, more))
    assert [cell.values["lr"] for cell in wider] == [cell.values["lr"] for cell in few], "each by its own name"
    assert {cell.values["depth"] for cell in wider} == {"1", "2", "3"}


def test_named_cells_keep_their_names(folder: Path) -> None:
    cells = expand(read(folder, "name: d\nrun: x\nsweep: {cells: [{name: a}, {name: No Aug!, envs: {A: 1}}]}\n"))
    assert cells[0].name == "d-a" and cells[1].name.startswith("d-no-aug-")


VALUES = st.text(st.sampled_from("aA0.-_ /é"), max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=4, unique=True), st.lists(VALUES, min_size=1, max_size=3, unique=True))
def test_names_are_injective_valid_and_short_or_the_sweep_is_refused(one: list[str], two: list[str]) -> None:
    job = JobFile("f", "x" * 30, ".", "run", sweep=SweepSpec({"LONG_PARAMETER_NAME": tuple(one), "b": tuple(two)}))
    try:
        cells = expand(job)
    except BadCells:
        return
    assert len({c.name for c in cells}) == len(one) * len(two)
    assert all(is_name(c.name) for c in cells)


def test_a_cell_keeps_its_name_when_others_are_added(folder: Path) -> None:
    text = "name: d\nrun: x\nsweep: {{matrix: {{lr: {}, s: [A]}}}}\n"
    few, many = (expand(read(folder, text.format(lr))) for lr in ("[1]", "[2, 1, a/b, 'A']"))
    assert few[0].name in {c.name for c in many}


def test_a_classic_queue_file(folder: Path) -> None:
    lines = (
        "# first\ncfg/recon/base.yaml recon 20\n\n  cfg/det/base.yaml\tdet 50  # slow\n#cfg/x.yaml x\ncfg/a.yaml seg"
    )
    cells = queued(folder, lines)
    assert [(c.name, c.epochs, c.where) for c in cells] == [
        ("ab-base-recon", 20, "line 2"),
        ("ab-base-det", 50, "line 4"),
        ("ab-a-seg", None, "line 6"),
    ]
    assert cells[2].values == {"config": "cfg/a.yaml", "task": "seg"}


def test_a_queue_file_from_another_system_is_the_same(folder: Path) -> None:
    plain, other = b"a.yaml t 1\nb.yaml t 2\n", b"\xef\xbb\xbfa.yaml t 1\r\nb.yaml t 2\r\n"
    assert queued(folder, plain) == queued(folder, other) == queued(folder, plain.rstrip(b"\n"))


def test_commenting_a_line_out_changes_no_other_cell(folder: Path) -> None:
    before, after = queued(folder, "a.y t\nb.y t\nc.y t\n"), queued(folder, "a.y t\n# b.y t\nc.y t\n")
    assert [before[0], before[2]] == list(after)


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        ("a.y t 5\nb.y t\nx/a.y t 7\n", 3, "ab-a-t is the cell of line 1 already"),
        ("a.y\n", 1, "not 1 words"),
        ("a.y t 1 2\n", 1, "not 4 words"),
        ("a.y t\nb.y t x\n", 2, "epochs is a whole number above 0, not 'x'"),
        ("a.y t 0\n", 1, "epochs is"),
        ("# nothing\n", 1, "no line describes a cell"),
        (b"a.y t\n\xff t\n", 2, "not UTF-8"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(folder: Path, lines: str | bytes, line: int, says: str) -> None:
    with pytest.raises(BadQueue) as caught:
        queued(folder, lines)
    assert caught.value.message.startswith(f"{folder}/queue.txt:{line}: ") and says in caught.value.message


def test_every_bad_line_is_said_at_once(folder: Path) -> None:
    with pytest.raises(BadQueue, match=r":1: .*; 3: .*; 4: "):
        queued(folder, "a\nb.y t\nb.y t 3\nc d e f\n")


def test_what_is_the_same_for_all_cells_may_not_name_one(folder: Path) -> None:
    (folder / "${lr}").mkdir()
    with pytest.raises(BadCells, match="`file_mounts` applies to every cell"):
        expand(read(folder, "run: x\nfile_mounts: {'${lr}': data}\nsweep: {matrix: {lr: [1]}}\n"))


def test_ten_thousand_cells_take_little() -> None:
    rows = {f"p{n}": tuple(str(v) for v in range(10)) for n in range(4)}
    job = JobFile("f", "big", ".", "train ${p0} ${p3}", outputs=("o/${p1}",), sweep=SweepSpec(rows))
    tracemalloc.start()
    jobs = [job_of(job, cell) for cell in expand(job)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len({one.name for one in jobs}) == 10_000 and peak < 100 << 20
