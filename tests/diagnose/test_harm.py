"""Advice that harms in a state is not given in it, whatever probe is withheld and whatever another one claims."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn.diagnose import evidence, grammar, harm, vocabulary
from sojourn.diagnose.grammar import Facts, Known
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

BUNDLES = sorted((Path(__file__).parent / "specimens/bundles").glob("*.json"))
SPECIMENS = sorted((Path(__file__).parents[1] / "specimens").glob("*/hit-*.json"))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
# What a probe may claim against the others.
CLAIMS: dict[str, dict[str, Any]] = {
    "a kill": {"exits/1.json": {"rc": 0, "stdout": '{"rc":null,"signal":9}'}},
    "a failure": {"exits/1.json": {"rc": 0, "stdout": '{"rc":1,"signal":null}'}},
    "an error in the log": {"logs/1.log": {"rc": 0, "stdout": "step 1/9 loss 0.5\n" + OOM}},
    "memory kills": {"memory.oom_control": {"rc": 0, "stdout": "oom_kill_disable 0\nunder_oom 0\noom_kill 9\n"}},
    "a lost card": {"dmesg": {"rc": 0, "stdout": "[9.0] NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off\n"}},
}
STATES: tuple[dict[str, Any], ...] = (
    {"run.alive": True, "run.step_advancing": True},
    {"run.exit_code": 0, "run.done_record": True},
    {"disk.probe_write": "ok", "disk.bytes_pct": 0.3, "shm.pct": 0.99},
)


def facts(known: dict[str, Any]) -> Facts:
    return Facts({name: Known(value) for name, value in known.items()})


def test_every_pair_names_a_kind_of_advice_and_a_state_that_can_be_seen() -> None:
    for pair in harm.PAIRS:
        assert pair.kind in harm.KINDS and pair.instead.endswith(".")
        for one in grammar.parse(pair.state):
            assert one.what in vocabulary.observations()
    assert {pair.kind for pair in harm.PAIRS} == set(harm.KINDS)


@pytest.mark.parametrize("state", STATES, ids=["alive", "done", "another disk is full"])
def test_no_fix_of_the_catalog_gives_advice_that_harms_in_the_state(state: dict[str, Any]) -> None:
    banned = harm.forbidden(facts(state))
    assert banned
    given = {g.id: harm.kinds_of(harm.harmless(g.fix, facts(state))) & banned.keys() for g in gotchas()}
    assert {name: kinds for name, kinds in given.items() if kinds} == {}
    changed = [g.id for g in gotchas() if harm.harmless(g.fix, facts(state)) != g.fix]
    assert changed and all(harm.harmless(g.fix, facts({})) == g.fix for g in gotchas())


def _looks(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The evidence with each pair of: a probe or fact withheld, a claim of another against it."""
    probes, given = document.get("probes") or {}, document.get("facts") or {}
    changes: list[tuple[str, Any]] = [("probes", name) for name in probes] + [("facts", name) for name in given]
    changes += [("claim", name) for name in CLAIMS]
    for pair in itertools.chain(((one,) for one in changes), itertools.combinations(changes, 2)):
        gone = {name for _, name in pair}
        less = {name: told for name, told in probes.items() if name not in gone}
        for kind, name in pair:
            if kind == "claim":
                less = {**{k: v for k, v in less.items() if k not in CLAIMS[name]}, **CLAIMS[name]}
        yield {**document, "probes": less, "facts": {k: v for k, v in given.items() if k not in gone}}


def _harms(share: int) -> list[str]:
    """Advice of a verdict that harms in the state that the whole evidence shows; of every `share`-th look."""
    dice, wrong = random.Random(19), []
    for file in (*BUNDLES, *SPECIMENS):
        read = json.loads(file.read_text(encoding="utf-8"))
        document = read.get("evidence", read)
        banned = harm.forbidden(evidence.from_document(document, gotchas()).facts)
        for look in _looks(document) if banned else ():
            if dice.randrange(share):
                continue
            found = reason(gotchas(), evidence.from_document(look, gotchas())).verdict
            kinds = harm.kinds_of(found.fix) & banned.keys() if found else frozenset()
            if found and kinds:
                gone = sorted(
                    {*document.get("probes", {}), *document.get("facts", {})} - {*look["probes"], *look["facts"]}
                )
                wrong.append(f"{file.parent.name}/{file.stem} without {gone}: {found.id} says {sorted(kinds)}")
    return wrong


def test_no_verdict_gives_advice_that_harms_with_probes_withheld_or_contradicted() -> None:
    assert _harms(60) == []


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_no_verdict_gives_advice_that_harms_over_every_pair() -> None:
    assert _harms(1) == []
