"""Alarms, and telling people: a real receiver on loopback, and channels that are dead."""

import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sojourn.cli.live import countdown
from sojourn.cli.main import main
from sojourn.core.alarms import BILLING, CLOCK, IDLE, STALLED, TOO_FAST
from sojourn.core.fold import Status
from sojourn.core.values import State
from sojourn.verbs.answers import Snapshot
from sojourn.verbs.observe.alarms import Alarms
from sojourn.verbs.observe.watch import watch
from tests.verbs import faulty
from tests.verbs.conftest import World

SECRET = "tk-4711-nobody-may-see-this"


class Receiver:
    """What a person's channel took in: one JSON document a message."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.paths: list[str] = []
        ours = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                ours.got.append(json.loads(data))
                ours.paths.append(self.path)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *about: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/{SECRET}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def settings(text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.toml").write_text(text)


def lines_of(looks: list[Snapshot]) -> list[str]:
    return [line for look in looks for line in look.news]


def test_notify_test_reaches_a_real_receiver_and_shows_no_url(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["notify", "test"]) == 2 and "No notification channel is set" in capfd.readouterr().err
    monkeypatch.setenv("MY_CHANNEL", receiver.url)
    settings('notify = ["env:MY_CHANNEL", "env:NOT_SET"]\n')
    assert main(["notify", "test"]) == 1
    said = capfd.readouterr()
    assert said.out.splitlines() == [
        "sent     channel 1 (env:MY_CHANNEL)",
        "failed   channel 2 (env:NOT_SET): its variable is not set here",
    ]
    (message,) = receiver.got
    assert (message["title"], message["message"]) == ("sojourn", "a test")
    dead = f"json://127.0.0.1:1/{SECRET}"
    settings(f'notify = ["{dead}", "nothing://{SECRET}"]\n')
    assert main(["notify", "test", "--json"]) == 1
    said = capfd.readouterr()
    told = json.loads(said.out)["channels"]
    assert [one["ok"] for one in told] == [False, False] and SECRET not in said.out + said.err


def test_a_failure_and_the_end_are_told_to_the_channels_of_the_run(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CHANNEL", receiver.url)
    world.ctx.environ = dict(os.environ)
    world.run("while [ ! -e $OPEN ]; do sleep 0.05; done; exit 3", envs={"OPEN": str(world.project / "open")},
              notify=["env:MY_CHANNEL", f"json://127.0.0.1:1/{SECRET}"])  # fmt: skip
    looks = []
    for look in watch(world.ctx, every_s=0.2):
        looks.append(look)
        (world.project / "open").touch()
    assert looks[-1].is_last
    text = "\n".join(message["message"] for message in receiver.got)
    assert "digits: failed (exit status 3)" in text
    assert receiver.paths and all(SECRET in path for path in receiver.paths)
    told = [line for line in lines_of(looks) if line.startswith("channel 2")]
    assert told == ["channel 2 (json): it did not accept the message"]  # once, and without the URL
    kept = (Path(world.ctx.store.state_dir) / "journal.jsonl").read_text()
    assert receiver.url not in kept  # of env:NAME only the name is recorded


def test_what_ends_at_a_tenth_of_its_steps_is_an_alarm(world: World) -> None:
    script = """
      printf '{"step": 10, "total": 100}' > $SOJOURN_RUN_DIR/progress/$SOJOURN_ATTEMPT.json
      sleep 0.5
    """
    world.ended(script)
    (alarm,) = Alarms(world.ctx).now([world.record()])
    assert (alarm.kind, alarm.about) == (TOO_FAST, "digits") and "step 10 of 100" in alarm.text
    (look,) = watch(world.ctx, ["digits"])
    assert look.news == (f"alarm: {alarm.line}",) and look.as_json()["alarms"][0]["kind"] == "too-fast"


def test_alarms_reach_a_channel_of_the_settings(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_CHANNEL", receiver.url)
    settings('notify = ["env:MY_CHANNEL"]\n')
    world.ctx = world.client(faulty.Provider(world.site))
    world.ctx.environ = dict(os.environ)
    world.ended('printf \'{"step": 10, "total": 100}\' > $SOJOURN_RUN_DIR/progress/$SOJOURN_ATTEMPT.json; sleep 0.5')
    assert list(watch(world.ctx, every_s=0.2))[-1].is_last
    text = "\n".join(message["message"] for message in receiver.got)
    assert "digits: it succeeded at step 10 of 100: check the result before you trust it" in text
    assert "local: all its runs have ended; done and billing since" in text and "at 2.00 EUR an hour" in text


def test_a_run_under_which_no_gpu_is_busy_is_an_alarm(world: World) -> None:
    world.ended("true", outputs=[])
    record = world.record()
    idle = Status(State.RUNNING, 1, seq=9, idle_since="2026-11-01T10:00:00.000Z", beat_at="2026-11-01T10:20:00.000Z")
    world.ctx.store.index.record_status(record.id, record.offset, idle, "alive", "alive", 0.0)
    (alarm,) = Alarms(world.ctx).now([world.record()])
    assert (alarm.kind, alarm.next) == (IDLE, "sojourn why digits") and "busy for 20" in alarm.text


def test_a_lease_that_bills_after_its_last_run_is_an_alarm_until_it_is_let_go(world: World) -> None:
    world.ctx = world.client(faulty.Provider(world.site))
    world.ended("true", outputs=[])
    alarms = Alarms(world.ctx)
    (alarm,) = alarms.now([world.record()])
    assert (alarm.kind, alarm.about, alarm.next) == (BILLING, "local", "sojourn pull digits")
    assert "2.00 EUR an hour" in alarm.text


@pytest.mark.campaign
def test_a_stall_is_an_alarm_as_long_as_it_lasts(world: World) -> None:
    script = """
      for n in 1 2 3; do
        printf '{"step": %s, "total": 100}' $n > $SOJOURN_RUN_DIR/progress/$SOJOURN_ATTEMPT.json
        sleep 0.3
      done
      sleep 600
    """
    world.run(script, stall_after="2s")
    deadline = time.monotonic() + 240
    for look in watch(world.ctx, every_s=0.2):
        if look.alarms:
            break
        assert time.monotonic() < deadline
    assert [(alarm.kind, alarm.next) for alarm in look.alarms] == [(STALLED, "sojourn why digits")]
    assert any(line.startswith("alarm: digits: stalled") for line in look.news)


def test_a_danger_clock_is_counted_down_and_told_at_each_mark(world: World) -> None:
    world.ctx = world.client(faulty.Provider(world.site))
    world.ended("true", outputs=[])
    record = world.ctx.store.index.lease("local")
    assert record is not None
    ends_s = world.ctx.now_s() + 5 * 3600
    world.ctx.store.append("leased", lease={**asdict(record.lease), "address": "here", "facts": {"ends_s": ends_s}})
    alarms = Alarms(world.ctx)
    (clock,) = alarms.clocks([world.record()])
    assert clock["lease"] == "local" and clock["left_s"] == pytest.approx(5 * 3600, abs=60)
    kinds = []
    for later_s in (0.0, 1000.0, 4.5 * 3600, 4.9 * 3600):
        world.later_s = later_s
        kinds += [alarm.kind for alarm in alarms.now([world.record()]) if alarm.kind.startswith(CLOCK)]
    assert kinds == ["clock-6h", "clock-6h", "clock-1h", "clock-0.25h"]
    (look,) = watch(world.ctx, ["digits"])
    assert look.as_json()["clocks"][0]["loses"] == "the machine, with its disk"
    assert any(line.startswith("clock: local: the rental ends (") for line in countdown(look, 200))
