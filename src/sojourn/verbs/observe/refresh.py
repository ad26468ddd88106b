"""One bounded look at runs: one question a site, new events folded and kept. Who cannot be reached stays as known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sojourn.core.fold import Status, fold, with_progress
from sojourn.core.values import NoAnswer, Pulse, State, build_frozen
from sojourn.store.records import OTHER, RunRecord
from sojourn.verbs.answers import Reach
from sojourn.verbs.context import Box, Context, NoSuchBackend
from sojourn.verbs.observe.reasons import with_cause
from sojourn.verbs.observe.view import RunView
from sojourn.wire import events, names, units
from sojourn.wire.errors import SojournError, Unreachable, WorldError

if TYPE_CHECKING:
    pass

LIMIT_BYTES = 4 << 20  # of new events in one answer; the rest comes with the next question
MOST_AT_ONCE = 16  # sites
TOGETHER = 250  # runs that are written to the index at once; other commands wait for that
MOST_QUESTIONS = 64  # for what is left after one answer
RECORD_S = 10.0  # a keeper that was put back to record an end has done so by then


class Sick(WorldError):
    """{said}"""

    code = "sick-box"
    next_step = "sojourn doctor {site}"


def not_refreshed(view: RunView) -> WorldError:
    """The error for a verb that cannot continue without an answer from the run's box."""
    if view.reach.is_sick:
        return Sick(site=view.record.site_name, said=view.reach.error)
    return Unreachable(site=view.record.site_name, detail=view.reach.error)


def refresh(
    ctx: Context,
    records: Iterable[RunRecord],
    *,
    timeout_s: float = 20.0,
    mend: bool = True,
    also_settled: bool = False,
) -> dict[str, RunView]:
    """Each run by id. A run that was never launched is not asked about; one whose end is known and sealed only beside
    others of its box: another client may have resumed it, and its box says so where its events have grown.
    `also_settled`: that is asked of every such run on those boxes, and those that have grown are in the answer.

    With `mend`, where keeper and payload are both gone and no end is written, the run's own keeper is started to write
    it (from the shim's record): it starts no payload that nobody asked for.
    Waits at most about `timeout_s` a site. Raises: nothing for a site that does not answer or answers with an error.
    """
    views, questions = by_machine(records)
    if also_settled:
        questions = {name: (ours, ctx.store.index.settled_at(ours[0].machine)) for name, (ours, _) in questions.items()}
    for some, said in _ask_all(ctx, list(questions.values()), timeout_s):
        views.update(taken_in(ctx, some, said, timeout_s, mend))
    return views


def by_machine(records: Iterable[RunRecord]) -> tuple[dict[str, RunView], dict[str, SiteQuestion]]:
    """(runs that need no query, in their known state; the runs to ask each other machine about)."""
    views: dict[str, RunView] = {}
    machines: dict[str, list[RunRecord]] = {}
    settled: dict[str, dict[str, int]] = {}
    for record in records:
        if record.attempt == 0 or record.is_settled or record.has_vanished:
            views[record.id] = as_known(record)
            if record.attempt and record.phase != "cleaned" and not record.has_vanished:
                settled.setdefault(record.machine, {})[record.id] = record.offset
        else:
            machines.setdefault(record.machine, []).append(record)
    return views, {name: (ours, settled.get(name, {})) for name, ours in machines.items()}


def as_known(record: RunRecord) -> RunView:
    """The run as the records have it, without asking."""
    reach = build_frozen(Reach, {"last_ok": _stamp(record.heard_s)})
    return build_frozen(RunView, {"record": record, "status": record.status, "reach": reach, "queue": {}})


def refresh_one(ctx: Context, record: RunRecord, *, timeout_s: float = 20.0, mend: bool = True) -> RunView:
    """`refresh` of one run."""
    return refresh(ctx, [record], timeout_s=timeout_s, mend=mend)[record.id]


# What a machine said: (entry of `since`, new bytes of events) by run; or why it did not.
Said = dict[str, tuple[Mapping[str, Any], bytes]] | NoAnswer | WorldError | NoSuchBackend
# The runs of one machine that are asked about, and the offsets of its settled ones.
SiteQuestion = tuple[list[RunRecord], Mapping[str, int]]


def _ask_all(ctx: Context, sites: list[SiteQuestion], timeout_s: float) -> Iterator[tuple[SiteQuestion, Said]]:
    """The answers of sites as they arrive; all are asked at once, and one that does not answer delays none."""
    if len(sites) < 2:
        yield from ((asked, asking(ctx, asked, timeout_s)()) for asked in sites)
        return
    from concurrent.futures import ThreadPoolExecutor, as_completed

    pool = ThreadPoolExecutor(min(len(sites), MOST_AT_ONCE))
    try:
        flying = {pool.submit(asking(ctx, asked, timeout_s)): asked for asked in sites}
        yield from ((flying[answer], answer.result()) for answer in as_completed(flying))
    finally:
        pool.shutdown(cancel_futures=True)


def asking(ctx: Context, asked: SiteQuestion, timeout_s: float) -> Callable[[], Said]:
    """What, when called, gives what one machine has to say since, for about twice `timeout_s` at most; what is left
    comes with the next look. The call touches no records of ours, so it may be made in another thread.
    """
    try:
        box = ctx.box(asked[0][0].site, asked[0][0].lease)
    except NoSuchBackend as error:
        no = error
        return lambda: no
    return lambda: _asked(ctx, box, asked, timeout_s)


def _asked(ctx: Context, box: Box, asked: SiteQuestion, timeout_s: float) -> Said:
    said: dict[str, tuple[Mapping[str, Any], bytes]] = {}
    offsets, moved = {record.id: record.offset for record in asked[0]}, asked[1]
    until_s = ctx.now_s() + timeout_s
    try:
        for _ in range(MOST_QUESTIONS):
            answer = box.ask("since", timeout_s=timeout_s, runs=offsets, moved=moved, limit_bytes=LIMIT_BYTES)
            if isinstance(answer, NoAnswer):
                return answer
            for entry, blob in zip(answer.value["runs"], answer.blobs, strict=True):
                _, before = said.get(entry["id"], (entry, b""))
                said[entry["id"]] = (entry, before + blob)
            offsets = {entry["id"]: entry["offset"] for entry in answer.value["runs"] if entry["more"]}
            if not offsets or not any(answer.blobs) or ctx.now_s() >= until_s:
                break
            moved = {}
        if box.scheduler:
            from sojourn.verbs.observe import scheduled

            for run, word in scheduled.ask(box, [record for record in asked[0] if record.id in said]).items():
                said[run] = ({**said[run][0], "word": word}, said[run][1])
    except WorldError as error:
        return error
    return said


def taken_in(ctx: Context, asked: SiteQuestion, said: Said, timeout_s: float, mend: bool = True) -> dict[str, RunView]:
    """A site's answer, folded and stored. `mend`: as in `refresh`, which may ask the site again."""
    runs, settled = asked
    if mend and isinstance(said, NoAnswer):
        from sojourn.verbs.rent.vanished import settled_if_gone

        pulse, name = settled_if_gone(ctx, runs[0]), runs[0].lease
        if pulse is Pulse.GONE:
            return {r.id: as_known(ctx.store.index.find(r.id)) for r in runs}
        if pulse is Pulse.STOPPED:
            words = f"its machine {name} is stopped, and may bill"
            said = replace(said, kind=words, detail="", next_step=f"sojourn up {name} (starts it again)")
    if not isinstance(said, dict):
        words = said.message if isinstance(said, SojournError) else f"{said.kind}: {said.detail}".removesuffix(": ")
        advice = said.next if isinstance(said, SojournError) else said.next_step
        is_sick = isinstance(said, WorldError) and not isinstance(said, Unreachable)
        return {r.id: RunView(r, r.status, Reach(False, _stamp(r.heard_s), words, advice, is_sick)) for r in runs}
    moved = [record for record in map(ctx.store.index.run, settled.keys() & said.keys()) if record is not None]
    heard = [*runs, *(one for one in moved if one.run.has_been(said[one.id][0].get("identity")))]
    views = {}
    for first in range(0, len(heard), TOGETHER):
        with ctx.store.index.together():
            for record in heard[first : first + TOGETHER]:
                views[record.id] = take_in(ctx, record, *said.get(record.id, (ABSENT, b"")))
    if not mend:
        return views
    _keep_queues(ctx, views.values())
    return _with_ends_recorded(ctx, views, timeout_s)


# The box answered, and has no such root (its disk was wiped, or the run was never placed there).
ABSENT: Mapping[str, Any] = {"keeper": "gone", "payload": "gone", "root": ""}


def take_in(ctx: Context, record: RunRecord, entry: Mapping[str, Any], blob: bytes) -> RunView:
    """The run's new state, from an entry of `since` and its new events, folded and stored."""
    if entry.get("identity") and not record.run.has_been(entry["identity"]):
        shown = replace(record.status, reason=OTHER)
        return RunView(record, shown, Reach(True, units.stamp(ctx.now_s())), "unknown", "unknown", is_other=True)
    known, offset = record.heard, record.offset
    new, _ = events.parse(blob)
    status = with_cause(fold(new, known), new, record.site)
    if status.state.is_final:
        status = replace(status, unheard_s=float(entry.get("beat_age_s") or 0.0))
    keeper, payload, root = str(entry["keeper"]), str(entry["payload"]), str(entry.get("root") or "")
    word, queue = entry.get("word"), entry.get("queue") or {}
    if word is not None:
        from sojourn.verbs.observe import scheduled

        keeper, payload = scheduled.pulses(word, keeper, payload)
    elif keeper == "gone" and not status.attempt and queue and queue["waiting"] + queue["living"]:
        keeper = "none"  # it died before it began anything; the queue's keeper starts another
    if queue.get("taken") == "stop" and record.phase == "queued" and status.attempt < record.attempt:
        # Another client removed it from the queue.
        ctx.store.append("withdrawn", sweep=record.queue, site=record.site_name, runs=[record.id], why="stop")
        record = ctx.store.index.find(record.id)
    now_s = ctx.now_s()
    ctx.store.record_status(record, int(entry.get("offset", offset)), status, keeper, payload, now_s, root)
    fresh = ctx.store.index.run(record.id) or record
    shown = fresh.settled(status, keeper, payload)
    if word is not None:
        shown = scheduled.with_scheduler(shown, word)
    if shown.state is State.QUEUED and queue.get("place"):
        shown = replace(shown, reason=f"{queue['place']} of {queue['waiting']} in the queue")
    progress = entry.get("progress")
    if isinstance(progress, Mapping) and shown.state.is_alive and shown.attempt == status.attempt:
        shown = with_progress(shown, progress)
    reach, argv = Reach(True, units.stamp(now_s)), tuple(entry.get("argv") or ())
    there = entry is not ABSENT
    return RunView(fresh, _with_log(shown, entry), reach, keeper, payload, there, argv=argv, word=word, queue=queue)


def _with_log(status: Status, entry: Mapping[str, Any]) -> Status:
    if not status.state.is_alive:
        return status
    return replace(
        status,
        log_age_s=entry.get("log_age_s", status.log_age_s),
        log_bytes=entry.get("log_bytes", status.log_bytes),
    )


def _keep_queues(ctx: Context, views: Iterable[RunView]) -> None:
    """A queue that has cells and no keeper gets one again; what lives there is found, and nothing begun twice."""
    from sojourn.verbs.context import start

    left = {(v.record.machine, v.record.queue): v for v in views if v.record.queue and v.status.state.is_alive}
    for (machine, sweep), view in left.items():
        queue = view.queue
        if queue.get("keeper") not in ("gone", "none") or not queue["waiting"] + queue["living"] or not queue["argv"]:
            continue
        whose = "the queue" if sweep == names.RUNS_QUEUE else f"{sweep}: its queue"
        ctx.say(f"{whose} on {machine} continues")
        try:
            start(ctx.box(view.record.site, view.record.lease), queue["argv"])
        except WorldError as error:
            ctx.say(error.message)


def _with_ends_recorded(ctx: Context, views: dict[str, RunView], timeout_s: float) -> dict[str, RunView]:
    ended = [view.record for view in views.values() if view.has_root and is_unrecorded(view)]
    if not ended:
        return views
    for record in ended:
        ctx.say(f"{record.id}: recording how it ended")
    try:
        _record(ctx.box(ended[0].site, ended[0].lease), [views[record.id] for record in ended], timeout_s)
    except WorldError as error:
        ctx.say(error.message)
    deadline_s = ctx.now_s() + min(timeout_s, RECORD_S)
    while ended and ctx.now_s() < deadline_s:
        ctx.sleep(0.1)
        said = asking(ctx, (ended, {}), timeout_s)()
        if not isinstance(said, dict):
            break
        again = taken_in(ctx, (ended, {}), said, timeout_s, mend=False)
        views = {**views, **again}
        ended = [view.record for view in again.values() if is_unrecorded(view) or _is_being_recorded(view)]
    return views


def _record(box: Box, views: list[RunView], timeout_s: float) -> None:
    """Have the box record how these runs ended: by their own keepers, or from the scheduler's record."""
    if box.scheduler:
        from sojourn.verbs.observe import scheduled

        scheduled.record_on_box(box, views, timeout_s)
        return
    from sojourn.verbs.context import start

    for view in views:
        start(box, view.argv)


def is_unrecorded(view: RunView) -> bool:
    """No keeper is there, nor a payload's first process, and the run's events lack how its last attempt ended, or the
    seal of its manifest."""
    if view.word is not None:
        from sojourn.verbs.observe import scheduled

        return scheduled.is_overdue(view)
    if view.keeper != "gone" or view.payload not in ("gone", "none", "held"):
        return False
    heard = view.record.heard
    return heard.attempt >= view.record.attempt and not heard.is_sealed


def _is_being_recorded(view: RunView) -> bool:
    """The keeper that was put back is there, and has not yet written how the payload ended that it found gone."""
    heard = view.record.heard
    is_gone = view.word is None and view.keeper == "alive" and view.payload in ("gone", "none")
    return is_gone and heard.attempt >= view.record.attempt and not heard.state.is_final


def _stamp(at_s: float | None) -> str:
    return "" if at_s is None else units.stamp(at_s)
