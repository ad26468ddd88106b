"""The same work for runs of several boxes: one box after the other within itself, several boxes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from sojourn.store.home import Store
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context

T = TypeVar("T")

MOST_BOXES = 4  # at once: each may fill the line of this machine


def each(ctx: Context, records: Sequence[RunRecord], do: Callable[[Context, RunRecord], T]) -> Iterator[T]:
    """`do` of every run, in the order of `records`, whichever is done first; of those on one machine in their order.

    `do` gets a context of its own where machines are worked on at once: records are not shared between threads.
    What flies out of `do` flies out here, in its turn; then no run is begun any more, and what is under way ends by
    itself, or with the process: it must bear being killed.
    """
    machines: dict[str, list[RunRecord]] = {}
    for record in records:
        machines.setdefault(record.machine, []).append(record)
    if len(machines) < 2:
        yield from (do(ctx, record) for record in records)
        return
    for some in machines.values():
        ctx.box(some[0].site, some[0].lease)  # made here: the map of boxes is shared
    answers: dict[str, Future[T]] = {record.id: Future() for record in records}
    waiting, stop, mouth = list(machines.values()), threading.Event(), threading.Lock()

    def say(line: str) -> None:
        with mouth:
            ctx.say(line)

    def work() -> None:
        ours = Context(
            Store(ctx.store.state_dir),
            say=say,
            now_s=ctx.now_s,
            sleep=ctx.sleep,
            token=ctx.token,
            environ=ctx.environ,
            boxes=ctx.boxes,
        )
        with ours:
            while True:
                with mouth:
                    some = waiting.pop(0) if waiting and not stop.is_set() else []
                if not some:
                    return
                for record in some:
                    if stop.is_set():
                        return
                    try:
                        answers[record.id].set_result(do(ours, record))
                    except BaseException as error:  # noqa: BLE001 - flies on where the answer is taken
                        answers[record.id].set_exception(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(len(machines), MOST_BOXES))]
    for thread in threads:
        thread.start()
    try:
        for record in records:
            yield answers[record.id].result()
    except BaseException:
        stop.set()
        raise
    for thread in threads:
        thread.join()
    ctx.store.index.catch_up()
