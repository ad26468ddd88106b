"""A hostile box against every command: each field of each answer changed in each way, and the bytes that carry it.

Whatever it says, a command ends in bounded time with one of its documented statuses, writes only where it may, starts
nothing that the box names, and shows the other boxes. `make test` draws a few of each; `make soak` takes all of them.
"""

import os
import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sojourn.backends.keeper import bootstrap
from sojourn.core.values import Ended
from sojourn.wire import framing
from tests.adversary import mutations
from tests.adversary.stage import COMMANDS, Change, Key, Outcome, Stage
from tests.violation import held

NAMES = [" ".join(words) for words in COMMANDS]
SEED = int(os.environ.get("SOJOURN_TEST_SEED", "15"))
SECONDS = 60.0  # of the processor: most take milliseconds, ten million letters half a second; `stop` asks for 50 s
OUT_BYTES = 24 << 20
REFUSED = ("bad-answer", "no-frames", "no-python", "no-base")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SHOWS_OTHERS = ("status", "status --json", "watch live fine --limit 3s")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    try:
        made.set()
        yield made
    finally:
        made.end_all()


def kinds(stage: Stage, name: str) -> list[tuple[str, Key, int, str, str]]:
    """(what it is a change of, the question, its number, field, change) of all that can be said to a command."""
    found = []
    for key, at in stage.recorded[name].questions():
        whole = stage.recorded[name].said[key][at].stdout
        value = next(framing.frames(whole))[1]
        found += [("field", key, at, field, change) for field, change, _ in mutations.changes(value)]
        found += [("bytes", key, at, "", change) for change, _ in mutations.damages(whole)]
    return found


def as_change(kind: tuple[str, Key, int, str, str]) -> Change:
    what, wanted, number, field, change = kind

    def changed(key: Key, at: int, ended: Ended) -> Ended:
        if (key, at) != (wanted, number):
            return ended
        if what == "bytes":
            return replace(ended, stdout=next(new for name, new in mutations.damages(ended.stdout) if name == change))
        (head, *blobs) = framing.frames(ended.stdout)
        new = next(new for f, c, new in mutations.changes(head[1]) if (f, c) == (field, change))
        return replace(ended, stdout=mutations.frame(new) + b"".join(framing.pack(blob) for _, blob in blobs))

    return changed


def judge(stage: Stage, name: str, kind: tuple[str, Key, int, str, str], seen: Outcome) -> None:
    said = f"{name} against {kind}: {seen.rc}\n{seen.err[-1500:]}"
    assert seen.rc in (*range(6), 10, 11, *range(100, 104), *range(110, 114)), said
    held("Traceback" not in seen.err, said)
    held(not seen.outside, f"{said}\nwritten outside: {seen.outside}")
    assert seen.seconds < SECONDS, f"{said}\nafter {seen.seconds:.1f} s"
    assert len(seen.out) + len(seen.err) < OUT_BYTES, said
    if not name.startswith("logs"):  # a log is shown as it is, where stdout is no terminal
        held(not CONTROLS.search(seen.out.decode()), said)
    held(not CONTROLS.search(seen.err), said)
    asked = {argv[4] for argv in seen.argvs if argv[2] in (bootstrap.SHORT, bootstrap.SCRIPT)}
    for argv in seen.argvs:
        held(argv[:2] == ["sh", "-c"] and "pwned" not in argv[2] and "\0" not in "".join(argv), said)
    if not name.startswith("down"):  # `down` asks in every base that the box says it has; they are its own folders
        held(asked <= {str(stage.bases["sick"])}, said)
    for path in seen.puts:
        held(any(path.startswith(f"{base}/") for base in asked), said)
    if any(code in REFUSED for code in seen.refused) and not may_go_on(name, kind):
        assert seen.rc == 5 or (name.startswith("doctor") and seen.rc == 11 and "bad-answer" not in seen.refused), said
    if name in SHOWS_OTHERS:
        assert b"fine" in seen.out, said


def may_go_on(name: str, kind: tuple[str, Key, int, str, str]) -> bool:
    """Whether a command rightly does without that answer: it says so, and what it needs it has from another one."""
    _, key, _, _, _ = kind
    if name.startswith("handbook"):
        return True  # it says how old its facts are
    # watch looks again until its time is over, stop has asked and says that no end was seen; a log is read, and a
    # release withheld, whatever state the run is in
    return key == ("since",) and name.startswith(("stop", "logs", "down", "watch"))


def test_there_are_at_least_300_kinds_of_hostile_answer(stage: Stage) -> None:
    every = {(key, field, change) for name in NAMES for _, key, _, field, change in kinds(stage, name)}
    trials = sum(len(kinds(stage, name)) for name in NAMES)
    print(f"{len(every)} kinds of answer, {trials} trials with {len(NAMES)} commands; seed {SEED}")
    assert len(every) >= 300


@pytest.mark.parametrize("name", NAMES)
def test_unchanged_answers_come_to_what_they_came_to(stage: Stage, name: str) -> None:
    seen = stage.trial(name)
    assert seen.rc == stage.recorded[name].rc, seen.err
    judge(stage, name, ("nothing", (), 0, "", ""), seen)


@pytest.mark.trials(test=4, campaign=60, soak=100_000)
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_box_ends_a_command_in_a_word(trial_count: int, stage: Stage, name: str) -> None:
    """Fields that are changed, and a third as many changes of bytes; the soak plays them all."""
    draw = random.Random(f"{SEED} {name}")
    every = kinds(stage, name)
    fields, carried = ([kind for kind in every if kind[0] == what] for what in ("field", "bytes"))
    some = draw.sample(fields, min(trial_count, len(fields))) + draw.sample(
        carried, min(-(-trial_count // 3), len(carried))
    )
    for kind in some:
        judge(stage, name, kind, stage.trial(name, as_change(kind)))
