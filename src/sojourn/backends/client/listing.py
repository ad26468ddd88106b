"""An account's lists read one after another: what cannot be read is unknown, and never an empty list."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from sojourn.backends.client import answers
from sojourn.backends.client.https import Reply
from sojourn.core.inventory import Asset, Inventory
from sojourn.core.values import NoAnswer

Rows = Sequence[Mapping[str, Any]]
# A list, as it was answered; or the answer that holds none.
Listed = Rows | Reply | NoAnswer


def inventory(
    lists: Iterable[tuple[str, Callable[[], Listed], Callable[[Mapping[str, Any]], Asset | None]]],
    kinds: Collection[str] = (),
    unlisted: Sequence[str] = (),
) -> Inventory:
    """What these lists hold. Each is (kind, what asks for it, what makes an asset of a row, None for what is gone).
    `kinds`: as for `Provider.list`.

    Raises: NoKey, Misuse.
    """
    assets: list[Asset] = []
    unknown: list[tuple[str, str]] = []
    for kind, ask, asset_of in lists:
        if kinds and kind not in kinds:
            continue
        found = ask()
        if isinstance(found, (Reply, NoAnswer)):
            unknown.append((kind, why(found)))
            continue
        assets += [asset for asset in map(asset_of, found) if asset is not None]
    return Inventory(tuple(assets), tuple(unknown), () if kinds else tuple(unlisted))


def rows_of(reply: Reply | NoAnswer, key: str) -> Listed:
    """The rows that an answer holds as `key`, else the answer."""
    if isinstance(reply, NoAnswer) or not reply.is_ok:
        return reply
    found = answers.rows(reply.body, key)
    return reply if found is None else found


def why(answer: Reply | NoAnswer) -> str:
    """Why a list is not known, in a few words."""
    if isinstance(answer, NoAnswer):
        return answer.detail or answer.kind
    return "its answer holds no such list" if answer.is_ok else answers.said(answer)


def deletes(url: str, env: str, body: Mapping[str, Any] | None = None, scheme: str = "Bearer ") -> str:
    """A shell line that deletes what lies at `url`, of `body`. The key stays in its variable, and out of every argv."""
    told = ""
    if body is not None:
        told = f"-H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))} "
    return f"printf 'Authorization: {scheme}%s' \"${env}\" | curl -fsS -X DELETE -H @- {told}{shlex.quote(url)}"
