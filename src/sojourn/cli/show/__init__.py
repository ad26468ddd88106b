"""The text output: pure functions from a verb's result to lines of plain text, none longer than the screen."""
