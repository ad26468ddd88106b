"""What payloads of the campaign write: small files of several kinds, good and damaged ones, each known by its hash."""

from __future__ import annotations

import hashlib
import io
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sojourn.train import Checkpointer

COPIES = 6  # of each kind, with different content
CUT = ".cut"  # the end of a damaged one's name


@dataclass(frozen=True)
class Blob:
    """A file's content. `loads`: whether a reader of its kind can read it; nobody judges text."""

    path: Path
    sha256: str
    loads: bool


def make(folder: Path) -> None:
    """Write the contents: json, npy, txt and pt, and what is left of most of them when their end is cut off."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(COPIES):
        array = io.BytesIO()
        np.save(array, np.arange(number + 3.0))
        contents = {
            "json": b'{"loss": %d, "names": ["a", "b"]}\n' % number,
            "npy": array.getvalue(),
            "txt": b"a note, number %d\n" % number,
            "pt": _checkpoint(folder / f"aside-{number}", number),
        }
        for kind, data in contents.items():
            (folder / f"{kind}-{number}").write_bytes(data)
            if kind != "txt":
                (folder / f"{kind}-{number}{CUT}").write_bytes(data[: len(data) * 2 // 3])


class Blobs:
    """The contents that `make` wrote. `loads`: sha256 -> whether it is a good one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: dict[tuple[str, bool], list[Blob]] = {}
        for path in sorted(one for one in folder.iterdir() if one.is_file()):
            is_good = not path.name.endswith(CUT)
            blob = Blob(path, hashlib.sha256(path.read_bytes()).hexdigest(), is_good)
            self._all.setdefault((path.name.partition("-")[0], is_good), []).append(blob)
        self.loads = {blob.sha256: blob.loads for some in self._all.values() for blob in some}

    def draw(self, dice: random.Random, kind: str, bad: float = 0.06) -> Blob:
        """One content of this kind; with the probability `bad` a damaged one."""
        is_bad = dice.random() < bad and (kind, False) in self._all
        return dice.choice(self._all[kind, not is_bad])


def _checkpoint(folder: Path, number: int) -> bytes:
    """A checkpoint as the Checkpointer commits it, of numpy arrays."""
    state = {"weights": np.arange(number + 5.0)}
    saver = Checkpointer(state=state, folder=folder, every_steps=1000, background=False)
    saver.save()
    saver.close()
    (path,) = folder.glob("ckpt-*.pt")
    return path.read_bytes()
