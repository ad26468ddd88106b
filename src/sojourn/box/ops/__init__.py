"""What a `call` can ask of the box, one file per subject; `sojourn.box.call` dispatches."""
