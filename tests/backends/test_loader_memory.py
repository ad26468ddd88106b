"""All loading processes share one bound of memory; one that is killed costs its file a second try and no other."""

import os
import signal
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sojourn.backends.proof.loading import Loading
from sojourn.backends.proof.proof import Prover
from tests.backends import samples
from tests.backends.test_loader_proof import children_of


def hungry(path: Path, mebibytes: int) -> None:
    """A whole file whose decoded form takes about so much memory for a second or so: a pickle of many numbers."""
    one = b"G" + struct.pack(">d", 1.5)  # 9 bytes, 32 as an object in a list
    pickled = b"\x80\x02]q\x00(" + one * (mebibytes * (1 << 20) // 32) + b"e."
    samples.torch_zip_of(str(path), pickled)


@pytest.mark.campaign
def test_two_files_that_are_too_much_together_are_both_proven(tmp_path: Path) -> None:
    for n in range(3):
        # Some 100 MiB each while the one line is taken apart.
        (tmp_path / f"{n}.jsonl").write_text('{"a": [' + "1.5, " * 2_000_000 + "1]}\n")
    with Loading(3, memory_bytes=180 << 20) as loading, ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda n: loading.judge(str(tmp_path / f"{n}.jsonl"), f"{n}.jsonl", 0), range(3)))
    assert [judgement.problem for judgement in found] == ["", "", ""]


def test_a_file_that_is_too_much_alone_is_unsafe_and_the_others_are_proven(tmp_path: Path) -> None:
    hungry(tmp_path / "big.pt", 120)
    for n in range(8):
        samples.write_npz(str(tmp_path / f"{n}.npz"))
    names = ["big.pt", *(f"{n}.npz" for n in range(8))]
    with Loading(2, memory_bytes=100 << 20) as loading, ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda name: loading.judge(str(tmp_path / name), name, 0), names))
    assert (found[0].problem, "100 MiB" in found[0].detail) == ("unsafe", True)
    assert {judgement.problem for judgement in found[1:]} == {""}


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("kills, problem", [(1, ""), (2, "unsupported")])
def test_a_process_killed_for_want_of_memory_gives_its_file_one_more_try_and_then_a_word(
    kills: int, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "long.jsonl").write_text('{"a": [' + "1.5, " * 6_000_000 + "1]}\n")
    samples.write_json(str(tmp_path / "good.json"))
    before = set(children_of(os.getpid()))
    stop = threading.Event()

    def kill() -> None:
        killed: set[int] = set()
        while len(killed) < kills and not stop.is_set():
            for pid in set(children_of(os.getpid())) - before - killed:
                if open_file_of(pid) and len(killed) < kills:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)

    killer = threading.Thread(target=kill)
    with Prover(1) as prover:
        killer.start()
        proof = prover.prove(str(tmp_path / "long.jsonl"), "long.jsonl")
        stop.set()
        killer.join()
        assert proof.problem == problem
        assert problem == "" or "short of memory" in proof.detail
        assert prover.prove(str(tmp_path / "good.json"), "good.json").ok


def open_file_of(pid: int) -> bool:
    """The process has the file open: it is at work on it."""
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}").endswith(".jsonl") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_pytorch_is_imported_by_one_process_however_many_files_there_are(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for n in range(6):
        torch.save({"w": torch.arange(100.0)}, tmp_path / f"{n}.pt")
    with Prover(3) as prover, ThreadPoolExecutor(6) as pool:
        proofs = list(pool.map(lambda n: prover.prove(str(tmp_path / f"{n}.pt"), f"{n}.pt"), range(6)))
        maps = [Path(f"/proc/{pid}/maps").read_text() for pid in children_of(os.getpid())]
    assert all("load" in proof.proved and proof.facts["by"].startswith("torch") for proof in proofs)
    assert sum("libtorch" in text for text in maps) == 1
