"""The one place that prints: answers to stdout, everything else to stderr. Knows terminals and their width."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from sojourn.cli.show.text import clean, cut, fold

if TYPE_CHECKING:
    from sojourn.cli.progress import Progress

NARROWEST = 40
_WHO = "sojourn: "


class Screen:
    """Where this command line was called from. `columns`: 80 if unknown."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self.out_is_terminal = _is_terminal(out)
        self.err_is_terminal = _is_terminal(err)
        self.may_ask = _is_terminal(sys.stdin) and self.err_is_terminal
        self.columns = _size(out if self.out_is_terminal else err)[0]
        self.can_redraw = self.out_is_terminal and _has_cursor()
        self.is_asking = False
        self.has_asked = False  # a question, with its context, is already on the screen
        self._progress: Progress | None = None

    def show(self, lines: Iterable[str], *, stream: bool = False) -> None:
        """Print the answer, line by line, to stdout.

        If the reader stops (`| head`), the rest of an answer is dropped and its exit status stands; a `stream` ends.
        Raises: BrokenPipeError (stream); OSError (a full disk).
        """
        self.settle()
        try:
            for line in lines:
                self._out.write(line + "\n")
            self._out.flush()
        except BrokenPipeError:
            deafen()
            self._out = sys.stdout
            if stream:
                raise

    def show_page(self, lines: Sequence[str]) -> None:
        """A long answer: on a terminal through the user's pager (PAGER, else less), else as `show` does."""
        import shlex
        import shutil
        import subprocess

        self.settle()
        pager = shlex.split(os.environ.get("PAGER") or "less") if self.out_is_terminal and _has_cursor() else []
        if not pager or shutil.which(pager[0]) is None:
            self.show(lines)
            return
        # less: keep colours, and exit if everything fits on the screen.
        environ = {"LESS": "FRX", **os.environ}
        told = "".join(line + "\n" for line in lines).encode("utf-8", "backslashreplace")
        subprocess.run(pager, input=told, env=environ, check=False)

    def show_json(self, document: dict[str, Any], *, stream: bool = False) -> None:
        """One JSON document to stdout, in ASCII, so that it contains nothing a terminal obeys.

        On one line; indented on a terminal, unless it is one of a `stream`.
        """
        from sojourn.core.plain import json_text

        self.show([json_text(document, 2 if self.out_is_terminal and not stream else None)], stream=stream)

    def answer(self, answer: Any, lines: Callable[[Any, int], Iterable[str]], *, is_json: bool) -> None:
        """A verb's answer: its own document, or the result of `lines` for this many columns."""
        if is_json:
            self.show_json(answer.as_json())
        else:
            self.show(lines(answer, self.columns))

    @property
    def table_columns(self) -> int:
        """Columns available to a table: unlimited if no person reads it, so that no name is cut in a pipe."""
        return self.columns if self.out_is_terminal or "COLUMNS" in os.environ else 1 << 16

    def show_bytes(self, data: bytes) -> None:
        """Bytes unchanged; only if stdout is not a terminal."""
        self.settle()
        self._out.flush()
        self._out.buffer.write(data)
        self._out.buffer.flush()

    def say(self, text: str) -> None:
        """`sojourn: text` to stderr: folded on a terminal, one line in a log file. `text` is cleaned."""
        room = self.columns - len(_WHO) if self.err_is_terminal else 1 << 20
        for i, part in enumerate(fold(clean(text), room)):
            self.say_line((_WHO if i == 0 else " " * len(_WHO)) + part)

    def say_line(self, line: str) -> None:
        """One line to stderr, unchanged. If stderr cannot be written the line is lost, never the answer."""
        self.settle()
        self._to_err(line + "\n")

    def progress(self, line: str) -> None:
        """The current activity, for anyone who waits longer than a second. `line` is cleaned."""
        if self._progress is None:
            from sojourn.cli.progress import Progress

            self._progress = Progress(self._rewrite, is_terminal=self.err_is_terminal and _has_cursor())
        self._progress(line)

    def size(self) -> tuple[int, int]:
        """(columns, lines) of the terminal now."""
        return _size(self._out)

    def settle(self) -> None:
        """Wipe the progress line, so that something else can be printed. Idempotent."""
        if self._progress is not None:
            self._progress.clear()
            self._progress = None

    def prompt(self, text: str) -> str:
        """Ask on stderr and read one line from the terminal, without its newline; "" at end of input."""
        self.settle()
        self.has_asked = self.is_asking = True
        self._to_err(text)
        answer = sys.stdin.readline().rstrip("\n")
        self.is_asking = False
        return answer

    def _rewrite(self, line: str) -> None:
        if self.err_is_terminal and _has_cursor():
            self._to_err("\r\x1b[K" + cut(clean(line), self.columns - 1))
        else:
            self._to_err(_WHO + clean(line) + "\n")

    def _to_err(self, text: str) -> None:
        try:
            self._err.write(text)
            self._err.flush()
        except (OSError, ValueError):  # ValueError: closed
            return


def open_screen() -> Screen:
    """The screen of this process. Characters missing from its encoding are shown escaped."""
    if sys.stdout is None:  # closed by the caller: >&-
        deafen()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return Screen(sys.stdout, sys.stderr)


def deafen() -> None:
    """Discard what remains for stdout; Python flushes it once more at exit and would complain."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def _has_cursor() -> bool:
    return os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _size(stream: TextIO) -> tuple[int, int]:
    """(columns, lines): from COLUMNS, else from the terminal, else 80 and 24."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said) > 0:
        columns = int(said)
    return max(NARROWEST, columns or 80), lines or 24
