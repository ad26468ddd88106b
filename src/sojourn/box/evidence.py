"""All the evidence of one attempt, as one document (schema sojourn/evidence/v1): every probe at once, each in its own
child with its own deadline, so that one that hangs costs only its own text.

Loaded only by the call `bundle` and the command `bundle`; a resting keeper knows nothing of it.
"""

from __future__ import annotations

import functools
import importlib
import os
import time

from sojourn.box.run import masking
from sojourn.box.run.attempt_context import AttemptContext
from sojourn.box.run.root import Root, read_fields
from sojourn.box.system import bounded, machine, process, raw
from sojourn.wire import units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, NamedTuple

    class Probe(NamedTuple):
        """`module` in `probes`; `name`: its name in the document if it gives no answer; `is_of_root`: it asks about the
        root and can run on any machine that sees it; other probes ask about the attempt's machine."""

        module: str
        name: str
        deadline_s: float
        is_of_root: bool = False

else:
    from collections import namedtuple

    Probe = namedtuple("Probe", "module name deadline_s is_of_root", defaults=(False,))

SCHEMA = "sojourn/evidence/v1"
LOG_BYTES = 256 << 10
KEPT_LOG_BYTES = 16 << 10  # the log itself is beside it
KEPT_BYTES = 150 << 10  # less than looks.ROOM_BYTES
PROBE_BYTES = 512 << 10  # of one probe's answer; the rest adds nothing

PROBES = (
    Probe("records", "events.jsonl", 1.5, True),
    Probe("log_tail", "logs", 1.5, True),
    Probe("checkpoints", "checkpoints", 1.5, True),
    Probe("writing", "write probe", 1.5, True),
    Probe("room", "df -Pk", 1.6, True),
    Probe("mounts", "mountinfo", 1.0, True),
    Probe("hogs", "du -xk", 1.6, True),
    Probe("leftovers", "leftovers", 1.2, True),
    Probe("boot", "boot", 1.0),
    Probe("load", "load", 1.0),
    Probe("group_files", "cgroup", 1.0),
    Probe("payload", "payload", 1.0),
    Probe("processes", "process tree", 1.6),
    Probe("scripts", "scripts", 1.0),
    Probe("shm", "ls /dev/shm", 1.0),
    Probe("kernel_log", "dmesg", 1.6),
    Probe("cards", "nvidia-smi", 1.6),
    Probe("holders", "device holders", 1.5),
    Probe("network", "network", 1.5),
    Probe("clock", "clock", 1.0),
)


def collect(root: Root, attempt: int = 0, why: str = "call", log_bytes: int = LOG_BYTES) -> Dict[str, Any]:
    """The document of an attempt (0: the newest), taken now. In less than 2 s whatever hangs, unless the box is so busy
    that `bounded` allows more time."""
    context = AttemptContext(root, attempt, log_bytes)
    hide = masking.Words(root)
    probes: Dict[str, Any] = {}
    for taken in _asked(
        context, PROBES if context.is_here else [probe for probe in PROBES if probe.is_of_root]
    ).values():
        probes.update(taken)
    launch = context.launch
    if isinstance(launch.get("argv"), list):
        launch["argv"] = hide.words([str(word) for word in launch["argv"]])
    document = {
        "schema": SCHEMA,
        "scope": ["universal"],
        "run": root.id,
        "attempt": context.attempt,
        "taken": units.stamp(time.time()),
        "why": why,
        "host": machine.host(),
        "here": context.is_here,
        "launch": launch,
        "probes": probes,
        "facts": _facts(context),
    }
    found: Dict[str, Any] = hide.everywhere(document)
    return found


# The probes for a box by itself, without a run.
OF_BOX = "writing room mounts hogs boot load group_files shm kernel_log cards holders network clock".split()


def of_box(base: str, names: List[str] | None = None, sample: Dict[str, Any] | None = None) -> Dict[str, Any]:
    """The document of the box itself: those of the probes OF_BOX in `names`. `sample`: GPUs are watched for a while, on
    request under load, see probes.sampling; this is done here and takes its time."""
    from sojourn.box.run.box_context import Alone

    context = Alone(base)
    wanted = [name for name in OF_BOX if names is None or name in names]
    asked = [probe for probe in PROBES if probe.module in wanted and (probe.module != "cards" or not sample)]
    probes: Dict[str, Any] = {}
    if sample and "cards" in wanted:
        from sojourn.box.probes import sampling

        act = functools.partial(sampling.collect, context, dict(sample, envs=os.path.join(base, "envs")))
        question = bounded.Question("sampling", act, sampling.deadline_s(sample), PROBE_BYTES)
        answer = bounded.ask([question])["sampling"]
        sampled = answer.value or {"nvidia-smi": raw.text("", raw.NO_ANSWER, answer.detail)}
        at = units.stamp(time.time())
        probes.update({name: dict(entry, at=at) for name, entry in sampled.items()})
    for taken in _asked(context, asked).values():
        probes.update(taken)
    return {
        "schema": SCHEMA,
        "scope": ["universal"],
        "taken": units.stamp(time.time()),
        "why": "box",
        "host": machine.host(),
        "here": True,
        "launch": context.launch,
        "probes": probes,
        "facts": {"box.alone": True},
    }


def whole(root: Root, attempt: int = 0, log_bytes: int = LOG_BYTES) -> Dict[str, Any]:
    """`collect`, together with what the attempt's root keeps.

    If it ended badly and its keeper looked then, the machine's probes are from then, and the machine as it is now is in
    `now`; what an earlier look kept is in `before`.
    """
    document = collect(root, attempt, "call", log_bytes)
    number = document["attempt"]
    host = document["launch"].get("host")
    end, look = read_fields(root.evidence(number)), read_fields(root.evidence(number, is_last=False))
    if look.get("host") == host:
        document["before"] = {"taken": look.get("taken"), "host": host, "probes": look.get("probes") or {}}
    if not end.get("probes") or end.get("host") != host:
        if not document["here"] and "before" in document:
            document["probes"] = dict(document["before"]["probes"], **document["probes"])
        return document
    now = document["probes"]
    live = {name for name in now if _is_live(name)}
    document["probes"] = dict(end["probes"], **{name: now[name] for name in live})
    document["facts"] = dict(end.get("facts") or {}, **document["facts"])
    rest = {name: entry for name, entry in now.items() if name not in live}
    document["now"] = {"taken": document["taken"], "host": document["host"], "probes": rest}
    document["taken"] = end.get("taken")
    return document


def _is_live(name: str) -> bool:
    """Whether a probe's answer depends on when it is asked, unlike the run's records."""
    return name.startswith(("events.jsonl", "exits/", "progress/", "logs/", "checkpoints", "stop.", "want.", "keeper."))


def _asked(context: AttemptContext, probes: Any) -> Dict[str, Dict[str, Any]]:
    questions = [
        bounded.Question(probe.module, functools.partial(_answer, probe.module, context), probe.deadline_s, PROBE_BYTES)
        for probe in probes
    ]
    answers = bounded.ask(questions)
    found = {}
    for probe in probes:
        answer = answers[probe.module]
        if answer.why:
            rc = raw.NO_ANSWER if answer.why == bounded.LATE else 1
            at = units.stamp(time.time())
            found[probe.module] = {probe.name: dict(raw.text("", rc, answer.detail), at=at)}
        else:
            found[probe.module] = answer.value
    return found


def _answer(module: str, context: AttemptContext) -> Dict[str, raw.Entry]:
    """In a child: the texts of one probe, each with its time."""
    probe = importlib.import_module("sojourn.box.probes." + module)
    taken: Dict[str, raw.Entry] = probe.collect(context)
    at = units.stamp(time.time())
    return {name: dict(entry, at=at) for name, entry in taken.items()}


def _facts(context: AttemptContext) -> Dict[str, Any]:
    """Facts that no text holds."""
    if not context.is_here:
        return {}
    keeper = context.keeper
    return {"box.session_present": process.is_alive(keeper.get("pid") or 0, keeper.get("start") or 0)}


def keep(root: Root, attempt: int, why: str) -> None:
    """Take the document and keep it in the root: "end" in its reserved room, "look" over the last one.

    Raises: OSError.
    """
    document = collect(root, attempt, why, KEPT_LOG_BYTES)
    data = _packed(document)
    while len(data) > KEPT_BYTES:  # the largest says least per byte
        name = max(document["probes"], key=lambda one: len(document["probes"][one]["stdout"]))
        entry = document["probes"][name]
        half = len(entry["stdout"]) // 2
        document["probes"][name] = dict(entry, stdout=entry["stdout"][entry["stdout"].find("\n", half) + 1 :], cut=True)
        data = _packed(document)
    path = root.evidence(attempt, is_last=why == "end")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    room = path + (".room" if why == "end" else ".tmp")
    fd = os.open(room, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        at = 0
        while at < len(data):
            at += os.pwrite(fd, data[at:], at)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(room, path)


def _packed(document: Dict[str, Any]) -> bytes:
    import json

    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace") + b"\n"


def main(args: List[str]) -> int:
    """`bundle ROOT [ATTEMPT]`: print the document. `bundle --keep end|look ROOT ATTEMPT`: keep it. 2 for misuse."""
    import json
    import sys

    if len(args) == 4 and args[0] == "--keep" and args[1] in ("end", "look"):
        os.nice(5)
        keep(Root(args[2]), int(args[3]), args[1])
        return 0
    if not args or not os.path.isdir(args[0]):
        sys.stderr.write("usage: keeper bundle ROOT [ATTEMPT]\n")
        return 2
    document = whole(Root(args[0]), int(args[1]) if len(args) > 1 else 0)
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    return 0
