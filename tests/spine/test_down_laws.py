"""`down` as the law says: before a pull, after a changed file, with a failed run, with --abandon, in a script."""

import os
from pathlib import Path

import pytest

from tests.spine.conftest import PATIENT, Desk


@pytest.fixture
def done(desk: Desk) -> Desk:
    """A run that has succeeded and is not home."""
    desk("run")
    desk.final()
    return desk


def withheld(desk: Desk, *more: str) -> str:
    """What `down` refuses with; the lease is still there afterwards."""
    said = desk("down", "local", "--confirm", "local", *more, "--json", rc=4)
    assert said.error["exit"] == 4
    assert len(desk("leases", "--json").json["leases"]) == 1
    return said.err


def test_before_a_pull_it_is_refused_with_the_list_and_the_next_command(done: Desk) -> None:
    said = withheld(done)
    assert "digits: checkpoints/best.pt is not home" in said and "digits: result.json is not home" in said
    assert "sojourn pull digits" in said


@pytest.mark.campaign
def test_after_a_pull_it_is_let_go_and_nothing_is_deleted(done: Desk) -> None:
    done("pull")
    let_go = done("down", "digits", "--confirm", "local", "--json").json
    assert let_go["released"] and let_go["lease"] == "local" and let_go["runs"] == ["digits"]
    assert (done.root() / "run.json").exists()
    assert done("leases", "--json").json["leases"] == []
    assert done("cost", "--json").json["leases"][0]["ended"]
    assert done("down", "local", "--confirm", "local", "--json").json["released"]
    assert len(done.journal("released")) == 1


@pytest.mark.campaign(keep=1)
@pytest.mark.parametrize("given", [(), ("--confirm", "loca"), ("--confirm", "LOCAL"), ("--confirm", "digits")])
def test_without_a_terminal_it_takes_the_exact_name(done: Desk, given: tuple[str, ...]) -> None:
    done("pull")
    said = done("down", "local", *given, "--json", rc=4)
    assert said.error["next"] == "sojourn down local --confirm local"
    assert not done.journal("releasing") and not done.journal("clearing")


@pytest.mark.campaign
def test_a_file_changed_at_home_is_seen_and_mended_by_the_next_pull(done: Desk) -> None:
    done("pull", "digits", "--to", "home")
    mine = done.project / "home/result.json"
    good = mine.read_bytes()
    mine.write_bytes(good.replace(b"value", b"VALUE"))  # same size, still JSON
    assert f"digits: result.json is changed at {mine}" in withheld(done)
    mine.unlink()
    assert f"digits: result.json is no longer at {mine}" in withheld(done)
    mine.write_bytes(good.replace(b"value", b"VALUE"))
    again = done("pull", "digits", "--to", "home", "--json").json
    assert again["moved"]["files"] == 1 and mine.read_bytes() == good
    done("down", "local", "--confirm", "local")


@pytest.mark.campaign
def test_a_file_changed_on_the_box_is_seen_though_size_and_time_are_the_same(done: Desk) -> None:
    done("pull")
    theirs = done.root() / "attempts/1/result.json"
    before = theirs.stat()
    theirs.write_bytes(theirs.read_bytes().replace(b"value", b"VALUE"))
    os.utime(theirs, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "digits: result.json changed on the box after it was brought home" in withheld(done)
    done("pull", "digits")
    done("status", "digits", "--exit-status")
    done("down", "local", "--confirm", "local")


@pytest.mark.campaign
def test_a_living_run_is_never_let_go_from_under(slow: Desk) -> None:
    slow("run")
    assert "digits: is running" in withheld(slow)
    assert slow.row()["state"] == "running"


@pytest.mark.campaign
def test_a_failed_run_is_let_go_once_what_it_made_is_home_and_what_it_never_made_is_listed(desk: Desk) -> None:
    desk.job("echo '{}' > result.json; exit 3")
    desk("run", rc=1, program=PATIENT)
    desk.is_left()
    assert "digits: result.json is not home" in withheld(desk)
    pulled = desk("pull", "digits", "--json", rc=1).json
    assert pulled["missing"] == ["checkpoints/best.pt"] and pulled["receipts"] == 1
    listed = desk("down", "local", rc=4).err
    assert "digits: checkpoints/best.pt is owed but was never written" in listed
    said = desk("down", "local", "--confirm", "local", "--json").json
    assert said["released"] and said["acknowledged"] == ["digits: checkpoints/best.pt was never made"]


@pytest.mark.campaign
def test_what_is_abandoned_is_named_exactly_and_journaled_first(done: Desk) -> None:
    done("run", "--name", "other")
    done.final("other")
    done("pull", "other")
    assert "was never on this lease" in withheld(done, "--abandon", "digit")
    said = done("down", "local", "--confirm", "local", "--abandon", "digits", "--json").json
    assert said["released"] and said["abandoned"] == ["digits"]
    kinds = [record["kind"] for record in done.journal()]
    assert kinds.index("abandoned") < kinds.index("releasing") < kinds.index("released")
    assert "result.json is not home" in done.journal("abandoned")[0]["what"]
    assert (done.root() / "attempts/1/result.json").exists()


@pytest.mark.campaign
def test_abandoning_without_the_leases_name_abandons_nothing(done: Desk) -> None:
    said = done("down", "local", "--abandon", "digits", "--json", rc=4).error
    assert said["next"] == "sojourn down local --confirm local --abandon digits"
    assert not done.journal("abandoned")


@pytest.mark.campaign
def test_an_artifact_that_does_not_load_is_not_home(desk: Desk) -> None:
    desk.job("mkdir -p checkpoints; echo '{}' > result.json; head -c 1000 /dev/urandom > checkpoints/best.pt")
    desk("run")
    desk.final()
    pulled = desk("pull", "digits", "--to", "home", "--json", rc=1).json
    assert pulled["receipts"] == 1
    assert [a["path"] for a in pulled["artifacts"] if not a["ok"]] == ["checkpoints/best.pt"]
    assert (desk.project / "home/result.json").exists()
    assert not (desk.project / "home/checkpoints/best.pt").exists()
    assert (desk.project / "home/checkpoints/best.pt.unproven").stat().st_size == 1000
    desk("status", "digits", "--exit-status", rc=110)
    assert "checkpoints/best.pt was pulled but does not load" in withheld(desk)


@pytest.mark.campaign
def test_a_hook_that_says_no_blocks(desk: Desk) -> None:
    hook = desk.project / "check.sh"
    hook.write_text('#!/bin/sh\ntest -f "$SOJOURN_HOME/approved" || { echo not approved yet; exit 9; }\n')
    hook.chmod(0o755)
    desk.job(hooks={"before_down": "./check.sh"})
    desk("run")
    desk.final()
    desk("pull", "digits", "--to", "home")
    said = withheld(desk)
    assert "exit status 9" in said and "not approved yet" in said
    (desk.project / "home/approved").touch()
    desk("down", "local", "--confirm", "local")


@pytest.mark.campaign
def test_everything_on_the_lease_counts_not_only_the_run_that_was_named(done: Desk) -> None:
    done("run", "--name", "other")
    done.final("other")
    done("pull", "digits")
    assert "other: result.json is not home" in withheld(done)


@pytest.mark.campaign
def test_when_the_box_has_lost_the_run_the_sealed_manifest_speaks(done: Desk, tmp_path: Path) -> None:
    done("pull", "digits", "--to", "home")
    done.root().rename(tmp_path / "gone")
    done("down", "local", "--confirm", "local")


@pytest.mark.campaign
def test_when_the_box_has_lost_the_run_before_a_pull_it_takes_abandoning(done: Desk, tmp_path: Path) -> None:
    done.root().rename(tmp_path / "gone")
    assert "its outputs were never listed" in withheld(done)
    done("down", "local", "--confirm", "local", "--abandon", "digits")


@pytest.mark.campaign
def test_a_metered_box_is_counted_and_let_go_by_hand(desk: Desk, elsewhere: Path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.rented]\nprovider = "by_hand"\nrate = "3600 USD/h"\nstop = "switch it off"\n')
    desk.job(site="rented")
    desk("run")
    desk.final()
    row = desk.row()
    assert row["meter"] == "running" and row["spent"]["currency"] == "USD" and row["spent"]["amount"] > 0
    (lease,) = desk("leases", "--json").json["leases"]
    assert lease["rate"]["amount"] == 3600 and lease["spent"]["amount"] > 0 and lease["stop"]["verb"] == "switch it off"
    assert "next     sojourn down rented" in desk("pull", "digits", "--to", str(elsewhere)).out
    said = desk("down", "rented", "--confirm", "rented", "--json").json
    assert "switch it off" in said["line"] and not said["released"]
    assert desk.row()["meter"] == "unknown", "only the user knows whether it was stopped"
    said = desk("down", "rented", "--confirm", "rented", "--json").json
    assert "switch it off" in said["line"] and not said["released"], (
        "repeating it stops nothing, and says nothing of it"
    )
    assert desk("down", "rented", "--already-stopped", "--confirm", "rented", "--json", rc=4).error["code"] == (
        "still-answers"
    )
    assert desk.row()["meter"] == "unknown"
