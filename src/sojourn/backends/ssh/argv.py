"""The argv of OpenSSH for a site, and the one remote command line that any login shell passes on unchanged.

Variable text never goes into an argv: it goes over stdin, and only once the far side has said that our own shell is
reading it (`ssh_talk`). The user's ssh settings apply in full; nothing ever writes to them.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sojourn.core.values import Place, Site
from sojourn.store import places
from sojourn.wire import quote
from sojourn.wire.errors import Misuse

SSH = "ssh"
SHARING = ("own", "user", "off")
_ADDRESS = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^@:\s\[\]]+)(?::(?P<port>\d{1,5}))?")

# Run by /bin/sh. Survives single quotes in sh, bash, zsh, tcsh and fish: no quote, backslash, `!` or newline in it. 97:
# the input read is not for us (a login file reads standard input, say); nothing was run.
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
    """The purpose of a connection. A dead link is noticed after `alive_s` * (`alive_count` + 1) at the latest."""

    name: str
    alive_s: int
    alive_count: int
    persist_s: int  # lifetime of an idle shared connection; 60 to 600


POLL = Line("p", alive_s=10, alive_count=3, persist_s=300)
COPY = Line("c", alive_s=5, alive_count=2, persist_s=60)
CONNECT_S = ANSWER_S = 15


@dataclass(frozen=True)
class Address:
    """The destination. `port` and `user` are "" if the user's ssh settings decide."""

    host: str
    user: str = ""
    port: str = ""


def address(text: str) -> Address:
    """Read `alias`, `user@host`, `host:port`, `user@[v6]:port`.

    Raises: BadSshAddress, also for anything ssh would take for an option.
    """
    hit = _ADDRESS.fullmatch(text)
    if not hit or text.startswith("-") or hit["host"].startswith("-") or int(hit["port"] or 1) not in range(1, 65536):
        raise BadSshAddress(address=text)
    return Address(hit["host"].strip("[]"), hit["user"] or "", hit["port"] or "")


def reached(place: Place) -> Site:
    """The site, with its machine's address; a rented machine is known by its lease's name rather than its address.

    Clouds give one address to one machine after another, and a machine's port changes: so the first host key of a
    rented machine is kept in a file of ours, under the machine's permanent name.
    """
    site = replace(place.site, address=place.address)
    if place.lease is None or not place.lease.address or not place.lease.token:
        return site
    return replace(site, options={**site.options, "host_key_alias": place.lease.token})


def sharing(site: Site) -> str:
    """`own` (our sockets), `user` (by the user's ssh settings) or `off`. Raises: BadSshOption."""
    value = str(os.environ.get("SOJOURN_SSH_SHARING") or site.options.get("sharing", "own"))
    if value not in SHARING:
        raise BadSshOption(site=site.name, option="sharing", value=value, valid=" ".join(SHARING))
    return value


def persist_s(site: Site, line: Line) -> int:
    """Lifetime of an idle shared connection of `line`. Raises: BadSshOption."""
    value = site.options.get("persist_s", line.persist_s)
    if not isinstance(value, int) or not 60 <= value <= 600:
        raise BadSshOption(site=site.name, option="persist_s", value=value, valid="60 to 600 (seconds)")
    return value


def answer_s(site: Site) -> float:
    """How long a login may take until sojourn's shell there is ready. Raises: BadSshOption."""
    value = site.options.get("answer_s", ANSWER_S)
    if not isinstance(value, int) or not 5 <= value <= 300:
        raise BadSshOption(site=site.name, option="answer_s", value=value, valid="5 to 300 (seconds)")
    return float(value)


def config(site: Site) -> str:
    """The ssh settings file to use instead of the user's own, or ""."""
    return str(site.options.get("ssh_config", "") or os.environ.get("SOJOURN_SSH_CONFIG", ""))


def destination(site: Site) -> list[str]:
    """The words that name settings file and box. Raises: BadSshAddress."""
    to = address(site.address)
    words = ["-F", os.path.expanduser(config(site))] if config(site) else []
    words += ["-p", to.port] if to.port else []
    words += ["-l", to.user] if to.user else []
    if alias := site.options.get("host_key_alias"):
        file = os.path.join(places.state_dir(), "known_hosts").replace("%", "%%")
        known = f'UserKnownHostsFile="{file}"'
        own = (f"HostKeyAlias={alias}", known, "StrictHostKeyChecking=accept-new", "CheckHostIP=no")
        words += [part for word in own for part in ("-o", word)]
    return [*words, to.host]


def argv(site: Site, line: Line, *, control_path: str, nonce: str, timeout_s: float) -> list[str]:
    """The ssh command that starts our shell on the box. `control_path`: "" = unshared, unless the site leaves sharing
    to the user.

    Raises: BadSshAddress, BadSshOption.
    """
    settings = {
        "BatchMode": "yes",
        "ConnectTimeout": max(1, min(CONNECT_S, int(timeout_s) - 1)),  # so that ssh itself can report why
        "ConnectionAttempts": 1,
        "ServerAliveInterval": line.alive_s,
        "ServerAliveCountMax": line.alive_count,
        "LogLevel": "VERBOSE",  # reports a successful login; the user's own level might hide the reason of a failure
        "RequestTTY": "no",
        "RemoteCommand": "none",
        "PermitLocalCommand": "no",
        "ClearAllForwardings": "yes",  # a forwarded port already in use must not fail a poll
        "ForwardX11": "no",
    }
    words = [f"{name}={value}" for name, value in settings.items()]
    if sharing(site) != "user":
        master = ["ControlMaster=auto", f"ControlPath={control_path}", f"ControlPersist={persist_s(site, line)}"]
        words += master if control_path else ["ControlMaster=no", "ControlPath=none"]
    options = [part for word in words for part in ("-o", word)]
    return [SSH, *options, *destination(site), f"exec /bin/sh -c '{_LOADER}' sojourn {nonce}"]


def nonce() -> str:
    """A word that nothing else prints: marks the start and end of our command's output."""
    return secrets.token_hex(16)


def program(words: Sequence[str], nonce: str) -> bytes:
    """The line that makes the far shell run exactly `words` and report their exit status on both streams.

    A signal appears as 128 + its number, as in shells. Raises: ValueError for no words, or a NUL in them.
    """
    if not words or any("\0" in word for word in words):
        raise ValueError(f"not an argv: {list(words)!r}")
    line = quote.join(words)
    head = ""
    if "\n" in line:  # only ever inside single quotes
        head = "n=$(printf '\\nx'); n=${n%x}; "
        line = line.replace("\n", "'\"$n\"'")
    end = f"printf '\\n{nonce} end %d\\n' $r"
    return os.fsencode(f"run-{nonce}:{head}( exec {line} ); r=$?; {end} >&2; {end}; exit 0\n")


def attach(site: Site, words: Sequence[str], has_terminal: bool) -> list[str]:
    """The ssh command that runs `words` on the box with our own streams, and in a terminal there if we have one.

    A separate connection, by the user's settings. Raises: BadSshAddress.
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


def tunnel(site: Site, local_port: int, port: int, host: str = "127.0.0.1") -> list[str]:
    """The ssh command that forwards 127.0.0.1:`local_port` here to `port` of `host` as the box sees it, nothing else.

    A separate connection: it ends with its process. The user's own forwardings stay, and may fail.
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
    return [SSH, "-N", *options, "-L", f"127.0.0.1:{local_port}:{host}:{port}", *destination(site)]
