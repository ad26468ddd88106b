"""A rented machine whose port moves is reached again, by asking its provider, once, and only where nothing was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.core.need import Need
from sojourn.core.values import Ended, Lease, NoAnswer
from sojourn.verbs.following import Following
from tests.clouds.accounts import account, greeting
from tests.clouds.standin import Cloud, Machine

OK = Ended(0, b"here", b"")


class Port:
    """A way to one port: only that of `open` answers; `is_sent`: whether the others may have heard something."""

    def __init__(self, address: str, open: list[str], is_sent: bool) -> None:
        self.address, self.open, self.is_sent = address, open, is_sent

    def call(self, argv: Sequence[str], **how: Any) -> Ended | NoAnswer:
        return OK if self.address == self.open[0] else NoAnswer(self.is_sent, "refused")

    put = get = stream = call  # type: ignore[assignment]


class Ground:
    """A rented pod, its lease, and what was told of its moving."""

    def __init__(self, cloud: Cloud, provider: Any) -> None:
        self.cloud, self.provider, self.told, self.is_sent = cloud, provider, list[Lease](), False
        lease = provider.take(provider.offers(Need())[0], "sojourn-1", 0.0)
        while isinstance(ready := provider.ready(lease, 5.0), NoAnswer):
            continue
        self.lease, self.open = ready, [ready.address]

    @property
    def machine(self) -> Machine:
        return self.cloud.billing[0]

    def way(self) -> Following:
        return Following(
            self.lease, self.provider, lambda one: Port(one.address, self.open, self.is_sent), self.told.append
        )

    def move(self, port: int) -> None:
        self.machine.port, self.open[0] = port, f"root@127.0.0.1:{port}"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with account("runpod", tmp_path, monkeypatch) as (cloud, site):
        yield Ground(cloud, backends.get("provider", "runpod")(site))


def test_a_machine_is_found_at_its_new_port_and_that_is_told(ground: Ground) -> None:
    with greeting() as port:
        ground.move(port)
        way = ground.way()
        assert way.call(["true"]) == OK == way.call(["true"])
    assert [one.address for one in ground.told] == [f"root@127.0.0.1:{port}"]


def test_what_may_have_arrived_is_not_sent_to_another_address(ground: Ground) -> None:
    ground.is_sent = True
    with greeting() as port:
        ground.move(port)
        assert isinstance(ground.way().call(["true"]), NoAnswer) and not ground.told


def test_a_machine_that_is_gone_leaves_the_answer_as_it_was(ground: Ground) -> None:
    ground.open[0] = "nowhere"
    ground.cloud.end(ground.machine)
    assert ground.way().call(["true"]) == NoAnswer(False, "refused") and not ground.told


def test_a_box_that_only_does_not_answer_costs_one_question(ground: Ground) -> None:
    ground.open[0] = "nowhere"
    way, before = ground.way(), len(ground.cloud.calls)
    for _ in range(5):
        assert isinstance(way.call(["true"]), NoAnswer)
    assert len(ground.cloud.calls) == before + 1


def test_many_files_travel_in_one_stream_to_a_rented_machine_too(ground: Ground) -> None:
    way = ground.way()
    assert way.stream is not None and way.stream(["true"]) == OK
    with greeting() as port:
        ground.move(port)
        assert isinstance(way.stream(["true"]), NoAnswer)  # what went along was read: whoever asked asks again
        assert way.stream(["true"]) == OK
