"""What a provider says when its API fails, and what it leaves alone. Part of the contract in `provider.py`.

The fixtures make the stub of the API fail; each is None where the real API has no such thing:

    mute: call it, and the API answers nothing that can be read, from now on
    bad_key: call it, and the API refuses the key, as it really does; returns the key, which no message may hold
    lost_answer: call it with a way, and the next create is taken up and its answer is lost: "silence" (no answer),
        "error" (a 5xx), "twice" (something on the way repeats it)
    paged: how many machines fill a page of its list
    lagging: call it, and the list leaves out for a while what is new
    stopped: call it with a lease, and its machine computes nothing any more, but exists
    moved: call it with a lease, and its machine has another address
    price: (millionths of the currency's unit an hour, currency) of the cheapest offer, as the API's documents say it
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from sojourn.backends.client.https import patient_for
from sojourn.core.law import Clearance
from sojourn.core.need import Need
from sojourn.core.ports import Rejected, Unknown
from sojourn.core.values import Lease, NoAnswer, Pulse
from sojourn.wire.errors import SojournError

NOW_S = 1_800_000_000.0
PATIENCE_S = 0.3  # for an API that does not answer
HANG_S = 20.0  # by then whoever was given a deadline of a moment waits for ever


def _given(name: str) -> Any:
    """A fixture that whoever rents must give."""

    @pytest.fixture(name=name)
    def fault(self: ProviderFaults, provider: Any) -> Any:
        if provider.rents:
            pytest.fail(f"this provider rents: give the fixture `{name}` (see sojourn.testing.contracts)")
        pytest.skip("does not apply: nothing is rented")

    return fault


class ProviderFaults:
    """One method, one promise, on an API that fails."""

    mute, bad_key, lost_answer, paged = (_given(name) for name in ("mute", "bad_key", "lost_answer", "paged"))
    lagging, stopped, moved, price = (_given(name) for name in ("lagging", "stopped", "moved", "price"))

    def take(self, provider: Any, need: Need, token: str, now_s: float = NOW_S) -> Any:
        """As in `ProviderContract`."""
        raise NotImplementedError

    def lease(self, provider: Any, need: Need, token: str = "token-1") -> Lease:
        """As in `ProviderContract`."""
        raise NotImplementedError

    def clearance(self, lease: Lease) -> Clearance:
        """As in `ProviderContract`."""
        raise NotImplementedError

    def made_ready(self, provider: Any, lease: Lease) -> Lease:
        """The lease, once its machine can be reached."""
        give_up_s = time.monotonic() + HANG_S
        while isinstance(ready := provider.ready(lease, 5.0), NoAnswer):
            assert ready.kind == "not-ready" and time.monotonic() < give_up_s
            time.sleep(0.01)
        assert isinstance(ready, Lease)
        return ready

    def test_silence_is_neither_gone_nor_nothing(self, provider: Any, need: Need, mute: Any) -> None:
        """`look`, `find`, `list` and `ready` of an API that cannot be understood."""
        _there_is(mute)
        lease = self.lease(provider, need)
        mute()
        _knows_nothing(provider, lease)

    def test_a_release_that_was_not_heard_is_not_called_done(self, provider: Any, need: Need, mute: Any) -> None:
        """Its line says that the answer was lost, or it raises."""
        _there_is(mute)
        lease = self.lease(provider, need)
        mute()
        with patient_for(PATIENCE_S):
            line = _said(lambda: provider.release(lease, self.clearance(lease)))
        assert isinstance(line, SojournError) or "lost" in line, line

    def test_a_deadline_is_kept(self, provider: Any, need: Need, mute: Any) -> None:
        """By `ready`, whatever the API does."""
        _there_is(mute)
        lease = self.lease(provider, need)
        mute()
        done = threading.Event()

        def ask() -> None:
            _said(lambda: provider.ready(lease, 0.2))
            done.set()

        threading.Thread(target=ask, daemon=True).start()
        assert done.wait(HANG_S), "ready(lease, 0.2) has no end"

    def test_a_key_that_became_bad_proves_nothing_and_is_not_told(
        self, provider: Any, need: Need, bad_key: Any
    ) -> None:
        """Some APIs say 404 to it: that is no end of a machine. And nothing that is said holds the key."""
        _there_is(bad_key)
        lease = self.lease(provider, need)
        offer = provider.offers(need)[0]
        key = bad_key()
        said = _knows_nothing(provider, lease)
        with patient_for(PATIENCE_S):
            taken = _said(lambda: provider.take(offer, "token-2", NOW_S))
            released = _said(lambda: provider.release(lease, self.clearance(lease)))
            said += [taken, released, _said(lambda: provider.offers(need))]
        assert isinstance(taken, (Unknown, SojournError)) or (isinstance(taken, Rejected) and taken.kind == "key")
        words = [text for one in said for text in (repr(one), str(one), repr(getattr(one, "fields", "")))]
        assert not any(key in text for text in words), words

    @pytest.mark.parametrize("way", ["silence", "error", "twice"])
    def test_a_create_whose_answer_was_lost_is_found_and_is_never_repeated(
        self, provider: Any, need: Need, lost_answer: Any, way: str
    ) -> None:
        """Unknown is not Rejected. `find` tells of every machine that bears the token."""
        _there_is(lost_answer)
        offer = provider.offers(need)[0]
        lost_answer(way)
        answer = provider.take(offer, "token-1", NOW_S)
        assert isinstance(answer, Unknown if way == "silence" else (Unknown, Lease)), answer
        found = provider.find("token-1", NOW_S)
        assert len({one.native for one in found}) == (2 if way == "twice" else 1), found
        if isinstance(answer, Lease):
            assert answer.native in [one.native for one in found]

    def test_a_list_is_read_to_its_end_and_others_are_left_alone(
        self, provider: Any, need: Need, paged: int | None
    ) -> None:
        """Ours is on the last page; what others rented is listed, is not ours, and outlives ours."""
        others = [self.lease(provider, need, f"somebody-{number}").native for number in range((paged or 1) + 1)]
        lease = self.lease(provider, need)
        assert [one.native for one in provider.find("token-1", NOW_S)] == [lease.native]
        assert provider.look(lease) is Pulse.ALIVE
        listed = {one.native: one for one in provider.list(("machine",)).assets}
        assert set(listed) >= {*others, lease.native} and listed[lease.native].name == "token-1"
        assert not any(listed[native].name == "token-1" for native in others)
        provider.release(lease, self.clearance(lease))
        left = {one.native for one in provider.list(("machine",)).assets}
        assert left >= set(others) and lease.native not in left

    def test_a_machine_that_is_not_listed_yet_is_not_gone(self, provider: Any, need: Need, lagging: Any) -> None:
        """Its id answers."""
        _there_is(lagging)
        lagging()
        lease = self.lease(provider, need)
        assert provider.look(lease) in (Pulse.ALIVE, Pulse.UNKNOWN)

    def test_a_stopped_machine_is_there_and_not_ready(self, provider: Any, need: Need, stopped: Any) -> None:
        """It may bill, so it is not gone; it has no address, and can be woken, where that is possible, and released."""
        _there_is(stopped)
        lease = self.made_ready(provider, self.lease(provider, need))
        stopped(lease)
        assert provider.look(lease) is Pulse.STOPPED
        assert not isinstance(_said(lambda: provider.ready(lease, 0.2)), Lease)
        assert [one.native for one in provider.find("token-1", NOW_S)] == [lease.native]
        if isinstance(woken := _said(lambda: provider.wake(lease)), str):
            assert woken and provider.look(lease) is Pulse.ALIVE
            assert self.made_ready(provider, lease).native == lease.native
        provider.release(lease, self.clearance(lease))
        assert provider.look(lease) is Pulse.GONE

    def test_the_address_is_todays(self, provider: Any, need: Need, moved: Any) -> None:
        """A machine may get another one, after a stop for instance."""
        _there_is(moved)
        before = self.made_ready(provider, self.lease(provider, need))
        moved(before)
        assert self.made_ready(provider, before).address != before.address

    def test_prices_are_in_millionths_of_the_unit_of_its_currency(
        self, provider: Any, need: Need, price: tuple[int, str] | None
    ) -> None:
        """For an hour of the whole machine."""
        _there_is(price)
        offer = provider.offers(need)[0]
        assert (offer.rate_micro_per_h, offer.currency) == price


def _there_is(fault: Any) -> None:
    if fault is None:
        pytest.skip("does not apply: the real API has no such thing")


def _knows_nothing(provider: Any, lease: Lease) -> list[Any]:
    """Whatever is asked, the answer is that nobody knows; what was said."""
    with patient_for(PATIENCE_S):
        looked = _said(lambda: provider.look(lease))
        found = _said(lambda: provider.find("token-1", NOW_S))
        listed = _said(lambda: provider.list(("machine",)))
        ready = _said(lambda: provider.ready(lease, 0.2))
    assert looked is Pulse.UNKNOWN or isinstance(looked, SojournError), looked
    assert isinstance(found, (NoAnswer, SojournError)), found
    assert isinstance(listed, SojournError) or listed.unknown, listed
    assert isinstance(ready, (NoAnswer, SojournError)), ready
    return [looked, found, listed, ready]


def _said(ask: Callable[[], Any]) -> Any:
    """What was answered; an error of ours is an answer too."""
    try:
        return ask()
    except SojournError as error:
        return error
