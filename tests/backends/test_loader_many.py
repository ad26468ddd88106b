"""Many small files go to a process in one question, and each still gets its own word."""

import os
import time
from pathlib import Path

import pytest

from sojourn.backends.proof.loading import Loading
from sojourn.backends.proof.many import SMALL_BYTES, batches, prove_each
from sojourn.backends.proof.proof import Prover, Task, open_book
from sojourn.wire import manifest
from tests.backends import samples


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    """Sound files of several kinds, and one of each trouble between them."""
    for n in range(8):
        samples.write_npz(str(tmp_path / f"{n}.npz"))
        samples.write_json(str(tmp_path / f"{n}.json"))
        (tmp_path / f"{n}.bin2").write_bytes(os.urandom(300))
    (tmp_path / "3.npz").write_bytes((tmp_path / "3.npz").read_bytes()[:-30])
    (tmp_path / "4.json").write_text('{"loss": NaN,')
    (tmp_path / "5.json").unlink()
    (tmp_path / "6.json").unlink()
    (tmp_path / "6.json").symlink_to("0.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "absent.safetensors"}}')
    found = []
    for name in sorted([*os.listdir(tmp_path), "5.json"]):
        path = str(tmp_path / name)
        is_plain = os.path.isfile(path) and not os.path.islink(path)
        expect = manifest.sha256_file(path) if is_plain else (10, "0" * 64)
        found.append(Task(path, name, (expect[0], "1" * 64) if name == "7.json" else expect))
    return found


def test_many_at_once_get_the_words_that_each_gets_alone(tasks: list[Task]) -> None:
    with Prover(2) as prover:
        alone = [prover.prove(task.path, task.name, task.expect) for task in tasks]
        assert prover.prove_many(tasks) == alone
        each = dict(prove_each(prover, tasks, [300] * len(tasks), 2))
    assert [each[number] for number in range(len(tasks))] == alone
    problems = {proof.path: proof.problem for proof in alone if proof.problem}
    assert set(problems) == {
        *("3.npz", "4.json", "5.json", "6.json", "7.json", "pipe.json", "model.safetensors.index.json")
    }


def test_what_was_proven_together_is_remembered_one_by_one(tasks: list[Task], tmp_path: Path) -> None:
    for task in tasks:
        if os.path.isfile(task.path):
            os.utime(task.path, (1, 1))
    time.sleep(0.15)  # younger files are not remembered: their times could stay the same through a write
    book_path = str(tmp_path / "book/proofs.sqlite")
    with open_book(book_path) as book, Prover(1, book=book) as prover:
        first = prover.prove_many(tasks)
    with open_book(book_path) as book, Prover(1, book=book) as prover:
        again = [prover.prove(task.path, task.name, task.expect) for task in tasks]
    # 7.json loads: it is only not what was expected.
    assert [bool(proof.remembered) for proof in again] == [proof.ok or proof.path == "7.json" for proof in first]


def test_a_file_that_takes_too_long_leaves_itself_and_the_rest_to_be_judged_alone(tmp_path: Path) -> None:
    samples.write_json(str(tmp_path / "good.json"))
    (tmp_path / "long.json").write_text("[" + "0," * 10_000_000 + "0]")
    files = [(str(tmp_path / name), name) for name in ("good.json", "long.json", "good.json")]
    with Loading(1, time_s=0.5) as loading:
        found = loading.judge_many(files)
        assert found[1:] == [None, None]
    with Loading(1) as loading:
        assert loading.judge(*files[2], 0).problem == ""


def test_a_batch_is_small_files_and_a_large_one_is_alone() -> None:
    sizes = [10, 10, SMALL_BYTES + 1, 10, 4 << 20, 10, *[SMALL_BYTES] * 40]
    found = list(batches(range(len(sizes)), sizes, 1))
    assert sorted(sum(found, [])) == list(range(len(sizes)))
    assert [2] in found and [4] in found
    assert max(sum(sizes[number] for number in batch) for batch in found if len(batch) > 1) <= 4 << 20
    assert len(list(batches(range(8), [10] * 8, 2))) >= 2  # no process is left without work
