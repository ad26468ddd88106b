"""For every test: a private home, a size, nothing left running, and a record of how it ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import quote, unquote

import pytest

# Carried by everything a test starts, with the test's name: so what outlives the session can be told from other
# people's processes, and is known by who left it.
MARK = "SOJOURN_TEST_SESSION"
SESSION = "{}-{}".format(os.getpid(), uuid.uuid4().hex)
LEAVE_TIME_S = float(os.environ.get("SOJOURN_TEST_LEAVE_S", "30"))
SIZE = "SOJOURN_TEST_SIZE"  # the option --size, for what writes docs/reliability.md
# Trainings beside each other on two cores: where each has a thread per core they wait for each other, spinning.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # OpenBLAS reads it too
NEEDS = {"torch": ["torch"], "adapters": ["torch", "transformers", "accelerate", "lightning"]}  # by mark
# `make test` plays these on Python 3.8 alone where there is one; a campaign plays them on the client's Python.
BOX_ROOMS = ("tests/wire/", "tests/formats/", "tests/box/", "tests/train/")
IS_REQUIRED = os.environ.get("SOJOURN_LAB") == "require" and sys.version_info >= (3, 11)

skipped: dict[str, str] = {}
leftover: list[tuple[str, str]] = []  # the test that started it, what it is


def pytest_addoption(parser: pytest.Parser) -> None:
    """The size of what is played; the record that is written, and the one whose tests are not played again."""
    group = parser.getgroup("sojourn")
    group.addoption("--size", choices=("test", "campaign", "soak"), default="test", help="how much to play")
    group.addoption("--outcomes", metavar="FILE", help="add a line of JSON for each test that ended")
    group.addoption("--not-again", metavar="FILE", help="leave out the tests that passed by this record")


def pytest_configure(config: pytest.Config) -> None:
    """Mark the environment that tests hand to what they start, and let Ctrl-C reach it: `make test &` ignores that."""
    os.environ.update({MARK: SESSION, SIZE: config.getoption("--size"), **ONE_THREAD})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(config.getoption("--outcomes"))))
    if sys.version_info >= (3, 11):  # a busy machine is slow, and no example is wrong for that
        from hypothesis import settings

        settings.register_profile("sojourn", deadline=None)
        settings.load_profile("sojourn")


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test: HOME and the XDG folders lie in a fresh temporary folder, which is returned."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
    ):
        monkeypatch.setenv(name, str(home / folder))
    for name in [
        name for name in os.environ if name.startswith("SOJOURN_") and name not in (MARK, SIZE, "SOJOURN_LAB")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(home / "box-registry"))  # else tests would see each other's bases
    return home


@pytest.fixture
def trial_count(request: pytest.FixtureRequest, record_property: Any) -> int:
    """How many trials to play: what `@pytest.mark.trials(test=, campaign=, soak=)` has for the size asked for."""
    count = int(request.node.get_closest_marker("trials").kwargs[request.config.getoption("--size")])
    record_property("trials", count)
    return count


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what belongs to the size and has not passed before; leave out tests whose libraries cannot be imported."""
    known = config.getoption("--not-again")
    passed = {row["test"] for row in read_outcomes(Path(known)) if row["outcome"] == "passed"} if known else set()
    cases: Counter[str] = Counter()
    kept, dropped = [], []
    for item in items:
        function = item.nodeid.partition("[")[0]
        is_kept = item.nodeid not in passed and is_of_size(item, config.getoption("--size"), cases[function])
        cases[function] += 1
        (kept if is_kept else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
    for mark, modules in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        missing = [name for name in modules if marked and not has(name)]
        for item in marked if missing else ():
            why = "{} is not installed (scripts/setup {})".format(", ".join(missing), mark)
            item.add_marker(pytest.mark.skip(reason=why))


def is_of_size(item: pytest.Item, size: str, earlier_cases: int) -> bool:
    """Whether it is played. `@pytest.mark.campaign(keep=N)`: `make test` plays the first N cases of the function."""
    only_campaign = item.get_closest_marker("campaign")
    if size == "test":
        return only_campaign is None or earlier_cases < only_campaign.kwargs.get("keep", 0)
    return bool(only_campaign or item.get_closest_marker("trials")) or item.nodeid.startswith(BOX_ROOMS)


def has(module: str) -> bool:
    """Whether it is there; does not load it."""
    from importlib.util import find_spec

    return find_spec(module) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture starts something: what is started from now on bears this test's name."""
    os.environ[MARK] = "{}/{}".format(SESSION, quote(item.nodeid, safe=""))  # a box's sshd takes no value with a space


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note in the report that what was raised is a Violation, which no rerun excuses."""
    outcome: Any = yield
    names = [kind.__name__ for kind in call.excinfo.type.__mro__] if call.excinfo else []
    if "Violation" in names or ("AssertionError" in names and item.get_closest_marker("promise")):
        outcome.get_result().user_properties.append(("violation", True))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what was skipped; tests marked py38 may be, since not every machine can have a Python 3.8, and promises
    of a contract that do not apply.
    """
    if report.skipped and not hasattr(report, "wasxfail") and "py38" not in report.keywords:
        longrepr = report.longrepr
        why = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)
        if "does not apply: " not in why:
            skipped[report.nodeid] = why


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember a whole file that left itself out while it was being collected."""
    if report.skipped:
        skipped[report.nodeid] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist saw to have been left running."""
    leftover.extend((test, what) for test, what in getattr(node, "workeroutput", {}).get("leftover", ()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a session that leaves processes behind, or that left something out where leaving out is a failure."""
    if not getattr(session.config.option, "numprocesses", None):  # else each worker looks to its own
        leftover.extend(end_what_was_left())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["leftover"] = leftover
    if exitstatus == 0 and (leftover or (IS_REQUIRED and skipped)):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left running and what was left out."""
    if leftover:
        terminalreporter.section("LEFT RUNNING (ended now; a failure)", red=True)
        for test, what in leftover:
            terminalreporter.line("{}: {}".format(test, what))
    if skipped and IS_REQUIRED:
        terminalreporter.section("LEFT OUT (a failure: SOJOURN_LAB=require)", red=True)
        for name, why in sorted(skipped.items()):
            terminalreporter.line("{}: {}".format(name, why))


class Outcomes:
    """Adds to the record, as each test ends: `{"test", "outcome", "seconds", "why", "properties"}`.

    `outcome`: passed, failed, skipped; left (a process that the test left running), left-out (skipped, and that is a
    failure here).
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        self._open: dict[str, dict[str, Any]] = {}

    def _add(self, test: str, outcome: str, **more: Any) -> None:
        self._file.write(json.dumps({"test": test, "outcome": outcome, **more}) + "\n")
        self._file.flush()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A row where the test is over: after its teardown, or when its worker died."""
        row = self._open.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0, "why": "", "properties": {}})
        row["seconds"] = round(row["seconds"] + getattr(report, "duration", 0.0), 2)
        row["properties"].update(dict(report.user_properties))
        if report.outcome != "passed" and row["outcome"] != "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            why = str(crash.message if crash else report.longrepr).strip().split("\n")[0][:300]
            row.update(outcome=report.outcome, why=why)
        if report.when not in ("setup", "call"):
            self._add(report.nodeid, **self._open.pop(report.nodeid))

    def pytest_unconfigure(self) -> None:
        """What was left, and what should not have been left out: all workers have said by now what they saw."""
        for test, what in leftover:
            self._add(test, "left", why=what)
        for test, why in skipped.items() if IS_REQUIRED else ():
            self._add(test, "left-out", why=why)
        self._file.close()


def read_outcomes(path: Path) -> list[dict[str, Any]]:
    """The rows of a record; none where there is no such file. A line torn by a kill is left out."""
    rows = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def end_what_was_left() -> list[tuple[str, str]]:
    """Wait a little for what tests started to go away by itself, end the rest, and say what it was. Linux only."""
    deadline = time.monotonic() + LEAVE_TIME_S
    while any(marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    ended = []
    for pid, test in list(marked_processes()):
        command = read_bytes(Path("/proc/{}/cmdline".format(pid))).replace(b"\0", b" ").decode("utf-8", "replace")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        ended.append((test, "pid {}: {}".format(pid, command[:300])))
    return ended


def marked_processes() -> Iterator[tuple[int, str]]:
    """(pid, the test that started it) of living processes other than this one that carry this session's mark."""
    wanted = "{}={}".format(MARK, SESSION).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name != str(os.getpid()):
            for line in read_bytes(entry / "environ").split(b"\0"):
                if line.startswith(wanted):
                    yield int(entry.name), unquote(line.decode("utf-8", "replace").partition("/")[2])


def read_bytes(path: Path) -> bytes:
    """The content, or nothing when the process has gone meanwhile or is not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
