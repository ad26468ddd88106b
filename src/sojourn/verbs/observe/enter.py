"""`exec` and `ssh`: a command or a shell on a run's box, in its working copy and environment, with our own streams."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from sojourn.core.values import Pulse
from sojourn.verbs.context import Context
from sojourn.verbs.observe import scheduled
from sojourn.verbs.observe.refresh import refresh_one
from sojourn.wire.errors import Misuse


class NoShell(Misuse):
    """{site} is reached by {transport}, which runs no commands."""

    code = "no-shell"
    next_step = "sojourn handbook {run}"


class NoWorkingCopy(Misuse):
    """{run} was never launched, so it has no working copy."""

    code = "no-working-copy"
    next_step = "sojourn run"


def enter(ctx: Context, run: str, words: Sequence[str] = (), *, has_terminal: bool = False) -> tuple[str, list[str]]:
    """(the site's name, the argv to run here) for a command in a run's newest working copy; a shell without `words`.

    The box is asked once, so that the program that enters is there. On a cluster it runs on the node of the
    job, in a step beside it; on the login node where the job does not run.
    Raises: Misuse (not-found, no-shell, no-working-copy), Unreachable.
    """
    record = ctx.store.index.find(run)
    site = record.site
    box = ctx.box(site, record.lease)
    way = getattr(box.transport, "attach", None)
    if way is None:
        raise NoShell(site=site.name, transport=site.transport, run=record.id)
    if not record.attempt:
        raise NoWorkingCopy(run=record.id)
    (hello,) = box.answer_all([{"op": "hello", "run": record.id}])
    base, python = str(hello.value["base"]), str(hello.value["argv"][0])
    root = record.run.root or posixpath.join(base, "runs", record.id)
    argv = [python, "-I", "-S", posixpath.join(base, "keepers", box.keeper.file), "enter", root, *words]
    if box.scheduler:
        beside, handle = getattr(box.launcher, "beside", None), scheduled.handle_of(record)
        word = refresh_one(ctx, record).word
        is_running = word is not None and word.pulse is Pulse.ALIVE and not word.is_waiting
        if beside is not None and handle is not None and is_running:
            argv = beside(handle, argv, has_terminal=has_terminal)
        else:
            ctx.say(f"on the login node of {site.name}: its job does not run now")
    return site.name, list(way(argv, has_terminal))
