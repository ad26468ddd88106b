"""Requests that a `call` can make to the box, one file per subject; `sojourn.box.call` dispatches."""
