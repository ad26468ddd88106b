"""What a user asks of `plan` and `run`, made once by the command line. Says nothing of how long anybody waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunRequest:
    """The job, and where and how it runs.

    `file`: "" = ./sojourn.yaml; `command`: in place of a job file; `site`: "" = what the job file says, else local.
    `name`: "" = the job's own. `env`: variables over those of the job file. `another`: on a machine that is rented
    for it, though the site has one already. `new`: under the first free name of NAME, NAME-2 ... `scheduling`:
    options of its scheduler over those of the job file. `yes`: rented without a question, within `max_price` and
    `budget`. `waits`: until a machine can be had.
    """

    file: str = ""
    command: Sequence[str] = ()
    site: str = ""
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    another: bool = False
    new: bool = False
    scheduling: Mapping[str, str | bool] = field(default_factory=dict)
    yes: bool = False
    waits: bool = False
