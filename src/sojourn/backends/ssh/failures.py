"""What ssh reported when a call did not return: the kind of failure, one line on what to do, and how soon to retry.

The texts are OpenSSH's own; recordings are in tests/backends/ssh_texts, one folder per kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A kind of failure. `texts`: regular expressions; one must match within a line. The first rule wins."""

    kind: str
    texts: tuple[str, ...]
    next_step: str  # {to}: the site's address as the user wrote it
    waits_s: tuple[float, ...] = (
        0,
        2,
        4,
        8,
        16,
        30,
    )  # before the 1st, 2nd, ... retry, then always the last; () = never


@dataclass(frozen=True)
class Verdict:
    """Why a call did not return."""

    kind: str
    detail: str
    next_step: str


# Source of the texts: OpenSSH 9.2 as run in the laboratory, and its sshconnect.c, packet.c, mux.c, readconf.c
# (2026-11).
RULES = (
    Rule(
        "config",
        (
            r"Bad configuration option",
            r"Bad owner or permissions on",
            r"terminating, \d+ bad configuration options",
            r"Can't open user config file",
            r"line \d+: (?:Missing argument|no argument after keyword|unsupported option|invalid quotes)",
            r"line \d+: keyword .* extra arguments",
        ),
        "fix your ssh settings on the line named; `ssh -G {to}` reads them without connecting",
        (),
    ),
    Rule(
        "host-key",
        (r"[Hh]ost key for .* has changed",),
        "only if the box was recreated: remove its old key with the `ssh-keygen -f ... -R` command that "
        "`ssh {to}` prints, then run `ssh {to}` once and compare the fingerprint with your provider's",
        (),
    ),
    Rule(
        "host-key",
        (r"Host key verification failed", r"No \S+ host key is known for", r"no matching host key type found"),
        "run `ssh {to}` once by hand and compare the fingerprint with your provider's",
        (),
    ),
    Rule(
        "auth",
        (
            r"Permission denied \(",
            r"Too many authentication failures",
            r"sign_and_send_pubkey: signing failed",
            r"No more authentication methods",
        ),
        "make `ssh {to} true` work without a prompt: load the key (`ssh-add`) or name it as IdentityFile; where a "
        "password or a second factor is a must, keep a connection of your own open (ControlMaster) and set "
        'sharing = "user"',
        (),
    ),
    Rule(
        "name",
        (r"Could not resolve hostname",),
        "check the address in settings and your own network; `ssh -G {to}` shows the host it means",
    ),
    Rule(
        "kex",
        (r"Unable to negotiate with", r"no matching (?:key exchange method|cipher|MAC) found"),
        "the box offers only algorithms that your ssh has disabled: see `ssh -Q kex`, and enable one for this host "
        "in your ssh settings",
        (),
    ),
    Rule(
        "proxy",
        (
            r"by UNKNOWN port 65535",
            r"to UNKNOWN port 65535",
            r"stdio forwarding failed",
            r"channel \d+: open failed: (?:connect failed|administratively prohibited)",
            r"CreateProcess failed|exec: .* not found$",
        ),
        "the connection fails before it reaches the box: test the jump host or ProxyCommand of `ssh -G {to}` by itself",
    ),
    Rule(
        "banner",
        (
            r"Connection timed out during banner exchange",
            r"banner line contains invalid characters",
            r"banner exchange: .* invalid format",
            r"(?:no SSH|invalid SSH) identification",
            r"No banner received",
        ),
        "whatever answers on that port is not an ssh server, or a proxy is in between: check host, port and "
        "any VPN or TUN proxy on this machine",
    ),
    Rule(
        "busy",
        (r"(?:kex|ssh)_exchange_identification: .*(?:closed by remote host|reset by peer)",),
        "the box rejects logins for now (too many at once, or out of memory): wait, then try again",
        (2, 4, 8, 16, 30),
    ),
    Rule(
        "refused",
        (r"Connection refused",),
        "no ssh server listens there now: the box is off or starting, or its port moved; look at the provider's page",
    ),
    Rule(
        "no-route",
        (r"Network is unreachable", r"No route to host", r"Network is down", r"Can't assign requested address"),
        "check this machine's own network or VPN",
    ),
    Rule(
        "timeout",
        (r"(?:Connection|Operation) timed out", r"Timeout, server \S+ not responding"),
        "nothing answers: the box is off, cut off or firewalled; look at the provider's page, then try again",
    ),
    Rule(
        "relay",
        (
            r"client doesn't support PTY",
            r"(?:exec|shell|PTY allocation) request failed on channel",
            r"subsystem request failed on channel",
            r"This service allows sftp connections only",
        ),
        "this endpoint is a relay for terminals and runs no commands: use the box's direct address (RunPod: ssh over "
        "exposed TCP)",
        (),
    ),
    Rule(
        "mux",
        (r"mux_client_\w+", r"Control(?:Socket|Path| socket)\b", r"muxserver_\w+", r"unix_listener: "),
        'the shared connection fails: try again, or set sharing = "off" for this site',
    ),
    Rule(
        "reset",
        (
            r"client_loop: send disconnect",
            r"Connection (?:to \S+ )?(?:closed|reset) by",
            r"Shared connection to \S+ closed",
            r"Connection reset",
            r"Broken pipe",
            r"Received disconnect from",
            r"Connection to \S+ (?:port \d+ )?aborted",
        ),
        "the connection broke; try again",
    ),
)

# Known from how far we got, not from a text.
STATES = (
    Rule(
        "login",
        (),
        "`ssh {to} true` logs in but runs nothing: see that ~/.bashrc and similar files neither read input nor start "
        "another shell unless they are interactive",
        (),
    ),
    Rule(
        "no-exec",
        (),
        "the login works but the box does not run commands: see what `ssh {to} true` prints",
        (),
    ),
    Rule(
        "flood",
        (),
        "see what `ssh {to} true` prints: a login file or a program there writes without end",
        (),
    ),
    Rule(
        "garbled",
        (),
        "see what `ssh {to} true` prints: the login shell, or something in between, alters what the box sends",
        (),
    ),
    Rule("no-process", (), "this machine is out of memory or processes: end some, then try again"),
    Rule("no-ssh", (), "install OpenSSH's client on this machine (Debian: openssh-client)", ()),
    Rule("other", (), "see what `ssh -v {to} true` prints"),
)
_NOISE = re.compile(r"Warning: Permanently added|Authenticated to |Transferred: sent|Bytes per second|@{3,}|\s*$")
DETAIL_CHARS = 300


def is_authenticated(said: str) -> bool:
    """Whether the login itself had succeeded."""
    return "Authenticated to " in said


def worth_saying(said: str) -> list[str]:
    """The lines that ssh does not write on success."""
    return [line.strip() for line in said.splitlines() if not _NOISE.match(line)]


def classify(said: str, to: str) -> Verdict:
    """The kind of failure shown by one ssh process's text; kind "other" if no rule matches."""
    lines = worth_saying(said)
    for rule in RULES:
        for line in lines:
            if any(re.search(text, line) for text in rule.texts):
                return _verdict(rule, _cause(lines, line), to)
    return state("other", lines[-1] if lines else "ssh ended without a message", to)


def broken(tail: str, to: str) -> Verdict:
    """The verdict on a connection that ended in the middle of a command, whose own last words are also in `tail`."""
    for line in reversed(tail.splitlines()[-4:]):
        if re.fullmatch(r"Timeout, server \S+ not responding\.", line.strip()):
            return _verdict(_by_kind()["timeout"], line, to)
        if any(re.match(text, line) for text in _by_kind()["reset"].texts):
            return _verdict(_by_kind()["reset"], line, to)
    return state("reset", "the connection ended before the command did", to)


def state(kind: str, detail: str, to: str) -> Verdict:
    """The verdict for a kind that no text shows. Raises: KeyError."""
    return _verdict(_by_kind()[kind], detail, to)


def wait_s(kind: str, failures: int) -> float | None:
    """Seconds to wait after `failures` (1 or more) consecutive failures of this kind; None: only a change can help.

    A machine that repeats a refused login is locked out (fail2ban, OpenSSH's PerSourcePenalties): so never after
    `auth`.
    """
    waits = _by_kind().get(kind, _by_kind()["other"]).waits_s
    return waits[min(failures, len(waits)) - 1] if waits else None


def _by_kind() -> dict[str, Rule]:
    return {rule.kind: rule for rule in RULES + STATES}


def _verdict(rule: Rule, detail: str, to: str) -> Verdict:
    return Verdict(rule.kind, " ".join(detail.split())[:DETAIL_CHARS], rule.next_step.format(to=to))


def _cause(lines: list[str], hit: str) -> str:
    """The line that names the cause: with a jump host the first one, written by its own ssh."""
    return lines[0] if "UNKNOWN port 65535" in hit and lines[0] != hit else hit
