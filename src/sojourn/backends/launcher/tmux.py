"""One tmux session per run, on a server of ours (`tmux -L sojourn`), which shows the run's log to whoever attaches.

The keeper is independent, as with `setsid`: tmux only watches. So a closed window, `kill-session` or a dead tmux server
never ends a run, and nothing of a server's old environment reaches the payload. The session ends by itself once the
keeper has ended and nobody is watching. Survives what `setsid` survives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sojourn.backends.keeper import process as keeper_process
from sojourn.backends.ssh import argv as ssh_argv
from sojourn.backends.way import way
from sojourn.core.ports import Handle, LaunchRequest
from sojourn.core.values import Ended, NoAnswer, Place, Pulse, Site
from sojourn.wire import quote
from sojourn.wire.errors import WorldError

SOCKET = "sojourn"  # tmux -L: not the user's own server, with its own settings and lifetime
_NO_TMUX = "sojourn:no-tmux"

# The window: $1 root, $2 session, $3 $4 $5 pid, start and boot of the started process. Follows the newest attempt's
# log.
_VIEW = (
    keeper_process.ALIVE
    + r"""
root=$1 now= tail= said=
trap '[ -z "$tail" ] || kill "$tail" 2>/dev/null' EXIT
trap 'exit 0' HUP TERM
trap '' INT QUIT TSTP
newest() { ls "$root/logs" 2>/dev/null | sed -n 's/^\([0-9][0-9]*\)\.log$/\1/p' | sort -n | tail -n 1; }
lives() { in_charge "$root" || { [ "$5" = "$(boot_id)" ] && alive "$3" "$4"; }; }
while :; do
  new=$(newest)
  if [ -n "$new" ] && [ "$new" != "$now" ]; then
    [ -z "$tail" ] || kill "$tail" 2>/dev/null
    now=$new; echo "-- attempt $now of $2"
    tail -n 500 -F "$root/logs/$now.log" 2>/dev/null & tail=$!
  fi
  if lives "$@"; then said=
  else
    [ -n "$said" ] || { sleep 1; echo "-- its keeper has ended (sojourn status $2); detach with: Ctrl-b d"; }
    said=1
    [ -n "$(tmux list-clients -t "$2" 2>/dev/null)" ] || exit 0
  fi
  sleep 1
done
"""
)

# $1 root, $2 socket, $3 session, $4 the window's script, the rest is argv. `-f /dev/null`: the user's settings may end
# unwatched sessions. An existing session shows the same root and is left alone.
_START = (
    keeper_process.SPAWN
    + rf"""
command -v tmux >/dev/null 2>&1 || {{ echo {_NO_TMUX} >&2; exit 3; }}
socket=$2 session=$3 view=$4
at=$1; shift 4
spawn "$at" "$@"
told=$(tell "$pid")
there() {{ tmux -L "$socket" list-sessions -F '#{{session_name}}' 2>/dev/null | grep -Fxq "$session"; }}
if there || why=$(tmux -L "$socket" -f /dev/null new-session -d -s "$session" -x 200 -y 50 \
    sh -c "$view" sojourn "$at" "$session" $told 2>&1 </dev/null) || there
then echo shown; else echo "hidden $why"; fi
echo "$told"
"""
)


class NoTmux(WorldError):
    """{site} is set to launch runs with tmux, which is not installed there. Nothing was started."""

    code = "no-tmux"
    next_step = 'install tmux there, or set launcher = "setsid" for {site}'


class Backend:
    """Launcher `tmux`."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout"})

    def __init__(self, site: Site | None = None) -> None:
        """`site`: how the user reaches the box, for the attach command."""
        self._site = site or Site("local")

    def start(
        self, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
    ) -> Handle | NoAnswer:
        """Start argv detached and a session that shows its log. Raises: NoTmux, NotLaunched."""
        return keeper_process.start(self, place, argv, root, request)

    def command(self, argv: Sequence[str], root: str, request: LaunchRequest | None = None) -> list[str]:
        """A shell that does both."""
        return keeper_process.command(_START, root, [SOCKET, session_name(root), _VIEW, *argv])

    def read(self, ended: Ended, root: str) -> Handle:
        """Facts: `session`; `attach`, the command to type on the client; if tmux makes no session the run continues
        without one, and `remark` says why. Raises: NoTmux, NotLaunched.
        """
        try:
            facts, lines = keeper_process.read_start("tmux", ended, root)
        except keeper_process.NotLaunched as error:
            if _NO_TMUX not in error.message:
                raise
            raise NoTmux(site=self._site.name) from None
        facts["session"] = session_name(root)
        if "shown" in lines:
            facts["attach"] = self._attach(facts["session"])
        else:
            facts["remark"] = f"tmux shows no window for it: {' '.join(lines)[len('hidden ') :] or 'no reason given'}"
        return Handle("tmux", f"{facts['pid']}:{facts['start']}", facts)

    def check(self, place: Place) -> WorldError | None:
        """What `start` would raise, as far as known beforehand; None also if the box does not answer."""
        ended = way(place).call(["sh", "-c", "command -v tmux"], timeout_s=keeper_process.CALL_S)
        is_absent = isinstance(ended, Ended) and ended.rc != 0
        return NoTmux(site=self._site.name) if is_absent else None

    def pulse(self, place: Place, handle: Handle) -> Pulse:
        """Whether a keeper of this root lives, whatever happened to the session."""
        return keeper_process.pulse(place, handle)

    def stop(self, place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
        """TERM, then KILL; the session ends by itself, once nobody is watching."""
        return keeper_process.stop(place, handle, grace_s)

    def _attach(self, session: str) -> str:
        words = ["tmux", "-L", SOCKET, "attach", "-t", session]
        if self._site.transport == "ssh":
            words = ["ssh", "-t", *ssh_argv.destination(self._site), *words]
        return quote.join(words)


def session_name(root: str) -> str:
    """The session of a run: its id, with `+`, which no id contains, for the dots that tmux reserves."""
    return root.rstrip("/").rpartition("/")[2].replace(".", "+")
