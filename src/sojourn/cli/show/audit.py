"""The outcome of `leases --audit` on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.cli.show.text import clean, command, line, table
from sojourn.core.inventory import Verdict
from sojourn.wire.units import say_money

if TYPE_CHECKING:
    from sojourn.verbs.observe.audit import Audit
    from sojourn.verbs.observe.audit_rows import AuditRow

HEAD = ("WHAT", "PROVIDER", "ID", "NAME", "STATE", "PRICE", "LEASE")
TITLES = (
    (Verdict.UNRECORDED, "rented by this client, and in no record of it"),
    (Verdict.NOT_GONE, "released by your records, but still there"),
    (Verdict.GONE, "open by your records, but gone at the provider"),
    (Verdict.KEPT, "kept by a release; it bills"),
    (Verdict.NOT_OURS, "bills, and is in no record of this machine"),
    (Verdict.OURS, "yours, and covered by an open lease"),
)


def lines(answer: Audit, columns: int) -> list[str]:
    """A table for each verdict, worst first, with the commands that end a cost; then what is unknown."""
    out: list[str] = []
    for verdict, title in TITLES:
        rows = [row for row in answer.rows if row.verdict is verdict]
        if rows:
            out += [f"{title}:", *table(HEAD, [_cells(row) for row in rows], columns, leave_out=(4, 3))]
            for row in rows:
                if row.asset and row.asset.kind == "claim":  # its size, which a narrow table leaves out
                    out += line("claim", clean(f"{row.asset.native}: {row.asset.name}"), columns)
            out += [command("to end", clean(row.next)) for row in rows if row.next]
            out.append("")
    for one in answer.unknown:
        out += line("unknown", f"{clean(one.provider)}: {clean(one.what)}: {clean(one.why)}", columns)
        out += [command("next", clean(one.next))] if one.next else []
    for provider, kinds in answer.unlisted:
        out += line("note", f"{clean(provider)} has no list of {', '.join(kinds)}: look at its console", columns)
    asked = [f"{provider} ({', '.join(sites)})" for provider, sites in answer.asked]
    if not asked and not answer.unknown:
        return ["no provider to ask: no site rents machines, and no provider's key is set"]
    return [
        *out,
        *line("asked", clean(", ".join(asked)) or "nobody", columns),
        *line("result", _result(answer), columns),
    ]


def _result(answer: Audit) -> str:
    if answer.exit_status == 0:
        return "nothing bills but your open leases" if answer.rows else "nothing bills"
    words = {
        1: "your records and the provider contradict each other",
        3: "not everything could be asked; the rest is as listed",
        10: "something bills that no open lease covers",
    }
    return words[answer.exit_status]


def _cells(row: AuditRow) -> tuple[str, ...]:
    asset = row.asset
    if asset is None:
        return ("machine", clean(row.provider), "", "", "", "", clean(row.lease))
    price = "unknown"
    if asset.micro_per_month is not None:
        price = say_money(asset.micro_per_month, asset.currency) + "/month"
    elif asset.rate_micro_per_h is not None:
        price = say_money(asset.rate_micro_per_h, asset.currency) + "/h"
    words = (asset.kind, row.provider, asset.native, asset.name, asset.state, price, row.lease)
    return tuple(clean(word) for word in words)
