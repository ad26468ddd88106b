"""The transport `local`: what is its own beside the contract (see test_transport_contract)."""

import os
import time
from pathlib import Path

import pytest

from sojourn import backends
from sojourn.backends.transport.local import Backend, NotCopied
from sojourn.core.values import Ended, NoAnswer
from tests.box.rig import gone, until
from tests.ending import environment, processes


@pytest.fixture
def transport() -> Backend:
    return Backend()


def test_it_is_found_by_its_file() -> None:
    assert "local" in backends.names("transport") and backends.get("transport", "local") is Backend
    assert backends.has("transport", "local") and not backends.has("transport", "pigeon")


@pytest.mark.parametrize("port, name", [("transport", "pigeon"), ("transport", "loca"), ("transports", "local")])
def test_a_backend_that_is_not_there_names_the_nearest(port: str, name: str) -> None:
    with pytest.raises(backends.NoBackend) as no:
        backends.get(port, name)
    assert no.value.exit_status == 2 and name in no.value.message or port in no.value.message
    if name == "loca":
        assert "nearest: local" in no.value.message


def test_a_call_out_of_time_ends_its_whole_group(
    transport: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_CALL", str(tmp_path))  # where it was too slow to start its child there is less to end
    mark = f"OF_THIS_CALL={tmp_path}".encode()
    answer = transport.call(["sh", "-c", "sleep 300 & wait"], timeout_s=1.0)
    assert isinstance(answer, NoAnswer) and answer.kind == "timeout"
    until(lambda: not [pid for pid in processes() if mark in environment(pid)])


def test_a_child_that_keeps_our_pipes_costs_half_a_second_and_lives_on(transport: Backend) -> None:
    began = time.monotonic()
    answer = transport.call(["sh", "-c", "sleep 300 & echo $!"], timeout_s=200.0)
    assert isinstance(answer, Ended) and time.monotonic() - began < 60
    pid = int(answer.stdout)
    assert not gone(pid)
    os.kill(pid, 9)


def test_the_environment_of_the_client_is_the_box_s(transport: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "1")
    answer = transport.call(["printenv", "SOME_SECRET"])
    assert isinstance(answer, Ended) and answer.stdout == b"1\n"


def test_a_terminal_s_interrupt_does_not_reach_what_a_call_started(transport: Backend) -> None:
    answer = transport.call(["sh", "-c", "ps -o pgid= -p $$; ps -o pgid= -p $PPID"])
    assert isinstance(answer, Ended)
    its, ours = answer.stdout.split()
    assert its != ours


def test_a_full_or_forbidden_place_is_said_in_one_line(transport: Backend, tmp_path: Path) -> None:
    near = tmp_path / "near"
    near.write_bytes(b"x")
    with pytest.raises(NotCopied, match="cannot be written"):
        transport.put(str(near), "/proc/nowhere/file")
    with pytest.raises(NotCopied, match="No space left"):
        transport.get(str(near), "/dev/full")
