"""What no rerun excuses: something was lost, doubled, released, falsely verified, written or run by a box."""

from __future__ import annotations

from typing import Any


class Violation(AssertionError):
    """A promise is broken. A test that raises it fails at once; any other failure is run again without neighbors."""


def held(is_kept: Any, story: object = "") -> None:
    """Raise Violation with the story unless the promise is kept."""
    if not is_kept:
        raise Violation(str(story))
