"""The far side of copying: small POSIX sh programs over cat, dd, head's kin and mv. Needs no sftp, scp or rsync.

A partial file is kept beside its target under a name with the content's digest, and every writer puts the same bytes at
the same places: so a second sender, or an old one's late packets, do no harm, and a later one continues.
"""

from __future__ import annotations

BLOCK_BYTES = 1 << 16  # a resumed transfer continues at a multiple of it
SMALL_BYTES = 1 << 20  # below it the far side is not asked first how much it has

# Exit statuses of the programs; the reason is on stderr.
REFUSED = 91  # the box's file system says no
SHORT = 92  # fewer bytes arrived than were announced
DAMAGED = 93  # the digest differs
ABSENT = 94  # no such file

_COMMON = r"""
LC_ALL=C; export LC_ALL
size() { wc -c < "$1" 2>/dev/null || echo 0; }
digest() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum < "$1" | cut -c1-64
  elif command -v shasum >/dev/null 2>&1; then shasum -a 256 < "$1" | cut -c1-64
  else echo unknown; fi
}
is_it() {
  [ -f "$1" ] && [ $(size "$1") -eq $size ] || return 1
  found=$(digest "$1")
  [ "$found" = "$sum" ] || [ "$found" = unknown ]
}
"""

# sh -c ASK sojourn TARGET PART SIZE SHA256: prints `whole`, or how many bytes of PART may be kept.
ASK = (
    _COMMON
    + r"""
target=$1 part=$2 size=$3 sum=$4
if [ "$(digest /dev/null)" != unknown ] && is_it "$target"; then rm -f "$part"; echo whole; exit; fi
have=$(( $(size "$part") ))
if [ $have -gt $size ]; then rm -f "$part"; have=0; fi
echo $have
"""
)

# sh -c STORE sojourn TARGET PART SIZE SHA256 BLOCK MODE < the bytes from BLOCK on
STORE = (
    _COMMON
    + r"""
target=$1 part=$2 size=$3 sum=$4 block=$5 mode=$6
umask 077
if [ -d "$target" ]; then echo "$target: Is a directory" >&2; exit 91; fi
mkdir -p "$(dirname "$target")" || exit 91
flush=notrunc,fsync
dd if=/dev/null of="$part" conv=$flush 2>/dev/null || flush=notrunc
if ! said=$(dd of="$part" bs=65536 seek=$block conv=$flush 2>&1); then
  printf '%s\n' "$said" | grep -v -e ' records ' -e ' bytes ' >&2
  rm -f "$part"
  exit 91
fi
if [ ! -e "$part" ] && is_it "$target"; then exit 0; fi
if [ $(size "$part") -lt $size ]; then exit 92; fi
if ! is_it "$part"; then rm -f "$part"; exit 93; fi
chmod $mode "$part" && mv -f "$part" "$target" || { is_it "$target" || exit 91; }
"""
)

# sh -c FETCH sojourn PATH FIRST: the bytes of PATH from the FIRST on, counted from 1
FETCH = r"""
LC_ALL=C; export LC_ALL
if [ ! -e "$1" ]; then echo "$1: No such file" >&2; exit 94; fi
if [ -d "$1" ]; then echo "$1: Is a directory" >&2; exit 91; fi
if [ ! -f "$1" ]; then echo "$1: Not a regular file" >&2; exit 94; fi
if [ "$2" = 1 ]; then exec cat "$1"; fi
exec tail -c "+$2" "$1"
"""


def part_name(target: str, sha256: str) -> str:
    """The path of the partial file: beside the target, with a name made from the content."""
    return f"{target}.{sha256[:16]}.part"
