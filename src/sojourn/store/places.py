"""Our folders on this machine, by the XDG rules. Nothing here creates a folder."""

from __future__ import annotations

import os

from sojourn.wire.errors import Misuse


class Homeless(Misuse):
    """sojourn has no folder for its records: {detail}."""

    code = "no-home-folder"
    next_step = "set HOME, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME, to absolute paths"


def state_dir() -> str:
    """The journal and its index: $XDG_STATE_HOME/sojourn. Raises: Homeless."""
    return _folder("XDG_STATE_HOME", ".local/state")


def cache_dir() -> str:
    """What may be deleted at any time: $XDG_CACHE_HOME/sojourn. Raises: Homeless."""
    return _folder("XDG_CACHE_HOME", ".cache")


def settings_path() -> str:
    """The user's settings: $XDG_CONFIG_HOME/sojourn/settings.toml. Raises: Homeless."""
    return os.path.join(_folder("XDG_CONFIG_HOME", ".config"), "settings.toml")


def data_dir() -> str:
    """BASE of the site `local`: $XDG_DATA_HOME/sojourn. Raises: Homeless."""
    return _folder("XDG_DATA_HOME", ".local/share")


def _folder(variable: str, default: str) -> str:
    base = os.environ.get(variable, "")
    # A relative path in one of these must be ignored.
    # Source: XDG Base Directory Specification 0.8 (specifications.freedesktop.org/basedir-spec, checked 2026-11).
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            raise Homeless(detail=f"HOME is {os.environ.get('HOME', 'not set')!r}")
        base = os.path.join(home, default)
    return os.path.join(base, "sojourn")
