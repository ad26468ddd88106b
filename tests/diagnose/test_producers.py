"""Every observation that a condition may speak of is collected by code, or listed as one that only a person gives.

An entry whose conditions no code can fill is confirmed in specimens alone. The list of what is given so may only become
shorter: whoever writes a probe takes the name off it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from sojourn.diagnose import events, vocabulary
from sojourn.store.gotchas import gotchas

ROOM = Path(vocabulary.__file__).parents[1]
GIVEN = Path(__file__).parent / "specimens/given-observations.txt"
MOST_GIVEN = 71  # may only become less
COLLECTING = ("diagnose/facts", "box", "verbs", "backends")
ALSO = ("diagnose/derive.py", "diagnose/evidence.py", "diagnose/events.py", "diagnose/pasted.py")
READS = ("_value", "value", "_number", "get", "pop")  # calls that look a value up


def modules() -> Iterator[Path]:
    for folder in COLLECTING:
        yield from sorted((ROOM / folder).rglob("*.py"))
    yield from (ROOM / name for name in ALSO)


def written(path: Path) -> set[str]:
    """The names that a module may set: its texts, but for the table of the vocabulary, and what it only looks up."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    looked_up = {
        id(argument)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for name in [getattr(call.func, "attr", getattr(call.func, "id", ""))]
        if name in READS
        for argument in call.args
    }
    compared = {
        id(side) for one in ast.walk(tree) if isinstance(one, ast.Compare) for side in (one.left, *one.comparators)
    }
    constants = (one for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str))
    return {str(one.value) for one in constants if id(one) not in looked_up | compared}


def without_producer() -> set[str]:
    found = set().union(*(written(path) for path in modules()))
    found |= {f"{events.FAMILY}{name}" for name in (*events.PARTS, "first_of", "rank")}
    return set(vocabulary.observations()) - found


def test_every_observation_has_code_that_collects_it_or_is_listed_as_given() -> None:
    listed = GIVEN.read_text(encoding="utf-8").split()
    assert listed == sorted(without_producer())


def test_the_list_of_what_only_a_person_gives_becomes_shorter_alone() -> None:
    assert len(GIVEN.read_text(encoding="utf-8").split()) <= MOST_GIVEN


def test_a_name_that_is_only_looked_up_has_no_producer(tmp_path: Path) -> None:
    module = tmp_path / "probe.py"
    module.write_text('a = known.get("run.a")\nb = {"run.b": 1}\nif what == "run.c": pass\nfound["run.d"] = 2\n')
    assert {name for name in written(module) if name.startswith("run.")} == {"run.b", "run.d"}


def test_no_condition_speaks_of_a_name_outside_the_vocabulary() -> None:
    from sojourn.diagnose import grammar

    wrong = [
        (gotcha.id, predicate.what)
        for gotcha in gotchas()
        for condition in (*gotcha.confirm, *gotcha.refute, *gotcha.weak)
        for predicate in grammar.parse(condition)
        if predicate.what not in vocabulary.observations()
    ]
    assert wrong == []
