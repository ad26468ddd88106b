"""The record of proofs: an unchanged file is known again, a changed one never, and a broken record knows nothing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sojourn.store.proofs import Proofs, identity, is_settled


def test_what_was_kept_is_known_in_another_process_and_to_the_same_loaders_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "deep/proofs.sqlite")
    code = f"""import os
from sojourn.store.proofs import Proofs
Proofs({path!r}, 'a').keep([('k', {{'n': 1}}, 0.0)])
os._exit(9)"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=False)
    with Proofs(path, "a") as book, Proofs(path, "b") as other:
        assert book.known("k") == {"n": 1}
        assert (book.known("other"), other.known("k")) == (None, None)


@pytest.mark.parametrize("what", ["damaged", "folder", "unwritable", "nowhere"])
def test_a_record_that_cannot_be_used_knows_nothing_and_raises_nothing(what: str, tmp_path: Path) -> None:
    path = tmp_path / "proofs.sqlite"
    if what == "damaged":
        path.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    elif what == "folder":
        path.mkdir()
    elif what == "unwritable":
        path = Path("/proc/nothing/proofs.sqlite")
    with Proofs(str(path) if what != "nowhere" else "", "a") as book:
        book.keep([("k", {"n": 1}, 0.0)])
        assert book.known("k") is None


def test_many_threads_may_keep_and_ask(tmp_path: Path) -> None:
    with Proofs(str(tmp_path / "p"), "a") as book:

        def work(n: int) -> None:
            for i in range(50):
                book.keep([(f"{n} {i}", {"i": i}, float(i))])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(book.known(f"{n} {i}") == {"i": i} for n in range(4) for i in range(50))


def test_every_way_to_write_a_file_changes_its_identity(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"aaaa")
    before = os.stat(path)
    while os.stat(tmp_path).st_ctime_ns <= before.st_ctime_ns:  # some file systems have a coarse clock
        os.utime(tmp_path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as it was, and the change time moved
    assert identity(os.stat(path)) != identity(before)
    other = tmp_path / "b"
    other.write_bytes(b"bbbb")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(other, path)
    assert identity(os.stat(path)) != identity(before)


def test_a_file_that_was_just_written_is_not_settled(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    seen = os.stat(tmp_path / "a")
    newest = max(seen.st_mtime_ns, seen.st_ctime_ns)
    assert not is_settled(seen, newest + 1_000_000)
    assert is_settled(seen, newest + 3_000_000_000)
