"""How a site's scheduler is asked for a machine today, for a run that was planned on the site as it was."""

from __future__ import annotations

from dataclasses import replace

from sojourn.core.values import Site
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context


def box_of_today(ctx: Context, site: Site, record: RunRecord) -> Box:
    """The box that the run is on, whose launcher asks with the options that the settings have now. Raises: Misuse."""
    now = _with_options_of(site, record.site)
    if now != record.site:
        ctx.boxes.pop(now.name, None)
    return ctx.box(now, record.lease)


def _with_options_of(now: Site, then: Site) -> Site:
    """The site as it was when the run was planned, but for what its launcher asks for a machine: there the settings of
    today count, so that a request which was refused, or a limit that was too short, can be put right."""
    is_same = (now.transport, now.address, now.launcher) == (then.transport, then.address, then.launcher)
    options = now.options.get(then.launcher)
    if not is_same or options == then.options.get(then.launcher):
        return then
    rest = {key: value for key, value in then.options.items() if key != then.launcher}
    return replace(then, options={**rest, then.launcher: options} if options is not None else rest)
