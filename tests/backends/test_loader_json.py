"""The JSON loader agrees with Python's own reader on what JSON is, whatever the size, and says how it is broken."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn.backends.loader.json_ import Backend
from sojourn.core.ports import Loaded
from sojourn.formats.damage import Unloadable


def load(folder: Path, text: str | bytes) -> Loaded:
    path = folder / "a.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return Backend().load(str(path))


def problem(folder: Path, text: str | bytes) -> str:
    try:
        load(folder, text)
    except Unloadable as error:
        return error.problem
    return ""


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)


@same_folder
@given(any_json, st.sampled_from([None, 2]), st.booleans())
def test_whatever_python_writes_is_good(tmp_path: Path, value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert problem(tmp_path, text) == ""


@same_folder
@given(st.text(alphabet='{}[]:,"\\ \n\t0123456789.eE+-truefalsnNIiy\u00e9\x00', max_size=30))
def test_it_accepts_exactly_what_python_accepts(tmp_path: Path, text: str) -> None:
    try:
        json.loads(text)
        is_json = True
    except ValueError:
        is_json = False
    assert (problem(tmp_path, text) in ("", "non-finite")) == is_json


@pytest.mark.campaign
@same_folder
@given(any_json.filter(lambda value: isinstance(value, (dict, list)) and value), st.data())
def test_any_cut_of_an_object_or_array_is_truncated(tmp_path: Path, value: Any, data: st.DataObject) -> None:
    whole = json.dumps(value, ensure_ascii=False).encode()
    cut = data.draw(st.integers(1, len(whole) - 1))
    assert problem(tmp_path, whole[:cut]) == "truncated"


@pytest.mark.parametrize(
    "text, expected",
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        ("[1, NaN]", "non-finite"),
        ('{"a": -Infinity}', "non-finite"),
        ("[1e999]", "non-finite"),
        ("[1,]", "unparseable"),
        ("{'a': 1}", "unparseable"),
        ("[01]", "unparseable"),
        ("[1.]", "unparseable"),
        ("[.5]", "unparseable"),
        ("[+1]", "unparseable"),
        ("[1] x", "unparseable"),
        ("[1][2]", "unparseable"),
        ('{"a" 1}', "unparseable"),
        ("[1}", "unparseable"),
        ('["\t"]', "unparseable"),
        ('["\\x"]', "unparseable"),
        ('["\\u12g4"]', "unparseable"),
        ("[1]\x00", "unparseable"),
        (b'["\xff"]', "unparseable"),
        (b'["\xc3', "truncated"),
        ("[tru", "truncated"),
        ("[-", "truncated"),
        ('["\\u12', "truncated"),
        ("[" * 100_000, "unparseable"),
        ("trueish", "unparseable"),
    ],
)
def test_every_kind_of_broken_has_its_word(tmp_path: Path, text: str | bytes, expected: str) -> None:
    assert problem(tmp_path, text) == expected


def test_doubled_keys_and_a_byte_order_mark_are_remarked(tmp_path: Path) -> None:
    assert "duplicate keys" in load(tmp_path, '{"a": 1, "a": 2}').remarks[0]
    assert load(tmp_path, '{"a": 1, "b": {"a": 2}}').remarks == ()
    assert "byte order mark" in load(tmp_path, "\ufeff[1]").remarks[0]


def test_facts_name_the_outermost_keys(tmp_path: Path) -> None:
    facts = load(tmp_path, '{"accuracy": 0.9, "history": [{"loss": 1}, {"loss": 2}]}').facts
    assert (facts["type"], facts["count"], facts["keys"]) == ("object", 2, ["accuracy", "history"])


@pytest.mark.campaign
def test_tokens_that_cross_the_pieces_it_reads_are_whole(tmp_path: Path) -> None:
    for shift in range(40):
        rows = ["x" * shift, *(['é\\"\n' * 5000, -12345.678e-9, True, None, {"k" * 300: [False]}] * 8)]
        assert load(tmp_path, json.dumps(rows, ensure_ascii=False)).facts["count"] == len(rows)


def test_a_line_says_where(tmp_path: Path) -> None:
    with pytest.raises(Unloadable, match="line 3"):
        load(tmp_path, '{"a": 1,\n"b": 2,\n"c": oops}')


@pytest.mark.campaign
@pytest.mark.parametrize("indent", [None, 2])
def test_what_crosses_the_pieces_it_reads_is_counted_and_judged_alike(tmp_path: Path, indent: int | None) -> None:
    rows = [{"n": n, "in": {"a": [n, {"b": "}, {"}]}, "text": "],[" * (n % 7)} for n in range(25_000)]
    for value in ({"rows": rows, "last": 1}, rows, [str(row) for row in rows]):
        text = json.dumps(value, indent=indent)
        assert load(tmp_path, text).facts["count"] == len(value)
        for bad, word in ((text[:-1], "truncated"), (text[: len(text) // 2], "truncated"), (text + "]", "unparseable")):
            assert problem(tmp_path, bad) == word
        at = text.index("n", len(text) * 2 // 3)
        assert problem(tmp_path, text[:at] + "\x01" + text[at:]) == "unparseable"
    doubled = json.dumps(rows)[:-1] + ', {"a": 1, "a": 2}]'
    assert "duplicate keys" in load(tmp_path, doubled).remarks[0]
