"""Which parser reads which probe."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Probe:
    """What a probe said. `launch`: what was kept when the attempt started; `others`: texts of all probes by name."""

    name: str
    text: str
    stderr: str = ""
    rc: int | None = None
    at: str = ""
    launch: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)  # what else its entry says: age_s, size, alive, ...

    @property
    def is_silent(self) -> bool:
        """Nothing was read: the file is not there, we may not look, or no answer came in time."""
        return self.rc not in (0, None) and not self.text.strip()

    def kept(self, *names: str) -> Any:
        """The first of these that was kept at launch, None without any."""
        return next((self.launch[name] for name in names if name in self.launch), None)


Parse = Callable[[Probe], Mapping[str, Any]]


@dataclass(frozen=True)
class Reader:
    """`named`: regex over the probe's name; `begins`: over its text, for names that say nothing ("" = never).

    `hears_silence`: also how it failed tells something; other readers make nothing of a probe that said nothing.
    """

    named: str
    parse: Parse
    begins: str = ""
    hears_silence: bool = False


@cache
def sources() -> tuple[ModuleType, ...]:
    """Every file of this folder that reads probes: READS. What a scheduler keeps of its jobs has TABLE too, the rows of
    the vocabulary that are its own.
    """
    from sojourn.diagnose import facts

    names = sorted(found.name for found in pkgutil.iter_modules(facts.__path__))
    modules = [importlib.import_module(f"{facts.__name__}.{name}") for name in names]
    return tuple(module for module in modules if hasattr(module, "READS"))


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader there is."""
    return tuple(reader for module in sources() for reader in module.READS)


def observe(probe: Probe, *, is_log: bool = False) -> dict[str, Any]:
    """Observations of one probe, of every reader whose name fits, else of those that know its text. `is_log`: what a
    program printed is no probe, whatever it looks like; it is read for events.
    """
    fitting = [r for r in readers() if re.search(r.named, probe.name)]
    if not fitting and not is_log:
        fitting = [r for r in readers() if r.begins and re.search(r.begins, probe.text)]
    found: dict[str, Any] = {}
    if probe.is_silent:
        fitting = [r for r in fitting if r.hears_silence]
    for reader in fitting:
        try:
            found.update(reader.parse(probe))
        except _NOT_READ:
            continue  # such a text says nothing
    return found


# What a text from a box can make of a parser that was written for those of real tools: a number of a million digits, a
# column that is not there.
_NOT_READ = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError)


def number(text: str) -> float | None:
    """A number at the start of a text such as "45 %" or "70.5 W"; None for "[N/A]" and the like."""
    found = re.match(r"\s*(-?[0-9]{1,18}(?:\.[0-9]{1,18})?)(?![0-9])", text)
    return float(found.group(1)) if found else None
