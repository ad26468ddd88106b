"""Ways past the law that once worked, on a metered box with real keepers: each holds the lease now."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.keeper.client import Keeper
from sojourn.backends.provider import by_hand as by_hand_provider
from sojourn.core.law import Withheld
from sojourn.core.values import Meter
from sojourn.store.home import Store
from sojourn.verbs.answers import Down
from sojourn.verbs.confirm import Ask, NotConfirmed
from sojourn.verbs.context import Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.resume import resume
from sojourn.verbs.launch.run import run
from sojourn.verbs.launch.stop import stop
from sojourn.verbs.observe.leases import leases
from sojourn.verbs.observe.status import status
from sojourn.verbs.release.clean import clean
from sojourn.verbs.release.down import FellSilent, StillAnswers, StopsItself, down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from sojourn.verbs.takeover.recover import recover
from tests.verbs.conftest import World
from tests.verbs.faulty import Provider


@pytest.fixture
def rented(world: World) -> Provider:
    """The world's box on a meter; letting go of it deletes its disk."""
    provider = Provider(world.site)
    world.ctx.store.close()
    world.ctx = world.client(provider)
    world.ctx.sleep = lambda seconds: setattr(world, "later_s", world.later_s + seconds)
    return provider


def let_go(world: World, **more: Any) -> Down:
    return down(world.ctx, DownRequest("local", **more), confirm=lambda ask: ask.name)


def refused(world: World, **more: Any) -> list[str]:
    """Everything that `down` says is missing."""
    with pytest.raises(Withheld) as caught:
        let_go(world, **more)
    return [f"{lack.run}: {lack.what}" for lack in caught.value.missing]


def second_client(world: World, tmp_path: Path, base: str = "") -> Context:
    """Another user's machine with the same box: its own records, perhaps its own base there."""
    box = world.ctx.boxes["local"]
    if base:
        site = replace(world.site, base=base)
        box = replace(box, site=site, keeper=Keeper(world.transport, site))
    return Context(Store(str(tmp_path / "second")), now_s=world.ctx.now_s, boxes={"local": box})


def ended(ctx: Context, name: str) -> None:
    while not ctx.store.index.find(name).is_settled:
        status(ctx)
        time.sleep(0.05)


@pytest.mark.campaign
def test_the_run_of_a_second_client_holds_until_it_is_recovered_and_home(
    world: World, rented: Provider, tmp_path: Path
) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    with second_client(world, tmp_path) as other:
        run(other, RunRequest(world.job("echo '{}' > theirs.json; sleep 600", name="theirs", outputs=["theirs.json"])))
        (lack,) = refused(world)
        name = f"local:{world.site.base}/theirs"
        assert lack.startswith(f"{name}: ") and "is alive there" in lack
        assert "is alive" in refused(world, abandon=[name])[0], "a live run cannot be given up"
        stop(other, "theirs", confirm=lambda ask: ask.name)
        ended(other, "theirs")
    assert "no record" in refused(world)[0]
    assert not rented.released
    recover(world.ctx, "local")
    assert refused(world) == ["theirs: theirs.json is not home"]
    list(pull(world.ctx))
    assert let_go(world).released


def test_an_unknown_run_is_given_up_by_its_own_name_alone(world: World, rented: Provider, tmp_path: Path) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    with second_client(world, tmp_path) as other:
        run(other, RunRequest(world.job("true", name="theirs")))
        ended(other, "theirs")
    name = f"local:{world.site.base}/theirs"
    assert refused(world, abandon=["theirs"])
    asked: list[Ask] = []
    answer = down(world.ctx, DownRequest("local", abandon=[name]), confirm=lambda ask: asked.append(ask) or ask.name)
    assert answer.released and answer.abandoned == (name,)
    assert any(line.startswith(f"{name}: GIVEN UP") for line in asked[0].lines)
    assert f"--abandon {name}" in asked[0].command


def test_the_same_box_under_a_second_name_is_the_same_box(world: World, rented: Provider, private_home: Path) -> None:
    settings = private_home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.paid]\nbase = "{world.site.base}"\n')
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    run(world.ctx, RunRequest(world.job("echo '{}' > b.json", name="b", outputs=["b.json"]), site="paid"))
    ended(world.ctx, "b")
    assert refused(world) == ["b: b.json is not home"]


def test_a_run_in_another_base_of_the_same_user_holds(world: World, rented: Provider, tmp_path: Path) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    base = tmp_path / "other base"
    with second_client(world, tmp_path, base=str(base)) as other:
        run(other, RunRequest(world.job("true", name="theirs")))
        ended(other, "theirs")
    (lack,) = refused(world)
    assert lack.startswith(f"local:{base}/theirs: ") and "in another base" in lack
    assert let_go(world, abandon=[f"local:{base}/theirs"]).released


@pytest.mark.campaign
def test_an_own_run_in_another_base_of_the_box_is_listed_again_there(
    world: World, rented: Provider, tmp_path: Path, private_home: Path
) -> None:
    settings = private_home / ".config/sojourn/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[sites.paid]\nbase = "{tmp_path}/other base"\n')
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    run(world.ctx, RunRequest(world.job("echo '{}' > b.json", name="b", outputs=["*.json"]), site="paid"))
    ended(world.ctx, "b")
    list(pull(world.ctx))
    (tmp_path / "other base/runs/b/attempts/1/more.json").write_text("{}")
    assert refused(world) == ["b: more.json is not home"]
    list(pull(world.ctx, ["b"]))
    assert let_go(world).released


@pytest.mark.campaign
def test_a_run_that_another_client_resumed_is_alive(world: World, rented: Provider, tmp_path: Path) -> None:
    world.ended("test $SOJOURN_ATTEMPT = 2 && sleep 600; exit 3", outputs=["out.json"])
    list(pull(world.ctx))
    with second_client(world, tmp_path) as other:
        recover(other, "local")
        resume(other, "digits")
        held = refused(world)
        assert held and not rented.released
        stop(other, "digits", confirm=lambda ask: ask.name)


@pytest.mark.campaign
def test_work_of_an_earlier_attempt_is_owed(world: World, rented: Provider) -> None:
    world.ended('test $SOJOURN_ATTEMPT = 1 && echo "[1]" > out.json; exit 3', outputs=["out.json"])
    resume(world.ctx, "digits")
    ended(world.ctx, "digits")
    assert refused(world) == ["digits: out.json is not home"]
    with pytest.raises(Withheld):
        clean(world.ctx, "local", ["digits"], confirm=lambda ask: ask.name)
    assert (world.root() / "attempts/1/out.json").exists()
    list(pull(world.ctx))
    assert let_go(world).released


@pytest.mark.campaign
def test_the_checkpoint_of_a_run_that_did_not_succeed_is_owed(world: World, rented: Provider) -> None:
    script = "head -c 64 /dev/zero > $SOJOURN_CHECKPOINT_DIR/ckpt-t000001-s00000075.pt; exit 9"
    world.ended(script, outputs=["result.json"])
    (lack,) = refused(world)
    assert "its newest checkpoint, ckpt-t000001-s00000075.pt, is not home" in lack
    list(pull(world.ctx))
    assert "none of them loads" in refused(world)[0], "zeros are no checkpoint"
    asked: list[Ask] = []
    done = down(
        world.ctx,
        DownRequest("local", abandon=["digits:checkpoint"]),
        confirm=lambda ask: asked.append(ask) or ask.name,
    )
    assert done.released and done.abandoned == ("digits:checkpoint",)
    assert any("GIVEN UP" in line and "checkpoint" in line for line in asked[0].lines)


@pytest.mark.campaign
@pytest.mark.parametrize("where", ["box", "home"])
def test_what_changes_while_the_prompt_waits_is_seen(world: World, rented: Provider, where: str) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))

    def confirm(ask: Ask) -> str:
        path = world.root() / "attempts/1/out.json" if where == "box" else Path(world.record().receipts[0].home)
        path.write_text("[]\n")
        return ask.name

    with pytest.raises(Withheld):
        down(world.ctx, DownRequest("local"), confirm=confirm)
    assert not rented.released


@pytest.mark.campaign
def test_what_a_hook_changes_is_seen(world: World, rented: Provider) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"], hooks={"before_down": 'rm "$SOJOURN_HOME/out.json"'})
    list(pull(world.ctx))
    assert "no longer at" in refused(world)[0]


@pytest.mark.campaign
def test_another_list_than_the_one_shown_is_asked_about_again_and_not_answered_beforehand(
    world: World, tmp_path: Path
) -> None:
    """Nothing that holds a lease without a meter, and still something else than what was confirmed."""
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    asked: list[Ask] = []

    def beforehand(ask: Ask) -> str | None:
        asked.append(ask)
        if not ask.is_again:
            with second_client(world, tmp_path) as other:
                run(other, RunRequest(world.job("true", name="late")))
                ended(other, "late")
        return None if ask.is_again else ask.name

    with pytest.raises(NotConfirmed, match="the list changed since it was given"):
        down(world.ctx, DownRequest("local"), confirm=beforehand)
    assert [ask.is_again for ask in asked] == [False, True]
    assert any("/late" in line for line in asked[1].lines) and "releasing" not in world.journal()
    assert let_go(world).released


def test_an_output_that_was_sealed_and_deleted_is_lost_and_not_never_made(world: World, rented: Provider) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    (world.root() / "attempts/1/out.json").unlink()
    (lack,) = refused(world)
    assert lack == "digits: out.json was sealed by its keeper and then deleted on the box: it is lost"
    list(pull(world.ctx))
    assert refused(world)
    assert let_go(world, abandon=["digits"]).released


@pytest.mark.campaign
def test_a_failed_run_that_left_nothing_does_not_hold_another(world: World, rented: Provider) -> None:
    world.ended("exit 3", name="failed", outputs=["out.json"])
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx, ["digits"]))
    assert let_go(world).released


def test_a_box_that_does_not_answer_is_let_go_only_by_giving_up_what_cannot_be_seen(
    world: World, rented: Provider
) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    world.transport.is_cut = True
    (lack,) = refused(world)
    assert lack.startswith("local:unseen: the box does not answer")
    assert let_go(world, abandon=["local:unseen"]).released


def test_the_journal_holds_what_was_seen_and_given_up_before_anything_is_let_go(world: World, rented: Provider) -> None:
    world.ended("echo '[1]' > out.json; exit 3", outputs=["out.json"])
    let_go(world, abandon=["digits"])
    kinds = world.journal()
    assert kinds.index("clearing") < kinds.index("abandoned") < kinds.index("releasing") < kinds.index("released")
    lines = (Path(world.ctx.store.state_dir) / "journal.jsonl").read_text().splitlines()
    (clearing,) = [one for one in map(json.loads, lines) if one["kind"] == "clearing"]
    assert len(clearing["facts"]) == 64 and len(clearing["box"]) == 32 and os.path.isabs(world.site.base)


def by_hand(world: World) -> None:
    """The world's box rented and stopped by its user, for 2 EUR an hour."""
    world.ctx.store.close()
    site = replace(world.site, provider="by_hand", rate_micro_per_h=2_000_000, options={"stop": "switch it off"})
    world.ctx = world.client(by_hand_provider.Backend(site))


@pytest.mark.campaign
def test_repeating_it_never_says_that_the_user_stopped_the_machine(world: World) -> None:
    by_hand(world)
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    for _ in range(3):
        told = let_go(world)
        assert "switch it off" in told.line and not told.released and not told.settled
        assert told.next == "sojourn down local --already-stopped"
    assert leases(world.ctx).rows[0].meter is Meter.UNKNOWN
    with pytest.raises(StillAnswers):
        let_go(world, is_stopped=True)


def test_what_is_asked_of_a_machine_by_hand_does_not_deny_the_runs_on_it(world: World) -> None:
    by_hand(world)
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    list(pull(world.ctx))
    asked: list[Ask] = []
    with pytest.raises(NotConfirmed):
        down(world.ctx, DownRequest("local"), confirm=lambda ask: asked.append(ask))
    assert any(line.startswith("digits: succeeded") for line in asked[0].lines)
    assert not any("never reached" in line for line in asked[0].lines)


def test_a_machine_that_its_user_stopped_is_settled_with_what_was_lost(world: World) -> None:
    by_hand(world)
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    world.transport.is_cut = True
    with pytest.raises(FellSilent, match="the line was cut"):  # it took the question, so it is not stopped
        let_go(world, is_stopped=True)
    assert leases(world.ctx).rows[0].meter is not Meter.STOPPED
    world.transport.is_off = True
    asked: list[Ask] = []
    with pytest.raises(NotConfirmed):
        down(world.ctx, DownRequest("local", is_stopped=True), confirm=lambda ask: asked.append(ask))
    assert any(line.startswith("LOST OR UNKNOWN: digits") for line in asked[0].lines)
    told = let_go(world, is_stopped=True)
    assert told.settled and told.exit_status == 1 and told.lost and leases(world.ctx).rows == ()
    assert "you reported it as stopped" in let_go(world).line


def test_what_its_provider_stops_is_not_said_to_be_stopped(world: World, rented: Provider) -> None:
    world.ended("echo '{}' > out.json", outputs=["out.json"])
    with pytest.raises(StopsItself):
        let_go(world, is_stopped=True)


def test_what_was_given_up_once_is_given_up_until_it_changes(world: World, rented: Provider) -> None:
    world.ended("echo '{}' > out.json; exit 3", outputs=["out.json"])
    assert refused(world) == ["digits: out.json is not home"]
    rented.release = lambda lease, clearance: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    with pytest.raises(ZeroDivisionError):
        let_go(world, abandon=("digits",))
    (world.root() / "attempts/1/out.json").write_text("[1, 2]")
    assert refused(world) == ["digits: out.json is not home"], "it is another file now"
    with pytest.raises(ZeroDivisionError):
        let_go(world, abandon=("digits",))
    del rented.release  # type: ignore[method-assign]
    done = let_go(world)
    assert done.released and done.abandoned == ("digits",)


def test_nan_in_json_and_a_torn_last_line_are_remarks_and_hold_nothing(world: World, rented: Provider) -> None:
    script = """echo '{"loss": NaN}' > m.json; printf '{"step": 1}\\n{"loss": NaN}\\n{"st' > log.jsonl"""
    world.ended(script, outputs=["m.json", "log.jsonl"])
    (got,) = pull(world.ctx)
    assert got.ok, [one.problem for one in got.artifacts]
    said = {one.path: " ".join(one.remarks) for one in got.artifacts}
    assert "non-finite" in said["m.json"] and "the last, is incomplete" in said["log.jsonl"]
    assert let_go(world).released
