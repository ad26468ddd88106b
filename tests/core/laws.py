"""What the tests of the law share: a lease, a run that is home, and the law asked about them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sojourn.core import law
from sojourn.core.law import Clearance, Facts, Given, Judgement, Standing, Withheld
from sojourn.core.values import Lease, Receipt, State
from sojourn.wire import units
from sojourn.wire.manifest import roster_digest

NOW_S = units.unstamp("2026-11-21T10:00:00Z")
LEASE = Lease("gpu-box", "gpu", "by_hand", "n-1", 1_190_000, "USD", 0.0, "destroy it", True, (), "2026-06")


def clear(
    lease: Lease,
    runs: Sequence[Standing],
    typed: str,
    now_s: float,
    abandon: frozenset[str] = frozenset(),
    journaled: frozenset[str] | None = None,
    accept: frozenset[str] = frozenset(),
    **facts,
) -> Clearance:
    """Of facts taken this instant and shown as they are."""
    seen = Facts(tuple(runs), now_s, **facts)
    journaled = frozenset() if journaled is None else journaled
    return law.clear(lease, seen, Given(typed, abandon, accept, journaled, seen.digest()), now_s)


def judge(lease: Lease, runs: Sequence[Standing], now_s: float, **facts) -> Judgement:
    return law.judge_release(lease, Facts(tuple(runs), now_s, **facts), Given(), now_s)


def row(path: str, sha256: str = "a" * 64, size: int = 10, role: str = "output") -> dict:
    return {"path": path, "from": path, "bytes": size, "sha256": sha256, "role": role}


def receipt(path: str, run: str = "digits", **changes) -> Receipt:
    return replace(
        Receipt(run, path, f"/home/{path}", 10, "a" * 64, "torch_zip", "torch_zip", ("bytes", "structure", "load")),
        **changes,
    )


def standing(run: str = "digits", **changes) -> Standing:
    """A run that has succeeded, was listed just now, and is home."""
    files = changes.pop("files", (row("best.pt"), row("logs/1.log", "b" * 64, 5, "log")))
    digest = changes.pop("digest", roster_digest(files))
    proper = Standing(
        run,
        State.SUCCEEDED,
        is_fresh=True,
        digest=digest,
        files=files,
        verified=changes.pop("verified", digest),
        receipts=(receipt("best.pt", run),),
        home={"best.pt": "same"},
    )
    return replace(proper, **changes)


def withheld(*runs: Standing, typed: str = "gpu-box", lease: Lease = LEASE, **more) -> list[str]:
    """Everything that is missing, as "run: what"."""
    with pytest.raises(Withheld) as caught:
        clear(lease, runs, typed, NOW_S, **more)
    error = caught.value
    assert error.exit_status == 4 and error.next == error.missing[0].next and "\n" not in error.message
    assert all(lack.next for lack in error.missing)
    return [f"{lack.run}: {lack.what}" for lack in error.missing]
