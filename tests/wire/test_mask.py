"""What hides secrets: in every form a program may print them in, never changing a position."""

import json
import shlex
from base64 import b64encode, urlsafe_b64encode
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.wire.mask import LEAST_CHARACTERS, Mask, forms

PEM = "-----BEGIN KEY-----\nMIIEvgIBADANBg\nkqhkiG9w0BAQ==\n-----END KEY-----\n"


def test_a_value_becomes_its_name_in_stars_and_no_byte_moves() -> None:
    data = b"key=abcdefghijklmnopqrstuvwxyz; again abcdefghijklmnopqrstuvwxyz."
    hidden = Mask({"TOKEN": "abcdefghijklmnopqrstuvwxyz"}).over(data)
    assert hidden == b"key=***TOKEN***" + b"*" * 15 + b"; again ***TOKEN***" + b"*" * 15 + b"."
    assert len(hidden) == len(data)


def test_a_value_shorter_than_its_stars_is_hidden_all_the_same() -> None:
    assert Mask({"TOKEN": "abcd"}).over(b"<abcd>") == b"<***T>"


def test_values_of_fewer_than_four_characters_are_not_looked_for() -> None:
    assert not Mask({"A": "abc", "B": "", "C": "  x\n"}) and LEAST_CHARACTERS == 4
    assert Mask({"A": "abc"}).over(b"abc") == b"abc"
    assert Mask({"A": "żół7"})  # characters, not bytes


def test_a_value_of_several_lines_is_found_whole_by_line_and_as_json_writes_it() -> None:
    mask = Mask({"PEM": PEM})
    for text in (PEM, "INFO MIIEvgIBADANBg\nINFO kqhkiG9w0BAQ==\n", json.dumps({"key": PEM}), repr(PEM)):
        hidden = mask.over_text(text)
        assert "MIIEvgIBADANBg" not in hidden and "kqhkiG9w0BAQ" not in hidden, hidden


def test_letters_beyond_ascii_are_found_raw_escaped_and_in_urls() -> None:
    value = "pässwörd 数字&co"
    mask = Mask({"PW": value})
    for text in (value, json.dumps(value), json.dumps(value, ensure_ascii=False), quote(value, safe="")):
        assert mask.over_text(f"a {text} b").strip('a b"').strip("*") == "PW", text


def test_values_that_overlap_or_hold_one_another_leave_nothing_uncovered() -> None:
    assert set(Mask({"A": "abcd", "B": "cdef"}).over(b"abcdef").strip(b"*")) <= set(b"A*")
    assert Mask({"A": "abcd", "B": "abcdefgh"}).over(b"abcdefgh") == b"***B****"


@given(
    st.text(min_size=4, max_size=20).filter(lambda v: len(v.strip()) >= 4), st.text(max_size=30), st.text(max_size=30)
)
def test_whatever_the_value_it_is_not_there_any_more(value: str, before: str, after: str) -> None:
    data = (before + value + after).encode("utf-8", "surrogatepass")
    hidden = Mask({"N": value}).over(data)
    assert len(hidden) == len(data)
    assert set(value) <= set("*N") or value.encode("utf-8", "surrogatepass") not in hidden


@given(st.binary(max_size=30), st.integers(0, 12))
def test_the_beginning_of_a_value_at_the_end_is_seen(before: bytes, size: int) -> None:
    value = "SECRETVALUE!"
    data = before + value.encode()[:size]
    begun = Mask({"N": value}).begun_bytes(data)
    assert begun >= size % len(value) and any(data.endswith(form[:begun]) for form in forms(value))


def test_the_forms_of_a_plain_word_are_itself_and_base64() -> None:
    told = forms("hush-hush")
    assert told[0] == b"hush-hush" and len(told) == 4  # base64 at three places; alone it is the first of them
    assert b64encode(b"hush-hush") in told


secrets = st.one_of(
    st.text(min_size=4, max_size=24),
    st.text("ab+/=&'\" %\\?<>\u00e9", min_size=4, max_size=24),
).filter(lambda v: len(v.strip()) >= 4 and not any("\ud800" <= c <= "\udfff" for c in v))

CODERS = {
    "quote": quote,
    "quote, no safe": lambda v: quote(v, safe=""),
    "quote_plus": quote_plus,
    "quote_plus, safe": lambda v: quote_plus(v, safe="/"),
    "json": json.dumps,
    "json, raw": lambda v: json.dumps(v, ensure_ascii=False),
    "json, escaped slash": lambda v: json.dumps(v).replace("/", "\\/"),
    "repr": repr,
    "ascii": ascii,
    "repr of bytes": lambda v: repr(v.encode())[1:],
    "repr among quotes": lambda v: repr("'\"" + v)[4:-1],
    "repr of a list": lambda v: repr([v])[1:-1],
    "shell": shlex.quote,
    "base64": lambda v: b64encode(v.encode()).decode(),
    "base64 for urls": lambda v: urlsafe_b64encode(v.encode()).decode(),
    "base64 without padding": lambda v: urlsafe_b64encode(v.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("coder", CODERS)
@given(secrets)
def test_every_usual_encoding_of_a_value_is_hidden(coder: str, value: str) -> None:
    coded = CODERS[coder](value)
    hidden = Mask({"N": value}).over_text("x " + coded + " y")
    assert len(hidden.encode()) == len(("x " + coded + " y").encode())
    # Quotes around it, and nothing else, may be left.
    assert set(hidden[2:-2]) <= set("*N\"'"), (coded, hidden)


@given(secrets, st.binary(max_size=8), st.binary(max_size=8), st.booleans())
def test_within_a_longer_base64_text_all_that_the_value_decides_is_hidden(
    value: str, before: bytes, after: bytes, is_for_urls: bool
) -> None:
    data = value.encode()
    encode = urlsafe_b64encode if is_for_urls else b64encode
    coded = encode(before + data + after)
    first, last = -(-8 * len(before) // 6), 8 * (len(before) + len(data)) // 6
    hidden = Mask({"N": value}).over(coded)
    if last - first >= 5:
        assert set(hidden[first:last]) <= set(b"*N"), (coded, hidden)


def test_the_cost_of_a_value_is_bounded() -> None:
    told = forms("a'/ +\u00e9\n" * 1000)
    assert len(told) <= 50 and max(map(len, told)) <= 7 * 7 * 1000


def test_a_slash_that_a_url_may_keep_is_hidden_as_it_is_kept() -> None:
    value = "wJalrXUtnFEMI/K7MDENG bPx+Key"
    hidden = Mask({"KEY": value}).over_text("https://host/?k=" + quote(value))
    assert "wJalr" not in hidden and "bPx" not in hidden
