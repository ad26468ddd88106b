"""The machine that is released is this very one: what lies on its disk is not home."""

import shutil
from pathlib import Path

import pytest

from tests.spine.conftest import Desk

RENTED = '[sites.rented]\nprovider = "by_hand"\nstop = "press Destroy"\nstop_is_final = true\n'


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A run on this machine, which is on a meter; its base is the default one."""
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(RENTED)
    desk.job("echo '{}' > result.json", site="rented", outputs=["result.json"])
    desk("run")
    desk.final()
    return desk


def test_a_home_on_a_disk_of_the_machine_is_refused_by_pull(done: Desk) -> None:
    for more in ([], ["--to", "here"], ["--to", str(done.root() / "../../home")]):
        said = done("pull", "digits", *more, "--json", rc=2)
        assert said.error["code"] == "home-on-machine" and "--to" in said.error["next"]
    assert not (done.home / ".local/share/sojourn/home/digits").exists() and not (done.project / "here").exists()


def test_what_comes_to_lie_there_later_holds_the_machine_and_the_run(done: Desk, elsewhere: Path) -> None:
    done("pull", "digits", "--to", str(elsewhere / "home"))
    shutil.move(elsewhere / "home", done.project / "moved")
    (elsewhere / "home").symlink_to(done.project / "moved")
    for words in (["down", "rented", "--confirm", "rented"], ["clean", "rented", "digits", "--confirm", "digits"]):
        said = done(*words, rc=4)
        assert "it lies on the machine itself that is released" in said.err and "--to" in said.err
    assert not done.journal("clearing") and done.root().exists()
    (elsewhere / "home").unlink()
    done("pull", "digits", "--to", str(elsewhere / "home"))
    done("down", "rented", "--confirm", "rented")
