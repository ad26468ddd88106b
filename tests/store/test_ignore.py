"""What of a working folder is not pushed: as git has it, and as the user says."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from sojourn.store.snapshot import take_snapshot
from tests.store.trees import paths, write


def test_gitignore_and_sojournignore_are_respected_in_every_folder(tree: Path) -> None:
    write(tree, ".gitignore", "*.ckpt\n/data/\nbuild\n!keep.ckpt\n# a comment\n\n")
    write(tree, "sub/.gitignore", "!deep.ckpt\nlocal.txt\n/here.txt\n")
    write(tree, "sub/.sojournignore", "notes.md\n")
    names = (
        "a.ckpt keep.ckpt data/x sub/data/x build/x sub/build/x sub/deep.ckpt sub/x.ckpt local.txt sub/local.txt"
        " sub/in/local.txt sub/here.txt sub/in/here.txt sub/notes.md notes.md"
    )
    for name in names.split():
        write(tree, name)
    assert paths(take_snapshot(str(tree))) == [
        ".gitignore", "keep.ckpt", "local.txt", "notes.md", "sub/.gitignore", "sub/.sojournignore", "sub/data/x",
        "sub/deep.ckpt", "sub/in/here.txt",
    ]  # fmt: skip


def test_git_and_we_leave_out_the_same(tree: Path) -> None:
    rules = "*.log|!important.log|/top|dir/|**/cache/**|a/**/z|\\#hash|\\!bang|trail\\ |[ab].txt|q?.md|*.tmp/|x/y|"
    write(tree, ".gitignore", rules.replace("|", "\n"))
    write(tree, "n/.gitignore", "!b.txt\n*.md\n")
    names = (
        "r.log important.log top n/top dir/f n/dir/f cache/c n/cache/c a/z a/b/z a/b/c/z #hash !bang a.txt b.txt"
        " n/b.txt n/a.txt qq.md n/r.md k.tmp j.tmp/f x/y n/x/y dir2/f n/important.log"
    ).split()
    for name in names:
        write(tree, name)
    write(tree, "trail ")
    git = ["git", "-C", str(tree)]
    subprocess.run([*git, "init", "-q"], check=True)
    told = subprocess.run(
        [*git, "ls-files", "-zco", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout
    assert paths(take_snapshot(str(tree))) == sorted(told.split("\0")[:-1])


def test_rules_above_the_working_folder_hold_up_to_the_top_of_the_work_tree(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    write(tmp_path, ".gitignore", "*.py\n")
    write(repository, ".git/HEAD")
    write(repository, ".gitignore", "*.ckpt\n")
    write(repository, "exp/a.ckpt")
    write(repository, "exp/a.py")
    assert paths(take_snapshot(str(repository / "exp"))) == ["a.py"]


def test_a_working_folder_that_its_repository_ignores_was_named_on_purpose(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD")
    write(tmp_path, ".gitignore", "build/\n")
    write(tmp_path, "build/exp/a.py")
    assert paths(take_snapshot(str(tmp_path / "build" / "exp"))) == ["a.py"]


def test_what_never_belongs_to_the_code_is_left_out(tree: Path) -> None:
    for name in (
        ".git/HEAD",
        ".venv/x",
        "__pycache__/a.pyc",
        "s/__pycache__/a.pyc",
        ".sojourn/x",
        "env/pyvenv.cfg",
        "env/bin/python",
    ):
        write(tree, name)
    write(tree, "a.py")
    assert paths(take_snapshot(str(tree))) == ["a.py"]


def test_a_sojournignore_may_bring_back_what_git_ignores(tree: Path) -> None:
    write(tree, ".gitignore", "*.bin\n")
    write(tree, ".sojournignore", "!vocab.bin\n.*ignore\n")
    write(tree, "vocab.bin")
    write(tree, "other.bin")
    assert paths(take_snapshot(str(tree))) == ["vocab.bin"]


def test_a_mount_is_taken_whole(tree: Path) -> None:
    write(tree, ".gitignore", "*\n")
    write(tree, "x.bin")
    assert paths(take_snapshot(str(tree), everything=True)) == [".gitignore", "x.bin"]


def test_one_file_is_a_tree_of_one(tree: Path) -> None:
    write(tree, "vocab.txt", "abc")
    write(tree, "other.txt")
    snapshot = take_snapshot(str(tree / "vocab.txt"), everything=True)
    assert paths(snapshot) == ["vocab.txt"] and snapshot.is_file and snapshot.root == str(tree)


def test_an_empty_folder_is_an_empty_tree(tree: Path) -> None:
    assert take_snapshot(str(tree)).rows == () and take_snapshot(str(tree)).bytes == 0


def test_sockets_and_pipes_are_named_and_left_out(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "a.py")
    os.mkfifo(tree / "pipe")
    monkeypatch.chdir(tree)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("sock")
        snapshot = take_snapshot(str(tree))
    assert paths(snapshot) == ["a.py"] and snapshot.skipped == ("pipe", "sock")
