"""The keeper as a process of the box: started by a shell, found by keeper.json, ended by signals.

Shared by every launcher that starts a process there; what else keeps that process alive is each launcher's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.backends.bounds import BEAT
from sojourn.backends.way import way
from sojourn.core.ports import Handle, LaunchRequest, ShellLauncher
from sojourn.core.values import Ended, NoAnswer, Place, Pulse
from sojourn.wire.errors import WorldError

CALL_S = 30.0
_LIMIT_BYTES = 1 << 16
_NUMBER = re.compile(r"[0-9]{1,18}")

# alive PID START: whether that very process runs. A zombie does not; one pid may have named two processes.
ALIVE = r"""
alive() {
  [ -n "$1" ] && [ "$1" -gt 1 ] 2>/dev/null || return 1
  stat=$(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null) || { [ ! -d /proc/self ] && kill -0 "$1" 2>/dev/null; return; }
  want=$2; set -- $stat
  case $1 in Z|X|x|'') return 1 ;; esac
  [ "$want" = 0 ] || [ "$want" = "${20}" ]
}
boot_id() { cat /proc/sys/kernel/random/boot_id 2>/dev/null; }
field() { sed -n 's/.*"'"$2"'": *\([0-9][0-9]*\).*/\1/p' "$1/keeper.json" 2>/dev/null; }
here() {
  boot=$(boot_id)
  [ -z "$boot" ] || grep -q "$boot" "$1/keeper.json" 2>/dev/null
}
in_charge() { here "$1" && alive "$(field "$1" pid)" "$(field "$1" start)"; }
tell() {
  if stat=$(sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null); then pid=$1; set -- $stat; echo "$pid ${20} $(boot_id)"
  else echo "$1 0 $(boot_id)"; fi
}
"""

# All three streams are redirected: a child holding the call's output keeps the call open. The pid is that of `setsid`,
# which becomes argv: as a background job it is not a group leader, so it does not fork.
SPAWN = (
    ALIVE
    + r"""
spawn() {
  root=$1; shift
  (umask 077; mkdir -p "$root/logs" && : >>"$root/logs/keeper.log") && cd / || exit 1
  if command -v setsid >/dev/null 2>&1; then setsid "$@" </dev/null >>"$root/logs/keeper.log" 2>&1 &
  else nohup "$@" </dev/null >>"$root/logs/keeper.log" 2>&1 & fi
  pid=$!
}
"""
)

# A second start finds the lock taken and exits: the living one is then the first, named in keeper.json.
_PULSE = (
    ALIVE
    + r"""
if in_charge "$1"; then echo alive
elif [ -z "$4" ] || [ "$4" = "$(boot_id)" ] && alive "$2" "$3"; then echo alive
else echo gone; fi
"""
)

_STOP = (
    BEAT
    + ALIVE
    + r"""
root=$1 p1=$2 s1=$3 left=$(($5 * 10)) p2= s2=
[ -z "$4" ] || [ "$4" = "$(boot_id)" ] || p1=
if here "$root"; then p2=$(field "$root" pid) s2=$(field "$root" start); fi
lives() { alive "$p1" "$s1" || alive "$p2" "$s2"; }
each() { alive "$p1" "$s1" && kill "-$1" "$p1" 2>/dev/null; alive "$p2" "$s2" && kill "-$1" "$p2" 2>/dev/null; }
each TERM
while lives && [ "$left" -gt 0 ]; do
  [ $((left % 150)) -ne 0 ] || beat
  sleep 0.1 2>/dev/null || { sleep 1; left=$((left - 9)); }
  left=$((left - 1))
done
each KILL
sleep 0.1 2>/dev/null || sleep 1
if lives; then echo alive; else echo gone; fi
"""
)


class NotLaunched(WorldError):
    """The launcher {launcher} could not start the keeper: {detail}."""

    code = "not-launched"


def start(
    launcher: ShellLauncher, place: Place, argv: Sequence[str], root: str, request: LaunchRequest | None = None
) -> Handle | NoAnswer:
    """Run the launcher's command in a separate call. Raises: NotLaunched and the launcher's own errors."""
    words = launcher.command(argv, root, request)
    ended = way(place).call(words, timeout_s=CALL_S, limit_bytes=_LIMIT_BYTES)
    return ended if isinstance(ended, NoAnswer) else launcher.read(ended, root)


def command(script: str, root: str, words: Sequence[str]) -> list[str]:
    """The argv of a shell script that starts the keeper: `$1` is the root, the rest are `words`.

    It ends with the line of `tell PID`; it does not wait for what it started.
    """
    return ["sh", "-c", script, "sojourn", root, *words]


def read_start(launcher: str, ended: Ended, root: str) -> tuple[dict[str, Any], list[str]]:
    """Facts for a handle, and the lines before them, from the output of such a script. Raises: NotLaunched."""
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    told = lines[-1].split() if lines else []
    if ended.rc != 0 or len(told) not in (2, 3) or not all(_NUMBER.fullmatch(word) for word in told[:2]):
        said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()[-400:]
        raise NotLaunched(launcher=launcher, detail=said.rstrip(".") or f"exit status {ended.rc}")
    boot = told[2] if len(told) == 3 else ""
    return {"root": root, "pid": int(told[0]), "start": int(told[1]), "boot": boot}, lines[:-1]


def pulse(place: Place, handle: Handle) -> Pulse:
    """Whether a keeper of this root lives: the one named in keeper.json, or the one we started."""
    answer = _ask(place, _PULSE, handle.facts, [], CALL_S)
    return {b"alive": Pulse.ALIVE, b"gone": Pulse.GONE}.get(answer, Pulse.UNKNOWN)


def stop(place: Place, handle: Handle, grace_s: float) -> None | NoAnswer:
    """Send TERM to the keeper, which gives its payload the job's own grace; KILL after `grace_s`. Idempotent.

    A keeper that had to be killed may leave a living payload, which the next one adopts.
    """
    whole_s = max(0, int(grace_s + 0.999))
    answer = _ask(place, _STOP, handle.facts, [str(whole_s)], grace_s + CALL_S)
    return None if answer == b"gone" else NoAnswer(sent=True, kind="no-end", detail="it does not go")


def _ask(place: Place, script: str, facts: Mapping[str, Any], more: list[str], timeout_s: float) -> bytes:
    known = [str(facts["root"]), str(facts["pid"]), str(facts["start"]), str(facts.get("boot") or "")]
    argv = ["sh", "-c", script, "sojourn", *known, *more]
    ended = way(place).call(argv, timeout_s=timeout_s, limit_bytes=_LIMIT_BYTES)
    if isinstance(ended, NoAnswer) or ended.rc != 0:
        return b""
    return ended.stdout.strip().rpartition(b"\n")[2].strip()
