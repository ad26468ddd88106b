"""`site: rent`: one machine from whoever has one, agreed to before; released again if it never gets ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sojourn.cli.main import main
from sojourn.core.need import Need
from sojourn.store.home import Store
from sojourn.verbs.confirm import Ask, NotConfirmed
from sojourn.verbs.context import Context, provider_of
from sojourn.verbs.rent import machine
from sojourn.verbs.rent.machine import NeverAnswered, NotReady, RentUnknown
from sojourn.verbs.rent.nothing import NothingOffered
from sojourn.verbs.rent.obtain import obtain
from sojourn.verbs.rent.price import BudgetTooSmall, NotWithinLimits, OverMaxPrice, Wish
from tests.clouds.everywhere import clouds
from tests.clouds.standin import Cloud, Fault
from tests.clouds.vastai import LASTS_S

__all__ = ["clouds"]
A100 = Need(accelerators=(("A100", 1),))
WITHIN = Wish(A100, budget=(20_000_000, "USD"), most=(3_000_000, "USD"), yes=True)


class Tenant:
    """Somebody who answers every question with its name; time passes when it is waited for."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.said: list[str] = []
        self.slept: list[float] = []
        self.at_s = time.time()
        self.answers = True
        self.then: Any = lambda: None
        self.ctx = Context(
            Store(), now_s=lambda: self.at_s, sleep=self.sleep, say=self.said.append, confirm=self.confirm
        )

    def confirm(self, ask: Ask) -> str | None:
        self.asked.append(ask)
        return ask.name if self.answers else None

    def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        self.slept.append(seconds)
        self.then()

    def leases(self) -> list[tuple[str, str]]:
        return [(one.name, one.state) for one in self.ctx.store.index.leases(open_only=False)]


@pytest.fixture
def ann(clouds: dict[str, Cloud]) -> Iterator[Tenant]:
    one = Tenant()
    with one.ctx:
        yield one


def rented(clouds: dict[str, Cloud]) -> dict[str, int]:
    """Provider -> machines ever rented there."""
    return {name: cloud.rented_ever for name, cloud in clouds.items() if cloud.rented_ever}


def test_the_cheapest_run_is_rented_after_its_price_was_agreed_to(clouds: dict[str, Cloud], ann: Tenant) -> None:
    site, lease = obtain(ann.ctx, Wish(A100))
    assert (site.name, lease) == ("vastai", "vastai") and rented(clouds) == {"vastai": 1}
    assert [ask.name for ask in ann.asked] == ["vastai"] and "1.10 USD an hour" in ann.asked[0].lines[0]
    assert any("released: nothing can be on it" in line for line in ann.asked[0].lines)
    assert ann.ctx.store.index.leases()[0].lease.facts["answered_s"]


def test_a_machine_that_no_run_was_on_is_taken_before_another_is_rented(clouds: dict[str, Cloud], ann: Tenant) -> None:
    obtain(ann.ctx, Wish(A100))
    assert obtain(ann.ctx, Wish(A100))[1] == "vastai" and rented(clouds) == {"vastai": 1} and len(ann.asked) == 1
    other = Wish(Need(accelerators=(("H100", 1),)))
    assert obtain(ann.ctx, other)[1] == "vastai+2"  # that one has no H100


def test_where_there_is_no_capacity_the_next_offer_is_asked_for(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].is_sold_out = clouds["lambda"].is_sold_out = True
    assert obtain(ann.ctx, Wish(A100))[0].name == "runpod" and rented(clouds) == {"runpod": 1}
    assert [ask.name for ask in ann.asked] == ["vastai", "lambda", "runpod"]  # each has a price of its own
    assert ann.leases() == [("vastai", "settled"), ("lambda", "settled"), ("runpod", "open")]


def test_a_site_of_its_own_is_asked_for_its_next_offer_too(clouds: dict[str, Cloud], ann: Tenant) -> None:
    site = ann.ctx.site("vastai")
    asks = len(provider_of(site).offers(Need()))
    clouds["vastai"].faults = [Fault("sold-out", "create")]
    machine.rented(ann.ctx, site, Wish(Need()))
    tokens = [one.lease.token for one in ann.ctx.store.index.leases(open_only=False)]
    assert asks > 1 and len(set(tokens)) == 2 and ann.leases() == [("vastai", "settled"), ("vastai", "open")]


def test_what_the_account_lacks_ends_its_part_of_the_search(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].balance_micro = 0
    assert obtain(ann.ctx, Wish(Need()))[0].name != "vastai"
    assert [path for _, path in clouds["vastai"].calls if "/asks/" in path] == ["/api/v0/asks/101/"]


def test_a_provider_that_is_asked_too_often_is_asked_again_when_it_says(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].faults = [Fault("limited-told", "create")]
    assert obtain(ann.ctx, Wish(Need()))[0].name == "vastai" and 1.0 in ann.slept


def test_a_lost_answer_is_found_out_before_anybody_else_is_asked(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].faults = [Fault("lost", "create")]
    assert obtain(ann.ctx, WITHIN)[0].name == "vastai" and rented(clouds) == {"vastai": 1}


def test_what_may_have_been_rented_ends_the_search(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].faults = [Fault("lost", "create"), Fault("well", "list"), *[Fault("key", "list")] * 40]
    with pytest.raises(RentUnknown):
        obtain(ann.ctx, WITHIN)
    clouds["vastai"].faults = []
    assert obtain(ann.ctx, WITHIN)[0].name == "vastai" and rented(clouds) == {"vastai": 1}


def test_a_machine_that_never_gets_ready_is_released_as_agreed_and_seen_gone(
    clouds: dict[str, Cloud], ann: Tenant
) -> None:
    clouds["vastai"].never_runs, clouds["vastai"].leave_looks = True, 3
    with pytest.raises(NeverAnswered, match="was released, as agreed"):
        obtain(ann.ctx, Wish(A100))
    assert not clouds["vastai"].billing and ann.leases() == [("vastai", "released")]
    assert 900 <= sum(ann.slept) < 1200


def test_without_a_name_given_nothing_is_released(clouds: dict[str, Cloud], ann: Tenant) -> None:
    clouds["vastai"].never_runs = True
    for _ in range(2):
        with pytest.raises(NotReady, match="Its meter runs"):
            obtain(ann.ctx, WITHIN)
    assert len(clouds["vastai"].billing) == 1 and rented(clouds) == {"vastai": 1} and not ann.asked


def test_waiting_asks_less_and_less_often_and_takes_exactly_one(clouds: dict[str, Cloud], ann: Tenant) -> None:
    for cloud in clouds.values():
        cloud.has_stock = False

    def later() -> None:
        if sum(ann.slept) > 900:
            for cloud in clouds.values():
                cloud.has_stock = True

    ann.then = later
    with pytest.raises(NothingOffered):
        obtain(ann.ctx, WITHIN)
    obtain(ann.ctx, Wish(A100, WITHIN.budget, most=WITHIN.most, yes=True, waits=True))
    assert ann.slept[:4] == [60.0, 90.0, 135.0, 202.5] and rented(clouds) == {"vastai": 1}


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        (Wish(A100, most=(100_000, "USD")), OverMaxPrice),
        (Wish(A100, budget=(1_000_000, "USD")), BudgetTooSmall),
        (Wish(A100, yes=True, most=(3_000_000, "USD")), NotWithinLimits),
        (Wish(A100, yes=True, budget=(9_000_000, "USD")), NotWithinLimits),
        (Wish(A100), NotConfirmed),
    ],
)
def test_nothing_is_rented_beyond_what_was_allowed(
    clouds: dict[str, Cloud], ann: Tenant, wish: Wish, error: type[Exception]
) -> None:
    ann.answers = False
    with pytest.raises(error):
        obtain(ann.ctx, wish)
    assert not rented(clouds) and not ann.leases()


def test_a_budget_need_not_pay_for_more_than_the_whole_run(clouds: dict[str, Cloud], ann: Tenant) -> None:
    obtain(ann.ctx, Wish(A100, budget=(200_000, "USD"), most=(3_000_000, "USD"), yes=True, run_s=600.0))
    assert rented(clouds) == {"vastai": 1}


JOB = "name: digits\nrun: echo done > done.txt\noutputs: [done.txt]\nsite: rent\nresources: {accelerators: %s}\n"


@pytest.mark.parametrize(
    ("text", "words", "rc", "says"),
    [
        (JOB % "'A1000:1'", ("run", "-y"), 2, "No GPU is called 'A1000'; the nearest is 'A100'"),
        (JOB % "'A100:1'" + "max_price: 0.10 USD/h\n", ("run", "-y"), 5, "within 0.10 USD an hour"),
        (JOB % "'A100:1'" + "budget: 0.50 USD\n", ("run", "--confirm", "vastai"), 2, "does not pay for an hour"),
        (JOB % "'A100:1'", ("run",), 4, "needs the exact name vastai"),
        (JOB % "'A100:1'", ("run", "--site", "lambda"), 4, "needs the exact name lambda"),
        (JOB % "'A100:1'" + "budget: x\n", ("plan",), 2, "not an amount of money"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_rented(
    clouds: dict[str, Cloud],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    words: tuple[str, ...],
    rc: int,
    says: str,
) -> None:
    (tmp_path / "sojourn.yaml").write_text(text)
    assert main(list(words)) == rc
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sojourn: ")]
    assert len(said) == 1 and says in said[0], said
    assert not rented(clouds)


def test_a_plan_names_what_would_be_rented_and_rents_nothing(
    clouds: dict[str, Cloud], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sojourn.yaml").write_text(JOB % "'A100:1'" + "budget: 9 USD\nmax_price: 2 USD/h\n")
    assert main(["plan"]) in (0, 10)
    shown = " ".join(capsys.readouterr().out.split())
    assert "rents 1 x A100 SXM4 (ask 102) at 1.10 USD an hour" in shown and "-y does not rent it" not in shown
    assert not rented(clouds)


def test_a_plan_is_red_where_the_account_has_no_money(
    clouds: dict[str, Cloud], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sojourn.yaml").write_text((JOB % "'A100:1'").replace("site: rent", "site: vastai"))
    assert main(["plan"]) in (0, 10)
    clouds["vastai"].balance_micro = 0
    capsys.readouterr()
    assert main(["plan"]) == 11
    assert "the account has 0.00 USD left" in " ".join(capsys.readouterr().out.split())


def test_what_ends_before_the_run_may_end_is_not_offered(clouds: dict[str, Cloud], ann: Tenant) -> None:
    provider = provider_of(ann.ctx.site("vastai"))
    assert provider.offers(A100) and not provider.offers(replace(A100, run_s=2 * LASTS_S))
    bids = provider.offers(replace(A100, is_interruptible=True))
    assert bids and all(one.facts["is_spot"] for one in bids)


def test_a_machine_is_rented_by_a_name_of_its_own_and_runs_go_onto_it_by_that_name(
    clouds: dict[str, Cloud], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = ("up", "box1", "--gpus", "A100:1", "--confirm", "box1")
    assert main(list(up)) == 0
    first = " ".join(capsys.readouterr().out.split())
    assert "machine box1 rented from vastai" in first and "next sojourn run --site box1" in first
    assert "clock vastai: the host goes offline" in first and "know " in first  # the first contact
    assert main(list(up)) == 0
    assert "box1  is there already" in capsys.readouterr().out and rented(clouds) == {"vastai": 1}
    assert main(["up", "box2", "--provider", "vastai", "--gpus", "RTX 4090:1", "--confirm", "box2"]) == 0
    assert "know " not in capsys.readouterr().out and rented(clouds) == {"vastai": 2}
    (tmp_path / "sojourn.yaml").write_text("name: digits\nrun: 'true'\n")
    for box in ("box1", "box2"):
        assert main(["plan", "--site", box, "--json"]) in (0, 10)
        assert '"site": "vastai"' in capsys.readouterr().out
    with Context(Store()) as ctx:
        assert [one.name for one in ctx.store.index.leases()] == ["box1", "box2"]
    assert main(["down", "box1", "--confirm", "box1", "--abandon", "vastai:others"]) in (0, 4)


@pytest.mark.parametrize(
    ("words", "rc", "says"),
    [
        (("local",), 2, "cannot be the name"),
        (("a b",), 2, "cannot be the name"),
        (("box1", "--gpus", "A1000:1"), 2, "No GPU is called"),
        (("box1", "--gpus", "A100:1", "--max-price", "0.01 USD/h", "--confirm", "box1"), 5, "within 0.01 USD an hour"),
        (("box1", "--gpus", "A100:1"), 4, "needs the exact name box1"),
        (("box1", "--provider", "vaster"), 2, "the nearest is 'vastai'"),
    ],
)
def test_up_rents_nothing_that_it_was_not_told_to(
    clouds: dict[str, Cloud], capsys: pytest.CaptureFixture[str], words: tuple[str, ...], rc: int, says: str
) -> None:
    assert main(["up", *words]) == rc
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("sojourn: ")]
    assert len(said) == 1 and says in said[0] and not rented(clouds)
