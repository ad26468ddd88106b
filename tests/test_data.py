"""The catalog holds together: schema, conditions, specimens, and every seed entry is told by somebody."""

import json
from pathlib import Path

import pytest

from sojourn.core.gotcha import Gotcha
from sojourn.diagnose import evidence, grammar, vocabulary
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import BadGotcha, gotchas, parse_gotcha

ROOT = Path(__file__).resolve().parent.parent
SPECIMENS = ROOT / "tests/specimens"
DATA = ROOT / "src/sojourn/data"
CATALOG = {gotcha.id: gotcha for gotcha in gotchas()}
FILES = sorted(SPECIMENS.glob("*/*-*.json"))
TRAINING = json.loads((Path(__file__).parent / "diagnose/training-numbers.json").read_text())
SEEDS = json.loads((Path(__file__).parent / "diagnose/seed-numbers.json").read_text())


def test_what_is_compiled_says_what_the_data_says() -> None:
    files = sorted((DATA / "gotchas").glob("*.toml"))
    assert len(files) == len(gotchas()) > 300
    assert tuple(parse_gotcha(file.name, file.read_text(encoding="utf-8")) for file in files) == gotchas()


def test_every_gotcha_can_be_decided_or_says_why_not() -> None:
    assert [g.id for g in CATALOG.values() if g.is_decidable == bool(g.undecidable)] == []


def test_nine_of_ten_seed_entries_are_decidable() -> None:
    decidable = {g.was for g in CATALOG.values() if g.is_decidable}
    decidable |= {m.was for g in CATALOG.values() if g.is_decidable for m in g.merged}
    assert [number for number in SEEDS if number not in decidable] == []


def test_every_training_entry_is_told_and_six_of_ten_can_be_decided() -> None:
    told = {number for g in CATALOG.values() for number in (g.was, *(m.was for m in g.merged))}
    assert [number for number in TRAINING if number not in told] == []
    own = [g for g in CATALOG.values() if {g.was, *(m.was for m in g.merged)} & set(TRAINING)]
    assert sum(g.is_decidable for g in own) >= 0.6 * len(own)


def test_every_condition_reads_and_speaks_of_observations_that_exist() -> None:
    wrong = []
    for gotcha in CATALOG.values():
        for condition in (*gotcha.confirm, *gotcha.refute, *gotcha.weak):
            for predicate in grammar.parse(condition):
                for name in filter(None, (predicate.what, predicate.other)):
                    if name not in vocabulary.observations():
                        wrong.append(f"{gotcha.id}: {name}")
    assert wrong == []


def test_every_entry_says_what_to_type_and_what_it_shows() -> None:
    assert [g.id for g in CATALOG.values() if not g.check] == []


def test_every_gotcha_that_another_names_exists() -> None:
    named = {name for g in CATALOG.values() for name in (*g.refines, *g.see)}
    assert named - set(CATALOG) == set()


def test_every_specimen_is_judged_as_its_name_says() -> None:
    missed = []
    for file in FILES:
        case = evidence.from_document(json.loads(file.read_text(encoding="utf-8")), gotchas())
        status = {f.id: f.status for f in reason(gotchas(), case).findings}.get(file.parent.name)
        is_right = status == "confirmed" if file.name.startswith("hit") else status not in ("confirmed", "conflict")
        if not is_right:
            missed.append(f"{file.parent.name}/{file.name}: {status}")
    assert not missed, "\n".join(missed)


def test_every_gotcha_has_a_specimen_that_hits_and_one_that_misses() -> None:
    bare = [
        gotcha.id
        for gotcha in CATALOG.values()
        if not gotcha.undecidable
        for kind in ("hit", "miss")
        if not list((SPECIMENS / gotcha.id).glob(f"{kind}-*.json"))
    ]
    assert bare == []
    decidable = {gotcha.id for gotcha in CATALOG.values() if not gotcha.undecidable}
    assert {path.name for path in SPECIMENS.iterdir()} == decidable


BARE = """id = "a-thing"
title = "a thing"
theme = "process"
scope = ["universal"]
severity = "note"
role = "cause"
cause = "why"
fix = "what to do"
{extra}
[symptom]
en = "what is seen"
zh = "现象"
"""


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ("", "needs either conditions"),
        ('confirm = ["run.alive == false"]\nundecidable = "both"', "keys are not"),
        ('undecidable = "reason"\nconfirm = ["run.alive == false"]', "needs either conditions"),
        ('colour = "red"', "unknown key"),
        ('tier = 3\nconfirm = ["run.alive == false"]', "keys are not in the order"),
    ],
)
def test_a_file_that_breaks_the_schema_is_refused_by_name(extra: str, says: str) -> None:
    with pytest.raises(BadGotcha, match=says):
        parse_gotcha("a-thing.toml", BARE.format(extra=extra))


def test_a_file_of_the_schema_is_read() -> None:
    gotcha = parse_gotcha("a-thing.toml", BARE.format(extra='confirm = ["run.alive == false"]'))
    assert isinstance(gotcha, Gotcha)
    assert gotcha.is_decidable
