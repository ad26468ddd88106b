"""The files of a project that would be pushed: what .gitignore and .sojournignore leave over."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sojourn.store.ignore import rules_for

MOST_FILES = 20_000  # of a larger project only so many are looked at


def walk(root: str) -> Iterator[tuple[str, int]]:
    """(path relative to `root` with `/`, bytes) of every regular file, folder by folder, the top first.

    Links and virtual environments are passed over, as are folders that cannot be read. Raises: BadIgnoreFile.
    """
    top = os.path.abspath(root)
    waiting = [("", rules_for(top))]
    count = 0
    while waiting and count < MOST_FILES:
        folder, rules = waiting.pop(0)
        try:
            entries = sorted(os.scandir(os.path.join(top, folder)), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder:
            if any(entry.name == "pyvenv.cfg" for entry in entries):
                continue
            rules = rules.below(os.path.join(top, folder))
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.skips(entry.path, is_folder):
                continue
            if is_folder:
                waiting.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                count += 1
                yield path, entry.stat(follow_symlinks=False).st_size
