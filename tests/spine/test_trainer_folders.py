"""The folders that the most common trainers leave behind go home, prove, and let their lease go: nobody is taught
`--abandon`. One run each, of one project, by the real program.
"""

from pathlib import Path

import pytest

from tests.spine.conftest import Desk

TRAINERS = Path(__file__).parent.parent / "trainers"
NAMES = sorted(path.name for path in TRAINERS.iterdir() if path.is_dir())


def test_there_is_one_of_each() -> None:
    assert set(NAMES) == {
        *("hf", "lightning", "accelerate", "peft", "deepspeed", "deepspeed3", "timm", "ultralytics"),
    }


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_a_trainers_folder_comes_home_and_its_lease_may_go(desk: Desk, name: str) -> None:
    desk.job(f"mkdir -p out && cp -R '{TRAINERS / name}/.' out/", name=name, outputs=["out"])
    desk("run")
    assert desk.final(name)["state"] == "succeeded"
    pulled = desk("pull", name, "--json").json
    files = [path for path in (TRAINERS / name).rglob("*") if path.is_file()]
    owed = [one for one in pulled["artifacts"] if one["path"].startswith("out/")]
    assert len(owed) == len(files)
    assert [(one["path"], one["problem"]) for one in owed if not one["ok"]] == []
    assert desk("down", name, "--confirm", "local", "--json").json["released"]
