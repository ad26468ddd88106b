"""Plays the orders whose seeds come by standard input, and answers each with its verdict, a line of JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.law.blobs import Blobs
from tests.law.order import Verdict, play
from tests.law.quick import Answering, keep_loading


def main() -> None:
    """Until the input ends."""
    stage, keep = Path(sys.argv[1]), Path(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything else prints must not stand between answers
    keep_loading()
    (keeper,) = (stage / "keepers").iterdir()
    answering = Answering(keeper)
    for line in sys.stdin:
        answers.write(json.dumps(one(int(line), stage, keep, answering).as_json()) + "\n")
        answers.flush()


def one(seed: int, stage: Path, keep: Path, answering: Answering) -> Verdict:
    """The verdict on the order of this seed; where it broke, what is left of it is kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"order-{seed}-", dir=stage))
    verdict = play(seed, folder, Blobs(stage / "blobs"), stage / "keepers", answering)
    if verdict.broken:
        keep.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(keep / str(seed), ignore_errors=True)
        shutil.copytree(folder, keep / str(seed), symlinks=True, ignore_dangling_symlinks=True)
    shutil.rmtree(folder, ignore_errors=True)
    return verdict


if __name__ == "__main__":
    main()
