"""Which offer may be rented at all: within the site's max_price, in its currency."""

import pytest

from sojourn.core.ports import Offer
from sojourn.core.values import Site
from sojourn.verbs.rent.price import OverMaxPrice, cheapest, max_price
from sojourn.wire.errors import Misuse

SMALL, UNPRICED = Offer("small", 500_000, "USD"), Offer("mystery", 0, "USD", is_rate_known=False)


def site(**own: object) -> Site:
    return Site("cloud", provider="slab", options={"slab": own})


def test_the_cheapest_within_the_cap_is_taken() -> None:
    assert cheapest(site(), [SMALL]) is SMALL and cheapest(site(), []) is None
    assert cheapest(site(max_price="0.50 USD/h"), [SMALL]) is SMALL
    with pytest.raises(OverMaxPrice, match=r"within 0.49 USD an hour.*small is 0.50 USD an hour"):
        cheapest(site(max_price="0.49 USD/h"), [SMALL])


def test_a_price_that_is_not_known_is_never_within_a_cap() -> None:
    assert cheapest(site(), [UNPRICED]) is UNPRICED
    assert cheapest(site(max_price="1 USD/h"), [UNPRICED, SMALL]) is SMALL
    with pytest.raises(OverMaxPrice, match="unknown price"):
        cheapest(site(max_price="1 USD/h"), [UNPRICED])


@pytest.mark.parametrize("told", ["cheap", "1 EUR/h", "-1 USD/h", "1", 7])
def test_a_cap_that_cannot_be_held_against_a_price_is_an_error_of_the_settings(told: object) -> None:
    with pytest.raises(Misuse, match=r"\[sites.cloud.slab\] max_price"):
        cheapest(site(max_price=told), [SMALL])
    assert max_price(site()) is None
