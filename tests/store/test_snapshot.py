"""The code by content: what is taken, what is refused, and that the pack holds exactly what the digest names."""

import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.store.hashes import Hashes
from sojourn.store.ignore import BadIgnoreFile
from sojourn.store.snapshot import BadTree, TreeChanged, pack, take_snapshot
from sojourn.wire.manifest import is_safe, roster_digest
from tests.store.trees import fill, paths, write


def test_rows_say_path_bytes_hash_and_role(tree: Path) -> None:
    write(tree, "train.py", "print(1)\n")
    write(tree, "bin/go.sh", "#!/bin/sh\n").chmod(0o755)
    (tree / "latest").symlink_to("train.py")
    snapshot = take_snapshot(str(tree))
    assert [(row["path"], row["bytes"], row["role"]) for row in snapshot.rows] == [
        ("bin/go.sh", 10, "x"),
        ("latest", 8, "l"),
        ("train.py", 9, "f"),
    ]
    assert [row["sha256"] for row in snapshot.rows] == [
        hashlib.sha256(text).hexdigest() for text in (b"#!/bin/sh\n", b"train.py", b"print(1)\n")
    ]
    assert snapshot.digest == roster_digest(snapshot.rows) and snapshot.bytes == 27 and not snapshot.is_file


def test_the_digest_is_of_the_content_not_of_place_time_or_order(tree: Path, tmp_path: Path) -> None:
    fill(tree, a_py="1", sub__b_py="2")
    other = tmp_path / "elsewhere"
    fill(other, sub__b_py="2", a_py="1")
    os.utime(other / "a.py", (1, 1))
    assert take_snapshot(str(tree)).digest == take_snapshot(str(other)).digest


@pytest.mark.parametrize(
    "change",
    [
        lambda root: write(root, "a.py", "2"),
        lambda root: write(root, "b.py", "1"),
        lambda root: (root / "a.py").rename(root / "c.py"),
        lambda root: (root / "a.py").chmod(0o755),
        lambda root: ((root / "a.py").unlink(), (root / "a.py").symlink_to("b")),
    ],
)
def test_every_change_of_the_code_changes_the_digest(tree: Path, change) -> None:
    write(tree, "a.py", "1")
    before = take_snapshot(str(tree)).digest
    change(tree)
    assert take_snapshot(str(tree)).digest != before


def test_a_same_sized_edit_right_after_a_look_is_seen(tree: Path) -> None:
    """Also when the clock's grain gives both the same time stamp."""
    path = write(tree, "a.py", "1")
    before, seen = take_snapshot(str(tree)).digest, path.stat()
    path.write_text("2")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert take_snapshot(str(tree)).digest != before


def test_a_second_look_reads_no_file_again_unless_it_may_have_changed(tree: Path, cache: Path) -> None:
    path = write(tree, "a.py", "1")
    seen = path.stat()

    def looked(later_s: float) -> str:
        written_ns = max(seen.st_mtime_ns, seen.st_ctime_ns)
        hashes = Hashes(str(tree), now_ns=lambda: written_ns + int(later_s * 1e9))
        found = hashes.of(str(path), "a.py", seen)[1]
        hashes.keep()
        return found

    true = looked(later_s=0)
    assert not list(cache.rglob("hashes/*")), "too young: another write could leave the same time stamp"
    assert looked(later_s=3) == true
    (kept,) = cache.rglob("hashes/*")
    kept.write_text(kept.read_text().replace(true, "f" * 64))
    assert looked(later_s=3) == "f" * 64, "the memory was asked, not the file"
    kept.write_text("torn")
    assert looked(later_s=3) == true
    path.write_text("2")
    seen = path.stat()
    assert looked(later_s=3) == hashlib.sha256(b"2").hexdigest()


def test_a_cache_that_cannot_be_written_costs_only_time(tree: Path, cache: Path) -> None:
    write(tree, "a.py", "1")
    cache.write_text("a file in place of the folder")
    assert paths(take_snapshot(str(tree))) == ["a.py"]


ODD = [
    "a b",
    "quo'te",
    'dou"ble',
    "new\nline",
    "größe",
    "日本語",
    "-dash",
    "$HOME",
    "a;b",
    "tab\t",
    "back\\slash",
    "*",
    "é",
    "é",
    "😀",
]


def test_odd_names_come_through_whole(tree: Path, tmp_path: Path) -> None:
    for name in ODD:
        write(tree, f"{name}/{name}.py", name)
    snapshot = take_snapshot(str(tree))
    assert len(snapshot.rows) == len(set(ODD)) and all(is_safe(path) for path in paths(snapshot))
    pack(snapshot, str(tmp_path / "t.tar"))
    with tarfile.open(tmp_path / "t.tar") as tar:
        tar.extractall(tmp_path / "out", filter="fully_trusted")
    assert take_snapshot(str(tmp_path / "out")).rows == snapshot.rows


def test_a_name_that_is_not_utf8_is_one_line(tree: Path) -> None:
    with open(os.fsencode(tree) + b"/bad-\xff.py", "w"):
        pass
    with pytest.raises(BadTree) as caught:
        take_snapshot(str(tree))
    assert caught.value.message == "'bad-\\udcff.py' cannot be pushed: its name is not UTF-8."
    assert caught.value.exit_status == 2


def test_a_name_that_is_not_utf8_may_be_ignored(tree: Path) -> None:
    with open(os.fsencode(tree) + b"/bad-\xff.py", "w"):
        pass
    write(tree, ".sojournignore", "bad-*\n")
    assert paths(take_snapshot(str(tree))) == [".sojournignore"]


def test_links_inside_the_tree_are_kept_as_links(tree: Path) -> None:
    write(tree, "d/a.py")
    (tree / "to_file").symlink_to("d/a.py")
    (tree / "to_folder").symlink_to("d")
    (tree / "d" / "up").symlink_to("../to_file")
    (tree / "d" / "root").symlink_to("..")
    (tree / ".#lock").symlink_to("me@host.123")
    assert [row["path"] for row in take_snapshot(str(tree)).rows if row["role"] == "l"] == [
        ".#lock",
        "d/root",
        "d/up",
        "to_file",
        "to_folder",
    ]


def test_an_absolute_link_into_the_tree_is_made_relative(tree: Path, tmp_path: Path) -> None:
    write(tree, "d/a.py", "1")
    (tree / "e").mkdir()
    (tree / "e" / "link").symlink_to(tree / "d" / "a.py")
    snapshot = take_snapshot(str(tree))
    pack(snapshot, str(tmp_path / "t.tar"))
    with tarfile.open(tmp_path / "t.tar") as tar:
        assert tar.getmember("e/link").linkname == "../d/a.py"


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "d/../../outside", "..", "/"])
def test_a_link_out_of_the_tree_is_refused_by_name(tree: Path, target: str) -> None:
    write(tree, "d/a.py")
    write(tree.parent, "outside")
    (tree / "link").symlink_to(target)
    with pytest.raises(BadTree, match="^link cannot be pushed: it links to .*, outside of "):
        take_snapshot(str(tree))


def test_a_link_that_leaves_through_another_is_refused(tree: Path) -> None:
    write(tree, ".sojournignore", "door\n")
    (tree / "door").symlink_to("/etc")
    (tree / "link").symlink_to("door/passwd")
    with pytest.raises(BadTree, match="link cannot be pushed"):
        take_snapshot(str(tree))


def test_a_link_to_what_is_not_pushed_is_refused(tree: Path) -> None:
    write(tree, ".gitignore", "big/\n")
    write(tree, "big/x")
    (tree / "data").symlink_to("big")
    with pytest.raises(BadTree, match="data cannot be pushed: it links to big, which is not pushed"):
        take_snapshot(str(tree))


def test_a_working_folder_that_is_a_link_itself_is_followed(tree: Path, tmp_path: Path) -> None:
    write(tree, "a.py")
    (tmp_path / "link").symlink_to(tree)
    assert take_snapshot(str(tmp_path / "link")) == take_snapshot(str(tree))


@pytest.mark.parametrize("name", ["secret.bin", "closed"])
def test_an_unreadable_file_or_folder_is_one_line(name: str) -> None:
    """Root may read anything, so root steps down meanwhile. Only folders made here change their mode."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(os.path.realpath(folder)) / "project"
        write(root, "secret.bin" if name == "secret.bin" else "closed/x")
        (root / name).chmod(0)
        if is_root:
            os.seteuid(65534)
        try:
            with pytest.raises(BadTree, match=f"^{name} cannot be pushed: Permission denied"):
                take_snapshot(str(root))
        finally:
            if is_root:
                os.seteuid(0)
            (root / name).chmod(0o700)


@pytest.mark.parametrize("text", [b"\xff\n", b"a\n[\xff"])
def test_an_ignore_file_that_is_no_text_is_one_line(tree: Path, text: bytes) -> None:
    (tree / ".gitignore").write_bytes(text)
    with pytest.raises(BadIgnoreFile, match="is not UTF-8"):
        take_snapshot(str(tree))


def test_folders_nested_deeper_than_python_calls_are_no_trouble(tree: Path) -> None:
    deep = "d/" * 1200
    subprocess.run(["mkdir", "-p", deep], cwd=tree, check=True)
    try:
        os.close(os.open(f"{tree}/{deep}a.py", os.O_CREAT | os.O_WRONLY))
        assert paths(take_snapshot(str(tree))) == [deep + "a.py"]
    finally:
        # pytest clears its folders by recursion.
        subprocess.run(["rm", "-rf", "d"], cwd=tree, check=True)


def test_the_same_snapshot_packs_to_the_same_bytes(tree: Path, tmp_path: Path) -> None:
    write(tree, "a.py", "1")
    write(tree, "x.sh", "2").chmod(0o700)
    (tree / "l").symlink_to("a.py")
    snapshot = take_snapshot(str(tree))
    pack(snapshot, str(tmp_path / "1.tar"))
    os.utime(tree / "a.py", (5, 5))
    (tree / "x.sh").chmod(0o777)
    pack(take_snapshot(str(tree)), str(tmp_path / "2.tar"))
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()
    with tarfile.open(tmp_path / "1.tar") as tar:
        members = [(m.name, m.mode, m.uid, m.gid, m.uname, m.mtime) for m in tar.getmembers()]
    assert members == [("a.py", 0o644, 0, 0, "", 0), ("l", 0o777, 0, 0, "", 0), ("x.sh", 0o755, 0, 0, "", 0)]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text("87654321"),
        lambda path: path.write_text("1234"),
        lambda path: path.unlink(),
        lambda path: (path.unlink(), path.symlink_to("other")),
    ],
    ids=["same size", "shorter", "gone", "a link now"],
)
def test_a_file_that_changes_between_look_and_pack_is_noticed_and_nothing_stays(
    tree: Path, tmp_path: Path, change
) -> None:
    path = write(tree, "a.py", "12345678")
    write(tree, "other", "something else")
    snapshot = take_snapshot(str(tree))
    change(path)
    with pytest.raises(TreeChanged, match="a.py changed while it was read") as caught:
        pack(snapshot, str(tmp_path / "t.tar"))
    assert caught.value.retry and not (tmp_path / "t.tar").exists()


def test_a_log_that_only_grows_is_packed_as_it_was_seen(tree: Path, tmp_path: Path) -> None:
    path = write(tree, "run.log", "12345678")
    snapshot = take_snapshot(str(tree))
    path.write_text("1234567890")
    pack(snapshot, str(tmp_path / "t.tar"))
    with tarfile.open(tmp_path / "t.tar") as tar:
        member = tar.extractfile("run.log")
        assert member is not None and member.read() == b"12345678"


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\x00"), min_size=1, max_size=20).filter(
    lambda name: (
        name
        not in (".", "..", ".git", ".venv", ".sojourn", "__pycache__", ".gitignore", ".sojournignore", "pyvenv.cfg")
        and len(name.encode()) < 200
    )
)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=6))
def test_whatever_is_taken_is_what_the_pack_holds(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    for name, data in files.items():
        (root / name).write_bytes(data)
    snapshot = take_snapshot(str(root))
    assert {row["path"]: row["sha256"] for row in snapshot.rows} == {
        n: hashlib.sha256(d).hexdigest() for n, d in files.items()
    }
    target = root.parent / "t.tar"
    pack(snapshot, str(target))
    with tarfile.open(fileobj=io.BytesIO(target.read_bytes())) as tar:
        assert {m.name: tar.extractfile(m).read() for m in tar.getmembers()} == files  # type: ignore[union-attr]


def packed(snapshot) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        pack(snapshot, folder + "/t.tar")
        with tarfile.open(folder + "/t.tar") as tar:
            return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def test_scripts_with_windows_line_ends_are_pushed_with_unix_ones_and_stay_as_they_are_here(tree: Path) -> None:
    (tree / "go.sh").write_bytes(b"set -e\r\necho on\r\n")
    (tree / "tool").write_bytes(b"#!/usr/bin/env python3\r\nprint(1)\r\n")
    (tree / "tool").chmod(0o755)
    (tree / "data.csv").write_bytes(b"a,b\r\n1,2\r\n")
    (tree / "train.py").write_bytes(b"print(1)\r\n")
    (tree / "unix.sh").write_bytes(b"echo on\n")
    snapshot = take_snapshot(str(tree))
    assert snapshot.mended == ("go.sh", "tool")
    assert snapshot.remarks == ["go.sh and tool are pushed with Unix line endings; your file is unchanged"]
    there = packed(snapshot)
    assert (there["go.sh"], there["tool"]) == (
        b"set -e\necho on\n",
        b"#!/usr/bin/env python3\nprint(1)\n",
    )
    assert there["data.csv"] == b"a,b\r\n1,2\r\n" and there["train.py"] == b"print(1)\r\n"
    assert (tree / "go.sh").read_bytes() == b"set -e\r\necho on\r\n"
    assert {row["path"]: row["sha256"] for row in snapshot.rows} == {
        path: hashlib.sha256(data).hexdigest() for path, data in there.items()
    }


def test_a_mended_script_that_changes_while_it_is_pushed_is_noticed(tree: Path) -> None:
    (tree / "go.sh").write_bytes(b"echo on\r\n")
    snapshot = take_snapshot(str(tree))
    (tree / "go.sh").write_bytes(b"echo no\r\n")
    with pytest.raises(TreeChanged, match=r"go\.sh"):
        packed(snapshot)


def test_what_is_mounted_comes_as_it_is(tree: Path) -> None:
    (tree / "go.sh").write_bytes(b"echo on\r\n")
    assert packed(take_snapshot(str(tree), everything=True))["go.sh"] == b"echo on\r\n"


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_a_submodule_comes_along_by_its_own_rules_and_an_empty_one_is_told(tree: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    fill(library, data__model_py="1")
    write(library, ".gitignore", "*.tmp\n")
    write(library, "x.tmp", "1")
    git(library, "init", "-q")
    git(library, "add", ".")
    git(library, "commit", "-qm", "a")
    write(tree, ".gitignore", "data/\n")
    write(tree, ".sojournignore", "notes.txt\n")
    write(tree, "data/large.bin", "1")
    git(tree, "init", "-q")
    git(tree, "submodule", "add", "-q", str(library), "lib")
    write(tree, "lib/x.tmp", "1")
    write(tree, "lib/notes.txt", "1")
    snapshot = take_snapshot(str(tree))
    assert "lib/data/model.py" in paths(snapshot) and not snapshot.hollow
    assert not {"data/large.bin", "lib/x.tmp", "lib/notes.txt", "lib/.git"} & set(paths(snapshot))
    git(tree, "submodule", "deinit", "-f", "lib")
    empty = take_snapshot(str(tree))
    assert empty.hollow == ("lib",)
    assert empty.remarks == ["lib is empty: a submodule that is not checked out; git submodule update --init"]
