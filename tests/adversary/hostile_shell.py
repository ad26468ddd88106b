"""An `ssh` for the tests whose box `sick` has a hostile login shell; `well` is reached as by the real one.

What the hostile shell does stands in a file beside it: `ssh.mode`, Python that runs once our program line has arrived
(or at once, if its first line is `#before`).
"""

import sys
from pathlib import Path

_SSH = """#!{python} -IS
import os, subprocess, sys, time
if "-O" in sys.argv:
    sys.exit(255)
command, host, mode = sys.argv[-1], sys.argv[-2], open(__file__ + ".mode").read()
if host != "sick" or not mode:
    os.execv("/bin/sh", ["sh", "-c", command])
nonce = command.rsplit(" ", 1)[-1]
def put(fd, data):
    data = data if isinstance(data, bytes) else data.encode()
    while data:
        data = data[os.write(fd, data):]
def out(data): put(1, data)
def err(data): put(2, data)
def ready():
    out(nonce + " ready\\n")
    err(nonce + " ready\\n")
def end(rc="0"):
    err("\\n%s end %s\\n" % (nonce, rc))
    out("\\n%s end %s\\n" % (nonce, rc))
    sys.exit(0)
def real():
    return subprocess.run(["/bin/sh", "-c", line.split(b":", 1)[1]], stdin=0, stdout=subprocess.PIPE).stdout
line = b""
if not mode.startswith("#before"):
    ready()
    while not line.endswith(b"\\n"):
        piece = os.read(0, 1)
        if not piece:
            break
        line += piece
exec(mode)
"""
FAST = {
    "no number": "end('abc')",
    "no status": "end('')",
    "6000 digits": "end('9' * 6000)",
    "negative": "end('-5')",
    "two to the 70": "end(str(2 ** 70))",
    "an Arabic three": "end('\\u0663')",
    "closed": "sys.exit(0)",
    "97": "end('97')",
    "124": "out('sojourn:search\\n'); end('124')",
    "no keeper in /etc": "out('sojourn:no-keeper\\n/etc'); end('126')",
    "no Python, with escapes": "err('sojourn:no-python: \\x1b[2J\\x1b]0;PWN\\x07\\u202e evil,\\n'); end('127')",
    "no folder, with escapes": "err('mkdir: \\x1b]52;c;aGk=\\x07 \\x9b31m\\n'); end('125')",
    "words with escapes": "err('\\x1b[2J\\u202e evil\\r\\nsojourn: all is well\\n'); sys.exit(3)",
    "two readies": "ready(); ready(); end('0')",
    "a garbled frame": "out(b'\\0SJ1J' + b'\\xff' * 13 + b'{}'); end('0')",
    "an empty frame": "out(b'\\0SJ1J' + b'\\0' * 12); end('0')",
    "a number of bytes that is none": "real(); out('1e3\\n'); end('0')",
    "an end mark without an end": "out('\\n%s end ' % nonce)\nwhile 1: out(b'9' * 65536)",
    "flood": "while 1: out(b'x' * 65536)",
    "flood of lines": "while 1: out(b'\\n' * 65536)",
    "flood of errors": "while 1: err(b'y' * 65536)",
    "flood of half marks": "while 1: out(('\\n' + nonce + ' en') * 2000)",
    "flood after the end": "err('\\n%s end 0\\n' % nonce)\nwhile 1: err(b'z' * 65536)",
    "flood before the mark": "#before\nwhile 1: out(b'z' * 65536)",
    "exec cat": "#before\nos.execv('/bin/cat', ['cat'])",
    "a mark without its end": "#before\nout(nonce + ' ready')\nwhile 1: out(b'z' * 65536)",
}
SLOW = {
    "silent": "time.sleep(900)",
    "drip": "[(out(b'\\0'), time.sleep(2)) for _ in range(400)]",
    "drip of an answer": "for byte in real(): out(bytes([byte])); time.sleep(1)",
    "silent before the mark": "#before\ntime.sleep(900)",
    "one mark": "#before\nerr(nonce + ' ready\\n'); time.sleep(900)",
}


def program(folder: Path) -> Path:
    """The ssh, written out; its box behaves until `turn` says otherwise."""
    path = folder / "ssh"
    path.write_text(_SSH.format(python=sys.executable))
    path.chmod(0o755)
    turn(path, "")
    return path


def turn(path: Path, code: str) -> None:
    """From now on the box `sick` does this."""
    Path(f"{path}.mode").write_text(code)
