"""What each answer looks like at 80 columns, held by golden files in screens/."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sojourn.cli.show import down, init, launch, leases, plan, pull, smoke, status, stop, verify
from sojourn.cli.show.text import width
from sojourn.core.artifact import Artifact
from sojourn.core.values import Evidence, Finding, Meter, State
from sojourn.verbs import answers
from sojourn.verbs.answers import LeaseRow, Reach, Row
from sojourn.verbs.project.init import Draft
from sojourn.verbs.project.smoke import Smoke
from sojourn.verbs.retrieve.verify import Verified
from sojourn.wire.units import unstamp

SCREENS = Path(__file__).with_name("screens")
AT = "2026-11-21T13:03:00.000Z"
ESC = "\x1b[2J\u202e"


@pytest.fixture(autouse=True)
def in_a_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


RUNNING = Row(
    id="digits",
    site="local",
    state=State.RUNNING,
    attempt=2,
    since="2026-11-21T12:59:48.000Z",
    reach=Reach(ok=True, last_ok=AT),
    meter=Meter.FREE,
    step=1200,
    total=3000,
    percentage=40.0,
    remaining_s=192.4,
    metrics={"loss": 0.31234567, "accuracy": 0.9, "note" + ESC: "x" + ESC},
    log_age_s=2.2,
    owed=2,
    next="sojourn watch digits",
)
HOME = replace(
    RUNNING,
    id="a-name-as-long-as-names-may-be-with-many-words-and-a-seed-in-it-17",
    site="ssh:gpu-box-in-the-basement",
    state=State.SUCCEEDED,
    attempt=1,
    since="2026-11-20T20:00:00.000Z",
    meter=Meter.RUNNING,
    step=3000,
    percentage=100.0,
    remaining_s=None,
    owed=14,
    home=14,
    is_home=True,
    spent_micro=1_190_000,
    next="sojourn down gpu-1",
)
FAILED = replace(
    RUNNING,
    id="pixel-lr3",
    state=State.FAILED,
    attempt=1,
    step=None,
    total=None,
    percentage=None,
    remaining_s=None,
    reason=f"its process ended with exit status 1: FileNotFoundError{ESC}: '/data/digits/train-labels.npy'",
    missing=("checkpoints/best.pt",),
    next="sojourn why pixel-lr3",
)
AFAR = replace(
    RUNNING,
    id="far",
    site="ssh:gpu-box-in-the-basement",
    attempt=1,
    reach=Reach(ok=False, last_ok="2026-11-21T12:00:00.000Z", error="connection timed out"),
    meter=Meter.UNKNOWN,
    owed=None,
    spent_micro=None,
)
FINDING = Finding(
    id="disk-nearly-full",
    status="confirmed",
    title="The disk of the run's folder has less room than the run needs",
    severity="blocker",
    cause="The checkpoints of earlier runs fill it.",
    fix="Remove what is home and verified, or name another `base` in the site's settings.",
    evidence=(Evidence("disk.free_bytes", 12345, "df -Pk /data", AT),),
)
ARTIFACTS = (
    Artifact("checkpoints/best.pt", "torch_zip", 2_000_000_000, "x", ("bytes", "structure", "load", "content")),
    Artifact("metrics.json", "json", 512, "x", ("bytes", "structure", "load"), remarks=("empty list",)),
    Artifact("notes.xyz", "unknown", 100, "x", ("bytes",)),
    Artifact(f"w{ESC}.npz", "numpy", 100, "x", ("bytes",), "truncated", "the central directory ends 12 bytes early"),
)
PULL = answers.Pull(
    run="digits",
    ok=False,
    home="/home/me/.local/share/sojourn/home/digits",
    artifacts=ARTIFACTS,
    files=4,
    bytes=2_480_000_000,
    moved_files=3,
    moved_bytes=2_000_000_000,
    seconds=192.0,
    receipts=2,
    missing=("report.html",),
    why="2 of 5 are not home and proven",
    next="sojourn logs digits",
    taken=(f"out/ck{ESC}pt.pt: from attempt 1; no later attempt wrote one",),
    meter=Meter.RUNNING,
    spent_micro=1_190_000,
    exit_status=1,
)
GOOD_PULL = replace(
    PULL, ok=True, artifacts=ARTIFACTS[:2], files=2, moved_files=2, missing=(), why="", taken=(), meter=Meter.FREE
)
LAUNCH = answers.Launch(
    "digits", "local", "/r", 1, State.RUNNING, "launched", "its process is alive (pid 4242)", "sojourn watch digits"
)
LEASE = LeaseRow(
    id="gpu-1",
    site="ssh:gpu-box-in-the-basement",
    platform="runpod",
    provider="runpod",
    rate_micro_per_h=1_190_000,
    currency="USD",
    began="2026-11-21T12:03:00.000Z",
    meter=Meter.RUNNING,
    spent_micro=1_190_000,
    idle_s=720.0,
    clocks=(
        {"what": "stopped pods are deleted", "at": "2026-11-28T12:00:00Z", "loses": "the volume", "left_s": 518_220.0},
        {"what": "the balance reaches 0", "at": "when it is used up", "loses": "every pod", "left_s": None},
    ),
    stop_verb="terminate",
    is_final=True,
    runs=("digits", "pixel"),
    idle_spent_micro=238_000,
    disk_rate_micro_per_h=2_740,
    disk_micro=2_740,
    traffic_micro=12_000,
)
FREE = replace(
    LEASE,
    id="local",
    site="local",
    rate_micro_per_h=0,
    meter=Meter.FREE,
    spent_micro=0,
    idle_s=None,
    clocks=(),
    idle_spent_micro=None,
    disk_rate_micro_per_h=None,
    disk_micro=None,
    traffic_micro=None,
)
BALANCES = (
    {
        "provider": "vastai",
        "leases": ["gpu-1"],
        "balance": {"amount": 8.4, "currency": "USD", "micro": 8_400_000},
        "lasts_s": 25_352.9,
        "why": None,
    },
    {"provider": "runpod", "leases": ["gpu-2"], "balance": None, "lasts_s": None, "why": "its API does not tell"},
)
COST = answers.Leases(
    "cost",
    (LEASE, replace(FREE, ended=AT)),
    ((1_190_000, "USD"),),
    ({"id": "digits", "lease": "gpu-1", "spent": {"amount": 1.0, "currency": "USD", "micro": 1_000_000}},),
    AT,
)
PLAN = answers.Plan(
    id="digits",
    site="local",
    identity="x",
    decision={
        "do": "refuse",
        "attempt": 1,
        "why": "the name is taken by another specification",
        "differs": ["run: was ..."],
    },
    push={"files": 12, "bytes": 30_000, "new_bytes": 512, "snapshots": []},
    copy={"bytes": 30_000, "inodes": 20, "mode": "copy"},
    disk={
        "path": "/home/me",
        "free_bytes": 1 << 34,
        "needed_bytes": 1 << 20,
        "free_inodes": 10**6,
        "needed_inodes": 40,
    },
    survival={"path": "/home/me/.local", "verb": "down", "survives": True, "why": "nothing is deleted"},
    rate_micro_per_h=1_190_000,
    currency="USD",
    max_spent_micro=None,
    clocks=LEASE.clocks,
    setup={"text": "pip install -r requirements.txt", "digest": "x", "reused": None},
    outputs=("checkpoints/best.pt", "metrics.json"),
    argv=("bash",),
    reach=Reach(ok=False, error="connection refused"),
    findings=(FINDING,),
    remarks=("sojourn.yaml:3:1: `service` is ignored",),
    next="sojourn run --new",
    exit_status=2,
)
DOWN = answers.Down(
    lease="gpu-1",
    site="gpu-1",
    runs=("digits", "pixel"),
    released=True,
    settled=False,
    line="terminated; the provider says twice that it is gone",
    acknowledged=("pixel: no file for report.html",),
    abandoned=("pixel: weights.npz",),
    accepted=(),
    lost=(),
    spent_micro=1_190_000,
    currency="USD",
    next="sojourn cost",
)
SMOKE = Smoke(
    "/w/sojourn.yaml",
    "python3 train.py --steps 2",
    "exit",
    1,
    0.8,
    "Traceback\n  a\nValueError: \x1b[31mbad",
    (),
    "sojourn smoke",
)

SHOWN: dict[str, Callable[[], list[str]]] = {
    "status": lambda: status.lines(answers.StatusReport((RUNNING, HOME, FAILED, AFAR), AT), 80),
    "status-60": lambda: status.lines(answers.StatusReport((RUNNING, HOME, FAILED, AFAR), AT), 60),
    "status-none": lambda: status.lines(answers.StatusReport((), AT), 80),
    "status-many": lambda: status.lines(answers.StatusReport((RUNNING, *[HOME] * 30), AT), 80, finals=2),
    "status-running": lambda: status.one(RUNNING, unstamp(AT), 80),
    "status-home": lambda: status.one(HOME, unstamp(AT), 80),
    "status-failed": lambda: status.one(FAILED, unstamp(AT), 80),
    "status-afar": lambda: status.one(AFAR, unstamp(AT), 80),
    "launch": lambda: launch.lines(LAUNCH, 80),
    "launch-dead": lambda: launch.lines(
        replace(
            LAUNCH, state=State.FAILED, why="its process ended at once with exit status 1", log_tail=f"a\n{ESC}b\n"
        ),
        80,
    ),
    "launch-blocked": lambda: launch.lines(replace(LAUNCH, did="blocked", why="1 blocker", findings=(FINDING,)), 80),
    "stop": lambda: stop.lines(
        answers.Stop("digits", 2, State.CANCELLED, True, "it saved and ended by itself", "sojourn resume digits"), 80
    ),
    "pull": lambda: pull.lines(PULL, 80),
    "pull-good": lambda: pull.lines(GOOD_PULL, 80),
    "verify": lambda: verify.lines(Verified(ARTIFACTS, 4, 2_000_000_712, 1.5, {}), 80),
    "leases": lambda: leases.lines(
        answers.Leases("leases", (LEASE, FREE), ((1_190_000, "USD"),), (), AT, balances=BALANCES), 80
    ),
    "cost": lambda: leases.lines(COST, 80),
    "plan": lambda: plan.lines(PLAN, 80),
    "down": lambda: down.lines(DOWN, 80),
    "smoke": lambda: smoke.lines(SMOKE, 80),
    "smoke-good": lambda: smoke.lines(
        replace(SMOKE, rc=0, tail="", next="sojourn run", remarks=("the mount /data is not made here",)), 80
    ),
    "init": lambda: init.lines(
        Draft(
            "sojourn.yaml",
            "",
            "p",
            "train.py",
            ("its name",),
            ("b.py",),
            ("best.pt",),
            "x",
            ("a note",),
            True,
            "sojourn smoke",
        ),
        80,
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_answer_looks_as_it_was_accepted(name: str) -> None:
    shown = "\n".join(SHOWN[name]()) + "\n"
    golden = SCREENS / f"{name}.txt"
    if os.environ.get("ACCEPT") == "1":
        golden.write_text(shown, encoding="utf-8")
    how = f"To accept this: ACCEPT=1 python -m pytest tests/cli/test_show.py, then read git diff {golden.name}"
    assert shown == golden.read_text(encoding="utf-8"), how


@pytest.mark.parametrize("name", SHOWN)
def test_no_screen_is_wider_than_its_columns_or_obeyed_by_a_terminal(name: str) -> None:
    for line in SHOWN[name]():
        assert line.isprintable(), repr(line)
        assert width(line) <= (60 if name.endswith("-60") else 80), line


def test_what_to_do_about_a_box_that_does_not_answer_is_said_once_for_all_its_runs() -> None:
    there = replace(AFAR.reach, next="look at the provider's page")
    rows = tuple(replace(AFAR, id=name, reach=there) for name in ("far", "off"))
    shown = " ".join(status.lines(answers.StatusReport(rows, AT), 80))
    assert shown.count("ssh:gpu-box-in-the-basement: look at the provider's page") == 1
    assert "look at the provider's page" in " ".join(status.one(rows[0], unstamp(AT), 80))
