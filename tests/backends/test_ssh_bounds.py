"""What a far shell sends around a command's bytes: it is an answer or it is none, and nothing waits or grows."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.backends import bounds
from sojourn.backends.bounds import Keep
from sojourn.backends.ssh.talk import Limits, NotStarted, Told, talk
from sojourn.backends.transport.local import Backend as Local
from sojourn.box.system import beats
from sojourn.core.values import NoAnswer

READY = "echo cafe ready; echo cafe ready >&2; read -r line; "
WHYS = {"ended", "closed", "not-ready", "quiet", "garbled", "flood", "terminal", "deadline"}
MARKS = [
    b"cafe ready\n",
    b"cafe ready",
    b"\ncafe end ",
    b"\ncafe end 0\n",
    b"\ncafe end \n",
    b"9" * 5000,
    b"\n",
    b"\r\n",
]
MARKS += [
    b"\ncafe end -5\n",
    b"\ncafe end \xd9\xa3\n",
    b"\ncafe end 1e3\n",
    b"\ncafe en",
    b"\0SJ1J",
    b"sojourn:search\n",
]


PATIENT = Limits(60.0)


def told(script: str, limits: Limits = PATIENT) -> tuple[Told, Keep, Keep]:
    out, err = Keep(1000), Keep(1000)
    return talk(["sh", "-c", script], "cafe", b"go\n", b"", out, err, limits, is_shared=False), out, err


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(MARKS) | st.binary(max_size=40), max_size=8), st.booleans())
def test_whatever_a_far_shell_says_has_a_meaning(pieces: list[bytes], is_ready: bool) -> None:
    said = b"".join(pieces)
    words = ["sh", "-c", (READY if is_ready else "") + 'printf "$1"; printf "$1" >&2', "sh"]
    words.append("".join(f"\\{byte:03o}" for byte in said))
    found = talk(words, "cafe", b"go\n", b"", Keep(99), Keep(99), Limits(60.0), is_shared=False)
    assert found.why in WHYS and (found.rc is None or 0 <= found.rc <= 255)


@pytest.mark.parametrize("status", ["abc", "", "9999", "9" * 6000, "-5", "256", str(2**70), "\\331\\243", "1e3", " 0"])
def test_an_end_mark_without_an_exit_status_is_no_end(status: str) -> None:
    found, _, _ = told(READY + f"printf '\\ncafe end {status}\\n'")
    assert (found.why, found.rc, found.ready) == ("garbled", None, True)


def test_an_end_mark_that_never_ends_is_not_waited_for() -> None:
    found, _, _ = told(READY + "printf '\\ncafe end '; exec cat /dev/zero")
    assert (found.why, found.rc) == ("garbled", None)


@pytest.mark.parametrize(
    "script",
    [
        "exec cat /dev/zero",
        "printf 'cafe ready'; exec cat /dev/zero",
        READY + "exec cat /dev/zero",
        READY + "exec cat /dev/zero >&2",
        READY + "printf '\\ncafe end 0\\n' >&2; exec cat /dev/zero >&2",
        READY + "exec yes ''",
    ],
)
def test_a_flood_ends_the_call_and_is_not_kept(script: str) -> None:
    found, out, err = told(script)
    assert (found.why, found.rc) == ("flood", None)
    assert len(out.kept) + len(err.kept) + len(found.chatter) <= 2000 + (1 << 16)


def test_a_shell_that_is_not_ready_in_time_is_given_up() -> None:
    assert told("exec sleep 600", Limits(60.0, ready_s=0.5))[0].why == "not-ready"


@pytest.mark.parametrize(
    "drip", ["exec sleep 600", "while sleep 0.1; do printf x; done", "while sleep 0.1; do echo; done >&2"]
)
def test_silence_and_a_trickle_are_no_progress(drip: str) -> None:
    found, _, _ = told(READY + drip, Limits(60.0, quiet_s=1.0))
    assert (found.why, found.ready, found.rc) == ("quiet", True, None)


def test_a_box_that_works_for_long_and_beats_is_waited_for() -> None:
    works = "import sys, time; from sojourn.box.system import beats; beats.begin(0.2); time.sleep(2.5); print('done')"
    found, out, _ = told(
        READY + f"{sys.executable} -c \"{works}\"; printf '\\ncafe end 0\\n'", Limits(60.0, quiet_s=1.5)
    )
    assert (found.why, found.rc, bytes(out.kept)) == ("ended", 0, b"done\n")
    assert beats.EVERY_S * 2 <= bounds.QUIET_S and len(beats._BEAT) >= bounds.LEAST_BYTES


def test_a_shell_of_ours_beats_as_a_keeper_does() -> None:
    done = subprocess.run(["sh", "-c", bounds.BEAT + "beat"], capture_output=True)
    assert done.stdout == b"" and len(done.stderr) >= bounds.LEAST_BYTES


def test_the_local_box_floods_nothing_either() -> None:
    began = time.monotonic()
    answer = Local().call(["cat", "/dev/zero"], limit_bytes=1000)
    assert isinstance(answer, NoAnswer) and answer.kind == "flood" and time.monotonic() - began < 25


def test_a_process_that_cannot_be_started_is_no_answer_and_no_traceback() -> None:
    many = ["x" * 100_000] * 100  # E2BIG, as ENOMEM and EAGAIN: the system makes no process of it
    answer = Local().call(["true", *many])
    assert isinstance(answer, NoAnswer) and (answer.kind, answer.sent) == ("no-process", False)
    with pytest.raises(NotStarted):
        talk(["sh", *many], "cafe", b"", b"", Keep(1), Keep(1), Limits(9.0), is_shared=False)
