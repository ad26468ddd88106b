"""`${NAME}`: declared names are replaced, a near miss is a mistake, the rest is the shell's."""

from pathlib import Path

import pytest

from sojourn.store.job.values import SweepSpec
from tests.store.jobs import read, refused


def test_declared_names_are_replaced_and_the_rest_is_the_shells(folder: Path) -> None:
    run = "python t.py '${DATA}' ${HOME} $DATA ${DATA:-x} ${SOJOURN_RUN_ID} ${WORK} \\${DATA} $${DATA} `echo ${lr}`"
    job = read(folder, f"run: {run}\nenvs: {{DATA: /d/1, WORK: a b}}\nsweep: {{matrix: {{lr: [1]}}}}\n")
    assert job.run == (
        "python t.py '/d/1' ${HOME} $DATA ${DATA:-x} ${SOJOURN_RUN_ID} a b \\${DATA} $${DATA} `echo ${lr}`"
    )


@pytest.mark.parametrize(
    "value", ["a'b", 'a"b', "$(rm -rf x)", "a;b", "*", "`x`", "a\\b", "~", "{1..3}", "a|b", "größe\n"]
)
def test_a_value_that_the_shell_would_act_on_is_left_for_the_shell_to_fill_in(folder: Path, value: str) -> None:
    job = read(folder, "run: x ${V}\nenvs:\n  V: ~\n", V=value)
    assert job.run == "x ${V}" and job.envs == {"V": value}


def test_names_are_replaced_where_no_shell_reads(folder: Path) -> None:
    text = (
        "run: x\nname: run-${N}\nenvs: {N: 1, P: 'd${N}'}\noutputs: ['${P}/best.pt']\nfile_mounts: {'${P}': 'data'}\n"
    )
    job = read(folder, text)
    assert (job.name, job.outputs, job.file_mounts[0].target, job.envs["P"]) == ("run-1", ("d1/best.pt",), "d1", "d1")


@pytest.mark.parametrize(
    "run", ["${DATAS}", "${data}", "${DAAT}", "${DATE}", "${AT}; echo ${DAT}", "${SOJOURN_RUNID}", "${L}; ${lrr}"]
)
def test_a_near_miss_is_a_mistake(folder: Path, run: str) -> None:
    assert any(
        "is declared nowhere; the nearest is ${" in one
        for one in refused(folder, f"run: '{run}'\nenvs: {{DATA: 1, lr: 2}}\n")
    )


@pytest.mark.parametrize(
    "run",
    ["${HOME}", "${OTHER}", "DATE=$(date); echo ${DATE}", "for DATAS in 1 2; do echo ${DATAS}; done",
     "read -r DATE; echo ${DATE}",     "export DATAS=3; echo ${DATAS}", "${i}", "${#DATA}", "${DATA_DIR}"],
)  # fmt: skip
def test_what_the_script_sets_itself_and_what_is_far_from_any_name_is_no_near_miss(folder: Path, run: str) -> None:
    assert read(folder, f"run: '{run}'\nenvs: {{DATA: 1}}\n").run == run


def test_a_sweeps_names_stand_until_its_cells_are_made(folder: Path) -> None:
    job = read(folder, "run: t --lr ${lr}\nname: n-${lr}\nenvs: {X: 'v${lr}'}\nsweep: {matrix: {lr: [0.1]}}\n")
    assert (job.run, job.name, job.envs) == ("t --lr ${lr}", "n-${lr}", {"X": "v${lr}"})


def test_a_queue_declares_the_words_of_its_lines(folder: Path) -> None:
    (folder / "queue.txt").write_text("a b 3\n")
    job = read(folder, "run: t ${config} ${task} ${epochs}\nsweep: {queue: queue.txt}\n")
    assert job.sweep == SweepSpec(queue=str(folder / "queue.txt"))


def test_env_wins_adds_and_satisfies_what_the_file_requires(folder: Path) -> None:
    job = read(folder, "run: x ${NEW}\nenvs: {A: 1, B: }\n", A="2", B="3", NEW="4")
    assert job.envs == {"A": "2", "B": "3", "NEW": "4"} and job.run == "x 4"
