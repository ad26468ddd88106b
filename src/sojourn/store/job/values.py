"""A checked job file, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sojourn.core.draw import Space
from sojourn.core.need import Need
from sojourn.core.values import Retry

# Words of a line of a queue file.
QUEUE_NAMES = ["config", "task", "epochs"]
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Mount:
    """One of `file_mounts`. `target`: relative ones are in the working copy. `source`: absolute path here."""

    target: str
    source: str


@dataclass(frozen=True)
class Rule:
    """One of the user's own causes; the first match wins. `action`: retry, fail or exclude-site."""

    name: str
    pattern: str
    action: str


@dataclass(frozen=True)
class EarlyStop:
    """When a cell of a sweep is stopped early. `mode`: max or min; `rule`: median or asha; `grace`: steps that every
    cell gets, also the first rung."""

    metric: str
    mode: str
    rule: str
    grace: int

    def as_plain(self) -> dict[str, str | int]:
        """What the box receives."""
        return {"metric": self.metric, "mode": self.mode, "rule": self.rule, "grace": self.grace}


@dataclass(frozen=True)
class SweepSpec:
    """Cells to run: one of `matrix` (name -> values), `cells` ((name, envs) each), `queue` (absolute path) and `random`
    (name -> what to draw from; `count` cells with this `seed`)."""

    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cells: tuple[tuple[str, Mapping[str, str]], ...] = ()
    queue: str = ""
    budget: tuple[int, str] | None = None
    random: Mapping[str, Space] = field(default_factory=dict)
    count: int = 0
    seed: int = 0
    early_stop: EarlyStop | None = None

    @property
    def names(self) -> list[str]:
        """The names its cells declare for `${NAME}`."""
        if self.queue:
            return QUEUE_NAMES
        return [*self.matrix, *self.random, *dict.fromkeys(name for _, envs in self.cells for name in envs)]


@dataclass(frozen=True)
class JobFile:
    """One job. Paths are absolute. Names declared in `envs` are filled in; a sweep's names are still `${NAME}`.

    Values keep their text as written: 0.10 stays 0.10.
    """

    path: str
    name: str
    workdir: str
    run: str
    resume: str = ""  # replaces `run` if there is a checkpoint
    signal: str = ""  # NAME@SECONDS: sent to the script before its time limit
    site: str = ""
    candidates: tuple[str, ...] = ()
    need: Need = Need()
    num_nodes: int = 1
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    file_mounts: tuple[Mount, ...] = ()
    setup: str = ""
    smoke: str = ""
    outputs: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    persist: tuple[str, ...] = ()  # paths in the working copy, carried over from attempt to attempt
    progress: str = ""  # a regular expression with the groups step, total, epoch and metrics; "" = the usual forms
    protect: str = ""  # "saves": makes in-place writes of libraries' saves atomic
    retry: Retry = Retry()
    stall_after_s: float | None = None
    max_duration_s: float | None = None
    budget: tuple[int, str] | None = None  # micro-units, currency
    max_price: tuple[int, str] | None = None  # micro-units an hour, currency: of a machine that is rented for it
    rules: tuple[Rule, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=dict)
    notify: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # runs and sweeps that must succeed before this starts
    scheduling: Mapping[str, str | bool] = field(default_factory=dict)  # scheduler options, over the site's
    site_options: Mapping[str, Any] = field(default_factory=dict)  # WORD of a kind of site -> what its launcher judges
    sweep: SweepSpec | None = None
    warnings: tuple[str, ...] = ()  # "file:line:column: what", for stderr


NAME_RULE = "is not a name for a run: 1 to 63 of a-z, 0-9, '.', '_', '-', a letter or digit at both ends"
