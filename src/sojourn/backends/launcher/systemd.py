"""A transient unit of the user's systemd (`systemd-run --user`). Outlives logouts, even with `KillUserProcesses=yes`.

Needs a systemd that keeps running without a login (lingering); a container rarely has one. The unit ends only the
keeper itself: not the payload when the keeper is killed, nor the rest when the kernel kills one.
Source: systemd-run(1), systemd.kill(5), systemd.service(5), loginctl(1) of systemd 252 (2026-11). Tested only with a
stand-in for systemd: docs/launchers.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar

from sojourn.backends.keeper import process as keeper_process
from sojourn.backends.way import way
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site
from sojourn.wire.errors import WorldError

_MARK = "sojourn:"

# For scripts that call the user's systemd. A shell without a login (ssh with a command) may lack the variable.
CHECK = r"""
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"; export XDG_RUNTIME_DIR
user=$(id -un 2>/dev/null || id -u)
command -v systemctl >/dev/null 2>&1 || { echo "sojourn:no-systemd there is no systemctl" >&2; exit 3; }
state=$(systemctl --user is-system-running 2>&1)
case $state in
running|degraded) ;;
*) echo "sojourn:no-systemd systemctl --user says: $(echo "$state" | tail -n 1)" >&2; exit 3 ;;
esac
linger=$(loginctl show-user "$user" --property=Linger 2>/dev/null)
[ "$linger" = Linger=yes ] || [ -e "/var/lib/systemd/linger/$user" ] || { echo "sojourn:no-linger $user" >&2; exit 3; }
"""

# $1 root, $2 unit, the rest is argv, each `$` doubled, since systemd expands single ones. An existing unit already runs
# this root's keeper. PATH is passed on: systemd's own is poorer than a login's.
_START = (
    CHECK
    + keeper_process.ALIVE
    + r"""
root=$1 unit=$2; shift 2
(umask 077; mkdir -p "$root/logs" && : >>"$root/logs/keeper.log") || exit 1
version=$(systemctl --version | sed -n '1s/[^0-9]*\([0-9]*\).*/\1/p')
oom=; [ "${version:-0}" -lt 243 ] || oom=--property=OOMPolicy=continue
if ! why=$(systemd-run --user --quiet --collect --unit="$unit" --property=KillMode=process $oom --setenv=PATH="$PATH" \
    ${LD_LIBRARY_PATH:+"--setenv=LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} -- "$@" 2>&1 </dev/null); then
  systemctl --user is-active --quiet "$unit" || { echo "$why" | tail -n 1 >&2; exit 4; }
fi
pid=$(systemctl --user show "$unit" --property=MainPID 2>/dev/null | sed -n 's/^MainPID=//p')
tell "${pid:-0}"
"""
)
# What the unit runs: $0 is the root. `$$` becomes `$` on the way.
_UNIT = 'exec "$$@" </dev/null >>"$$0/logs/keeper.log" 2>&1'


class NoSystemd(WorldError):
    """{site} has no systemd user instance to start a unit with: {said}. Nothing was started."""

    code = "no-systemd"
    next_step = 'set launcher = "setsid" for {site}'


class NoLinger(WorldError):
    """The systemd of {user} on {site} ends with the last logout: lingering is off. Nothing was started."""

    code = "no-linger"
    next_step = "loginctl enable-linger {user}  (on {site}; some machines require root for this)"


class Backend:
    """Launcher `systemd`."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout"})

    def __init__(self, site: Site | None = None) -> None:
        """`site`: for the messages."""
        self._site = site or Site("local")

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Start argv as a unit. Raises: NoSystemd, NoLinger, NotLaunched."""
        return keeper_process.start(self, place, argv, root, request)

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """A shell that has systemd start the unit."""
        words = [unit_name(root), "/bin/sh", "-c", _UNIT, *(word.replace("$", "$$") for word in [root, *argv])]
        return keeper_process.command(_START, root, words)

    def read(self, ended: Ended, root: str) -> Handle:
        """Facts hold the `unit`. Raises: NoSystemd, NoLinger, NotLaunched."""
        try:
            facts, _ = keeper_process.read_start("systemd", ended, root)
        except keeper_process.NotLaunched as error:
            raise refusal(self._site.name, error.message) or error from None
        facts["unit"] = unit_name(root)
        return Handle("systemd", facts["unit"], facts)

    def check(self, place: Place) -> WorldError | None:
        """What `start` would raise, as far as known beforehand; None also if the box does not answer."""
        ended = way(place).call(["sh", "-c", CHECK], timeout_s=keeper_process.CALL_S)
        if isinstance(ended, NoAnswer) or ended.rc == 0:
            return None
        return refusal(self._site.name, ended.stderr.decode("utf-8", "replace"))

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """Whether a keeper of this root lives."""
        return keeper_process.pulse(place, handle)

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """TERM, then KILL; the unit ends with its keeper."""
        return keeper_process.stop(place, handle, grace_s)


def refusal(site: str, said: str) -> WorldError | None:
    """The error for CHECK's output, if there is any."""
    _, _, told = said.partition(_MARK)
    word, _, rest = told.partition(" ")
    rest = rest.splitlines()[0].strip().rstrip(".") if rest else ""
    if word == "no-systemd":
        return NoSystemd(site=site, said=rest)
    return NoLinger(site=site, user=rest) if word == "no-linger" else None


def unit_name(root: str) -> str:
    """The unit of a run: its id, and a digest of the root, since two bases may hold one id."""
    digest = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"sojourn-{root.rstrip('/').rpartition('/')[2]}-{digest}.service"
