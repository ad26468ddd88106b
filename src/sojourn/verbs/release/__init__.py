"""Letting go under the Iron Law: `down`, `clean`, and the facts that they are judged by."""
