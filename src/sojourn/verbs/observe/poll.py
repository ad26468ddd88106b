"""One poll for many boxes: each is asked on its own clock, by a short question, and one that is dead delays nobody.

Of one run only one watch asks: a second one shows what the first one hears, and takes over when that is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from sojourn.core import pace
from sojourn.store.records import RunRecord
from sojourn.verbs.context import Context
from sojourn.verbs.observe.refresh import MOST_AT_ONCE, Said, SiteQuestion, as_known, asking, by_machine, taken_in
from sojourn.verbs.observe.view import RunView

ASK_S = 20.0  # for one question
DEAD_AT_ONCE = 4  # questions to boxes that did not answer the last time: they never stand in the way of the others
TOGETHER_S = 0.2  # answers that come within this time of each other are one look
LONGEST_S = 3600.0  # of one wait
MOST_HELD = 64  # runs and sweeps that a watch keeps others from asking about; those above are asked about by each


@dataclass
class _Site:
    """One box: when it is asked next, how long after the time before, and the question on its way."""

    place: int
    due_s: float
    pause_s: float = 0.0
    is_dead: bool = False
    asked: SiteQuestion = field(default_factory=lambda: ([], {}))
    answer: Future[Said] | None = None


class Poll:
    """Polls runs until no site needs to be asked. `views`: the last known state of each run. Close it at the end.

    `elsewhere`: runs and sweeps that another watch of this machine asks about now.
    """

    def __init__(self, ctx: Context, ids: Iterable[str], *, every_s: float) -> None:
        self._ctx, self._every_s = ctx, every_s
        self.views: dict[str, RunView] = {view.record.id: view for view in self._known(ids)}
        self.elsewhere: set[str] = set()
        self._held: dict[str, int] = {}
        self._sites: dict[str, _Site] = {}

    def wait_for_changes(self, until_s: float) -> list[RunView]:
        """Wait for the next answers, or until `until_s` by the context's clock; what was heard, of one site at least.

        [] where the time is up, or where nobody is to be asked. Runs that another watch asks about are read from the
        records instead. Raises: nothing for a site that does not answer.
        """
        while True:
            self._begin()
            flying = {site.answer: name for name, site in self._sites.items() if site.answer is not None}
            due_s = min((site.due_s for site in self._sites.values() if site.answer is None), default=until_s)
            pause_s = max(0.0, min(due_s, until_s, self._ctx.now_s() + LONGEST_S) - self._ctx.now_s())
            if flying:
                done, rest = wait(flying, pause_s or TOGETHER_S, FIRST_COMPLETED)
                if done:
                    done |= wait(rest, TOGETHER_S).done if rest else set()
                    return [view for one in done for view in self._take(flying[one])]
            elif not self._sites or self._ctx.now_s() >= until_s:
                return []
            else:
                self._ctx.sleep(pause_s)
            if self._ctx.now_s() >= until_s:
                return []

    def moved(self, names: Iterable[str]) -> None:
        """Something is new at these sites: ask them again soon."""
        for name in names:
            if name in self._sites:
                self._again(self._sites[name], moved=True)

    @property
    def next_look_s(self) -> float:
        """Seconds until the next site is asked; 0 where none is."""
        due_s = [site.due_s for site in self._sites.values() if site.answer is None]
        return max(0.0, min(due_s) - self._ctx.now_s()) if due_s else 0.0

    def close(self) -> None:
        """Let other watches ask. A question on its way ends by itself, and nobody waits for it."""
        for fd in self._held.values():
            os.close(fd)
        self._held = {}

    def _known(self, ids: Iterable[str]) -> list[RunView]:
        return [as_known(record) for record in map(self._ctx.store.index.run, ids) if record is not None]

    def _begin(self) -> None:
        """Ask the sites whose time has come, as many at once as may be."""
        now_s = self._ctx.now_s()
        at: dict[str, list[str]] = {}
        open_sites = dict.fromkeys(v.record.machine for v in self.views.values() if not is_over(v.record))
        for place, name in enumerate(open_sites):
            self._sites.setdefault(name, _Site(place, now_s))
        for name in [name for name, site in self._sites.items() if name not in open_sites and site.answer is None]:
            del self._sites[name]
        due = [name for name, site in self._sites.items() if site.answer is None and site.due_s <= now_s]
        if not due:
            return
        for run, view in self.views.items():
            at.setdefault(view.record.machine, []).append(run)
        for name in due:
            site = self._sites[name]
            flying = sum(s.answer is not None and s.is_dead == site.is_dead for s in self._sites.values())
            if flying < (DEAD_AT_ONCE if site.is_dead else MOST_AT_ONCE):
                self._ask(name, site, at.get(name, []))

    def _ask(self, name: str, site: _Site, runs: list[str]) -> None:
        fresh = self._known(runs)
        # Another command may have placed a cell elsewhere meanwhile: then it is asked about there.
        self.views |= {view.record.id: view for view in fresh if view.record.machine != name}
        ours = [view.record for view in fresh if view.record.machine == name and self._is_ours(view.record)]
        site.asked = asked = by_machine(ours)[1].get(name, ([], {}))
        site.answer = answer = Future[Said]()
        ask = asking(self._ctx, asked, ASK_S) if asked[0] else dict

        def call() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - flies on where the answer is taken
                answer.set_exception(error)

        threading.Thread(target=call, name=f"ask {name}", daemon=True).start()

    def _take(self, name: str) -> list[RunView]:
        """What a site said; and what the records say of runs there that another watch asks about."""
        site = self._sites[name]
        assert site.answer is not None
        said, site.answer = site.answer.result(), None
        heard = taken_in(self._ctx, site.asked, said, ASK_S) if site.asked[0] else {}
        others = [run for run, view in self.views.items() if view.record.machine == name and run not in heard]
        heard |= {view.record.id: view for view in self._known(others)}
        self.views |= heard
        site.is_dead = not isinstance(said, dict)
        self._again(site, moved=False)
        return list(heard.values())

    def _again(self, site: _Site, *, moved: bool) -> None:
        site.pause_s = pace.next_pause_s(site.pause_s, self._every_s, moved=moved)
        site.due_s = self._ctx.now_s() + pace.apart(site.pause_s, site.place, len(self._sites))

    def _is_ours(self, record: RunRecord) -> bool:
        what = record.sweep or record.id
        if what in self._held or len(self._held) >= MOST_HELD:
            return True
        fd = self._ctx.try_alone(f"watch {what}")
        if fd is None:
            self.elsewhere.add(what)
            return False
        self._held[what] = fd
        self.elsewhere.discard(what)
        return True


def is_over(record: RunRecord) -> bool:
    """It has ended, and no keeper is about to seal it or to start its next attempt; or it was never asked for."""
    if not record.attempt:
        return True
    return record.status.state.is_final and (record.is_settled or record.keeper not in ("alive", "unknown"))
