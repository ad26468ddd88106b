"""What a person reads: pure functions from what a verb returned to lines of plain text, none longer than the screen."""
