"""The user's own rules (`rules` of the job file) as gotchas: judged by the same engine, and told before all others.

Which of them fits was found by the keeper at the end of the attempt, in the whole log, and is an observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.core.gotcha import OWN, Gotcha

_FIXES = {
    "retry": "The keeper starts the next attempt automatically while `retry.attempts` are left; else: sojourn resume.",
    "fail": "It is not retried automatically. Fix what the rule is about, then: sojourn resume.",
    "exclude-site": "Not retried on this site. Run it on another one: sojourn run --site S --name N.",
}


def gotchas_of(launch: Mapping[str, Any]) -> tuple[Gotcha, ...]:
    """One for each rule that the run was launched with, in their order; () without any."""
    rules = launch.get("rules")
    found = []
    for number, rule in enumerate(rules if isinstance(rules, list) else [], start=1):
        if isinstance(rule, Mapping):
            found.append(_gotcha(number, rule))
    return tuple(found)


def _gotcha(number: int, rule: Mapping[str, Any]) -> Gotcha:
    name, action = str(rule.get("name") or number), str(rule.get("action") or "")
    return Gotcha(
        f"rule:{name}",
        f"Your rule {name} matched ({action})",
        theme=OWN,
        severity="blocker",
        tier=10 * number,
        cause=f"A line of the log matches its pattern, {rule.get('pattern')}",
        fix=_FIXES.get(action, ""),
        confirm=(f"run.rule == {number} && run.rule_line present && run.alive == false",),
        refute=("run.exit_code == 0 && run.done_record == true",),
        sources=("the job file",),
    )
