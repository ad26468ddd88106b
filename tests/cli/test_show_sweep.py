"""What a sweep looks like at 80 columns."""

from sojourn.cli.show import reconcile, status, sweep, tally
from sojourn.cli.show.text import width
from sojourn.core.values import Meter, State
from sojourn.verbs.answers import Reach, Row, StatusReport
from sojourn.verbs.observe.tally import tally as counted
from sojourn.verbs.sweep.sweep import Part, Swept

AT = "2026-11-21T13:03:00.000Z"


def row(name: str, state: State, **more: object) -> Row:
    fields = {"attempt": 1, "since": AT, "meter": Meter.FREE, "sweep": "ab", "site": "gpu1", **more}
    return Row(id=name, state=state, **fields)  # type: ignore[arg-type]


def count(cells: int, states: dict[str, int], **more: object) -> dict[str, object]:
    bare = {"cells": cells, "states": states, "home": 0, "percentage": 40.0, "remaining_s": None, "spent": []}
    return {**bare, "unpriced": 0, "reach": Reach(True).as_json(), **more}


def test_a_placed_sweep_names_its_boxes_and_their_cells() -> None:
    cells = tuple(f"ab-lr{n}" for n in range(8))
    answer = Swept(
        "ab", "queued", "10 cells are queued on 2 sites", 10, (), (Part("gpu1", cells, 2), Part("gpu2", ("x", "y"), 1)),
        "sojourn status ab",
    )  # fmt: skip
    assert sweep.lines(answer, 80) == [
        "sweep    ab, 10 cells",
        "SITE  NEW  SLOTS",
        "gpu1    8      2",
        "gpu2    2      1",
        "         gpu1: ab-lr0, ab-lr1, ab-lr2, ab-lr3, ab-lr4, ab-lr5 and 2 more",
        "         gpu2: x, y",
        "queued   10 cells are queued on 2 sites",
        "next     sojourn status ab",
    ]


def test_a_sweep_is_a_matrix_of_sites_and_states_with_its_failures_by_cause() -> None:
    rows = (
        row("ab-1", State.RUNNING, step=4, total=10, percentage=40.0, remaining_s=60.0, next="sojourn watch ab-1"),
        row("ab-2", State.QUEUED),
        row("ab-3", State.FAILED, reason="exit status 4", site="gpu2"),
        row("ab-4", State.FAILED, reason="exit status 4", site="gpu2"),
    )
    away = Reach(False, AT, "timeout").as_json()
    spent = [{"amount": 1.5, "currency": "USD", "micro": 1_500_000}]
    here = count(2, {"running": 1, "queued": 1}, site="gpu1", remaining_s=180.0)
    there = count(2, {"failed": 2}, site="gpu2", reach=away, spent=spent)
    states = {"running": 1, "queued": 1, "failed": 2}
    causes = [{"what": "failed", "cause": None, "why": "exit status 4", "cells": ["ab-3", "ab-4"], "next": "x"}]
    whole = count(4, states, id="ab", remaining_s=180.0, spent=spent, sites=[here, there], causes=causes)
    lines = tally.lines(StatusReport(rows, AT, 100, (whole,)), 80)
    assert lines == [
        "sweep    ab, 4 cells: 1 running, 1 queued, 2 failed",
        "done     40 %, results of 0 cells here",
        "left     about 3 m 00 s",
        "cost     1.50 USD",
        "SITE  CELLS  QUEUED  RUNNING  FAILED  DONE  HOME  LEFT      COST      BOX",
        "gpu1      2       1        1          40%   0     3 m 00 s",
        "gpu2      2                        2  40%   0               1.50 USD  no answer",
        "",
        "RUN   STATE    STEP  DONE  LEFT      COST  AGE    SITE",
        "ab-1  running  4/10   40%  1 m 00 s  free  0.0 s  gpu1",
        "2 failed: exit status 4: ab-3, ab-4",
        "gpu2: no answer (timeout)",
        "next     sojourn watch ab",
    ]
    assert all(width(line) <= 80 for line in lines)


def test_reconcile_says_three_numbers_and_then_what_lacks_by_cause() -> None:
    from sojourn.verbs.sweep.fate import Fate
    from sojourn.verbs.sweep.reconcile import Reconciled

    class View:
        def __init__(self, name: str) -> None:
            self.record = self
            self.id = name
            self.reach = Reach()

    fates = [Fate(View(f"ab-{n}"), what, why) for n, (what, why) in enumerate(  # type: ignore[arg-type]
        [("loaded", ""), ("present", ""), ("failed", "exit status 4"), ("failed", "exit status 4"), ("unknown", "x")]
    )]  # fmt: skip
    ahead = {"site": "gpu1", "state": "running", "step": 40, "checkpoint": "ckpt-40"}
    behind = {"site": "gpu2", "state": "lost", "step": None, "checkpoint": ""}
    twice = ({"run": "ab-0", "sites": ["gpu1", "gpu2"], "progress": [ahead, behind]},)
    answer = Reconciled("ab", tuple(fates), twice, ("ab-2",), (), "sojourn watch ab")
    assert reconcile.lines(answer, 80) == [
        "sweep    ab",
        "cells    5 expected, 2 present, 1 loaded",
        "         1 not pulled yet: ab-1",
        "         2 failed: exit status 4: ab-2, ab-3",
        "         1 unknown: x: ab-4",
        "twice    ab-0 was started on gpu1 (running, step 40, checkpoint ckpt-40) and on",
        "         gpu2 (lost, no step known)",
        "repair   1 cell requested again",
        "next     sojourn watch ab",
    ]
    assert answer.exit_status == 1 and answer.as_json()["present"] == ["ab-0", "ab-1"]


def test_two_hundred_cells_that_ended_alike_are_one_line_of_status() -> None:
    reason = "pruned: acc is 0.%d at step %d, behind the best 7 of %d cells"
    rows = [row(f"ab-r{n}", State.CANCELLED, reason=reason % (n, 100 + n, 20 + n)) for n in range(200)]
    notes = [line for line in status.lines(StatusReport(tuple(rows), AT, 103), 200, finals=200) if "pruned" in line]
    assert notes == [
        "200 cells of ab cancelled: pruned: acc is 0.0 at step 100, behind the best 7 of 20 cells"
        " (ab-r0, ab-r1, ab-r2, ab-r3, ...)"
    ]
    causes = counted([], rows)[0]["causes"]
    assert [(one["what"], len(one["cells"])) for one in causes] == [("cancelled", 200)]
