"""A lease that was cleared to be stopped by hand, from the command line: it is not quietly used again."""

import json
from pathlib import Path

from tests.spine.conftest import Desk, wait_for
from tests.violation import held


def test_a_script_needs_the_leases_name_to_start_on_what_was_cleared(desk: Desk, elsewhere: Path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.rented]\nprovider = "by_hand"\nstop = "switch it off"\n')
    desk.job("echo '{}' > result.json", site="rented", outputs=["result.json"])
    assert desk("run", "--json").json["did"] == "launched"
    desk.final()
    desk("pull", "digits", "--to", str(elsewhere))
    desk("down", "rented", "--confirm", "rented")
    (lease,) = desk("leases", "--json").json["leases"]
    assert (lease["meter"], lease["rate"]) == ("unknown", None)
    said = desk("run", "--name", "late", "--json", rc=4)
    assert said.error["code"] == "not-confirmed" and "--confirm rented" in said.error["next"]
    assert [row["id"] for row in desk("status", "--json").json["runs"]] == ["digits"]
    job = {"name": "grid", "site": "rented", "run": "true", "sweep": {"matrix": {"A": [1, 2]}}}
    (desk.project / "grid.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in job.items()))
    assert desk("sweep", "grid.yaml", "--json", rc=4).error["code"] == "not-confirmed"
    assert [row["id"] for row in desk("status", "--json").json["runs"]] == ["digits"]
    desk("run", "--name", "late", "--confirm", "rented")
    assert desk("sweep", "grid.yaml", "--json").json["did"] == "queued"  # it is open again: nothing is asked
    desk.final("late")


def test_a_run_that_waited_while_down_cleared_its_lease_does_not_start_on_it(desk: Desk, elsewhere: Path) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('[sites.rented]\nprovider = "by_hand"\nstop = "switch it off"\n')
    here = desk.home
    hook = f"touch {here}/asked; until test -e {here}/go; do sleep 0.05; done"
    desk.job("echo '{}' > result.json", site="rented", outputs=["result.json"], hooks={"before_down": hook})
    desk("run")
    desk.final()
    desk("pull", "digits", "--to", str(elsewhere))
    down = desk.start("down", "rented", "--confirm", "rented")
    wait_for((here / "asked").exists)
    late = desk.start("run", "--name", "late")
    wait_for(lambda: any(record["run"] == "late" for record in desk.journal("planned")))
    (here / "go").touch()
    assert desk.finish(down).rc == 0
    said = desk.finish(late)
    held(said.rc == 4, f"a run began on a lease that was just cleared\n{said.out}\n{said.err}")
    assert "rented was cleared to stop" in said.err
    assert not (desk.root("late") / "events.jsonl").exists()
