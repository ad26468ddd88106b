"""Accounts at every provider at once, and settings that name a site at each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sojourn.backends.client import limits
from tests.clouds.accounts import CLOUDS, PUBLIC_KEY, greeting, keys_of, reached
from tests.clouds.standin import Cloud, Machine, serving


def settings(text: str) -> None:
    """Write the user's settings."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn/settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def clouds(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Cloud]]:
    """An account at every provider; their machines greet as ssh servers do, and to the keeper each is this machine."""
    monkeypatch.setattr(limits, "_kept", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "id.pub").write_text(PUBLIC_KEY + "\n")
    found, text = {}, ""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(greeting())

        def boot(one: Machine) -> None:
            one.port = port

        for name, kind in CLOUDS.items():
            found[name] = kind()
            found[name].on_boot = boot
            api = stack.enter_context(serving(found[name]))
            text += f'[sites.{name}]\ntransport = "local"\nprovider = "{name}"\nbase = "{tmp_path}/base"\n'
            ((how, where),) = reached(name, api, tmp_path).items()
            text += f'[sites.{name}.{name}]\n{how} = "{where}"\npublic_key = "{tmp_path}/id.pub"\nssh_port = {port}\n'
            for variable, key in keys_of(name).items():
                monkeypatch.setenv(variable, key)
            monkeypatch.setattr(f"sojourn.backends.provider.{name}.EVERY_S", {})
        settings(text)
        yield found
    assert [cloud.violations for cloud in found.values()] == [[]] * len(found)
