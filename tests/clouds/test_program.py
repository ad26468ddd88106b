"""A provider that is asked through its vendor's program: what the program is told, and what its words prove."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import backends
from sojourn.backends.client.program import NoProgram
from sojourn.core.need import Need
from sojourn.core.ports import Offer, Rejected, Unknown
from sojourn.core.values import Lease
from sojourn.testing.contracts.provider import ProviderContract
from tests.clouds.accounts import account
from tests.clouds.standin import KEY, Cloud, Fault

A100 = Need(accelerators=(("A100", 1),))
OFFER = Offer("1 x A100", 9_600_000, "CNY", {"gpu": "A100", "gpus": 1, "region": "cn-wlcb-01", "words": ()})


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Cloud]]:
    with account("compshare", tmp_path, monkeypatch) as (cloud, site):
        yield backends.get("provider", "compshare")(site), cloud


def saying(folder: Path, document: dict[str, Any] | str, rc: int) -> None:
    """Put a program that says this in the place of the stand-in's; it notes its argv and environment."""
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "said").write_text(text)
    path = folder / "compshare"
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/argv\nenv > {folder}/env\ncat {folder}/said\nexit {rc}\n')


def failing(code: str, action: str = "", ret_code: int = 0) -> dict[str, Any]:
    details = {"details": {"action": action, "ret_code": ret_code}} if action else {}
    return {"ok": False, "schema_version": "1", "error": {"code": code, "message": "so it is", **details}}


def take(provider: Any, folder: Path, document: dict[str, Any] | str, rc: int) -> Any:
    saying(folder, document, rc)
    return provider.take(OFFER, "token-1", 0.0)


def test_the_keys_reach_the_program_in_its_environment_alone(held: tuple[Any, Cloud], tmp_path: Path) -> None:
    provider, _ = held
    take(provider, tmp_path, failing("api_error", "CreateCompShareInstance", 171), 1)
    assert KEY in (tmp_path / "env").read_text() and KEY not in (tmp_path / "argv").read_text()
    assert KEY not in (tmp_path / "state/sojourn/providers.log").read_text()


def test_the_program_reports_nothing_to_its_vendor(held: tuple[Any, Cloud], tmp_path: Path) -> None:
    provider, _ = held
    take(provider, tmp_path, "", 1)
    assert "COMPSHARE_INSIGHTS_URL=" in (tmp_path / "env").read_text().splitlines()


CREATE = "CreateCompShareInstance"


@pytest.mark.parametrize(
    ("document", "rc", "meaning"),
    [
        ({"ok": True, "data": {"instance": {"UHostIds": ["u-1"]}}}, 0, Lease),
        ({"ok": True, "data": {"instance": {"UHostIds": []}}}, 0, Unknown),
        (failing("command_error"), 2, Rejected),  # no stock
        (failing("invalid_usage"), 2, Rejected),  # dearer than it was
        (failing("api_error", "GetCompShareInstancePrice", 8000), 1, Rejected),  # it never came to the create
        (failing("api_error", CREATE, 230), 1, Rejected),
        (failing("api_error", CREATE, 150), 1, Unknown),
        (failing("api_error", CREATE, 8039), 1, Unknown),
        (failing("transport_error"), 1, Unknown),
        ("Traceback (most recent call last)", 1, Unknown),
        ("", 137, Unknown),
    ],
)
def test_only_what_surely_rented_nothing_is_a_rejection(
    held: tuple[Any, Cloud], tmp_path: Path, document: dict[str, Any] | str, rc: int, meaning: type
) -> None:
    answer = take(held[0], tmp_path, document, rc)
    assert isinstance(answer, meaning)
    assert len((tmp_path / "argv").read_text().splitlines()) == 1  # and it was asked for once


def test_one_that_has_become_dearer_than_its_offer_is_not_made(held: tuple[Any, Cloud]) -> None:
    provider, cloud = held
    offer = provider.offers(A100)[0]
    cheaper = Offer(offer.native, offer.rate_micro_per_h - 1, offer.currency, offer.facts)
    assert isinstance(provider.take(cheaper, "token-1", 0.0), Rejected) and cloud.rented_ever == 0


def test_a_running_instance_is_stopped_before_it_is_deleted(held: tuple[Any, Cloud]) -> None:
    provider, cloud = held
    lease = provider.take(provider.offers(A100)[0], "token-1", 0.0)
    cloud.leave_looks = 0
    provider.look(lease)
    provider.release(lease, ProviderContract().clearance(lease))
    changes = [path for _, path in cloud.calls if path.startswith(("/Stop", "/Terminate"))]
    assert changes == ["/StopCompShareInstance", "/TerminateCompShareInstance"] and not cloud.billing


def test_a_question_that_does_not_get_through_is_asked_again(held: tuple[Any, Cloud]) -> None:
    provider, cloud = held
    cloud.faults = [Fault("lost", "list")]
    assert provider.find("token-1", 0.0) == []


def test_a_program_that_is_not_installed_is_one_line_that_says_how(held: tuple[Any, Cloud], tmp_path: Path) -> None:
    (tmp_path / "compshare").unlink()
    with pytest.raises(NoProgram) as refused:
        held[0].find("token-1", 0.0)
    assert refused.value.exit_status == 2 and "pipx install compshare-cli" in refused.value.next


CALLER = """
import sys
from sojourn.backends.client.keys import Key
from sojourn.backends.client.program import Program
program = Program("compshare", (sys.argv[1],), lambda: {"A": Key("env:A", "x" * 9)}, lambda: None)
program.change("instance", "create", timeout_s=60.0)
"""


def test_a_program_that_changes_something_ends_with_the_process_that_waits_for_it(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    slow.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_STATE_HOME": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(slow)], env=env)
    until_s = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < until_s and caller.poll() is None
        time.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    os.kill(caller.pid, signal.SIGKILL)
    caller.wait()
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until_s:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
