"""A command on a box over ssh: over a shared connection first, an unshared one if sharing fails, else with the reason
why neither works.

Only what has not been sent is ever repeated.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from sojourn.backends.bounds import flooded
from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.ssh import failures as ssh_failures
from sojourn.backends.ssh import share as ssh_share
from sojourn.backends.ssh import talk as ssh_talk
from sojourn.backends.ssh.argv import Line
from sojourn.backends.ssh.talk import Limits, Sink, Told
from sojourn.core.values import NoAnswer, Site

SHARED_READY_S = 8.0  # a living shared connection answers within a few round trips; after this it is given up
ENOUGH_S = 3.0  # time that one more try needs
BUSY_TRIES = 2


@dataclass(frozen=True)
class Ran:
    """The command ended there, with this status. Its output went to the sinks."""

    rc: int
    seconds: float


def run(
    site: Site,
    line: Line,
    words: Sequence[str],
    *,
    stdin: bytes | BinaryIO,
    out: Sink,
    err: Sink,
    timeout_s: float,
    quiet_s: float = float("inf"),
) -> Ran | NoAnswer:
    """Run argv `words` on the box of `site`. Blocks for at most `timeout_s` and a few seconds.

    NoAnswer.sent is False only if the box cannot have run it. Raises: Misuse (address, options), ValueError (no argv).
    """
    began, answer_s = time.monotonic(), ssh_argv.answer_s(site)
    busy = 0
    may_share, may_doubt = True, True
    while True:
        left_s = timeout_s - (time.monotonic() - began)
        path = ssh_share.control_path(site, line) if may_share else ""
        stood = bool(path) and ssh_share.is_shared(site, line)
        ready_s = min(SHARED_READY_S, left_s / 2) if stood and may_doubt else min(answer_s, left_s)
        told = _once(site, line, words, path, stdin, out, err, Limits(left_s, ready_s, quiet_s))
        if isinstance(told, NoAnswer):
            return told
        if told.rc is not None:
            return Ran(told.rc, time.monotonic() - began)
        answer = _no_answer(site, told)
        left_s = timeout_s - (time.monotonic() - began)
        is_doubtful = stood and answer.kind in ("timeout", "login", "reset", "other", "mux")
        if is_doubtful and told.why in ("not-ready", "deadline", "quiet"):
            ssh_share.let_go(site, line)
        if told.ready or left_s < ENOUGH_S:
            return answer
        if path and answer.kind in ("mux", "proxy"):
            may_share = False  # a connection that may become shared hides its proxy command's messages
        elif is_doubtful and may_doubt:
            may_doubt = False
        else:
            busy += 1
            wait_s = ssh_failures.wait_s("busy", busy) or 0.0
            if answer.kind != "busy" or busy > BUSY_TRIES or left_s < wait_s + ENOUGH_S:
                return answer
            time.sleep(wait_s)


def _once(
    site: Site,
    line: Line,
    words: Sequence[str],
    path: str,
    stdin: bytes | BinaryIO,
    out: Sink,
    err: Sink,
    limits: Limits,
) -> Told | NoAnswer:
    nonce = ssh_argv.nonce()
    argv = ssh_argv.argv(site, line, control_path=path, nonce=nonce, timeout_s=min(limits.total_s, limits.ready_s))
    is_shared = bool(path) or ssh_argv.sharing(site) == "user"
    try:
        return ssh_talk.talk(argv, nonce, ssh_argv.program(words, nonce), stdin, out, err, limits, is_shared)
    except ssh_talk.NotStarted as error:
        if error.errno == errno.ENOENT:
            return _answer(ssh_failures.state("no-ssh", "there is no `ssh` on this machine", site.address), sent=False)
        return _answer(ssh_failures.state("no-process", str(error), site.address), sent=False)


def _no_answer(site: Site, told: Told) -> NoAnswer:
    to = site.address
    waited = f"no answer after {told.seconds:.0f} s"
    if told.why == "flood":
        return _answer(ssh_failures.state("flood", flooded(told.ready).detail, to), sent=told.ready)
    if told.why == "garbled":
        detail = "the end of its answer does not read as an exit status"
        return _answer(ssh_failures.state("garbled", detail, to), sent=told.ready)
    if told.ready:
        if told.why in ("deadline", "quiet"):
            verdict = ssh_failures.state("timeout", waited, to)
        elif told.ssh_rc not in (255, None, ssh_argv.NOT_FOR_US):
            # Our shell itself died: it cannot fork, say.
            verdict = ssh_failures.state("no-exec", _last(told.tail) or f"the far shell ended with {told.ssh_rc}", to)
        else:
            verdict = ssh_failures.broken(told.tail, to)
        return _answer(verdict, sent=told.ssh_rc != ssh_argv.NOT_FOR_US)
    if told.why == "terminal":
        return _answer(ssh_failures.state("relay", "a terminal sits between this machine and the box", to), sent=False)
    if told.why in ("deadline", "not-ready"):
        verdict = ssh_failures.classify(told.said, to)
        if ssh_failures.is_authenticated(told.said):
            verdict = ssh_failures.state(
                "login", f"logged in, but sojourn's shell did not start within {told.seconds:.0f} s", to
            )
        elif verdict.kind in ("other", "reset", "mux"):
            verdict = ssh_failures.state("timeout", waited, to)
        return _answer(verdict, sent=False)
    if told.ssh_rc != 255 or ssh_failures.is_authenticated(told.said):
        verdict = ssh_failures.classify(f"{told.said}\n{told.chatter}", to)
        if verdict.kind not in ("relay", "config", "reset"):
            words = _last(f"{told.said}\n{told.chatter}") or f"the login ended with {told.ssh_rc}"
            verdict = ssh_failures.state("no-exec", words, to)
        return _answer(verdict, sent=False)
    return _answer(ssh_failures.classify(told.said, to), sent=False)


def _last(text: str) -> str:
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("Authenticated to", "Transferred:", "Bytes per"))
    ]
    return lines[-1].strip() if lines else ""


def _answer(verdict: ssh_failures.Verdict, sent: bool) -> NoAnswer:
    return NoAnswer(sent=sent, kind=verdict.kind, detail=verdict.detail, next_step=verdict.next_step)
