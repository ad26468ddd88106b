"""Keys come by name, and their values are in nothing that anybody reads."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from sojourn.backends.client.keys import Key, NoKey, NoPublicKey, api_key, public_key
from sojourn.core.values import Site

VALUE = "rpa_0123456789abcdef"


def site(**own: Any) -> Site:
    return Site("cloud", provider="runpod", options={"runpod": own})


def test_a_key_comes_from_the_environment_by_the_name_that_the_settings_give() -> None:
    assert api_key(site(), "RUNPOD_API_KEY", {"RUNPOD_API_KEY": VALUE}) == Key("env:RUNPOD_API_KEY", VALUE)
    assert api_key(site(key="env:MINE"), "RUNPOD_API_KEY", {"MINE": VALUE + "\n"}).value == VALUE


def test_a_key_file_is_read_only_where_nobody_else_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(VALUE + "\n")
    path.chmod(0o640)
    with pytest.raises(NoKey, match="chmod 600"):
        api_key(site(key=f"file:{path}"), "X", {})
    path.chmod(0o600)
    assert api_key(site(key=f"file:{path}"), "X", {}).value == VALUE


def test_a_key_comes_from_the_system_keyring_where_that_package_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(NoKey, match=r"sojourn\[keyring\]"):
        api_key(site(key="keyring:runpod"), "X", {})
    ring, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
    ring.get_password = lambda service, user: {("runpod", "sojourn"): VALUE}.get((service, user))  # type: ignore[attr-defined]
    errors.KeyringError = type("KeyringError", (Exception,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", ring)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    assert api_key(site(key="keyring:runpod"), "X", {}).value == VALUE
    with pytest.raises(NoKey, match="nothing for vastai"):
        api_key(site(key="keyring:vastai"), "X", {})


@pytest.mark.parametrize("key", [VALUE, f"env:{VALUE}", "file:/nowhere/at/all", "env:"])
def test_what_is_no_key_is_said_in_one_line_without_its_value(key: str) -> None:
    with pytest.raises(NoKey) as refused:
        api_key(site(key=key), "RUNPOD_API_KEY", {})
    assert "\n" not in refused.value.message and refused.value.exit_status == 2
    assert key.startswith("env:r") or VALUE not in refused.value.message + refused.value.next


def test_a_key_does_not_show_in_its_own_repr() -> None:
    assert VALUE not in repr(Key("env:X", VALUE))


@pytest.mark.parametrize("value", ["two words", "a\nb", "schlüssel"])
def test_a_value_that_no_header_can_carry_is_refused_before_it_is_sent(value: str) -> None:
    with pytest.raises(NoKey) as refused:
        api_key(site(), "X", {"X": value})
    assert value not in refused.value.message


def test_a_private_key_is_never_sent_as_the_public_one(tmp_path: Path) -> None:
    path = tmp_path / "id"
    path.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n")
    with pytest.raises(NoPublicKey, match="is a private key"):
        public_key(site(public_key=str(path)))
    path.write_text("ssh-ed25519 AAAA me\n")
    assert public_key(site(public_key=str(path))) == "ssh-ed25519 AAAA me"
