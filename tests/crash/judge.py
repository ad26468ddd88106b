"""What must hold whatever was killed: reads the training's ledger, the box's files and the journal, names breaches."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sojourn.formats.torch import zip as torch_zip
from sojourn.train.saving import arrays
from sojourn.wire.manifest import sha256_file

OWED = ("weights.npy", "checkpoints/best.pt")


def lines(path: Path) -> list[dict[str, Any]]:
    """Whole JSON lines of a file; none where there is no file. Torn ones are passed over, as by every reader."""
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            one = json.loads(line)
        except ValueError:
            continue
        found += [one] if isinstance(one, dict) else []
    return found


def breaches_of_training(ledger: Path, is_gentle: bool) -> Iterator[str]:
    """Never two at once, no attempt twice, nothing committed lost."""
    told = lines(ledger)
    begins = [line for line in told if line["kind"] == "begin"]
    for begin in begins:
        if not begin["alone"]:
            yield f"two trainings at once: pid {begin['pid']} of attempt {begin['attempt']} was not alone"
    spans = [_span(told, begin) for begin in begins]
    for (first, _, end), (second, start, _) in zip(
        sorted(spans, key=_start), sorted(spans, key=_start)[1:], strict=False
    ):
        if start < end:
            yield f"two trainings at once: {first} and {second} overlap by {end - start:.3f} s"
    attempts = [begin["attempt"] for begin in begins]
    if len(set(attempts)) < len(attempts):
        yield f"an attempt was started twice: {attempts}"
    if is_gentle and attempts != [1]:
        yield f"nothing of the training was killed, and it was started {len(attempts)} times: {attempts}"
    committed = 0
    for line in told:
        if line["kind"] == "begin":
            committed = max(committed, line["committed"][1])
        elif line["kind"] == "committed":
            committed = max(committed, line["step"])
        elif line["kind"] == "goes-on" and line["step"] < committed:
            yield f"attempt {line['attempt']} went on from step {line['step']}, and step {committed} was committed"


def _span(told: list[dict[str, Any]], begin: dict[str, Any]) -> tuple[str, float, float]:
    """(who, first and last sign of life)."""
    mine = [line["at"] for line in told if (line["pid"], line["attempt"]) == (begin["pid"], begin["attempt"])]
    return f"attempt {begin['attempt']}", begin["at"], max(mine)


def _start(span: tuple[str, float, float]) -> float:
    return span[1]


def breaches_of_events(root: Path, ledger: Path) -> Iterator[str]:
    """What the keeper said: one start and one end an attempt; nobody went on from below what it called committed."""
    events = lines(root / "events.jsonl")
    for kind in ("attempt", "started", "ended"):
        numbers = [event["attempt"] for event in events if event["kind"] == kind]
        if len(set(numbers)) < len(numbers):
            yield f"{kind} is recorded twice: {numbers}"
    went_on = {line["attempt"]: line["step"] for line in lines(ledger) if line["kind"] == "goes-on"}
    for event in events:
        if event["kind"] == "checkpoint":
            for attempt, step in went_on.items():
                if attempt > event["attempt"] and step < event["step"]:
                    yield f"attempt {attempt} went on from {step}; step {event['step']} was told of as committed"
    if not events or events[-1]["kind"] != "sealed":
        yield f"the last event is no seal: {events[-1:]}"
    if [event["state"] for event in events if event["kind"] == "ended"][-1:] != ["succeeded"]:
        yield "the last attempt has not succeeded by its events"


def breaches_of_home(root: Path, journal: list[dict[str, Any]], weights: bytes, best: bytes) -> Iterator[str]:
    """Every receipt's file is that of the box, and holds what the uninterrupted training made."""
    pulled = [record for record in journal if record["kind"] == "pulled"][-1:]
    if not pulled:
        yield "nothing was ever pulled"
        return
    receipts = {receipt["path"]: receipt for receipt in pulled[0]["receipts"]}
    if sorted(receipts) != sorted(OWED):
        yield f"receipts for {sorted(receipts)}, owed are {sorted(OWED)}"
        return
    yield from unequal(root, receipts.values())
    if Path(receipts["weights.npy"]["home"]).read_bytes() != weights:
        yield "the final weights are not those of the uninterrupted training"
    if best_weights(Path(receipts["checkpoints/best.pt"]["home"])) != best:
        yield "best.pt does not hold what the uninterrupted training's holds"


def unequal(root: Path, receipts: Any) -> Iterator[str]:
    """Receipts whose file at home, or on the box, has other bytes."""
    rows = {row["path"]: row for row in json.loads((root / "manifest.json").read_text())["files"]}
    for receipt in receipts:
        said = (receipt["bytes"], receipt["sha256"])
        here, there = sha256_file(receipt["home"]), sha256_file(str(root / rows[receipt["path"]]["from"]))
        if here != said or there != said:
            yield f"{receipt['path']} was verified as {said}; home has {here}, the box {there}"


def best_weights(path: Path) -> bytes:
    """The weights in a checkpoint."""
    return bytes(arrays.thaw(torch_zip.read_zip(str(path)).tree["w"]).tobytes())


def breaches_of_lease(journal: list[dict[str, Any]], before_it_began: int) -> Iterator[str]:
    """Nothing is let go that was not cleared, with everything proven before; nothing is taken or let go twice.

    `before_it_began`: so many first leases were let go while nothing of the run was on the box.
    """
    wanted = 1 + before_it_began
    counts = {kind: sum(record["kind"] == kind for record in journal) for kind in ("leased", "released", "settled")}
    if counts != {"leased": wanted, "released": wanted, "settled": 0}:
        yield f"leases: {counts}"
    is_proven, step, released = False, "", 0
    for record in journal:
        kind = record["kind"]
        released += kind == "released"
        if released < before_it_began or (kind == "released" and released == before_it_began):
            continue
        if kind == "pulled":
            is_proven = sorted(r["path"] for r in record["receipts"] if "load" in r["proved"]) == sorted(OWED)
        elif kind in ("launching", "pulling"):
            is_proven = is_proven and kind != "launching"
        elif kind == "clearing":
            step = "clearing" if is_proven else "clearing what is not proven"
        elif kind == "releasing":
            step = "releasing" if step == "clearing" and record["clearance"]["runs"] else f"releasing after {step!r}"
        elif kind == "released" and step != "releasing":
            yield f"a lease was let go after {step!r}"
    numbers = [record["n"] for record in journal]
    if len(set(numbers)) < len(numbers) or numbers != sorted(numbers):
        yield f"numbers of records repeat: {numbers}"
    tokens: dict[int, set[str]] = {}
    for record in journal:
        if record["kind"] == "launching":
            tokens.setdefault(record["attempt"], set()).add(record["token"])
    yield from (
        f"attempt {attempt} was asked for with several tokens" for attempt in tokens if len(tokens[attempt]) > 1
    )
