"""`exec` and `ssh`: a command or a shell on a run's box, in its working copy and environment, with our own streams."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from sojourn.verbs.context import Context
from sojourn.wire.errors import Misuse


class NoShell(Misuse):
    """{site} is reached by {transport}, which runs no command for us."""

    code = "no-shell"
    next_step = "sojourn handbook {run}"


class NoWorkingCopy(Misuse):
    """{run} was never launched, so it has no working copy."""

    code = "no-working-copy"
    next_step = "sojourn run"


def enter(ctx: Context, run: str, words: Sequence[str] = (), *, has_terminal: bool = False) -> tuple[str, list[str]]:
    """(the site's name, the argv to run here) for a command in a run's newest working copy; a shell without `words`.

    The box is asked once, so that the program that enters is there. On a cluster it runs on the login node.
    Raises: Misuse (not-found, no-shell, no-working-copy), Unreachable.
    """
    record = ctx.store.index.find(run)
    site = record.site
    if site.transport not in ("local", "ssh"):
        raise NoShell(site=site.name, transport=site.transport, run=record.id)
    if not record.attempt:
        raise NoWorkingCopy(run=record.id)
    box = ctx.box(site, record.lease)
    (hello,) = box.answer_all([{"op": "hello", "run": record.id}])
    base, python = str(hello.value["base"]), str(hello.value["argv"][0])
    root = record.run.root or posixpath.join(base, "runs", record.id)
    argv = [python, "-I", "-S", posixpath.join(base, "keepers", box.keeper.file), "enter", root, *words]
    if site.transport == "local":
        return site.name, argv
    from dataclasses import replace

    from sojourn.backends.ssh.argv import attach

    there = replace(site, address=box.lease.address) if box.lease and box.lease.address else site
    if box.scheduler:
        ctx.say(f"on the login node of {site.name}; the run's own process is on another machine")
    return site.name, attach(there, argv, has_terminal)
