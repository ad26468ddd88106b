"""The desk of the tests of the whole chain."""

from tests.spine.conftest import compiled, desk

__all__ = ["compiled", "desk"]
