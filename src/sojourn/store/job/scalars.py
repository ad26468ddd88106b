"""Single values of a job file: text in, value out, ValueError with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sojourn.wire import units
from sojourn.wire.manifest import is_safe


def whole(text: str) -> int:
    """A whole number of at least 1. Raises: ValueError."""
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def signal_before(text: str) -> str:
    """NAME@SECONDS from "USR1@120" or "SIGTERM@90": the warning before a time limit. Raises: ValueError."""
    hit = re.fullmatch(r"(?:B:)?(?:SIG)?(TERM|INT|HUP|USR1|USR2)@([1-9][0-9]{0,4})", text.strip())
    if not hit:
        raise ValueError(f"{text!r} is not a signal and the seconds before the limit (write TERM@120)")
    return f"{hit[1]}@{hit[2]}"


def long_option(text: str) -> str:
    """A long option of sbatch without its dashes, as sbatch writes it. Raises: ValueError."""
    name = text.strip().lstrip("-").replace("_", "-")
    if not re.fullmatch(r"[a-z][a-z0-9-]+", name):
        raise ValueError(f"{text!r} is not a long option of sbatch (write partition, time, gres ...)")
    return name


def option_words(options: Mapping[str, str | bool]) -> list[str]:
    """The options as words of a command line."""
    return [
        word for name, value in options.items() for word in ("--slurm", name if value is True else f"{name}={value}")
    ]


def amount(text: str) -> tuple[float, bool]:
    """(number, or more) of "4" or "4+". Raises: ValueError."""
    hit = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(\+?)", text.strip())
    if not hit or float(hit.group(1)) <= 0:
        raise ValueError(f"{text!r} is not an amount (write 4 or 4+)")
    return float(hit.group(1)), bool(hit.group(2))


def gib(text: str) -> tuple[float, bool]:
    """(GiB, or more) of "24", "24+", "64GB", "512MB+"; a bare number is GiB. Raises: ValueError."""
    bare = text.strip()
    more = bare.endswith("+")
    bare = bare.rstrip("+") if bare.count("+") == 1 else bare
    try:
        value = float(bare) if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", bare) else units.size_bytes(bare) / 1024**3
    except ValueError:
        value = 0.0
    if value <= 0:
        raise ValueError(f"{text!r} is not a size (write 24, 24+ or 64GB)")
    return value, more


def accelerator(text: str) -> tuple[str, int]:
    """(name, count) of "A100" or "A100:2". Raises: ValueError."""
    hit = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._ -]*?)(?:\s*:\s*([1-9][0-9]{0,3}))?", text.strip())
    if not hit:
        raise ValueError(f"{text!r} is not an accelerator (write A100 or A100:2)")
    return hit.group(1), int(hit.group(2) or 1)


def glob(text: str) -> str:
    """A relative path or glob below the working copy. Raises: ValueError."""
    path = text.removeprefix("./")
    if not is_safe(path.rstrip("/") if path != "/" else path):
        raise ValueError(f"{text!r} must be relative and stay inside the run's own folder")
    return path


def inside(text: str) -> str:
    """A file or folder below the working copy, without globs. Raises: ValueError."""
    path = glob(text).rstrip("/")
    if any(c in path for c in "*?[") or path in ("", "."):
        raise ValueError(f"{text!r} is not a folder of the working copy (write out)")
    return path


def target(text: str) -> str:
    """Where a mount goes: relative (below the working copy) or absolute, without `..`. Raises: ValueError."""
    path = text.removeprefix("./").rstrip("/")
    if not is_safe(path.removeprefix("/")) or path.startswith("~"):
        raise ValueError(f"{text!r} is not a target (write data, or /data/set)")
    return path


def pattern(text: str) -> str:
    """A regular expression. Raises: ValueError."""
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


def without_zero(text: str) -> str:
    """`text`, unless it contains a zero byte, which no argument or environment can hold. Raises: ValueError."""
    if "\x00" in text:
        raise ValueError("there is a zero byte in it")
    return text
