"""Verifies TensorBoard event files: both checksums of every record, every event parsed, every scalar finite.

Only the sha256 shows a cut between two records. TFRecord files of other things are verified as records alone.
"""

from __future__ import annotations

import math
import os
from typing import Any, ClassVar

from sojourn.core.ports import Loaded, Loader
from sojourn.formats import tfrecord as walker
from sojourn.formats.damage import Unloadable
from sojourn.wire import protobuf, tensorboard

_NAMED, _LISTED = 5, 1000


class Backend(Loader):
    """Loads one events.out.tfevents.* file."""

    kind: ClassVar[str] = "tfevents"
    suffixes: ClassVar[tuple[str, ...]] = (".tfevents.*", ".tfrecord", ".tfrecords")
    magic: ClassVar[tuple[bytes, ...]] = ()  # a length and its checksum
    may_be_empty: ClassVar[tuple[str, ...]] = (".tfevents.*",)  # from a writer that was opened but never written to

    def owns(self, path: str, head: bytes) -> bool:
        """It starts with a length and its checksum."""
        return walker.is_start(head)

    def load(self, path: str) -> Loaded:
        """Walk and parse it. Raises: Unloadable, OSError."""
        from sojourn.backends.proof.crc32c import crcs32c

        if not os.path.getsize(path):
            facts: dict[str, Any] = {"records": 0, "by": "sojourn"}
            return Loaded(("structure", "load", "content"), facts, ("an event file without events",))
        count, steps, tags, bad, is_log = 0, [0, 0], dict[str, int](), list[str](), False
        with open(path, "rb") as f:
            for at, data in walker.records(f, crcs32c):
                try:
                    if not count:
                        is_log = any(number == tensorboard.VERSION for number, _, _ in protobuf.fields(data))
                    if is_log:
                        step, scalars = tensorboard.scalars(data)
                        steps = [min(steps[0], step), max(steps[1], step)]
                        for tag, value in scalars:
                            tags[tag] = tags.get(tag, 0) + 1
                            if not math.isfinite(value) and len(bad) < _LISTED:
                                bad.append(f"{tag[:80]} at step {step}: {value}")
                except ValueError as error:
                    if is_log:
                        raise Unloadable("corrupt", f"the event at byte {at} is none: {error}") from None
                count += 1
        if bad:
            more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
            raise Unloadable("non-finite", "; ".join(bad[:_NAMED]) + more)
        facts = {"records": count, "by": "sojourn"}
        if not is_log:
            return Loaded(("structure", "load"), facts)
        facts.update({"steps": steps, "tags": {tag[:200]: n for tag, n in list(tags.items())[:32]}})
        return Loaded(("structure", "load", "content"), facts)
