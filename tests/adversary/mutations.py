"""What a hostile box makes of an answer: systematic changes of each field, by name; and of the bytes that carry it."""

import copy
import json
import struct
from collections.abc import Iterator
from typing import Any

from sojourn.wire import framing

NAN, INF = float("nan"), float("inf")
BIG_TEXT = "A" * 10_000_000
DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]

# In place of any value. Most are of a type that the field does not have; which ones are wrong where is the decoder's.
ANY: dict[str, Any] = {
    "null": None,
    "true": True,
    "minus one": -1,
    "zero": 0,
    "two to the 200": 1 << 200,
    "a fraction": 0.5,
    "1e308": 1e308,
    "not a number": NAN,
    "infinity": INF,
    "empty text": "",
    "text": "x",
    "list": [],
    "list of nulls": [None, None],
    "object": {},
    "object of one": {"__class__": {"x": [1]}},
    "deep": DEEP,
}
# In place of a text.
TEXT: dict[str, Any] = {
    "escapes": "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nexit 0",
    "up and away": "../../../.bashrc",
    "absolute": "/etc/passwd",
    "home": "~/.ssh/authorized_keys",
    "NUL": "a\0b",
    "surrogate": "a\ud800b",
    "right to left": "\u202egnp.exe",
    "ten million letters": BIG_TEXT,
    "a thousand digits": "9" * 5000,
    "superscript": "\u00b2",
    "option": "--confirm=all",
    "shell": "$(touch pwned); `touch pwned` | touch pwned",
    "format": "{site} {0} %s %n {__class__}",
    "another stamp": "2026-99-99T99:99:99.000Z",
    "another digest": "f" * 63 + "g",
    "another name": "some-other-run",
    "another word": "sleeping",
}
NUMBER: dict[str, Any] = {"one more": 1, "a million more": 1_000_000, "one less": -1, "two to the 62": 1 << 62}


def changes(value: Any, most_items: int = 1) -> Iterator[tuple[str, str, Any]]:
    """(field, change, the answer as changed) for every field. Of a list its first `most_items` are gone into."""
    for way in _ways(value, (), most_items):
        field = ".".join("[]" if isinstance(step, int) else step for step in way)
        was = _get(value, way)
        if isinstance(way[-1], str):
            yield field, "dropped", _without(value, way)
        for change, new in _news(was):
            yield field, change, _with(value, way, new)


def _news(was: Any) -> Iterator[tuple[str, Any]]:
    yield from ANY.items()
    if isinstance(was, str):
        yield from TEXT.items()
    if isinstance(was, int) and not isinstance(was, bool):
        yield from ((change, was + more) for change, more in NUMBER.items())
    if isinstance(was, list) and was:
        yield "the last gone", was[:-1]
        yield "the first twice", [was[0], *was]
        yield "a thousand times the first", [was[0]] * 1000
    if isinstance(was, dict) and was:
        yield "one more member", {**was, "../../../.bashrc": "\x1b[2J"}


def _ways(value: Any, way: tuple[Any, ...], most_items: int) -> Iterator[tuple[Any, ...]]:
    if way:
        yield way
    if isinstance(value, dict):
        for name in value:
            yield from _ways(value[name], (*way, name), most_items)
    elif isinstance(value, list):
        for at in range(min(len(value), most_items)):
            yield from _ways(value[at], (*way, at), most_items)


def _get(value: Any, way: tuple[Any, ...]) -> Any:
    for step in way:
        value = value[step]
    return value


def _with(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    out = copy.copy(value)
    out[way[0]] = new if len(way) == 1 else _with(value[way[0]], way[1:], new)
    return out


def _without(value: Any, way: tuple[Any, ...]) -> Any:
    if len(way) == 1:
        return {name: one for name, one in value.items() if name != way[0]}
    return _with(value, way[:1], _without(value[way[0]], way[1:]))


def frame(value: Any) -> bytes:
    """One J frame, of what JSON cannot say too."""
    return framing.pack(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), b"J")


def _headed(kind: bytes, length: int, payload: bytes) -> bytes:
    return framing.MAGIC + kind + struct.pack(">Q", length) + struct.pack(">I", 0) + payload


def damages(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """(change, the answer's bytes as changed) of what carries them."""
    found = list(framing.frames(whole))
    head, blobs = frame(found[0][1]), [framing.pack(data) for _, data in found[1:]]
    yield "nothing", b""
    yield "words without frames", b"welcome to gpu7\n\x1b[2J" * 100
    yield "cut in the head", whole[: framing.HEAD_BYTES - 3]
    yield "cut in the middle", whole[: len(whole) // 2]
    yield "cut before the last byte", whole[:-1]
    yield "one bit", whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:]
    yield "a kind of its own", head.replace(framing.MAGIC + b"J", framing.MAGIC + b"X", 1)
    yield "a frame of 2^63 bytes", _headed(b"J", 1 << 63, b"{}")
    yield "a frame of 2^40 bytes", _headed(b"J", 1 << 40, b"{}")
    yield "bytes first", framing.pack(b"\0" * 100) + head
    yield "two answers", head + head
    yield "one blob more", whole + framing.pack(b"more")
    yield "a huge blob more", whole + framing.pack(b"\0" * (20 << 20))
    yield "garbage between", b"\xff\xfe" * 5000 + head + b"\x1b[31m" * 1000 + b"".join(blobs)
    if blobs:
        yield "no blobs", head
        yield "a blob twice", whole + blobs[-1]
        yield "a blob of zeros", head + b"".join(framing.pack(b"\0" * 5000) for _ in blobs)
        yield "a blob of nothing", head + b"".join(framing.pack(b"") for _ in blobs)
        yield "blobs of 12 MiB", head + b"".join(framing.pack(b"{}\n" * (4 << 20)) for _ in blobs)
    for name, text in (
        ("a list", b"[]"),
        ("a number", b"1"),
        ("a text", b'"ok"'),
        ("null", b"null"),
        ("an empty object", b"{}"),
        ("no JSON", b"{'ok': True}"),
        ("depth 100,000", b"[" * 100_000),
        ("depth 900", b'{"ok":' * 900 + b"true" + b"}" * 900),
        ("a number of 100,000 digits", b'{"ok":true,"now":' + b"9" * 100_000 + b"}"),
        ("a million lists", b'{"ok":true,"runs":[' + b"[]," * 1_000_000 + b"[]]}"),
        ("no UTF-8", b'{"ok":true,"now":"\xff\xff"}'),
        ("a refusal of nothing", b'{"ok":false}'),
        ("a refusal in a word that is none", b'{"ok":false,"code":"\\u001b[2J","message":"x"}'),
        ("a refusal of a list", b'{"ok":false,"code":["a"],"message":{"a":1}}'),
        ("a refusal with other argv", b'{"ok":false,"code":"other-argv","message":"x","argv":["rm","-rf","/"]}'),
        ("a refusal with no argv", b'{"ok":false,"code":"other-argv","message":"x"}'),
        ("a command that failed, and says nothing", b'{"ok":false,"code":"command-failed","message":"x"}'),
        ("a keeper to be put elsewhere", b'{"ok":false,"code":"keeper-damaged","message":"x","keeper":"/tmp/k/x.pyz"}'),
        ("a keeper to be put nowhere", b'{"ok":false,"code":"keeper-damaged","message":"x"}'),
        ("a refusal of ten million letters", b'{"ok":false,"code":"world","message":"' + b"A" * 10_000_000 + b'"}'),
    ):
        yield name, framing.pack(text, b"J") + b"".join(blobs)
