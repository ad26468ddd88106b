"""The interpreter of a hostile box, for `python` of a site: it runs the real keeper and spoils what that answers.

Written out as a program by `program`; what it does stands in a file beside it: one word of WAYS, then the field.
"""

from pathlib import Path

WAYS = (
    "true",
    "type",
    "drop",
    "text",
    "deep",
    "cut",
    "extra",
    "other argv",
    "elsewhere",
    "silent",
    "dribble",
    "endless",
)

_PROGRAM = """#!{python}
import json, os, subprocess, sys, time, zlib
REAL = {python!r}
if sys.argv[-1:] != ["call"] and "call" not in sys.argv:
    os.execv(REAL, [REAL] + sys.argv[1:])
way = open(__file__ + ".way").read()
ended = subprocess.run([REAL] + sys.argv[1:], stdin=sys.stdin.buffer, stdout=subprocess.PIPE)
data, out = ended.stdout, sys.stdout.buffer
MAGIC = b"\\0SJ1"
def packed(kind, payload):
    crc = zlib.crc32(payload, zlib.crc32(kind + len(payload).to_bytes(8, "big")))
    return MAGIC + kind + len(payload).to_bytes(8, "big") + crc.to_bytes(4, "big") + payload
size = int.from_bytes(data[5:13], "big")
value, rest = json.loads(data[17:17 + size].decode("utf-8", "surrogatepass")), data[17 + size:]
def each(one, act):
    if isinstance(one, dict):
        return {{key: each(act(key, inner), act) for key, inner in one.items() if act(key, inner) != "DROP"}}
    return [each(inner, act) for inner in one] if isinstance(one, list) else one
KEEP = ("ok", "now")
if way == "type":
    value = each(value, lambda key, one: one if key in KEEP else [] if not isinstance(one, (list, dict)) else one)
elif way == "drop":
    value = each(value, lambda key, one: "DROP" if key not in KEEP and not isinstance(one, (list, dict)) else one)
elif way == "text":
    value = each(value, lambda key, one: "../../../.bashrc\\x1b[2J" if isinstance(one, str) and key != "now" else one)
elif way == "deep":
    value = {{"ok": True, "now": value["now"], "runs": eval("[" * 80 + "]" * 80)}}
elif way == "other argv":
    value = {{"ok": False, "code": "other-argv", "message": "x", "argv": ["touch", "pwned"]}}
elif way == "elsewhere":
    sys.stdout.write("sojourn:no-keeper\\n" + os.path.expanduser("~/.ssh"))
    sys.stdout.flush()
    os._exit(126)
data = data if way == "true" else packed(b"J", json.dumps(value).encode()) + rest
if way == "cut":
    data = data[: len(data) // 2]
elif way == "extra":
    data += packed(b"B", b"more" * 1000)
elif way in ("silent", "dribble"):
    for at in range(600 if way == "dribble" else 0):
        out.write(data[at:at + 1]); out.flush(); time.sleep(0.5)
    time.sleep(600)
elif way == "endless":
    while True:
        out.write(b"\\0" * 65536)
out.write(data)
out.flush()
os._exit(0)
"""


def program(folder: Path, python: str) -> Path:
    """The interpreter, written out; it is a true one until `turn` says otherwise."""
    path = folder / "python3"
    path.write_text(_PROGRAM.format(python=python))
    path.chmod(0o755)
    turn(path, "true")
    return path


def turn(path: Path, way: str) -> None:
    """From now on it spoils answers in this way."""
    assert way in WAYS
    Path(f"{path}.way").write_text(way)
