"""A keeper's answers to each op, as `sojourn.box.ops` writes them and verbs read them. Data: `decode` applies it."""

from __future__ import annotations

from typing import Any

from sojourn.backends.keeper.shapes import (
    Shape,
    Wrong,
    anything,
    below,
    boolean,
    digest,
    list_of,
    map_of,
    maybe,
    name,
    number,
    one_of,
    path,
    preview,
    record,
    root_name,
    stamp,
    text,
    whole,
    word,
)

MOST_RUNS = 100_000  # in one answer
MOST_FILES = 1_000_000
YEARS_S = 1e10
_ATTEMPT = whole(0, 1 << 31)
_SIZE = whole(0, 1 << 60)
_NUMBER = number(-1e18, 1e18)
_COUNT = whole()
_LITTLE = anything(1 << 20, 50_000)  # a file of the box, read back: run.json and the like
KEEPER = one_of("alive", "gone", "none", "unknown")
PAYLOAD = one_of("alive", "gone", "none", "unknown", "held")


def little(value: Any) -> dict[str, Any]:
    """A small document of any content."""
    if not isinstance(value, dict):
        raise Wrong(f"{preview(value)} where an object is expected")
    found: dict[str, Any] = _LITTLE(value)
    return found


def maybe_root(value: Any) -> str:
    """The name of a root, or "" for none."""
    return "" if value == "" else root_name(value)


def _progress(value: Any) -> dict[str, Any] | None:
    """What the training process wrote, or None if invalid: it is the user's file, and says nothing against the box."""
    try:
        return little(value)
    except Wrong:
        return None


def argv(value: Any) -> list[str]:
    """The command that starts a keeper: a Python, isolated, a keeper's file, `supervise --root ROOT`. Nothing else is
    ever started on a box's word.
    """
    found: list[str] = list_of(word, 16)(value)
    if len(found) != 7 or found[1:3] != ["-I", "-S"] or found[4:6] != ["supervise", "--root"]:
        raise Wrong("it does not start a keeper")
    path(found[3]), path(found[6])
    return found


def _argv_or_none(value: Any) -> list[str]:
    return argv(value) if value != [] else []


_QUEUE = record(
    {"keeper": KEEPER, "waiting": _COUNT, "living": _COUNT, "argv": _argv_or_none},
    {"place": _COUNT, "taken": one_of("stop", "move")},
)
_RUN = record(
    {
        "id": root_name,
        "root": path,
        "attempt": _ATTEMPT,
        "keeper": KEEPER,
        "payload": PAYLOAD,
        "offset": _SIZE,
        "more": boolean,
    },
    {
        "identity": maybe(text(200)),
        "log_age_s": maybe(number(0, YEARS_S)),
        "log_bytes": maybe(_SIZE),
        "beat_age_s": maybe(number(0, YEARS_S)),
        "progress": _progress,
        "queue": _QUEUE,
        "argv": argv,
    },
)
_SINCE = {"runs": list_of(_RUN, MOST_RUNS)}

_ROOM = dict.fromkeys(("free_bytes", "total_bytes", "free_inodes", "total_inodes"), _SIZE)
_CARD = record(
    {},
    {
        "index": whole(0, 4096),
        "name": maybe(text(200)),
        "uuid": maybe(text(200)),
        "memory_bytes": maybe(_SIZE),
        "used_bytes": maybe(_SIZE),
        "util_pct": maybe(_NUMBER),
        "temperature_c": maybe(_NUMBER),
        "power_w": maybe(_NUMBER),
    },
    rest=_LITTLE,
)


def _disks(value: Any) -> dict[str, Any]:
    """Room by path; a disk without an answer is left out."""
    told = map_of(maybe(record(_ROOM)), 64)(value)
    return {at: room for at, room in told.items() if room is not None}


_HELLO = record(
    {
        "base": path,
        "home": text(),
        "user": text(200),
        "host": text(200),
        "python": word,
        "python_version": text(200),
        "keeper": path,
        "cpus": whole(1, 1 << 20),
        "memory_bytes": maybe(_SIZE),
        "disks": _disks,
        "gpus": list_of(_CARD, 1024),
        "has": map_of(boolean, 100),
    },
    {
        "cgroup": record(
            {}, {"version": whole(0, 9), "memory_limit_bytes": maybe(_SIZE), "cpu_quota": maybe(number(0, 1 << 20))}
        ),
        "oom_kill": maybe(_COUNT),
        "os": map_of(text(200), 20),
        "avoid": list_of(record({"node": text(64), "why": text(1200), "left_s": whole(0, 1 << 20)}), 1000),
        "argv": argv,
        "lanes": list_of(word, 4096),
    },
    rest=_LITTLE,
)

# A manifest (wire.manifest). One from an older keeper lacks the second part.
_WHEN = whole(-(1 << 63), 1 << 64)
_STAT = list_of(_WHEN, 5)
_FILE = record(
    {
        "path": below,
        "from": below,
        "bytes": _SIZE,
        "sha256": digest,
        "role": one_of("output", "log", "checkpoint", "scratch"),
    },
    {"stat": _STAT, "set": word, "sealed": digest},
)
_FILES = list_of(_FILE, MOST_FILES)
_SAID_FILE = record({"path": text(1 << 16), "why": text()})
MANIFEST = record(
    {
        "run": root_name,
        "attempt": _ATTEMPT,
        "at": stamp,
        "files": _FILES,
        "missing": list_of(text(), 10_000),
        "refused": list_of(_SAID_FILE, MOST_FILES),
        "digest": digest,
    },
    {
        "earlier": _FILES,
        "gone": list_of(record({"path": below, "bytes": _SIZE, "sha256": digest}), MOST_FILES),
        "superseded": _COUNT,
        "unnamed": list_of(record({"path": text(1 << 16), "bytes": _SIZE, "mtime_ns": _WHEN}), 10_000),
    },
    rest=_LITTLE,
)

_PROBE = record(
    {},
    {
        "stdout": maybe(text(8 << 20)),
        "stderr": maybe(text(1 << 20)),
        "rc": maybe(whole(-(1 << 31), 1 << 31)),
        "at": maybe(text(100)),
    },
    rest=_LITTLE,
)
_PROBES = map_of(_PROBE, 5000, text())
_LOOK = record({"probes": _PROBES}, {"taken": maybe(text(100)), "host": maybe(text(200))}, rest=_LITTLE)
_EVIDENCE = record(
    {"schema": one_of("sojourn/evidence/v1"), "probes": _PROBES, "launch": little, "facts": little, "here": boolean},
    {
        "scope": list_of(text(200), 100),
        "run": root_name,
        "attempt": _ATTEMPT,
        "taken": maybe(text(100)),
        "why": text(200),
        "host": maybe(text(200)),
        "before": _LOOK,
        "now": _LOOK,
    },
    rest=_LITTLE,
)

# For a client that lost its records of a run. `recover` checks the content of the three files one by one: an odd one
# speaks against that run, not against the box.
_ROOT = record(
    {
        "id": root_name,
        "root": path,
        "run": little,
        "want": little,
        "keeper": little,
        "pulse": KEEPER,
        "last": _ATTEMPT,
    },
    {"queued": _ATTEMPT, "earlier": list_of(text(200), 10_000)},
)
_SURVEYED = record(
    {
        "id": root_name,
        "root": path,
        "attempt": _ATTEMPT,
        "identity": maybe(text(200)),
        "state": text(100),
        "lives": text(),
    },
    rest=_LITTLE,
)
_BASE = record(
    {"base": path, "id": text(200), "error": maybe(text()), "runs": list_of(_SURVEYED, MOST_RUNS)}, rest=_LITTLE
)
_SURVEY = record(
    {"box": little, "bases": list_of(_BASE, 10_000), "more": boolean},
    {"others": record({"uids": _COUNT, "runs": _COUNT}, rest=_LITTLE)},
    rest=_LITTLE,
)

_KINDS = ("runs", "snapshots", "envs", "keepers", "train", "staging", "queues")
_USED = {"bytes": _SIZE, "inodes": _SIZE}
_ENDED = list_of(record({"pid": whole(1, 1 << 31), "start": _SIZE, "why": text()}), 10_000)
_COMMAND = {"rc": whole(-(1 << 31), 1 << 31), "out": text(1 << 17), "err": text(1 << 17)}

_LEFT = record({"root": maybe_root, "last": _ATTEMPT, "left": list_of(text(), 1000)})
# In pairs: the number of a content, and how many of its bytes are there.
_LACKING = record({"made": boolean, "lacking": list_of(list_of(_SIZE, 2), MOST_FILES)})

_PATHS = list_of(record({"path": text(1 << 14), "why": text()}), 1000)
_STAGE_END = record(
    {
        "what": one_of("staged", "unchanged", "incomplete", "changing", "no-room", "taken", "failed"),
        "problems": _PATHS,
        "problems_count": _COUNT,
        "left_out": _PATHS,
        "left_out_count": _COUNT,
        "seconds": number(0, YEARS_S),
    },
    {
        **dict.fromkeys(("files", "bytes", "copied_files", "copied_bytes", "kept_files"), _SIZE),
        **dict.fromkeys(("need_bytes", "need_inodes"), _SIZE),
        "digest": digest,
        "message": text(1 << 14),
        "room": record({}, _ROOM),
    },
)
_STAGE_PROGRESS = record(
    {},
    {
        **dict.fromkeys(("files", "bytes", "total_files", "total_bytes"), _SIZE),
        "phase": text(100),
        "name": text(1 << 14),
    },
)
_MOUNT = record({"point": text(), "kind": text(200), "source": text()})

ANSWERS: dict[str, Shape] = {
    "hello": _HELLO,
    "have": record({"missing": list_of(text(), 10_000)}),
    "lacking": _LACKING,
    "receive": _LACKING,
    "send": record({"files": _COUNT}),
    "unpack": record({"path": path, "made": boolean, "files": _COUNT}),
    "place": record(
        {"root": path, "placed": boolean, "argv": argv},
        {"identity": maybe(text(200)), "attempt": _ATTEMPT, "last": _ATTEMPT},
        rest=_LITTLE,
    ),
    "left": _LEFT,
    "revise": _LEFT,
    "want": record({"attempt": _ATTEMPT, "last": _ATTEMPT, "argv": argv}, rest=_LITTLE),
    "stop": record({"keeper": KEEPER, "attempt": _ATTEMPT, "argv": argv}, rest=_LITTLE),
    "judge": record({"noted": one_of("", "ended", "judged")}),
    "since": record(_SINCE),
    "proven": record({**_SINCE, "proven": boolean}),
    "command": record(_COMMAND),
    "enqueue": record({"root": path, "added": _COUNT, "argv": argv}, rest=_LITTLE),
    "withdraw": record({"taken": list_of(name, MOST_RUNS), "kept": list_of(name, MOST_RUNS)}),
    "manifest": record({"manifest": MANIFEST, "sealed": boolean}, rest=_LITTLE),
    "read": record({"size": _SIZE, "offset": _SIZE}, {"path": text(), "aside": text(200)}),
    "roots": record({"runs": list_of(_ROOT, MOST_RUNS), "more": boolean}),
    "survey": _SURVEY,
    "forget_secrets": record({"gone": list_of(root_name, MOST_RUNS), "kept": list_of(root_name, MOST_RUNS)}),
    "usage": record(
        {
            "runs": list_of(
                record(
                    {"id": root_name, "lives": text(), "identity": maybe(text(200)), **_USED}, {"attempt": _ATTEMPT}
                ),
                MOST_RUNS,
            ),
            "things": list_of(
                record(
                    {
                        "kind": one_of(*_KINDS[1:]),
                        "name": text(255),
                        "used_by": list_of(root_name, MOST_RUNS),
                        "keep": text(),
                        **_USED,
                    }
                ),
                MOST_RUNS,
            ),
        },
        rest=_LITTLE,
    ),
    "remove": record(
        {
            "removed": list_of(record({"name": text(255), **_USED}), MOST_RUNS),
            "kept": list_of(record({"name": text(255), "why": text()}), MOST_RUNS),
        },
        rest=_LITTLE,
    ),
    "bundle": record({"evidence": _EVIDENCE}),
    "look": record({"evidence": _EVIDENCE}),
    "reap": record({"ended": _ENDED, "kept": _ENDED}),
    "stage": record(
        {
            "state": one_of("running", "ended", "dead", "idle"),
            "token": text(200),
            "target": path,
            "work": path,
            "mount": _MOUNT,
            "source_mount": _MOUNT,
        },
        {"progress": _STAGE_PROGRESS, "end": _STAGE_END, "log": text(1 << 14)},
    ),
}
STAMPS = record(
    {"ok": boolean, "now": stamp},
    {"boot_id": text(200), "pid1_start": _SIZE, "by": word},
)
# Fields of a refusal that somebody uses.
REFUSED: dict[str, Shape] = {
    "other-argv": record({"argv": argv}),
    "command-failed": record(_COMMAND),
    "name-taken": record({}, {"identity": maybe(text(200)), "root": path, "runs": list_of(name, MOST_RUNS)}),
    "work-left": record({"left": list_of(text(), 1000)}),
    "keeper-damaged": record({"keeper": path}),
}
BATCH = record(
    {"answers": list_of(record({"ok": boolean, "frames": whole(0, MOST_RUNS)}, rest=lambda one: one), 10_000)}
)
