"""Machines of ours that the journal does not know: named, never rented beside, and taken up again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from sojourn.cli.show import leases as show
from sojourn.core.inventory import client_of, marked_by, token_of
from sojourn.core.need import Need
from sojourn.store.home import Store
from sojourn.verbs.context import Context, unrented
from sojourn.verbs.launch.decide import decide
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.rent.known import Unrecorded, this_client
from sojourn.verbs.rent.machine import RentUnknown, rented, woken
from sojourn.verbs.rent.price import Wish
from sojourn.verbs.takeover.recover import recover
from tests.clouds.conftest import Ground
from tests.clouds.standin import Fault

TWO = pytest.mark.parametrize("ground", ["runpod", "vastai"], indirect=True)
A100 = Need(accelerators=(("A100", 1),))


def open_leases(ctx: Context) -> list[tuple[str, str]]:
    return [(one.name, one.lease.native) for one in ctx.store.index.leases()]


def test_a_mark_tells_whose_it_is_and_old_marks_are_known() -> None:
    ann, ben = client_of("ann", "desk"), client_of("ben", "desk")
    assert ann != ben and marked_by(token_of(ann, "0" * 32)) == ann
    assert marked_by("sojourn-" + "5e" * 16) == "" and marked_by("my-sojourn-box") is None and marked_by("") is None


@TWO
def test_a_lost_home_rents_no_second_machine_and_gets_the_first_one_back(ground: Ground, tmp_path: Path) -> None:
    ground.rent()
    (machine,) = ground.cloud.billing
    assert marked_by(machine.name) == this_client()
    ctx = ground.ctx
    with Store(str(tmp_path / "new"), ctx.now_s) as store:
        new = Context(store, now_s=ctx.now_s, sleep=ctx.sleep, confirm=ctx.confirm, environ={})
        with pytest.raises(Unrecorded, match=machine.native) as refused:
            rented(new, ground.site, Wish(A100))
        assert refused.value.exit_status == 4 and refused.value.next == "sojourn recover cloud"
        shown = "\n".join(show.lines(leases(new), 200))
        assert machine.native in shown and "sojourn recover cloud" in shown and "is ours" not in shown
        recover(new, "cloud")
        assert open_leases(new) == [("cloud", machine.native)] and not leases(new).unrecorded
        rented(new, ground.site, Wish(A100))
        assert ground.cloud.rented_ever == 1
        down(new, DownRequest("cloud"), confirm=lambda ask: ask.name)
        assert not ground.cloud.billing
        assert "no machine there is ours" in "\n".join(show.lines(leases(new), 200))


@TWO
def test_a_request_that_was_repeated_on_its_way_is_two_leases(ground: Ground) -> None:
    ground.cloud.faults = [Fault("twice", "create")]
    ground.rent()
    one, two = ground.cloud.billing
    (strange,) = leases(ground.ctx).unrecorded
    assert {strange["native"], ground.ctx.store.index.leases()[0].lease.native} == {one.native, two.native}
    assert ("unrecorded", "cloud") in ground.verdicts()
    left = down(ground.ctx, DownRequest("cloud"), confirm=lambda ask: ask.name)
    assert [row["native"] for row in left.billing] == [strange["native"]]
    ground.rent()  # that one is taken before another is asked for
    assert ground.cloud.rented_ever == 2 and open_leases(ground.ctx) == [("cloud", strange["native"])]


@TWO
def test_two_that_a_lost_answer_left_are_both_on_record(ground: Ground) -> None:
    ground.cloud.faults = [Fault("twice-lost", "create")]
    ground.rent()
    assert {native for _, native in open_leases(ground.ctx)} == {one.native for one in ground.cloud.billing}
    assert ground.cloud.rented_ever == 2 and [name for name, _ in open_leases(ground.ctx)] == ["cloud", "cloud+2"]


@TWO
def test_what_a_list_does_not_show_yet_is_not_called_nothing(ground: Ground) -> None:
    ground.cloud.faults, ground.cloud.list_lag = [Fault("lost", "create")], 1000
    with pytest.raises(RentUnknown, match="a list may lag"):
        ground.rent()
    with pytest.raises(RentUnknown):
        down(ground.ctx, DownRequest("cloud"), confirm=lambda ask: ask.name)
    ground.clock[0] += 3600.0  # by now the journal lets go of it, and something else is asked for
    ground.cloud.list_lag = 0
    ground.rent()
    assert ground.cloud.rented_ever == 1 and len(open_leases(ground.ctx)) == 1


@TWO
def test_a_late_machine_is_taken_up_after_its_token_was_given_up(ground: Ground) -> None:
    ground.cloud.faults, ground.cloud.list_lag = [Fault("lost", "create")], 10_000
    with pytest.raises(RentUnknown):
        ground.rent()
    ground.clock[0] += 3600.0
    assert "nothing was rented" in down(ground.ctx, DownRequest("cloud"), confirm=lambda ask: ask.name).line
    ground.cloud.list_lag = 0
    assert [row["native"] for row in leases(ground.ctx).unrecorded] == [one.native for one in ground.cloud.billing]
    ground.rent()
    assert ground.cloud.rented_ever == 1 and len(open_leases(ground.ctx)) == 1


@TWO
def test_what_other_clients_rented_is_left_alone(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("socket.gethostname", lambda: "another-desk")
        ground.rent()
    theirs = ground.cloud.billing[0].native
    with Store(str(tmp_path / "ours"), ground.ctx.now_s) as store:
        ours = Context(store, now_s=ground.ctx.now_s, sleep=ground.ctx.sleep, confirm=lambda ask: ask.name, environ={})
        assert not leases(ours).unrecorded
        rented(ours, ground.site, Wish(A100))
        assert ground.cloud.rented_ever == 2 and theirs not in [native for _, native in open_leases(ours)]
        down(ours, DownRequest("cloud"), confirm=lambda ask: ask.name)
        assert [one.native for one in ground.cloud.billing] == [theirs]


@TWO
def test_a_machine_that_vanished_settles_its_runs(ground: Ground) -> None:
    ground.rent()
    store = ground.ctx.store
    spec = {"run": "digits", "identity": "i" * 64, "code": "c" * 64, "argv": ["true"]}
    store.append("planned", run="digits", site=asdict(ground.site), root="/nowhere/digits", spec=spec)
    store.append("launching", run="digits", attempt=1, token="t", lease="cloud")
    ground.ctx.boxes["cloud"] = unrented(ground.site)  # it does not answer
    assert refresh_one(ground.ctx, store.index.find("digits")).reach.ok is False  # and is there, by its provider's word
    ground.cloud.end(ground.cloud.billing[0])
    seen = refresh_one(ground.ctx, store.index.find("digits"))
    assert (seen.status.state.value, seen.reach.ok) == ("lost", None) and not open_leases(ground.ctx)
    assert decide(seen, seen.record.run.spec, "elsewhere").do == "again"
    ground.rent()
    assert open_leases(ground.ctx) == [("cloud", ground.cloud.billing[0].native)]


@pytest.mark.parametrize("ground", ["runpod"], indirect=True)
def test_a_stopped_machine_is_said_to_be_stopped_and_is_woken_by_its_name(ground: Ground) -> None:
    ground.rent()
    store = ground.ctx.store
    spec = {"run": "digits", "identity": "i" * 64, "code": "c" * 64, "argv": ["true"]}
    store.append("planned", run="digits", site=asdict(ground.site), root="/nowhere/digits", spec=spec)
    store.append("launching", run="digits", attempt=1, token="t", lease="cloud")
    ground.ctx.boxes["cloud"] = unrented(ground.site)  # it does not answer
    (machine,) = ground.cloud.billing
    machine.status = "EXITED"
    seen = refresh_one(ground.ctx, store.index.find("digits"))
    assert "cloud is stopped, and may bill" in seen.reach.error and "sojourn up cloud" in seen.reach.next
    assert open_leases(ground.ctx) and seen.status.state.value != "lost"
    woken(ground.ctx, ground.site, store.index.leases()[0])
    assert machine.status == "RUNNING" and ground.cloud.rented_ever == 1
