"""What an answer proves: whether something was rented, whether it is gone, and the errors of a provider that says no.

A create is accepted where an id came back, in an error's body too; rejected where nothing was sent or the provider says
no in its documented way; anything else is unknown, and only its list can tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.backends.client import limits
from sojourn.backends.client.https import Reply
from sojourn.core.ports import Rejected, Unknown
from sojourn.core.values import NoAnswer, Pulse
from sojourn.wire.errors import Unreachable, WorldError

UNDECIDED = frozenset((408, 409, 425))  # of 4xx, those that do not say that nothing was done
WORDS_CHARACTERS = 300


class ProviderSays(WorldError):
    """{provider} refused to {what}: {said}."""

    code = "provider-says"
    retry = True
    next_step = "sojourn doctor {site}"


class KeyRefused(WorldError):
    """{provider} refused the API key from {key}: {said}."""

    code = "key-refused"
    next_step = "sojourn doctor {site}, after you have set the right key"


class ProviderSilent(Unreachable):
    """{provider} cannot be reached to {what}: {detail}. The state of its machines is unknown."""

    code = "provider-silent"
    next_step = "the same command again"


class MachineFailed(WorldError):
    """{lease} will never be ready: {why}. Its meter may be running."""

    code = "machine-failed"
    next_step = "sojourn down {lease}"


@dataclass(frozen=True)
class Accepted:
    """Something was rented. `native`: its id. `fault`: what the provider said was wrong with it, "" for nothing."""

    native: str
    body: Any
    fault: str = ""


def created(reply: Reply | NoAnswer, id_of: Callable[[Any], object]) -> Accepted | Rejected | Unknown:
    """What became of a create that was sent once. `id_of`: the id in a body (any JSON), None where it has none."""
    if isinstance(reply, NoAnswer):
        if not reply.sent:
            kind = "rate" if reply.kind == "limited" else "capacity"  # somebody else may be reached
            return Rejected(f"it cannot be reached ({reply.detail or reply.kind})", kind)
        return Unknown(f"its answer was lost: {reply.detail or reply.kind}")
    native = id_of(reply.body)
    if isinstance(native, (str, int)) and not isinstance(native, bool) and str(native):
        return Accepted(str(native), reply.body, "" if reply.is_ok else said(reply))
    if reply.status == 429:  # never taken up, whoever says so
        wait_s = limits.retry_after_s(reply.headers)
        return Rejected(said(reply) + (f"; try again in {wait_s:g} s" if wait_s else ""), "rate", wait_s)
    if 400 <= reply.status < 500 and reply.status not in UNDECIDED and reply.fields:
        return Rejected(said(reply), kind_of(said(reply), reply.status))
    return Unknown(said(reply))


# What providers call a no, the first that fits (their documented codes and the words beside them, 2026-08).
_KINDS = (
    ("capacity", r"capacity|no longer any|no_such_ask|offer is gone|sold.?out|out.of.stock|no.?stock|no resource"),
    ("balance", r"balance|credit|payment|billing|funds|account.inactive|account is inactive"),
    ("quota", r"quota|limit"),
    ("key", r"api.?key|user.?key|token|unauthori[sz]ed|authorize"),
)
_STATUSES = {401: "key", 402: "balance", 410: "capacity"}


def kind_of(words: str, status: int = 0) -> str:
    """The kind of a no, as in `Rejected`: by its status where that tells, else by its words."""
    told = _STATUSES.get(status)
    return told or next((kind for kind, pattern in _KINDS if re.search(pattern, words, re.I)), "request")


def accepts(reply: Reply | NoAnswer, *also: int) -> bool | None:
    """Whether the provider did what it was asked; None where that is not known. `also`: statuses that mean "it was so
    already".
    """
    if isinstance(reply, NoAnswer):
        return None if reply.sent else False
    if reply.is_ok or reply.status in also:
        return True
    return False if 400 <= reply.status < 500 and reply.status not in UNDECIDED else None


def standing(by_id: Pulse, listed: Pulse) -> Pulse:
    """How a machine stands. `by_id`: asked by its id; `listed`: by a list that was read whole with the same key;
    UNKNOWN where that could not be asked. Gone means two signals.

    Source: provider-apis: a lone 404 may mean a wrong key.
    """
    for one in (by_id, listed):
        if one in (Pulse.ALIVE, Pulse.STOPPED):
            return one
    return Pulse.GONE if by_id is listed is Pulse.GONE else Pulse.UNKNOWN


def by_id(reply: Reply | NoAnswer, one: object, pulse: Callable[[Mapping[str, Any]], Pulse]) -> Pulse:
    """What an answer about a machine says of it. `one`: the machine in it; `pulse`: how a machine stands."""
    if isinstance(one, Mapping) and one:
        return pulse(one)
    return Pulse.GONE if isinstance(reply, Reply) and reply.status == 404 else Pulse.UNKNOWN


def by_list(
    listed: Sequence[Mapping[str, Any]] | Reply | NoAnswer,
    native: str,
    pulse: Callable[[Mapping[str, Any]], Pulse],
    id_of: Callable[[Mapping[str, Any]], str] = lambda row: str(row.get("id")),
) -> Pulse:
    """What a list of all machines says of this one."""
    if isinstance(listed, (Reply, NoAnswer)):
        return Pulse.UNKNOWN
    return next((pulse(row) for row in listed if id_of(row) == native), Pulse.GONE)


def must(reply: Reply | NoAnswer, *, provider: str, site: str, key: str, what: str) -> Reply:
    """`reply` if it is 2xx and JSON. `what`: what was asked, in words.

    Raises: KeyRefused, ProviderSays, ProviderSilent.
    """
    if isinstance(reply, NoAnswer):
        raise ProviderSilent(site=site, provider=provider, what=what, detail=reply.detail or reply.kind)
    if reply.status in (401, 403):
        raise KeyRefused(site=site, provider=provider, key=key, said=said(reply))
    if not reply.is_ok:
        raise ProviderSays(site=site, provider=provider, what=what, said=said(reply))
    if not reply.is_json and reply.status != 204:
        raise ProviderSays(site=site, provider=provider, what=what, said="its answer is no JSON")
    return reply


def no_answer(reply: Reply | NoAnswer, kind: str = "refused") -> NoAnswer:
    """A reading call that came to nothing, as a value."""
    return reply if isinstance(reply, NoAnswer) else NoAnswer(sent=True, kind=kind, detail=said(reply))


def said(reply: Reply) -> str:
    """The provider's own words, in one short line with the HTTP status."""
    words = " ".join(dict.fromkeys(_texts(reply.body)))
    words = re.sub(r"[\s\x00-\x1f\x7f]+", " ", words).strip().rstrip(".")[:WORDS_CHARACTERS]
    return f"HTTP {reply.status}" + (f": {words}" if words else "")


_SAYING = ("code", "error", "message", "title", "detail", "msg", "suggestion", "id")


def _texts(body: Any) -> Iterable[str]:
    """What an error's body says, in the keys that providers use for it."""
    if isinstance(body, str):
        yield body
    if isinstance(body, Mapping):
        for key in _SAYING:
            yield from _texts(body.get(key))


def rows(body: Any, key: str) -> list[Mapping[str, Any]] | None:
    """The objects of a list that `body` holds as `key`; None where it holds none, so that no list is no empty list."""
    found = body.get(key) if isinstance(body, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
        return None
    return found


def micro(amount: object) -> int | None:
    """Millionths of a currency's unit of a price in JSON, None where it is no price: rounded up, so that no meter is
    shown too slow.
    """
    from decimal import ROUND_CEILING, Decimal, InvalidOperation

    if isinstance(amount, bool) or not isinstance(amount, (int, float, str)):
        return None
    try:
        value = Decimal(str(amount))
        if not value.is_finite() or value < 0:
            return None
        return int((value * 1_000_000).to_integral_value(ROUND_CEILING))
    except InvalidOperation:
        return None
