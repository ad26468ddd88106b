"""`protect: saves` from the job file to the file on the disk."""

import pytest

from tests.spine.conftest import Desk

SAVES = """
import os
import numpy as np
inodes = []
for n in range(3):
    np.savez("out-model.npz", n=n)
    inodes.append(os.stat("out-model.npz").st_ino)
print("different" if len(set(inodes[:2])) == 2 else "the same")
"""


@pytest.mark.campaign
@pytest.mark.parametrize(("protect", "said"), [("saves", "different"), (None, "the same")])
def test_a_job_that_asks_for_it_saves_whole_files(desk: Desk, protect: "str | None", said: str) -> None:
    (desk.project / "train.py").write_text(SAVES)
    desk.job("python train.py", outputs=["out-model.npz"], protect=protect)
    desk("run")
    assert desk.final()["state"] == "succeeded"
    assert desk.log().strip() == said
    assert (desk.root() / "persist/before/out-model.npz").exists() is (protect is not None)
    assert desk("pull", "digits", "--to", "home", "--json").json["receipts"] == 1


def test_another_word_is_refused_with_its_place(desk: Desk) -> None:
    desk.job(protect="everything")
    assert "'everything' is unknown; there are saves" in desk("run", rc=2).err
