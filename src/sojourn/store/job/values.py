"""A checked job file, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sojourn.core.need import Need
from sojourn.core.values import Retry

# Words of a line of a queue file.
QUEUE_NAMES = ["config", "task", "epochs"]
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Mount:
    """One of `file_mounts`. `target`: in the working copy when relative. `source`: absolute path here."""

    target: str
    source: str


@dataclass(frozen=True)
class Rule:
    """One of the user's own causes; the first match wins. `action`: retry, fail or exclude-site."""

    name: str
    pattern: str
    action: str


@dataclass(frozen=True)
class SweepSpec:
    """Cells to run: one of `matrix` (name -> values), `cells` ((name, envs) each) and `queue` (absolute path)."""

    matrix: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cells: tuple[tuple[str, Mapping[str, str]], ...] = ()
    queue: str = ""
    budget: tuple[int, str] | None = None

    @property
    def names(self) -> list[str]:
        """What its cells declare for `${NAME}`."""
        if self.queue:
            return QUEUE_NAMES
        return [*self.matrix, *dict.fromkeys(name for _, envs in self.cells for name in envs)]


@dataclass(frozen=True)
class JobFile:
    """One job. Paths are absolute. Names declared in `envs` are filled in; those of a sweep still stand as `${NAME}`.

    Values keep their text as written: 0.10 stays 0.10.
    """

    path: str
    name: str
    workdir: str
    run: str
    resume: str = ""  # in place of `run` where there is a checkpoint
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
    persist: tuple[str, ...] = ()  # paths of the working copy that every attempt finds as the one before left them
    progress: str = ""  # a regular expression with the groups step, total, epoch and metrics; "" = the usual forms
    protect: str = ""  # "saves": in-place writes of libraries that save are made whole or not at all
    retry: Retry = Retry()
    stall_after_s: float | None = None
    max_duration_s: float | None = None
    budget: tuple[int, str] | None = None  # micro-units, currency
    rules: tuple[Rule, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=dict)
    notify: tuple[str, ...] = ()
    after: tuple[str, ...] = ()  # runs and sweeps that must have succeeded before this starts
    sweep: SweepSpec | None = None
    warnings: tuple[str, ...] = ()  # "file:line:column: what", for stderr


NAME_RULE = "is not a name for a run: 1 to 63 of a-z, 0-9, '.', '_', '-', a letter or digit at both ends"
