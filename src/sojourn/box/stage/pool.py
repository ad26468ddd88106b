"""The same act for many entries, in several threads: small files wait for the storage, hashes for nobody's lock."""

from __future__ import annotations

import os
import threading

from sojourn.box.stage.records import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, List, Sequence

_LOOK_S = 0.2


class Pool:
    """`streams` threads, and what they tell of their progress."""

    def __init__(self, streams: int, progress: Progress) -> None:
        self._streams = streams
        self._progress = progress
        self.lock = threading.Lock()

    def done(self, files: int = 0, size_bytes: int = 0, name: str = "") -> None:
        """`Progress.add`, from any thread."""
        with self.lock:
            self._progress.add(files, size_bytes, name)

    def each(self, items: Sequence[Any], act: Callable[[Any], None], *, is_near: bool = False) -> None:
        """`act` for every item, in any order. `is_near`: on the fast disk alone, where threads beyond the processors
        only wait for each other. Raises: what an act raised first; the others then end with their item."""
        streams = min(self._streams, os.cpu_count() or 1) if is_near else self._streams
        wanted = iter(items)
        errors: List[BaseException] = []
        threads = [
            threading.Thread(target=self._work, args=(wanted, act, errors), daemon=True)
            for _ in range(min(streams, len(items)))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_LOOK_S)
                with self.lock:
                    self._progress.tell()
        if errors:
            raise errors[0]

    def _work(self, wanted: Iterator[Any], act: Callable[[Any], None], errors: List[BaseException]) -> None:
        while not errors:
            with self.lock:
                item = next(wanted, self)
            if item is self:
                return
            try:
                act(item)
            except BaseException as error:  # noqa: BLE001 - raised again by `each`
                errors.append(error)
