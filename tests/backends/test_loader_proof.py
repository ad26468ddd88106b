"""A proof says what was done and never more; what is wrong with a file stays in its proof, whatever the file does."""

import hashlib
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from sojourn.backends.proof import regular
from sojourn.backends.proof.loading import Loading
from sojourn.backends.proof.proof import Prover, prove
from sojourn.core.artifact import Artifact
from sojourn.wire.errors import Defect
from tests.backends import samples


def expected(path: Path) -> tuple[int, str]:
    data = path.read_bytes()
    return len(data), hashlib.sha256(data).hexdigest()


def test_bytes_are_proven_only_against_an_expectation(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    samples.write_npy(str(path))
    alone, compared = prove(str(path), "a.npy"), prove(str(path), "a.npy", expected(path))
    assert alone.proved == ("structure", "load", "content")
    assert compared.proved == ("bytes", "structure", "load", "content")
    assert alone.sha256 == compared.sha256 == expected(path)[1]


def test_an_unknown_type_is_proven_by_its_bytes_alone(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("step 1\n")
    proof = prove(str(path), "train.log", expected(path))
    assert (proof.ok, proof.kind, proof.proved) == (True, "unknown", ("bytes",))
    assert prove(str(path), "train.log").proved == ()


def test_a_proof_is_an_item_of_the_verify_document(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    samples.write_json(str(path))
    document = prove(str(path), "out/a.json").as_json()
    wanted = {"path", "kind", "ok", "bytes", "sha256", "proved", "problem", "detail", "remarks", "facts"}
    assert wanted <= set(document)
    assert (document["path"], document["problem"]) == ("out/a.json", None)


def test_bytes_that_are_not_those_expected_have_the_right_word(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    samples.write_json(str(path))
    size, sha256 = expected(path)
    assert prove(str(path), "a.json", (size + 9, sha256)).problem == "truncated"
    assert prove(str(path), "a.json", (size - 9, sha256)).problem == "mismatch"
    assert prove(str(path), "a.json", (size, "0" * 64)).problem == "mismatch"
    path.write_bytes(path.read_bytes()[:-9])
    both = prove(str(path), "a.json", (size, sha256))
    assert (both.problem, both.proved) == ("truncated", ())
    assert "brackets" in both.detail
    path.write_bytes(b"")
    assert prove(str(path), "a.json", (size, sha256)).problem == "empty"
    path.unlink()
    assert prove(str(path), "a.json", (size, sha256)).problem == "missing"


def test_what_is_no_file_of_its_folder_is_refused_without_being_opened(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    samples.write_json(str(tmp_path / "outside.json"))
    samples.write_json(str(root / "inside.json"))
    (root / "out.json").symlink_to(tmp_path / "outside.json")
    (root / "in.json").symlink_to("inside.json")
    (root / "far").symlink_to(tmp_path)
    (root / "null.json").symlink_to("/dev/null")
    os.mkfifo(root / "pipe.json")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(root / "s.json"))
        for name in ("out.json", "null.json", "pipe.json", "s.json", "sub", "far/outside.json"):
            assert prove(str(root / name), name).problem == "escapes-root", name
    inside = prove(str(root / "in.json"), "in.json")
    assert (inside.problem, inside.remarks) == ("", ("a link to inside.json",))
    assert prove(str(root / "in.json"), "in.json", expected(root / "inside.json")).problem == "escapes-root"
    (root / "in.json").unlink()
    (root / "in.json").symlink_to("nowhere.json")
    assert prove(str(root / "in.json"), "in.json").problem == "missing"


def test_names_that_are_not_utf_8_are_proven_and_printable(tmp_path: Path) -> None:
    name = os.fsdecode(b"a\xff \n.json")
    samples.write_json(str(tmp_path / name))
    proof = prove(str(tmp_path / name), name)
    assert proof.ok
    assert proof.as_json()["path"] == "a\\xff \n.json"


def test_a_receipt_is_made_of_a_good_proof_only(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    samples.write_npz(str(path))
    made = prove(str(path), "a.npz", expected(path)).receipt("digits", str(path))
    assert (made.run, made.path, made.home, made.kind, made.loader) == ("digits", "a.npz", str(path), "npz", "npz")
    assert "load" in made.proved
    for bad in (prove(str(path), "a.npz"), Artifact("a.npz", "npz", problem="corrupt")):
        with pytest.raises(Defect):
            bad.receipt("digits", str(path))


def test_one_prover_serves_many_threads_and_leaves_no_process(tmp_path: Path) -> None:
    for n in range(12):
        samples.write_npz(str(tmp_path / f"{n}.npz"))
    others = set(children_of(os.getpid()))  # of tests before this one, in the same process
    with Prover(2) as prover:
        found: list[Artifact] = []

        def work(n: int) -> None:
            found.append(prover.prove(str(tmp_path / f"{n}.npz"), f"{n}.npz"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        children = set(children_of(os.getpid())) - others
        assert 1 <= len(children) <= 2
    assert all(proof.ok for proof in found)
    assert not children & set(children_of(os.getpid()))


@pytest.mark.campaign
def test_a_file_that_takes_too_much_memory_costs_only_its_process(tmp_path: Path) -> None:
    # Two million times a tuple of its own of the same million: 16 TB, from 15 MB of pickle.
    bomb = b"\x80\x02]q\x00(" + b"N" * 1_000_000 + b"ectorch\nSize\nq\x01]" + b"h\x01h\x00\x85Ra" * 2_000_000 + b"."
    samples.torch_zip_of(str(tmp_path / "bomb.pt"), bomb)
    samples.write_json(str(tmp_path / "good.json"))
    with Prover(1) as prover:
        proof = prover.prove(str(tmp_path / "bomb.pt"), "bomb.pt")
        assert (proof.problem, "512 MiB" in proof.detail) == ("unsafe", True)
        assert prover.prove(str(tmp_path / "good.json"), "good.json").ok


def test_a_file_that_takes_too_long_costs_only_its_process(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text("[" + "0," * 10_000_000 + "0]")
    with Loading(1, time_s=0.5) as loading:
        found = loading.judge(str(path), "long.json", 0)
        assert (found.kind, found.problem) == ("json", "unsupported")
        samples.write_json(str(tmp_path / "good.json"))
    with Loading(1) as loading:
        assert loading.judge(str(tmp_path / "good.json"), "good.json", 0).problem == ""


def test_a_process_that_dies_of_a_file_says_so_and_one_that_died_idle_does_not(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text("[" + "0," * 10_000_000 + "0]")
    samples.write_json(str(tmp_path / "good.json"))
    with Loading(1) as loading:
        before = set(children_of(os.getpid()))

        def kill() -> None:
            while not (born := set(children_of(os.getpid())) - before):
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(born.pop(), signal.SIGBUS)

        killer = threading.Thread(target=kill)
        killer.start()
        found = loading.judge(str(path), "long.json", path.stat().st_size)
        killer.join()
        assert (found.problem, "signal 7" in found.detail) == ("corrupt", True)
        assert loading.judge(str(tmp_path / "good.json"), "good.json", 0).problem == ""
        for pid in set(children_of(os.getpid())) - before:
            os.kill(pid, signal.SIGKILL)
            while pid in children_of(os.getpid()) and state_of(pid) != "Z":
                time.sleep(0.01)
        assert loading.judge(str(tmp_path / "good.json"), "good.json", 0).problem == ""


def test_a_file_that_the_system_cannot_read_has_a_proof_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular, "made_up", lambda device: "")  # it stands for a file of a damaged disk
    proof = prove("/proc/self/mem", "mem")  # a regular file whose first byte is an I/O error
    assert (proof.ok, proof.problem) == (False, "corrupt")
    assert "cannot be read" in proof.detail


def children_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
