"""Two machines are told apart by what they say of themselves, and one is known again under another name."""

from sojourn.wire.machine import is_one, this_machine


def test_this_machine_is_one_with_itself_and_tells_no_id() -> None:
    here = this_machine()
    assert set(here) == {"name", "machine", "boot"} and here["name"]
    assert is_one(here, {**here, "name": "another"}) == bool(here["boot"])
    assert all(len(here[key]) in (0, 16) for key in ("machine", "boot"))


def test_one_kernel_is_one_machine_and_one_image_on_two_is_not() -> None:
    a = {"name": "a", "machine": "m", "boot": "1"}
    assert is_one(a, {"name": "b", "machine": "", "boot": "1"})
    assert is_one(a, {"name": "a", "machine": "m", "boot": "2"})
    assert not is_one(a, {"name": "b", "machine": "m", "boot": "2"})
    assert not is_one({"name": "a", "machine": "", "boot": ""}, {"name": "a", "machine": "", "boot": ""})
