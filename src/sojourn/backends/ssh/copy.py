"""The far side of copying: small POSIX sh programs over cat, dd, head's kin and mv. Needs no sftp, scp or rsync.

A partial file is kept beside its target under a name with the content's digest, and every writer puts the same bytes at
the same places: so a second sender, or an old one's late packets, do no harm, and a later one continues.

Who hashes or flushes a large file for long gives signs of life meanwhile: the sender gives up a silent box. Hashing
gives them as it reads on; flushing, which cannot be watched, for three minutes at most: a disk that hangs is silent.
"""

from __future__ import annotations

from sojourn.backends.bounds import BEAT

BLOCK_BYTES = 1 << 16  # a resumed transfer continues at a multiple of it
SMALL_BYTES = 1 << 20  # below it the far side is not asked first how much it has

# Exit statuses of the programs; the reason is on stderr.
REFUSED = 91  # the box's file system says no
SHORT = 92  # fewer bytes arrived than were announced
DAMAGED = 93  # the digest differs
ABSENT = 94  # no such file

HASHED_BYTES = 16 << 20  # a sign of life at most for each block that was hashed, and not more often than HASH_S
HASH_S = 10

_COMMON = (
    BEAT
    + r"""
LC_ALL=C; export LC_ALL
size() { wc -c < "$1" 2>/dev/null || echo 0; }
feed() {
  at=0 last=$(( $(size "$1") / %d )) told=$(date +%%s)
  while [ $at -le $last ]; do
    dd if="$1" bs=%d skip=$at count=1 2>/dev/null || return
    at=$((at + 1)) now=$(date +%%s)
    if [ $((now - told)) -ge %d ]; then beat; told=$now; fi
  done
}
digest() {
  if command -v sha256sum >/dev/null 2>&1; then feed "$1" | sha256sum | cut -c1-64
  elif command -v shasum >/dev/null 2>&1; then feed "$1" | shasum -a 256 | cut -c1-64
  else echo unknown; fi
}
is_it() {
  [ -f "$1" ] && [ $(size "$1") -eq $size ] || return 1
  found=$(digest "$1")
  [ "$found" = "$sum" ] || [ "$found" = unknown ]
}
"""
    % (HASHED_BYTES, HASHED_BYTES, HASH_S)
)

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
target=$1 part=$2 size=$3 sum=$4 block=$5 mode=$6 flush_s=180
umask 077
if [ -d "$target" ]; then echo "$target: Is a directory" >&2; exit 91; fi
mkdir -p "$(dirname "$target")" || exit 91
flush=notrunc,fsync
dd if=/dev/null of="$part" conv=$flush 2>/dev/null || flush=notrunc
signs() {
  n=0
  while [ $n -lt $flush_s ] && sleep 1 </dev/null >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    if [ $(size "$part") -ge $size ]; then n=$((n + 1)); [ $((n % 15)) -ne 0 ] || beat; fi
  done
}
signs & signing=$!
said=$(dd of="$part" bs=65536 seek=$block conv=$flush 2>&1); written=$?
kill $signing 2>/dev/null
if [ $written -ne 0 ]; then
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
