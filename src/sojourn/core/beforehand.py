"""A release that was confirmed before its runs had ended: valid for one lease, and for the clean case alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sojourn.core.law import SUPERSEDED, Facts, Judgement
from sojourn.core.owed import Lack
from sojourn.core.values import Lease, State


@dataclass(frozen=True)
class Beforehand:
    """What was confirmed: this very lease, with the runs on it then."""

    lease: str
    token: str
    native: str
    runs: frozenset[str]

    def beyond(self, lease: Lease, facts: Facts, judgement: Judgement) -> tuple[Lack, ...]:
        """Everything beyond the confirmation: anything a person would have to look at holds the lease."""
        again = f"sojourn down {self.lease}"
        lacks = []
        if (lease.name, lease.token, lease.native) != (self.lease, self.token, self.native):
            lacks.append(Lack("", "this is another lease than the one that was confirmed", again))
        for run in facts.runs:
            if run.run not in self.runs:
                lacks.append(Lack(run.run, "was not on the lease when it was confirmed", again))
            elif run.is_launched and run.state is not State.SUCCEEDED:
                lacks.append(Lack(run.run, f"is {run.state.value}, not succeeded", again))
        lacks += [Lack(stray.name, stray.what, stray.next) for stray in facts.strays]
        lacks += [Lack(run, f"{glob} is owed and was never written", again) for run, glob in judgement.acknowledged]
        lacks += [Lack(run, f"{path} is home, and was not loaded", again) for run, path in judgement.unproven]
        lacks += [Lack("", line, again) for line in judgement.listed if not line.endswith(SUPERSEDED)]
        given = (*judgement.abandoned, *judgement.accepted)
        return (*lacks, *(Lack(name, "cannot be given up beforehand", again) for name in given))
