"""The reboot hook: after a restart of the box its cron, or the user's systemd, starts the run's keeper again.

The hook runs `reboot.sh` in the run's root, which execs the very argv that the launcher starts, with the PATH of the
client's call. The keeper takes the hook away when the run is over (`reboot.json` tells it how), and goes on with a
run that the restart cut off. Source: crontab(5) of cron 3.0pl1, systemd.unit(5) of systemd 252 (2026-11).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from sojourn.backends.launcher.systemd import CHECK, refusal
from sojourn.core.values import Ended
from sojourn.wire import quote

HOOKS = ("cron", "systemd")

# lay COMMAND JSON: write the two files. A name without its bytes is what a power loss leaves of a file that was not
# synced before it was renamed.
_FILES = r"""
durable() { sync "$1" 2>/dev/null || sync; }
write() { cat >"$root/.$1.new" && durable "$root/.$1.new" && mv "$root/.$1.new" "$root/$1" && durable "$root"; }
lay() {
  {
    echo '# Started after a reboot by the hook that the user asked for; resumes the run, or ends at once.'
    for name in PATH LD_LIBRARY_PATH; do
      eval "value=\${$name:-}"
      [ -z "$value" ] || printf "%s='%s'; export %s\n" "$name" "$(printf %s "$value" | sed "s/'/'\\\\''/g")" "$name"
    done
    printf 'exec %s\n' "$1"
  } | write reboot.sh && printf '%s\n' "$2" | write reboot.json
}
"""

# change LINE MARK: put LINE in place of the line that holds MARK ("" = only take that away). Every other line stays as
# it is; where what is there cannot be read for sure, nothing is written.
_CRON = r"""
change() {
  if command -v flock >/dev/null 2>&1; then exec 9>>"${root%/*/*}/reboot.lock"; flock -w 20 9; fi
  had=$root/.crontab.had new=$root/.crontab.new
  if ! LC_ALL=C crontab -l >"$had" 2>"$new"; then
    case $(cat "$new") in
    *"no crontab"*) : >"$had" ;;
    *) echo "crontab -l says: $(head -n 1 "$new")" >&2; rm -f "$had" "$new"; return 1 ;;
    esac
  fi
  { grep -vF -- "$2" "$had" || :; [ -z "$1" ] || printf '%s\n' "$1"; } >"$new"
  if cmp -s "$had" "$new"; then rc=0
  elif [ -s "$new" ]; then crontab "$new" 2>"$had"; rc=$?
  else crontab -r 2>"$had"; rc=$?; fi
  [ "$rc" = 0 ] || echo "crontab says: $(head -n 1 "$had")" >&2
  rm -f "$had" "$new"
  return "$rc"
}
"""

_CRON_SET = (
    _FILES
    + _CRON
    + r"""
root=$1
command -v crontab >/dev/null 2>&1 || { echo 'there is no crontab' >&2; exit 3; }
lay "$2" "$3" || exit 3
change "$4" "$5" || { rm -f "$root/reboot.json" "$root/reboot.sh"; exit 3; }
(sync </dev/null >/dev/null 2>&1 &)
grep -qsx -e cron -e crond /proc/[0-9]*/comm || echo 'the line is in the crontab, but cron does not seem to be running'
"""
)
_CRON_END = (
    _CRON
    + r"""
root=$1
change '' "$2" && rm -f "$root/reboot.json" "$root/reboot.sh"
"""
)

_UNIT_SET = (
    CHECK
    + _FILES
    + r"""
root=$1 unit=$5
lay "$2" "$3" || exit 3
folder=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user
mkdir -p "$folder" && printf '%s' "$4" >"$folder/.$unit.new" \
  && durable "$folder/.$unit.new" && mv "$folder/.$unit.new" "$folder/$unit" \
  && systemctl --user daemon-reload >&2 && systemctl --user enable --quiet "$unit" >&2 \
  || { rm -f "$folder/$unit" "$root/reboot.json" "$root/reboot.sh"; exit 3; }
"""
)
_UNIT_END = r"""
: "${XDG_RUNTIME_DIR:=/run/user/$(id -u)}"; export XDG_RUNTIME_DIR
systemctl --user disable --quiet "$2" && rm -f "${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/$2" \
  && rm -f "$1/reboot.json" "$1/reboot.sh"
"""


def command(kind: str, argv: Sequence[str], root: str) -> list[str]:
    """The argv that sees to it on the box that a restart starts `argv` again, until the run is over; [] where a hook
    cannot hold the root's path. Idempotent. `kind`: one of HOOKS.
    """
    if "\n" in root:
        return []
    mark = f"# sojourn:{root.rpartition('/')[2]}:{_digest(root)}"
    script, last = (
        f"{root}/reboot.sh",
        f"{quote.join(argv)} </dev/null >>{quote.join([root + '/logs/keeper.log'])} 2>&1",
    )
    if kind == "cron":
        line = f"@reboot {quote.join(['/bin/sh', script])} {mark}".replace("%", r"\%")
        ask, end, more = _CRON_SET, ["sh", "-c", _CRON_END, "sojourn", root, mark], [line, mark]
    else:
        unit = f"sojourn-reboot-{root.rpartition('/')[2]}-{_digest(root)}.service"
        ask, end, more = _UNIT_SET, ["sh", "-c", _UNIT_END, "sojourn", root, unit], [_unit(script, mark), unit]
    return ["sh", "-c", ask, "sojourn", root, last, json.dumps({"hook": kind, "remove": end}), *more]


def remark(site: str, kind: str, ended: Ended | None) -> str:
    """One line of what is amiss with the hook, by what its command came to (None: there was none); "" if nothing is.

    Never an error: the run is no worse off without.
    """
    what = f"the reboot hook ({kind}) of {site}"
    if ended is None:
        return f"{what} is not available: the path of the run's folder holds a line break"
    said = (ended.stderr or ended.stdout).decode("utf-8", "replace").strip()
    if ended.rc == 0:
        said = ended.stdout.decode("utf-8", "replace").strip()
        return f"{what}: {said}" if said else ""
    refused = refusal(site, said)
    why = (
        refused.message.replace(" Nothing was started.", "")
        if refused
        else said.splitlines()[-1]
        if said
        else f"exit status {ended.rc}"
    )
    return f"{what} is not available: {why}"


def _unit(script: str, mark: str) -> str:
    """The unit file. Quoting of systemd.syntax(7): in double quotes with backslashes; `%` and `$` doubled."""
    path = script.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return (
        f"{mark}\n[Unit]\nDescription=Resume a sojourn run after a reboot\n"
        f'[Service]\nExecStart=/bin/sh "{path}"\nKillMode=process\nOOMPolicy=continue\n'
        "[Install]\nWantedBy=default.target\n"
    )


def _digest(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:8]
