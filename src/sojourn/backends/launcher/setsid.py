"""A session of its own: the keeper as a plain detached process, kept alive by nobody. Works on every box with a shell.

Survives a dropped link, the client's end and a logout (where the box lets processes of a user who left live on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from sojourn.core.ports import Tether, Transport
from sojourn.core.values import NoAnswer, Pulse, Site
from sojourn.wire.errors import WorldError

# All three streams are redirected: a child that holds the call's output keeps the call open (procedures.md 4.4).
# The pid is that of `setsid`, which becomes argv: in a background job it is no group leader, so it does not fork.
_START = r"""
root=$1; shift
mkdir -p "$root/logs" && cd / || exit 1
if command -v setsid >/dev/null 2>&1; then setsid "$@" </dev/null >>"$root/logs/keeper.log" 2>&1 &
else nohup "$@" </dev/null >>"$root/logs/keeper.log" 2>&1 & fi
pid=$!
if stat=$(sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null); then set -- $stat; echo "$pid ${20}"; else echo "$pid 0"; fi
"""

# alive PID START: whether that very process runs. A zombie does not; one pid may have named two processes.
_ALIVE = r"""
alive() {
  [ -n "$1" ] && [ "$1" -gt 1 ] 2>/dev/null || return 1
  stat=$(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null) || { [ ! -d /proc/self ] && kill -0 "$1" 2>/dev/null; return; }
  want=$2; set -- $stat
  case $1 in Z|X|x|'') return 1 ;; esac
  [ "$want" = 0 ] || [ "$want" = "${20}" ]
}
field() { sed -n 's/.*"'"$2"'": *\([0-9][0-9]*\).*/\1/p' "$1/keeper.json" 2>/dev/null; }
here() {
  boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
  [ -z "$boot" ] || grep -q "$boot" "$1/keeper.json" 2>/dev/null
}
"""

# A second start finds the lock taken and leaves: what lives is then the first one, which keeper.json names.
_PULSE = (
    _ALIVE
    + r"""
if here "$1" && alive "$(field "$1" pid)" "$(field "$1" start)"; then echo alive
elif [ "$4" = "" -o "$4" = "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" ] && alive "$2" "$3"; then echo alive
else echo gone; fi
"""
)

_STOP = (
    _ALIVE
    + r"""
root=$1 p1=$2 s1=$3 left=$(($4 * 10)) p2= s2=
if here "$root"; then p2=$(field "$root" pid) s2=$(field "$root" start); fi
lives() { alive "$p1" "$s1" || alive "$p2" "$s2"; }
each() { alive "$p1" "$s1" && kill "-$1" "$p1" 2>/dev/null; alive "$p2" "$s2" && kill "-$1" "$p2" 2>/dev/null; }
each TERM
while lives && [ "$left" -gt 0 ]; do sleep 0.1 2>/dev/null || { sleep 1; left=$((left - 9)); }; left=$((left - 1)); done
each KILL
sleep 0.1 2>/dev/null || sleep 1
if lives; then echo alive; else echo gone; fi
"""
)


class NotLaunched(WorldError):
    """The launcher setsid could not start the keeper: {detail}."""

    code = "not-launched"


class Backend:
    """Launcher through a shell and `setsid`."""

    survives: ClassVar[frozenset[str]] = frozenset({"link-drop", "client-exit", "logout"})

    def __init__(self, site: Site | None = None) -> None:
        """A launcher is made with its site, whose `options` are its own settings; this one has none."""

    def start(self, transport: Transport, argv: Sequence[str], root: str) -> Tether | NoAnswer:
        """Start argv detached; see `core.ports.Launcher`. Raises: NotLaunched."""
        ended = transport.call(["sh", "-c", _START, "sojourn", root, *argv], timeout_s=30.0, limit_bytes=1 << 16)
        if isinstance(ended, NoAnswer):
            return ended
        words = ended.stdout.split()[-2:]
        if ended.rc != 0 or len(words) != 2 or not all(word.isdigit() for word in words):
            said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-400:]
            raise NotLaunched(detail=said or f"exit status {ended.rc}")
        pid, start = int(words[0]), int(words[1])
        return Tether("setsid", f"{pid}:{start}", {"root": root, "pid": pid, "start": start})

    def pulse(self, transport: Transport, tether: Tether) -> Pulse:
        """Whether a keeper of this root lives: the one that keeper.json names, or the one we started."""
        answer = self._ask(transport, _PULSE, tether, "", 30.0)
        return {b"alive": Pulse.ALIVE, b"gone": Pulse.GONE}.get(answer, Pulse.UNKNOWN)

    def stop(self, transport: Transport, tether: Tether, grace_s: float) -> None | NoAnswer:
        """TERM the keeper, which gives its payload the job's own grace; KILL it after `grace_s`. Idempotent.

        A keeper that had to be killed may leave a living payload, which the next one adopts.
        """
        whole_s = max(0, int(grace_s + 0.999))
        answer = self._ask(transport, _STOP, tether, str(whole_s), grace_s + 30.0)
        return None if answer == b"gone" else NoAnswer(sent=True, kind="no-end", detail="it does not go")

    def _ask(self, transport: Transport, script: str, tether: Tether, word: str, timeout_s: float) -> bytes:
        facts = tether.facts
        argv = ["sh", "-c", script, "sojourn", str(facts["root"]), str(facts["pid"]), str(facts["start"]), word]
        ended = transport.call(argv, timeout_s=timeout_s, limit_bytes=1 << 16)
        if isinstance(ended, NoAnswer) or ended.rc != 0:
            return b""
        return ended.stdout.strip().rpartition(b"\n")[2].strip()
