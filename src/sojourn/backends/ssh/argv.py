"""The argv of OpenSSH for a site, and the one remote command line that any login shell passes on unchanged.

What varies never stands in an argv: it goes over stdin, and only once the far side has said that our own shell
reads it (`ssh_talk`). The user's ssh settings count in full; nothing here or anywhere else writes to them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.core.values import Site
from sojourn.wire import quote
from sojourn.wire.errors import Misuse

SSH = "ssh"
SHARING = ("own", "user", "off")
_ADDRESS = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@:\s\[\]]+)(?::(?P<port>\d{1,5}))?")

# Run by /bin/sh. Passes unharmed through single quotes in sh, bash, zsh, tcsh and fish: no quote, backslash, `!` or
# newline in it. 97: what was read is not for us (a login file reads standard input, say); nothing was run.
_LOADER = (
    "echo $1 ready >&2; echo $1 ready; IFS= read -r l || exit 97; "
    'case $l in run-$1:*) eval "${l#*:}" ;; *) exit 97 ;; esac'
)
NOT_FOR_US = 97


class BadSshOption(Misuse):
    """Site {site}: option {option} is {value}; valid: {valid}."""

    code = "bad-ssh-option"


class BadSshAddress(Misuse):
    """{address!r} is not an SSH address. Use an alias of ~/.ssh/config, user@host, or user@host:port."""

    code = "bad-ssh-address"


@dataclass(frozen=True)
class Line:
    """What a connection is for. A dead link is noticed after `alive_s` * (`alive_count` + 1) at the latest."""

    name: str
    alive_s: int
    alive_count: int
    persist_s: int  # how long an idle shared connection stays; 60 to 600


POLL = Line("p", alive_s=10, alive_count=3, persist_s=300)
COPY = Line("c", alive_s=5, alive_count=2, persist_s=60)
CONNECT_S = 15


@dataclass(frozen=True)
class Address:
    """Where to. `port` and `user` are "" where the user's ssh settings say."""

    host: str
    user: str = ""
    port: str = ""


def address(text: str) -> Address:
    """Read `alias`, `user@host`, `host:port`, `user@[v6]:port`.

    Raises: BadSshAddress, also for what ssh would take for an option.
    """
    hit = _ADDRESS.fullmatch(text)
    if not hit or text.startswith("-") or hit["host"].startswith("-") or int(hit["port"] or 1) not in range(1, 65536):
        raise BadSshAddress(address=text)
    return Address(hit["host"].strip("[]"), hit["user"] or "", hit["port"] or "")


def sharing(site: Site) -> str:
    """`own` (sockets of ours), `user` (as the user's ssh settings say) or `off`. Raises: BadSshOption."""
    value = str(os.environ.get("SOJOURN_SSH_SHARING") or site.options.get("sharing", "own"))
    if value not in SHARING:
        raise BadSshOption(site=site.name, option="sharing", value=value, valid=" ".join(SHARING))
    return value


def persist_s(site: Site, line: Line) -> int:
    """How long an idle shared connection of `line` stays. Raises: BadSshOption."""
    value = site.options.get("persist_s", line.persist_s)
    if not isinstance(value, int) or not 60 <= value <= 600:
        raise BadSshOption(site=site.name, option="persist_s", value=value, valid="60 to 600 (seconds)")
    return value


def config(site: Site) -> str:
    """The ssh settings file to use instead of the user's own, or ""."""
    return str(site.options.get("ssh_config", "") or os.environ.get("SOJOURN_SSH_CONFIG", ""))


def destination(site: Site) -> list[str]:
    """The words that name settings file and box. Raises: BadSshAddress."""
    to = address(site.address)
    words = ["-F", os.path.expanduser(config(site))] if config(site) else []
    words += ["-p", to.port] if to.port else []
    words += ["-l", to.user] if to.user else []
    return [*words, to.host]


def argv(site: Site, line: Line, *, control_path: str, nonce: str, timeout_s: float) -> list[str]:
    """The ssh command that starts our shell on the box. `control_path`: "" = unshared, unless the site leaves
    sharing to the user.

    Raises: BadSshAddress, BadSshOption.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": max(1, min(CONNECT_S, int(timeout_s) - 1)),  # so that ssh itself can say why
        "ConnectionAttempts": 1,
        "ServerAliveInterval": line.alive_s,
        "ServerAliveCountMax": line.alive_count,
        "LogLevel": "VERBOSE",  # says when the login succeeded; the user's own level might hide the reason of a failure
        "RequestTTY": "no",
        "RemoteCommand": "none",
        "PermitLocalCommand": "no",
        "ClearAllForwardings": "yes",  # a forwarded port that is taken must not fail a poll
        "ForwardX11": "no",
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    if sharing(site) != "user":
        master = ["ControlMaster=auto", f"ControlPath={control_path}", f"ControlPersist={persist_s(site, line)}"]
        words += master if control_path else ["ControlMaster=no", "ControlPath=none"]
    options = [part for word in words for part in ("-o", word)]
    return [SSH, *options, *destination(site), f"exec /bin/sh -c '{_LOADER}' sojourn {nonce}"]


def nonce() -> str:
    """A word that nothing else prints: marks where our command's output begins and ends."""
    return secrets.token_hex(16)


def program(words: Sequence[str], nonce: str) -> bytes:
    """The line that makes the far shell run exactly `words` and report their exit status on both streams.

    A signal shows as 128 + its number, as shells say it. Raises: ValueError for no words, or a NUL in them.
    """
    if not words or any("\0" in word for word in words):
        raise ValueError(f"not an argv: {list(words)!r}")
    line = quote.join(words)
    head = ""
    if "\n" in line:  # stands only inside single quotes there
        head = "n=$(printf '\\nx'); n=${n%x}; "
        line = line.replace("\n", "'\"$n\"'")
    end = f"printf '\\n{nonce} end %d\\n' $r"
    return os.fsencode(f"run-{nonce}:{head}( exec {line} ); r=$?; {end} >&2; {end}; exit 0\n")


def attach(site: Site, words: Sequence[str], has_terminal: bool) -> list[str]:
    """The ssh command that runs `words` on the box with our own streams, and in a terminal there where we have one.

    A connection of its own, as the user's settings make it. Raises: BadSshAddress.
    """
    settings = {
        "BatchMode": "no" if has_terminal else "yes",
        "ConnectTimeout": CONNECT_S,
        "ServerAliveInterval": POLL.alive_s,
        "ServerAliveCountMax": POLL.alive_count,
        "LogLevel": "ERROR",
        "RemoteCommand": "none",
        "ClearAllForwardings": "yes",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    return [SSH, "-tt" if has_terminal else "-T", *options, *destination(site), f"exec {quote.join(words)}"]


def tunnel(site: Site, local_port: int, port: int) -> list[str]:
    """The ssh command that forwards 127.0.0.1:`local_port` here to 127.0.0.1:`port` on the box, and does nothing else.

    A connection of its own: it ends with its process. Forwardings of the user's settings stay, and may fail.
    Raises: BadSshAddress.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": CONNECT_S,
        "ConnectionAttempts": 1,
        "ServerAliveInterval": POLL.alive_s,
        "ServerAliveCountMax": POLL.alive_count,
        "LogLevel": "VERBOSE",
        "RequestTTY": "no",
        "RemoteCommand": "none",
        "PermitLocalCommand": "no",
        "ExitOnForwardFailure": "no",
        "ForwardX11": "no",
        "ControlMaster": "no",
        "ControlPath": "none",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    return [SSH, "-N", *options, "-L", f"127.0.0.1:{local_port}:127.0.0.1:{port}", *destination(site)]
