"""The machine that is released is this very one: what lies on its disk is not home."""

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


def test_what_is_home_on_the_same_disk_goes_with_the_machine(done: Desk, elsewhere: Path) -> None:
    done("pull", "digits", "--to", "here")
    said = done("down", "rented", "--confirm", "rented", rc=4)
    assert "it lies on the machine itself that is released" in said.err and "--to" in said.err
    assert not done.journal("clearing")
    done("pull", "digits", "--to", str(elsewhere))
    done("down", "rented", "--confirm", "rented")
    (elsewhere / "result.json").unlink()
    (elsewhere / "result.json").symlink_to(done.project / "here/result.json")
    assert "it lies on the machine itself" in done("down", "rented", "--confirm", "rented", rc=4).err


def test_a_home_in_the_base_itself_is_refused_by_pull(done: Desk) -> None:
    said = done("pull", "digits", "--json", rc=2)  # by default both are below the same folder
    assert said.error["code"] == "home-on-machine" and "--to" in said.error["next"]
    assert not (done.home / ".local/share/sojourn/home/digits").exists()


def test_what_removes_only_a_run_asks_no_other_disk(done: Desk) -> None:
    done("pull", "digits", "--to", "here")
    done("clean", "rented", "digits", "--confirm", "digits")
    assert (done.project / "here/result.json").exists() and not done.root().exists()
