"""A budget that runs out while no client is there, and the client that comes back: by the command line."""

import time

from tests.spine.conftest import Desk, wait_for

SETTINGS = '[sites.rented]\nprovider = "by_hand"\nstop = "switch it off"\nrate = "3600 USD/h"\n'  # 1 USD a second
AWAY_S = 2.0


def test_a_spent_budget_stops_the_process_with_a_checkpoint_while_the_client_is_off(desk: Desk) -> None:
    settings = desk.home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    desk.job("python train.py 5000 0.02", site="rented", budget="3 USD", outputs=["result.json"])
    desk("run")
    wait_for(lambda: any(event["kind"] == "sealed" for event in desk.events()))  # nobody asks it anything
    time.sleep(AWAY_S)
    told = [event for event in desk.events() if event["kind"] in ("budget", "signal")]
    assert [event.get("pct", event.get("signal")) for event in told] == [50, 80, 100, "TERM"]
    assert all(event["spent_s"] <= event["limit_s"] + 1 for event in told if event["kind"] == "budget")

    row = desk.row()
    assert (row["state"], row["budget_pct"]) == ("timeout", 100) and "the budget was spent" in row["reason"]
    assert any(event["kind"] == "checkpoint" for event in desk.events())
    (lease,) = desk("leases", "--json").json["leases"]
    assert lease["meter"] == "running" and lease["idle_s"] >= AWAY_S
    assert lease["idle_spent"]["micro"] >= AWAY_S * 1_000_000 and lease["is_estimate"] is True
    assert "done and billing since" in desk("leases").out
    alarms = {alarm["kind"]: alarm["text"] for alarm in desk("watch", "digits", "--json", rc=None).json["alarms"]}
    assert "its budget (3.00 USD) is spent" in alarms["budget-100"]
    assert "done and billing since" in alarms["done-but-billing"]
    assert [r["kind"] for r in desk.journal() if r["kind"] in ("releasing", "released", "settled")] == []
