"""`tq`: a scheduler of one machine in a page of shell. Numbered jobs wait until one of so many slots is free.

A launcher of another package, as docs/adding-a-launcher.md says: nothing of ours knows it.
"""

import shlex

from sojourn.backends.way import way
from sojourn.core.ports import DryRun, Handle, SchedulerStatus
from sojourn.core.values import NoAnswer, Pulse, State
from sojourn.wire.errors import WorldError

# $1 queue, $2 job, $3 root, $4 slots, $5 group, $6 how many of the group at once (0: any). A slot is a folder that one
# job made.
_JOB = r"""
q=$1 n=$2 root=$3 slots=$4 group=$5 most=$6 slot= place=
be() { echo "$1" >"$q/$n/new" && mv "$q/$n/new" "$q/$n/state"; }
any() { k=0; while [ $k -lt "$2" ]; do mkdir "$q/$1-$k" 2>/dev/null && echo "$q/$1-$k" && return; k=$((k + 1)); done; }
while [ -z "$slot" ]; do
  [ ! -e "$q/$n/cancelled" ] || { be cancelled; exit; }
  place=$(any "$group" "$most")
  [ "$most" -gt 0 ] && [ -z "$place" ] || slot=$(any slot "$slots")
  [ -n "$slot" ] || { rmdir $place 2>/dev/null; sleep 0.1; }
done
SOJOURN_SEAT="$n:0" sh "$root/logs/tq.sh" "$root" </dev/null >>"$root/logs/keeper.log" 2>&1 & p=$!
echo $p >"$q/$n/pid" && be running
wait $p; rc=$?
rmdir $slot $place
be "ended $rc"
"""
_LIB = r"""
q=$1 slots=$2 job=$3; shift 3
mkdir -p "$q"
state() { cat "$q/$1/state" 2>/dev/null || echo unknown; }
submit() { # ROOT SCRIPT ATTEMPT GROUP MOST
  mkdir -p "$1/logs" "$1/exits"
  printf '%s' "$2" >"$1/logs/tq.sh"
  n=1
  until mkdir "$q/$n" 2>/dev/null; do n=$((n + 1)); done
  echo waiting >"$q/$n/state" && echo "$n $3" >"$1/exits/tq"
  setsid sh -c "$job" tq "$q" "$n" "$1" "$slots" "$4" "$5" </dev/null >/dev/null 2>&1 &
}
is_there() { case $(state "$1") in waiting|running) ;; *) return 1 ;; esac; }
end() { # JOB GRACE
  : >"$q/$1/cancelled"
  left=$(($2 * 10)) told=
  while is_there "$1"; do # what waits ends by itself, unless it was just about to run
    if [ "$(state "$1")" = running ]; then
      [ -n "$told" ] || kill -TERM "$(cat "$q/$1/pid")" 2>/dev/null
      [ $left -gt 0 ] || { kill -KILL "$(cat "$q/$1/pid")" 2>/dev/null; break; }
      told=1
    fi
    sleep 0.1; left=$((left - 1))
  done
}
"""
_START = r"""
read -r n attempt 2>/dev/null <"$1/exits/tq"
[ -n "$n" ] && is_there "$n" || submit "$1" "$2" 0 own 0
echo "$n"
"""
_START_ALL = r"""
group=$1 most=$2 script=$3; shift 3
while [ $# -gt 0 ]; do
  n= attempt=
  read -r n attempt 2>/dev/null <"$1/exits/tq"
  [ "$attempt" = "$2" ] || submit "$1" "$script" "$2" "$group" "$most"
  echo "$n"; shift 2
done
"""
_WORDS = 'for n; do echo "$n $(state "$n")"; done'
_STOP = r"""
grace=$1; shift
for n; do end "$n" "$grace"; done
for n; do left=300; while is_there "$n" && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done; done
"""


class Backend:
    """Launcher `tq`. [sites.NAME.tq]: `queue`, the folder of its jobs; `slots`, how many run at once."""

    survives = frozenset({"link-drop", "client-exit", "logout"})
    schedules = True
    spans = False

    def __init__(self, site=None):
        """With the site's settings."""
        self.options = {"queue": "/tmp/tq", "slots": 2, **(site.options.get("tq") or {} if site else {})}

    def script(self, argv, root, request):
        """The script of one job; the root comes to it as its argument."""
        return f"#!/bin/sh\n# SOJOURN_SEAT is set by tq\nexec {shlex.join(argv)}\n"

    def start(self, place, argv, root, request=None):
        """Submit it, unless it waits or runs."""
        ended = way(place).call(self._argv(_START, root, self.script(argv, root, request)))
        if isinstance(ended, NoAnswer):
            return ended
        native = ended.stdout.decode().strip()
        if ended.rc or not native.isdigit():
            raise WorldError(detail=f"tq took no job: {ended.stderr.decode()}")
        return Handle("tq", native, {"root": root})

    def start_all(self, place, argv, home, roots, request, at_once):
        """A job for each, so many of them at once."""
        script = f'#!/bin/sh\n# SOJOURN_SEAT is set by tq\nexec {shlex.join(argv)} "$1"\n'
        group = "group-" + home.strip("/").replace("/", "-").replace(" ", "_")
        words = [word for one in roots for word in (one.root, str(one.attempt))]
        ended = way(place).call(self._argv(_START_ALL, group, str(at_once), script, *words), timeout_s=60.0)
        if isinstance(ended, NoAnswer):
            return ended
        lines = ended.stdout.decode().split()
        if ended.rc or len(lines) != len(roots):
            raise WorldError(detail=f"tq took not all jobs: {ended.stderr.decode()}")
        return [Handle("tq", native, {"root": one.root}) for native, one in zip(lines, roots, strict=True)]

    def try_out(self, place, script):
        """It takes everything."""
        ended = way(place).call(["true"])
        return ended if isinstance(ended, NoAnswer) else DryRun(True, f"one of {self.options['slots']} slots is enough")

    def states(self, place, handles):
        """All in one call."""
        ended = way(place).call(self._argv(_WORDS, *(one.native for one in handles)))
        if isinstance(ended, NoAnswer) or ended.rc:
            return [SchedulerStatus(Pulse.UNKNOWN, reason="tq was not heard") for _ in handles]
        return [self._word(*line.split()) for line in ended.stdout.decode().splitlines()]

    def _word(self, native, state, rc=""):
        if state in ("waiting", "running"):
            reason = f"all slots are taken (tq job {native})" if state == "waiting" else ""
            return SchedulerStatus(Pulse.ALIVE, is_waiting=state == "waiting", reason=reason)
        if state == "cancelled":
            return SchedulerStatus(
                Pulse.GONE, state=State.CANCELLED, reason=f"it was taken from the queue (tq job {native})"
            )
        return SchedulerStatus(Pulse.GONE, reason=f"tq job {native}: {state} {rc}")

    def records(self, place, handle, root):
        """What its folder says."""
        ended = way(place).call(self._argv(_WORDS, handle.native))
        return {} if isinstance(ended, NoAnswer) else {"tq": (ended.rc, ended.stdout.decode())}

    def by_hand(self, root, native):
        """Lines for a person."""
        script = f'"$(cat {shlex.quote(root)}/logs/tq.sh)"'
        return {
            "look": shlex.join(self._argv(_WORDS, native)),
            "stop": shlex.join(self._argv(_STOP, "5", native)),
            "start": f"{shlex.join(self._argv(_START, root))} {script}",
        }

    def cancel(self, place, handles):
        """End them."""
        ended = way(place).call(self._argv(_STOP, "2", *(one.native for one in handles)), timeout_s=60.0)
        return ended if isinstance(ended, NoAnswer) else None

    def used(self, place, handles):
        """Nothing is shared out."""
        return ""

    def pulse(self, place, handle):
        """ALIVE while it waits or runs."""
        return self.states(place, [handle])[0].pulse

    def stop(self, place, handle, grace_s):
        """TERM, then KILL; what waits is cancelled."""
        ended = way(place).call(self._argv(_STOP, str(int(grace_s + 1)), handle.native), timeout_s=grace_s + 60.0)
        return ended if isinstance(ended, NoAnswer) else None

    def _argv(self, line, *words):
        queue, slots = str(self.options["queue"]), str(self.options["slots"])
        return ["sh", "-c", _LIB + line, "tq", queue, slots, _JOB, *words]
