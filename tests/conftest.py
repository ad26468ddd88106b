"""For every test: a private home, nothing left running, and nothing left out where the laboratory is required."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any, Iterator

import pytest

# Carried by everything a test starts, so that what outlives the session can be told from other people's processes.
MARK = "SOJOURN_TEST_SESSION"
SESSION = "{}-{}".format(os.getpid(), uuid.uuid4().hex)
LEAVE_TIME_S = 30.0
NEEDS = {"torch": ["torch"], "adapters": ["torch", "transformers", "accelerate", "lightning"]}  # by mark

skipped: dict[str, str] = {}
leftover: list[str] = []


def pytest_configure() -> None:
    """Mark the environment that tests hand to what they start, and let Ctrl-C reach it: `make test &` ignores that."""
    os.environ[MARK] = SESSION
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
    ours = (MARK, "SOJOURN_LAB", "SOJOURN_SOAK_TRIALS", "SOJOURN_SOAK_LEDGER", "SOJOURN_SOAK_RECORD")
    for name in [name for name in os.environ if name.startswith("SOJOURN_") and name not in ours]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SOJOURN_BOX_REGISTRY", str(home / "box-registry"))  # else tests would see each other's bases
    return home


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests whose libraries cannot be imported."""
    for mark, modules in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(mark)]
        missing = [name for name in modules if marked and not has(name)]
        for item in marked if missing else ():
            why = "{} is not installed (scripts/setup {})".format(", ".join(missing), mark)
            item.add_marker(pytest.mark.skip(reason=why))


def has(module: str) -> bool:
    """Whether it is there; does not load it."""
    from importlib.util import find_spec

    return find_spec(module) is not None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember what was skipped; tests marked py38 may be, since not every machine can have a Python 3.8."""
    if report.skipped and not hasattr(report, "wasxfail") and "py38" not in report.keywords:
        longrepr = report.longrepr
        skipped[report.nodeid] = str(longrepr[2] if isinstance(longrepr, tuple) else longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Remember a whole file that left itself out while it was being collected."""
    if report.skipped:
        skipped[report.nodeid] = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist saw to have been left running."""
    leftover.extend(getattr(node, "workeroutput", {}).get("leftover", ()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a session that leaves processes behind, or that left something out where leaving out is a failure."""
    if not getattr(session.config.option, "numprocesses", None):  # else each worker looks to its own
        leftover.extend(end_what_was_left())
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["leftover"] = leftover
    required = os.environ.get("SOJOURN_LAB") == "require" and sys.version_info >= (3, 11)
    if exitstatus == 0 and (leftover or (required and skipped)):
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left running and what was left out."""
    if leftover:
        terminalreporter.section("LEFT RUNNING (ended now; a failure)", red=True)
        for line in leftover:
            terminalreporter.line(line)
    if skipped and os.environ.get("SOJOURN_LAB") == "require" and sys.version_info >= (3, 11):
        terminalreporter.section("LEFT OUT (a failure: SOJOURN_LAB=require)", red=True)
        for name, why in sorted(skipped.items()):
            terminalreporter.line("{}: {}".format(name, why))


def end_what_was_left() -> list[str]:
    """Wait a little for what tests started to go away by itself, end the rest, and say what it was. Linux only."""
    deadline = time.monotonic() + LEAVE_TIME_S
    while any(marked_processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    ended = []
    for pid in list(marked_processes()):
        command = read_bytes(Path("/proc/{}/cmdline".format(pid))).replace(b"\0", b" ").decode("utf-8", "replace")
        ended.append("pid {}: {}".format(pid, command[:300]))
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            ended.pop()
    return ended


def marked_processes() -> Iterator[int]:
    """Living processes other than this one that carry this session's mark."""
    wanted = "{}={}".format(MARK, SESSION).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name != str(os.getpid()) and wanted in read_bytes(entry / "environ"):
            yield int(entry.name)


def read_bytes(path: Path) -> bytes:
    """The content, or nothing when the process has gone meanwhile or is not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
