"""`watch --then pull,down --confirm LEASE`: the clean case is released, and everything else holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.store.home import Store
from sojourn.verbs.answers import Down
from sojourn.verbs.confirm import NotConfirmed
from sojourn.verbs.context import Context
from sojourn.verbs.launch.request import RunRequest
from sojourn.verbs.launch.run import run
from sojourn.verbs.observe.status import status
from sojourn.verbs.observe.watch import watch
from sojourn.verbs.release.afterwards import NotClean, NotOneLease, NotThen, Then, agree, finish
from sojourn.verbs.release.down import down
from sojourn.verbs.release.request import DownRequest
from sojourn.verbs.retrieve.pull import pull
from tests.verbs.conftest import World
from tests.verbs.faulty import Provider

THEN = "pull,down"
WRITES = "sleep 0.3; echo '{}' > out.json"


@pytest.fixture
def rented(world: World) -> Provider:
    """The world's box on a meter; letting go of it deletes its disk."""
    provider = Provider(world.site)
    world.ctx.store.close()
    world.ctx = world.client(provider)
    world.ctx.sleep = lambda seconds: setattr(world, "later_s", world.later_s + seconds)
    return provider


def begun(world: World, script: str = WRITES, **keys: object) -> Then:
    """A run that has begun, and the release of its lease, confirmed now."""
    world.run(script, **{"outputs": ["out.json"], **keys})
    return agree(world.ctx, ["digits"], THEN, "local")


def ended(world: World, then: Then) -> bool:
    *_, last = watch(world.ctx, list(then.runs), every_s=0.1)
    return all(row.state.is_final for row in last.status.rows)


def held(world: World, rented: Provider, then: Then) -> str:
    """Why nothing was released."""
    with pytest.raises(NotClean) as caught:
        list(finish(world.ctx, then, ended(world, then)))
    assert caught.value.exit_status == 4 and "Its meter runs: 2.00 EUR an hour" in caught.value.message
    lease = world.ctx.store.index.lease("local")
    assert not rented.released and lease is not None and lease.is_open and lease.state != "releasing"
    return caught.value.message


def test_what_has_succeeded_and_is_home_is_released(world: World, rented: Provider) -> None:
    then = begun(world)
    *pulls, let_go = finish(world.ctx, then, ended(world, then))
    assert [one.ok for one in pulls if not isinstance(one, Down)] == [True]
    assert isinstance(let_go, Down) and let_go.released and len(rented.released) == 1


def test_a_file_that_does_not_load_releases_nothing(world: World, rented: Provider) -> None:
    then = begun(world, "echo '{broken' > out.json")
    assert "do not load" in held(world, rented, then)


@pytest.mark.campaign
def test_a_file_that_was_damaged_on_its_way_home_releases_nothing(world: World, rented: Provider) -> None:
    then = begun(world)

    def cut(remote: str, local: str) -> None:
        Path(local).write_bytes(Path(local).read_bytes()[:1])

    world.transport.spoil = cut
    held(world, rented, then)


@pytest.mark.campaign
def test_a_run_that_failed_releases_nothing(world: World, rented: Provider) -> None:
    assert "failed, not succeeded" in held(world, rented, begun(world, "echo '{}' > out.json; exit 3"))


@pytest.mark.campaign
def test_an_output_that_was_never_written_releases_nothing(world: World, rented: Provider) -> None:
    held(world, rented, begun(world, "true"))


@pytest.mark.campaign
def test_a_file_of_a_kind_that_nothing_loads_releases_nothing(world: World, rented: Provider) -> None:
    assert "was not loaded" in held(world, rented, begun(world, "echo abc > out.zzz", outputs=["out.zzz"]))


def test_a_run_that_joined_later_releases_nothing(world: World, rented: Provider) -> None:
    then = begun(world)
    assert ended(world, then)
    world.ended("echo '{}' > b.json", name="b", outputs=["b.json"])
    list(pull(world.ctx))
    assert "b was not on the lease when it was confirmed" in held(world, rented, then)


@pytest.mark.campaign
def test_a_run_of_somebody_else_releases_nothing(world: World, rented: Provider, tmp_path: Path) -> None:
    then = begun(world)
    box = world.ctx.boxes["local"]
    with Context(Store(str(tmp_path / "second")), now_s=world.ctx.now_s, boxes={"local": box}) as other:
        run(other, RunRequest(world.job("true", name="theirs")))
        while not other.store.index.find("theirs").is_settled:
            status(other)
    assert "theirs" in held(world, rented, then)


def test_a_hook_that_fails_releases_nothing(world: World, rented: Provider) -> None:
    then = begun(world, hooks={"before_down": "exit 1"})
    assert "hook" in held(world, rented, then)


@pytest.mark.campaign
def test_a_later_lease_of_the_same_name_was_not_confirmed(world: World, rented: Provider) -> None:
    then = begun(world)
    assert ended(world, then)
    list(pull(world.ctx))
    assert down(world.ctx, DownRequest("local"), confirm=lambda ask: ask.name).released
    rented.released.clear()
    rented.pulses[:] = [type(rented.pulses[0]).ALIVE]
    world.ended("echo '{}' > b.json", name="b", outputs=["b.json"])
    list(pull(world.ctx))
    assert "another lease" in held(world, rented, then)


@pytest.mark.campaign
def test_a_watch_that_ends_before_its_runs_releases_nothing(world: World, rented: Provider) -> None:
    then = begun(world, "sleep 600")
    with pytest.raises(NotClean, match="not all of its runs have ended"):
        list(finish(world.ctx, then, False))
    assert not rented.released


def test_only_the_exact_name_of_the_lease_confirms(world: World, rented: Provider) -> None:
    world.ended("true")
    for given in ("", "loca", "digits"):
        with pytest.raises(NotConfirmed) as caught:
            agree(world.ctx, ["digits"], THEN, given)
        assert caught.value.exit_status == 4 and caught.value.next.endswith("--confirm local")


@pytest.mark.parametrize("text", ["down", "down,pull", "pull,down,down", "x", ""])
def test_other_steps_are_refused(world: World, text: str) -> None:
    with pytest.raises(NotThen):
        agree(world.ctx, [], text, "local")


def test_runs_on_no_lease_confirm_nothing(world: World) -> None:
    with pytest.raises(NotOneLease):
        agree(world.ctx, [], THEN, "local")
