"""Write docs/errors.md from the error classes of the code; with `--check`, say whether the page is stale instead.

.venv/bin/python scripts/errors_page.py [--check]
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import sojourn
from sojourn.wire.errors import SojournError

PAGE = Path(__file__).resolve().parent.parent / "docs/errors.md"

# What an exit status means, of every command. The program's public contract: added to, never changed.
EXITS = {
    0: "success",
    1: "finished with a bad result: a run failed, an artifact does not load, or something is missing",
    2: "wrong usage, or a mistake in the job file",
    3: "the site cannot be reached; the state of its runs is unknown",
    4: "refused: by the Iron Law, or because a confirmation is missing",
    5: "the site or service returned an error",
    10: "warnings",
    11: "a confirmed blocker",
    70: "a bug in sojourn; its traceback is shown",
    130: "interrupted",
}

# `watch` and `status RUN --exit-status` speak of the run instead; of several runs the worst, in the order of the table.
RUN_EXITS = {
    102: "not found",
    100: "failed, out of memory, killed or lost",
    113: "stopped by its budget, its walltime or a platform clock",
    112: "stalled",
    5: "its box returned an error or an invalid answer",
    111: "unreachable",
    110: "succeeded, but not home and verified",
    101: "not finished, including preempted and waiting to resume",
    103: "cancelled",
    0: "succeeded, home and verified",
}


SLOW = ("transformers", "lightning")


def error_classes() -> list[type[SojournError]]:
    """Every error class of the package, by importing every module; sorted by exit status and code.

    Raises: whatever an import raises, since a module that cannot be imported hides its errors.
    """
    hidden = {name: None for name in SLOW if name not in sys.modules}  # the adapters can be read without
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None: to import it is an error
    try:
        for module in pkgutil.walk_packages(sojourn.__path__, "sojourn."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    finally:
        for name in hidden:
            del sys.modules[name]
    found, waiting = set(), [SojournError]
    while waiting:
        for child in waiting.pop().__subclasses__():
            if child not in found and child.__module__.startswith("sojourn."):
                found.add(child)
                waiting.append(child)
    return sorted(found, key=lambda error: (error.exit_status, error.code, error.__qualname__))


def faults(classes: list[type[SojournError]]) -> list[str]:
    """What is wrong with the classes themselves: one line each, empty when all is well."""
    found = []
    owners: dict[str, type[SojournError]] = {}
    for error in classes:
        name = f"{error.__module__}.{error.__qualname__}"
        if error.exit_status not in EXITS or error.exit_status == 0:
            found.append(f"{name}: exit status {error.exit_status} is not in the table of failures")
        if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", error.code):
            found.append(f"{name}: code {error.code!r} is not in the form words-with-hyphens")
        if "code" not in vars(error):
            found.append(f"{name}: says no code of its own")
        elif error.code in owners:
            found.append(f"{name}: code {error.code!r} is already that of {owners[error.code].__qualname__}")
        if not vars(error).get("__doc__"):
            found.append(f"{name}: its docstring is its message, and it has none")
        owners.setdefault(error.code, error)
    return found


def page(classes: list[type[SojournError]]) -> str:
    """The whole page."""
    lines = [
        "# Errors and exit statuses",
        "",
        "Generated from the code by `make pages`; `make check` fails if it is out of date.",
        "",
        "On failure with `--json` the last line on stderr is one object: `kind` (`error`), `code`, `exit`, `message`,",
        "`next`.",
        "Codes keep their meaning; the wording may change. Text in braces is filled in.",
        "",
        "## Exit status of every command",
        "",
        *table(("exit", "means"), [(str(number), meaning) for number, meaning in EXITS.items()]),
        "",
        "## Exit status of `watch` and of `status RUN --exit-status`",
        "",
        "It describes the run, not the command. For several runs, the worst one counts: the first in this table.",
        "",
        *table(("exit", "the run"), [(str(number), meaning) for number, meaning in RUN_EXITS.items()]),
        "",
        "A training process exits with 75 to ask the keeper for another attempt after a preemption.",
        "",
        "## Errors",
        "",
        "`again` says whether it makes sense to repeat the command later.",
        "",
    ]
    rows: list[tuple[str, ...]] = []
    for error in classes:
        message = " ".join((error.__doc__ or "").split())
        again = "yes" if error.retry else "no"
        step = f"`{error.next_step}`" if error.next_step else ""
        rows.append((f"`{error.code}`", str(error.exit_status), again, message, step))
    return "\n".join(lines + table(("code", "exit", "again", "message", "next"), rows)) + "\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """A Markdown table, with `|` in cells written so that it does not end the cell."""
    return [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        for row in [head, tuple("---" for _ in head), *rows]
    ]


def main() -> int:
    """Write or check the page; 1 when it is stale or a class is at fault."""
    classes = error_classes()
    for fault in faults(classes):
        print(f"errors: {fault}", file=sys.stderr)
    text = page(classes)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        print(f"wrote  docs/errors.md  {len(classes)} errors")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print("errors: docs/errors.md is stale. To accept what the code says: make pages", file=sys.stderr)
        return 1
    return 1 if faults(classes) else 0


if __name__ == "__main__":
    sys.exit(main())
