"""What schedulers still keep of ours, of runs in the journal and of others: part of `leases --audit`. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from sojourn.core.inventory import Asset, Inventory, Verdict
from sojourn.core.values import NoAnswer, Site
from sojourn.verbs.context import Context
from sojourn.verbs.observe.audit_rows import AuditRow, Blank
from sojourn.verbs.observe.scheduled import handle_of
from sojourn.wire.errors import SojournError

Found = tuple[list[AuditRow], list[Blank], tuple[str, tuple[str, ...]]]


def kept(ctx: Context) -> Iterator[Found]:
    """Rows, what could not be asked, and who was asked, of each site whose launcher has `kept`. Raises: BadSettings."""
    for site in _sites(ctx):
        ctx.say(f"asking {site.name} for all that it keeps of runs")
        whom = (site.launcher, (site.name,))
        try:
            rows, blanks = _asked(ctx, site)
        except SojournError as error:
            rows, blanks = [], [Blank(site.name, "everything", error.message, error.next)]
        yield rows, blanks, whom


def _sites(ctx: Context) -> list[Site]:
    """Of the settings and of all leases, closed ones too: what they left may still be there."""
    from sojourn import backends
    from sojourn.store.settings import read_settings

    sites = dict(read_settings().sites)
    for record in ctx.store.index.leases(open_only=False):
        name = record.lease.site
        if name in sites:
            continue
        try:
            sites[name] = ctx.site(name)
        except SojournError:
            continue  # it rented, and `audit` has said so, or it kept nothing that could be asked for
    known = [site for site in sites.values() if backends.has("launcher", site.launcher)]
    return [site for site in known if hasattr(backends.get("launcher", site.launcher), "kept")]


def _asked(ctx: Context, site: Site) -> tuple[list[AuditRow], list[Blank]]:
    """Raises: SojournError."""
    records = [one for one in ctx.store.index.runs() if one.site_name == site.name]
    handles = {one.id: handle for one in records if (handle := handle_of(one)) is not None}
    leases = {one.name: one for one in ctx.store.index.leases(open_only=False)}
    box = ctx.box(site)
    found: Inventory | NoAnswer = box.launcher.kept(box.place, list(handles.values()))  # type: ignore[attr-defined]
    if isinstance(found, NoAnswer):
        return [], [
            Blank(site.name, "everything", found.detail or found.kind, found.next_step or "sojourn leases --audit")
        ]
    held = {handles[one.id].native: one.lease for one in records if one.id in handles}
    open_here = [one.name for one in leases.values() if one.is_open and one.lease.site == site.name]
    rows = []
    for asset in found.assets:
        mine = [held[native] for native in asset.of if native in held]
        living = [name for name in mine if name in leases and leases[name].is_open]
        if site.name in asset.of:  # of the site itself, whatever ran on it
            verdict, lease = (Verdict.OURS, open_here[0]) if open_here else (Verdict.KEPT, "")
        elif mine:
            verdict, lease = (Verdict.OURS, living[0]) if living else (Verdict.NOT_GONE, mine[0])
        else:
            verdict, lease = Verdict.NOT_OURS, ""
        rows.append(AuditRow(verdict, site.name, lease, asset, _next(verdict, site, asset)))
    return rows, [Blank(site.name, kind, why) for kind, why in found.unknown]


def _next(verdict: Verdict, site: Site, asset: Asset) -> str:
    """What still runs may be somebody's work, which another client of the site knows."""
    if verdict in (Verdict.OURS, Verdict.KEPT):
        return ""
    return asset.command or f"sojourn recover {site.name}"
