"""The first words to a box: a fixed POSIX script that finds a Python and hands standard input over to the keeper.

No secret and nothing that varies is in it; what varies is framed on standard input, for Python alone to read.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_KEEPER_RC = 126
NO_PYTHON_RC = 127
_MARK = b"sojourn:no-keeper\n"

# $1 base ("" = the default), $2 the keeper's file name, $3 a Python to try first. Candidates are asked for their
# version once found; the one that the site names is trusted, which saves a local call the 15 ms that asking takes.
SCRIPT = r"""
base=${1:-${HOME:-$(cd ~ && pwd)}/.local/share/sojourn}
keeper=$base/keepers/$2
if [ ! -f "$keeper" ]; then
  mkdir -p "$base/keepers" "$base/train" "$base/staging" || exit 125
  printf 'sojourn:no-keeper\n%s' "$base"
  exit 126
fi
if [ -n "$3" ] && command -v "$3" >/dev/null 2>&1; then exec "$3" -I -S "$keeper" call; fi
for python in python3 python /usr/bin/python3 /usr/local/bin/python3 \
  python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 /usr/libexec/platform-python \
  /opt/conda/bin/python3 "$HOME/miniconda3/bin/python3" "$HOME/anaconda3/bin/python3"; do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' </dev/null >/dev/null 2>&1 || continue
  exec "$python" -I -S "$keeper" call
done
echo 'sojourn:no-python: no Python 3.8 or newer in PATH nor in the usual places' >&2
exit 127
"""


@dataclass(frozen=True)
class NoKeeper:
    """The box answers, but this keeper is not there yet. `base`: where it belongs, absolute."""

    base: str


def argv(base: str, keeper: str, python: str) -> list[str]:
    """The one argv of every call."""
    return ["sh", "-c", SCRIPT, "sojourn", base, keeper, python]


def missing(rc: int, stdout: bytes) -> NoKeeper | None:
    """Whether an answer without frames says that the keeper is not there."""
    at = stdout.rfind(_MARK)
    if rc != NO_KEEPER_RC or at < 0:
        return None
    return NoKeeper(stdout[at + len(_MARK) :].decode("utf-8", "surrogateescape"))
