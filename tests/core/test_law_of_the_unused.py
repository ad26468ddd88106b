"""The law's second case: a machine that we rented, that never answered, and that nothing can be on."""

from dataclasses import replace

import pytest

from sojourn.core import law
from sojourn.core.law import Unused, Withheld, clear_unused
from sojourn.core.values import Lease
from sojourn.wire.errors import Defect

LEASE = Lease("cloud", "cloud", "slab", "m-1", 500_000, "USD", 0.0, "delete it", True, token="sojourn-1")
UNUSED = Unused(token="sojourn-1", runs=(), has_answered=False, named="cloud")


def test_it_is_cleared_for_this_machine_and_no_other() -> None:
    clearance = clear_unused(LEASE, UNUSED, 100.0)
    law.check(clearance, LEASE)
    law.in_time(clearance, 120.0)
    with pytest.raises(Defect):
        law.check(clearance, replace(LEASE, native="m-2"))
    with pytest.raises(Withheld):
        law.in_time(clearance, 131.0)


@pytest.mark.parametrize(
    ("unused", "says"),
    [
        (replace(UNUSED, has_answered=True), "it has answered before"),
        (replace(UNUSED, runs=("digits",)), "digits was to start on it"),
        (replace(UNUSED, named=""), "not agreed to by its name"),
        (replace(UNUSED, named="clou"), "not agreed to by its name"),
        (replace(UNUSED, token="sojourn-2"), "not rented by sojourn"),
    ],
)
def test_anything_else_takes_the_normal_way(unused: Unused, says: str) -> None:
    with pytest.raises(Withheld, match=says):
        clear_unused(LEASE, unused, 100.0)
    with pytest.raises(Withheld, match="not rented by sojourn"):
        clear_unused(replace(LEASE, token=""), replace(UNUSED, token=""), 100.0)
