"""JSON as `json` reads and writes it, without the cost of importing `json`.

Its fast half, `_json`, does all the work; the other half compiles regular expressions on import, and with `re`, `enum`
and `functools` that takes a third of the processor time of a call on the box. If a Python lacks the fast half, or has a
different one, and for anything that is not JSON, `json` itself answers.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

try:
    import _json
except ImportError:  # a Python that is not CPython
    _json = None  # type: ignore[assignment]

_BLANKS = " \t\n\r"
_CONSTANTS = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}


def loads(
    text: str,
    *,
    parse_float: Callable[[str], Any] = float,
    parse_constant: Callable[[str], Any] = _CONSTANTS.__getitem__,
) -> Any:
    """`json.loads` of a text. Raises: ValueError, RecursionError."""
    try:
        scan = _json.make_scanner(_Rules(parse_float, parse_constant))  # type: ignore[arg-type]
    except (AttributeError, TypeError):
        pass
    else:
        try:
            value, end = scan(text, len(text) - len(text.lstrip(_BLANKS)))
            if not text[end:].strip(_BLANKS):
                return value
        except StopIteration:
            pass
    import json

    return json.loads(text, parse_float=parse_float, parse_constant=parse_constant)


def dumps(
    value: Any,
    *,
    sort_keys: bool = False,
    separators: Tuple[str, str] = (", ", ": "),
    ensure_ascii: bool = True,
    allow_nan: bool = True,
) -> str:
    """`json.dumps` of a value. Raises: TypeError, ValueError, RecursionError."""
    try:
        escape = _json.encode_basestring_ascii if ensure_ascii else _json.encode_basestring
        item, key = separators
        encode = _json.make_encoder({}, _no_json, escape, None, key, item, sort_keys, False, allow_nan)
    except (AttributeError, TypeError):
        import json

        return json.dumps(
            value, sort_keys=sort_keys, separators=separators, ensure_ascii=ensure_ascii, allow_nan=allow_nan
        )
    return "".join(encode(value, 0))


class _Rules:
    """What `_json` expects of a decoder."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_int = int

    def __init__(self, parse_float: Callable[[str], Any], parse_constant: Callable[[str], Any]) -> None:
        self.parse_float = parse_float
        self.parse_constant = parse_constant


def _no_json(value: Any) -> Any:
    raise TypeError("Object of type %s is not JSON serializable" % type(value).__name__)
