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
_OPEN = b"sojourn:open:"

# If the keeper's byte code is kept (`compiled.name`), a call enters it directly: finding `__main__` in the keeper, and
# cleaning up at the end, takes a fifth of a call's processor time.
#
# Before anything of the box's is run: whoever may write to one of these folders, or to one above, may have replaced it.
# It passes where that is root, a folder's sticky bit, the user's private group, or a group that has no name there.
_ENTER = """import os, sys
sys.argv = sys.argv[1:]
kept = "%s.%s-%x.zip" % (sys.argv[0][:-4], sys.implementation.cache_tag, sys.hexversion)
def shared(gid):
  import grp, pwd
  try:
    name, _, _, members = grp.getgrgid(gid)
    return name != pwd.getpwuid(os.getuid()).pw_name or not {name}.issuperset(members)
  except KeyError:
    return False
def fault(path):
  try:
    seen = os.stat(path)
  except OSError:
    return ""
  if seen.st_uid not in (os.getuid(), 0, os.stat("/").st_uid):
    return "owner"
  if seen.st_mode & 0o041000 == 0o041000:
    return ""
  return "mode" if seen.st_mode & 2 or seen.st_mode & 16 and shared(seen.st_gid) else ""
base = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
ours = "keepers", "train", "snapshots", "staging", "queues", "runs"
paths = [sys.argv[0], kept] + [os.path.join(base, name) for name in ours]
for path in (base, os.path.realpath(base)):
  while path not in paths:
    paths.append(path)
    path = os.path.dirname(path)
for path in paths if sys.argv[2:] != ["alone"] else ():
  if fault(path):
    os.write(2, os.fsencode("sojourn:open:%s:%s\\n" % (fault(path), path)))
    sys.exit(125)
if not os.path.exists(kept):
  import runpy
  runpy.run_path(sys.argv[0], run_name="__main__")
sys.path[:] = [kept] + sys.path + sys.argv[:1]
from sojourn.box.main import main
os._exit(main(sys.argv[1:]))"""

# $1 base ("" = the default), $2 the keeper's file name, $3 a Python to try first, or "", $4 "alone" where nobody else
# can log in.
_PLACE = r"""
home=${HOME:-$(cd ~ && pwd)}
base=${1:-$home/.local/share/sojourn}
keeper=$base/keepers/$2
if [ ! -f "$keeper" ]; then
  (umask 077; mkdir -p "$base/keepers" "$base/train" "$base/staging") || exit 125
  [ -w "$base/keepers" ] || { echo "mkdir: $base: no right to write there" >&2; exit 125; }
  printf 'sojourn:no-keeper\n%s' "$base"
  exit 126
fi
"""

# The box's shell reads our script byte by byte, a system call each: with a known Python this little is enough.
_KNOWN = r"""
if command -v "$3" >/dev/null 2>&1; then exec "$3" -I -S -c '@ENTER@' "$keeper" call $4; fi
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
  case $found in 3.[89] | 3.[1-9][0-9]) exec "$1" -I -S -c "$enter" "$keeper" call $4 ;; esac
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


def argv(base: str, keeper: str, python: str, *, search: bool = False, alone: bool = False) -> list[str]:
    """The argv of a call. With a `python` the box is first asked without a `search`, and may ask for one. `alone`:
    nobody else can log in there, so it does not matter who may write.
    """
    script = SHORT if python and not search else SCRIPT
    return ["sh", "-c", script, "sojourn", base, keeper, python, *(["alone"] if alone else [])]


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


def open_to_others(rc: int, stderr: bytes) -> tuple[str, str]:
    """(why, the path) if others may replace what we would run there: "mode" or "owner"; ("", "") if that is not the
    answer.
    """
    at = stderr.rfind(_OPEN)
    if rc != NO_FOLDER_RC or at < 0:
        return "", ""
    why, _, path = stderr[at + len(_OPEN) :].split(b"\n")[0].decode("utf-8", "replace").partition(":")
    return ("owner" if why == "owner" else "mode"), path


def no_folder(rc: int, stderr: bytes) -> str:
    """Why the base cannot be created on the box; "" if that is not the answer."""
    if rc != NO_FOLDER_RC:
        return ""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.startswith("mkdir: ")]
    return lines[-1][len("mkdir: ") :].strip() if lines else ""
