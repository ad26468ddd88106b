"""The first words to a box: a fixed POSIX script that finds a Python and passes it standard input for the keeper.

It contains no secret and nothing variable; variables are framed on standard input, for Python alone to read.
"""

from __future__ import annotations

from dataclasses import dataclass

SEARCH_RC = 124
NO_FOLDER_RC = 125
NO_KEEPER_RC = 126
NO_PYTHON_RC = 127
_MARK = b"sojourn:no-keeper\n"
_TRIED = b"sojourn:no-python:"
_SEARCH = b"sojourn:search\n"

# If the keeper's byte code is kept (`compiled.name`), a call enters it directly: finding `__main__` in the keeper, and
# cleaning up at the end, takes a fifth of a call's processor time.
_ENTER = """import os, sys
sys.argv = sys.argv[1:]
kept = "%s.%s-%x.zip" % (sys.argv[0][:-4], sys.implementation.cache_tag, sys.hexversion)
if not os.path.exists(kept):
  import runpy
  runpy.run_path(sys.argv[0], run_name="__main__")
sys.path[:] = [kept] + sys.path + sys.argv[:1]
from sojourn.box.main import main
os._exit(main(sys.argv[1:]))"""

# $1 base ("" = the default), $2 the keeper's file name, $3 a Python to try first, or "".
_PLACE = r"""
home=${HOME:-$(cd ~ && pwd)}
base=${1:-$home/.local/share/sojourn}
keeper=$base/keepers/$2
if [ ! -f "$keeper" ]; then
  mkdir -p "$base/keepers" "$base/train" "$base/staging" || exit 125
  [ -w "$base/keepers" ] || { echo "mkdir: $base: no right to write there" >&2; exit 125; }
  printf 'sojourn:no-keeper\n%s' "$base"
  exit 126
fi
"""

# The box's shell reads our script byte by byte, a system call each: with a known Python this little is enough.
_KNOWN = r"""
if command -v "$3" >/dev/null 2>&1; then exec "$3" -I -S -c '@ENTER@' "$keeper" call; fi
echo sojourn:search
exit 124
"""

# Candidates are asked for their version once found; one named by the site is trusted, which saves the 15 ms for asking.
# A shell started by ssh reads no login files: conda, pyenv, uv and modules are searched where they install themselves,
# in the user's own home or the system's, never in another user's.
_FIND = r"""
version='import sys; print("%d.%d" % sys.version_info[:2])'
enter='@ENTER@'
tried=${3:+ $3 of the settings (not there),}
try() {
  command -v "$1" >/dev/null 2>&1 || return 0
  found=$("$1" -I -S -c "$version" </dev/null 2>/dev/null) || found='does not start'
  case $found in 3.[89] | 3.[1-9][0-9]) exec "$1" -I -S -c "$enter" "$keeper" call ;; esac
  tried="$tried $1 ($found),"
}
for python in python3 python python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \
  /usr/bin/python3 /usr/local/bin/python3 /usr/libexec/platform-python "${CONDA_PREFIX:-/opt/conda}/bin/python3"; do
  try "$python"
done
for root in "$home" /opt /usr/local; do
  for conda in miniconda3 anaconda3 miniforge3 mambaforge micromamba miniconda anaconda conda; do
    [ -d "$root/$conda" ] || continue
    for python in "$root/$conda/bin/python3" "$root/$conda"/envs/*/bin/python3; do try "$python"; done
  done
done
for python in "${PYENV_ROOT:-$home/.pyenv}"/versions/*/bin/python3 "$home"/.local/share/uv/python/*/bin/python3 \
  /opt/python*/bin/python3 /usr/local/python*/bin/python3 "$home"/.local/bin/python3; do
  try "$python"
done
for init in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /usr/share/lmod/lmod/init/sh /usr/share/modules/init/sh; do
  [ -r "$init" ] && . "$init" </dev/null >/dev/null 2>&1 || continue
  for module in python python3 Python anaconda3 miniconda3; do
    module load "$module" </dev/null >/dev/null 2>&1 && try python3
  done
  break
done
echo "sojourn:no-python:${tried:- none found,} in PATH, conda, pyenv, uv and modules" >&2
exit 127
"""
SHORT, SCRIPT = (_PLACE + rest.replace("@ENTER@", _ENTER) for rest in (_KNOWN, _FIND))


@dataclass(frozen=True)
class NoKeeper:
    """The box answers, but this keeper is not there yet. `base`: where it belongs, absolute."""

    base: str


def argv(base: str, keeper: str, python: str, *, search: bool = False) -> list[str]:
    """The argv of a call. With a `python` the box is first asked without a `search`, and may ask for one."""
    return ["sh", "-c", SHORT if python and not search else SCRIPT, "sojourn", base, keeper, python]


def asks_for_search(rc: int, stdout: bytes) -> bool:
    """Whether a call without a search reports that this Python is missing; it has done nothing."""
    return rc == SEARCH_RC and stdout.endswith(_SEARCH)


def missing(rc: int, stdout: bytes) -> NoKeeper | None:
    """Whether an answer without frames reports that the keeper is missing."""
    at = stdout.rfind(_MARK)
    if rc != NO_KEEPER_RC or at < 0:
        return None
    return NoKeeper(stdout[at + len(_MARK) :].decode("utf-8", "surrogateescape"))


def tried(rc: int, stderr: bytes) -> str:
    """The Pythons found that were too old, if none was usable; "" if that is not the answer."""
    at = stderr.rfind(_TRIED)
    if rc != NO_PYTHON_RC or at < 0:
        return ""
    return stderr[at + len(_TRIED) :].split(b"\n")[0].decode("utf-8", "replace").strip()


def no_folder(rc: int, stderr: bytes) -> str:
    """Why the base cannot be created on the box; "" if that is not the answer."""
    if rc != NO_FOLDER_RC:
        return ""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.startswith("mkdir: ")]
    return lines[-1][len("mkdir: ") :].strip() if lines else ""
