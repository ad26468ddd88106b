"""The next attempt of a run whose machine is gone, on another one: from the newest checkpoint that is home."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from sojourn.core.values import Ended, NoAnswer
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Box, Context, unreachable
from sojourn.verbs.kept_here import kept_here
from sojourn.verbs.launch import launch
from sojourn.verbs.launch.bidding import Bid
from sojourn.verbs.launch.prepare import Prepared
from sojourn.verbs.launch.push import push
from sojourn.verbs.launch.renting import reopen
from sojourn.verbs.launch.rosters import remember
from sojourn.wire.errors import WorldError
from sojourn.wire.manifest import sha256_file

PUT_S = 600.0
_FOLDERS_S = 30.0


@dataclass(frozen=True)
class Saved:
    """A file of the newest checkpoint that came home. `place`: below the run's root; `home`: its copy here."""

    place: str
    home: str


class NotThere(WorldError):
    """The checkpoint that is home could not be brought to {site}: {detail}. Nothing was started."""

    code = "checkpoint-not-there"
    retry = True
    next_step = "sojourn run"


def saved_at_home(ctx: Context, run: str) -> list[Saved]:
    """The files of the newest checkpoint that came home, all of which are here as they were loaded; [] for none."""
    files = kept_here(ctx, run).get("files") or ()
    if not all(_is_as_it_was(str(one["home"]), str(one["sha256"])) for one in files):
        return []
    return [Saved(str(one["from"]), str(one["home"])) for one in files]


def from_home(ctx: Context, record: RunRecord) -> str:
    """What the next attempt begins with, in a sentence. `record`: of before."""
    if not saved_at_home(ctx, record.id):
        return "no checkpoint of it is home, so it begins at the start: `sojourn pull --follow` brings each"
    return f"it goes on from the checkpoint that is home, of attempt {record.heard.attempt}"


def begin_again(ctx: Context, prepared: Prepared, bid: Bid, values: Mapping[str, str], wait_s: float) -> launch.Begun:
    """Journal the run as planned for its new box, lay it there with the checkpoint that is home, and start it.

    Raises: Unreachable, NotThere, WorldError.
    """
    assert bid.view is not None
    box, attempt, hello = bid.box, bid.decision.attempt, bid.hello or {}
    saved = saved_at_home(ctx, prepared.id)
    reopen(ctx, box)
    spec = prepared.for_site(box.priced, keeper=box.keeper.file, train=box.keeper.train_file, now_s=ctx.now_s())
    spec = {**spec, "first": attempt}
    base = str(hello["base"])
    ops, blobs = push(ctx, box, base, prepared.trees, bid.lacking)
    if box.keeper.train_file in bid.lacking:
        box.must(box.keeper.put_train(base))
    placed = box.answer_all([*ops, {"op": "place", "run": spec}], blobs, timeout_s=launch.ALONG_S)[-1].value
    _bring(ctx, box, str(placed["root"]), saved)
    ctx.store.append(
        "planned",
        run=prepared.id,
        site=asdict(box.site),
        root=str(placed["root"]),
        spec=spec,
        job_file=prepared.job.path,
        workdir=prepared.job.workdir,
        local=prepared.local(),
        again=True,  # what its earlier box held is lost
    )
    remember(prepared.trees[0][1])
    token = launch.journal_launching(ctx, box, prepared.id, attempt, prepared.need)
    want = {"op": "want", "run": prepared.id, "attempt": attempt, "by": "run", "token": token, "secrets": dict(values)}
    options = prepared.job.scheduling
    argv = placed["argv"]
    return launch.begin(ctx, box, prepared.id, attempt, [want], argv, wait_s=wait_s, scheduling=options)


def _bring(ctx: Context, box: Box, root: str, saved: list[Saved]) -> None:
    """The files of the checkpoint into the run's new root. Raises: Unreachable, NotThere."""
    folders = sorted({posixpath.dirname(posixpath.join(root, one.place)) for one in saved})
    if folders:
        made = box.transport.call(["mkdir", "-p", "--", *folders], timeout_s=_FOLDERS_S)
        if isinstance(made, NoAnswer):
            raise unreachable(box.site, made)
        if isinstance(made, Ended) and made.rc:
            raise NotThere(site=box.site.name, detail=made.stderr.decode(errors="replace").strip()[-200:])
    for number, one in enumerate(saved):
        ctx.say(f"bringing its checkpoint back, {number + 1} of {len(saved)}")
        answer = box.transport.put(one.home, posixpath.join(root, one.place), timeout_s=PUT_S)
        if isinstance(answer, NoAnswer):
            raise unreachable(box.site, answer)


def _is_as_it_was(path: str, sha256: str) -> bool:
    try:
        return bool(path) and os.path.isfile(path) and sha256_file(path)[1] == sha256
    except OSError:
        return False
