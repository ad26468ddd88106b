"""The Iron Law: each condition alone keeps a lease, and nothing but `clear` makes a Clearance."""

import ast
import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sojourn
from sojourn.core.law import Clearance, Facts, Standing, Withheld, check
from sojourn.core.values import Lease, State
from sojourn.wire.errors import Defect
from sojourn.wire.manifest import digest_of, roster_digest
from tests.core.laws import LEASE, NOW_S, clear, judge, receipt, row, standing, withheld

pytestmark = pytest.mark.promise


def test_what_is_home_and_proven_is_let_go_by_its_name() -> None:
    clearance = clear(LEASE, [standing("b"), standing("a")], "gpu-box", NOW_S)
    assert (clearance.lease, clearance.native, clearance.runs, clearance.at_s) == ("gpu-box", "n-1", ("a", "b"), NOW_S)


def test_a_lease_that_no_run_was_ever_on_is_let_go() -> None:
    assert clear(LEASE, [], "gpu-box", NOW_S).runs == ()


# ---- each condition alone ----


@pytest.mark.parametrize("typed", ["", "gpu", "gpu-bo", "gpu-box ", "GPU-BOX", "gpu-box-2", "digits", "y", "yes"])
def test_only_the_exact_name_lets_go(typed: str) -> None:
    (lack,) = withheld(standing(), typed=typed)
    assert lack.endswith("type exactly 'gpu-box'")


@pytest.mark.parametrize("state", [state for state in State if not state.is_final])
def test_a_run_that_has_not_ended_keeps_it(state: State) -> None:
    assert withheld(standing(state=state)) == [f"digits: is {state.value}"]


@pytest.mark.parametrize("state", [state for state in State if not state.is_final])
def test_a_run_that_may_live_where_we_cannot_see_keeps_it(state: State) -> None:
    (lack,) = withheld(standing(state=state, is_reachable=False, is_fresh=False))
    assert lack == "digits: cannot be reached, and was not known to have ended"


@pytest.mark.parametrize("state", [state for state in State if state.is_final])
def test_an_end_of_any_kind_lets_go_when_all_it_made_is_home(state: State) -> None:
    assert clear(LEASE, [standing(state=state)], "gpu-box", NOW_S)


def test_a_run_that_was_only_planned_holds_nothing() -> None:
    planned = Standing("digits", State.PLANNED, is_launched=False)
    assert clear(LEASE, [planned], "gpu-box", NOW_S).runs == ("digits",)


def test_outputs_that_were_never_listed_keep_it() -> None:
    assert withheld(standing(digest="", verified="")) == ["digits: has outputs that were not listed"]
    assert withheld(standing(digest="", verified="", is_reachable=False)) == [
        "digits: cannot be reached, and its outputs were never listed"
    ]


def test_a_box_that_answers_is_listed_again() -> None:
    assert withheld(standing(is_fresh=False)) == ["digits: is reachable, but its outputs were not listed again"]


def test_where_nothing_can_be_listed_again_the_sealed_manifest_counts() -> None:
    assert clear(LEASE, [standing(is_fresh=False, is_reachable=False)], "gpu-box", NOW_S)


def test_rows_that_are_not_the_manifests_keep_it() -> None:
    assert withheld(standing(files=(), digest="d" * 64, verified="d" * 64)) == [
        "digits: has a list of outputs that does not match its digest"
    ]


def test_an_output_without_receipt_keeps_it() -> None:
    files = (row("best.pt"), row("metrics.json"))
    assert withheld(standing(files=files, verified="")) == ["digits: metrics.json is not home"]


def test_a_receipt_of_another_run_is_none() -> None:
    assert withheld(standing(receipts=(receipt("best.pt", "other"),), verified="")) == ["digits: best.pt is not home"]


@pytest.mark.parametrize("change", [{"sha256": "f" * 64}, {"bytes": 11}])
def test_an_output_that_changed_after_it_was_brought_home_keeps_it(change: dict) -> None:
    changed = standing(receipts=(receipt("best.pt", **change),))
    assert withheld(changed) == ["digits: best.pt changed on the box after it was brought home"]


@pytest.mark.parametrize(
    ("home", "words"), [("changed", "changed at"), ("gone", "no longer at"), (None, "no longer at")]
)
def test_a_copy_at_home_that_changed_or_went_keeps_it(home: str | None, words: str) -> None:
    states = {} if home is None else {"best.pt": home}
    assert withheld(standing(home=states)) == [f"digits: best.pt is {words} /home/best.pt"]


@pytest.mark.parametrize("proved", [(), ("bytes",), ("bytes", "structure")])
def test_an_output_that_was_never_loaded_keeps_it_until_it_is_accepted_by_its_path(proved: tuple[str, ...]) -> None:
    run = standing(receipts=(receipt("best.pt", proved=proved),))
    assert withheld(run) == ["digits: best.pt is home, byte for byte, and was not loaded: a library is missing"]
    assert withheld(run, accept=frozenset(["digits:other.pt"])) != []
    assert withheld(run, accept=frozenset(["digits:best"])) != []
    assert clear(LEASE, [run], "gpu-box", NOW_S, accept=frozenset(["digits:best.pt"]))


def test_an_unsafe_output_is_accepted_by_its_path_alone() -> None:
    run = standing(receipts=(receipt("best.pt", proved=("bytes",), kind="unsafe"),))
    assert withheld(run) == ["digits: best.pt is home, byte for byte, and would run code when it is loaded"]
    assert clear(LEASE, [run], "gpu-box", NOW_S, accept=frozenset(["digits:best.pt"]))


def test_content_that_was_read_without_building_its_classes_is_proven() -> None:
    assert clear(LEASE, [standing(receipts=(receipt("best.pt", proved=("bytes", "content")),))], "gpu-box", NOW_S)


def test_a_kind_that_no_loader_knows_counts_by_its_hash_and_is_shown() -> None:
    run = standing(receipts=(receipt("best.pt", proved=("bytes",), kind="unknown"),))
    assert clear(LEASE, [run], "gpu-box", NOW_S)
    assert judge(LEASE, [run], NOW_S).unproven == (("digits", "best.pt"),)


def test_a_manifest_that_is_not_the_verified_one_keeps_it() -> None:
    assert withheld(standing(verified="e" * 64)) == ["digits: has outputs that differ from the verified ones"]


def test_an_output_that_cannot_be_carried_keeps_it() -> None:
    (lack,) = withheld(standing(refused=(("data", "a symlink out of the run's root"),)))
    assert lack == "digits: data is on the box and cannot be brought home: a symlink out of the run's root"


def test_exactly_the_path_that_is_abandoned_is_given_up() -> None:
    files = (row("best.pt"), row("out/b.json"), row("checkpoint"))
    gone, links = (row("a.pt", "c" * 64),), (("out/ext", "a symlink out of the run's root"),)
    digest = digest_of({"files": files, "gone": gone})
    run = standing(files=files, gone=gone, refused=links, digest=digest, verified="")
    owed = {"out/b.json", "./checkpoint", "out/ext", "a.pt"}  # best.pt is home
    for path in owed:
        names = frozenset((f"digits:{path}",))
        held = {lack.split()[1] for lack in withheld(run, abandon=names, journaled=names)}
        assert held == {one.removeprefix("./") for one in owed - {path}}
    everything = frozenset(f"digits:{path}" for path in (*owed, "best.pt"))
    assert clear(LEASE, [run], "gpu-box", NOW_S, abandon=everything, journaled=everything)
    for name in ("digits:out", "digits:b.json", "digits:out/b", "other:out/b.json"):  # nothing less, and nothing more
        mistyped = frozenset((name,))
        lacks = withheld(run, abandon=mistyped, journaled=mistyped)
        assert f"{name}: cannot be abandoned: it was never on this lease" in lacks and len(lacks) == 1 + len(owed)


@pytest.mark.parametrize("month", ["2025-10", "2020-01", "soon", "2026", "06-2026"])
def test_stop_facts_that_are_stale_keep_it(month: str) -> None:
    (lack,) = withheld(standing(), lease=replace(LEASE, facts_verified=month))
    assert lack.startswith(f": what survives a stop was last checked in {month}")


@pytest.mark.parametrize(
    "change",
    [{"facts_verified": "2025-11"}, {"facts_verified": ""}, {"facts_verified": "2001-01", "rate_micro_per_h": 0}],
)
def test_stop_facts_that_are_young_or_not_needed_do_not(change: dict) -> None:
    assert clear(replace(LEASE, **change), [standing()], "gpu-box", NOW_S)


def test_one_run_of_several_keeps_them_all() -> None:
    assert withheld(standing("a"), standing("b", state=State.RUNNING), standing("c")) == ["b: is running"]


def test_everything_missing_is_said_at_once() -> None:
    found = withheld(
        standing("a", state=State.RUNNING),
        standing("b", files=(row("best.pt"), row("x"), row("y"))),
        typed="",
        lease=replace(LEASE, facts_verified="2020-01"),
    )
    assert [lack.split(":")[0] for lack in found] == ["", "a", "b", "b", ""]


# ---- what the user may do ----


def test_outputs_that_were_never_made_are_listed_and_acknowledged_with_the_name() -> None:
    failed = standing(state=State.FAILED, missing=("best.pt", "*.json"), files=(), receipts=())
    assert judge(LEASE, [failed], NOW_S).acknowledged == (("digits", "best.pt"), ("digits", "*.json"))
    assert clear(LEASE, [failed], "gpu-box", NOW_S)


def test_what_is_given_up_by_name_and_journaled_no_longer_keeps_it() -> None:
    lost = standing("a", receipts=())
    given_up = frozenset(["a"])
    assert clear(LEASE, [lost, standing("b")], "gpu-box", NOW_S, given_up, given_up).runs == ("a", "b")


def test_giving_up_one_run_gives_up_no_other() -> None:
    runs = [standing("a", receipts=()), standing("b", receipts=(), verified="")]
    assert withheld(*runs, abandon=frozenset("a"), journaled=frozenset("ab")) == ["b: best.pt is not home"]


def test_what_the_journal_says_of_an_earlier_request_gives_nothing_up_now() -> None:
    lost = standing("a", receipts=(), verified="")
    assert withheld(lost, journaled=frozenset("a")) == ["a: best.pt is not home"]


def test_what_is_given_up_is_journaled_first() -> None:
    (lack,) = withheld(standing("a", receipts=()), abandon=frozenset("a"))
    assert lack == "a: would be abandoned, but the journal does not record that yet"


def test_what_was_never_on_the_lease_cannot_be_given_up() -> None:
    (lack,) = withheld(standing("a"), abandon=frozenset(["z"]), journaled=frozenset(["z"]))
    assert lack == "z: cannot be abandoned: it was never on this lease"


def test_giving_up_takes_the_name_too() -> None:
    (lack,) = withheld(standing("a", receipts=()), typed="a", abandon=frozenset("a"), journaled=frozenset("a"))
    assert "type exactly 'gpu-box'" in lack


# ---- random standings ----

PATHS = st.sampled_from(["best.pt", "metrics.json", "x/y.bin"])
SHAS = st.sampled_from(["a" * 64, "b" * 64])
ROWS = st.lists(
    st.builds(row, PATHS, SHAS, st.just(10), st.sampled_from(["output", "log"])),
    max_size=3,
    unique_by=lambda r: r["path"],
)
RECEIPTS = st.lists(
    st.builds(
        receipt,
        PATHS,
        st.sampled_from(["r0", "r1", "other"]),
        sha256=SHAS,
        kind=st.sampled_from(["unknown", "json"]),
        proved=st.sampled_from([("bytes",), ("bytes", "structure", "load")]),
    ),
    max_size=3,
)


@st.composite
def standings(draw: Callable, run: str = "r0") -> Standing:
    files = tuple(draw(ROWS))
    true = roster_digest(files)
    digest = draw(st.sampled_from([true, true, true, "", "f" * 64]))
    return Standing(
        run,
        draw(st.sampled_from(list(State))),
        is_launched=draw(st.booleans()),
        is_reachable=draw(st.booleans()),
        is_fresh=draw(st.booleans()),
        digest=digest,
        files=files,
        missing=tuple(draw(st.lists(st.just("glob*"), max_size=1))),
        refused=tuple(draw(st.lists(st.just(("link", "a symlink out of the run's root")), max_size=1))),
        verified=draw(st.sampled_from([true, "f" * 64])),
        receipts=tuple(draw(RECEIPTS)),
        home=draw(st.dictionaries(PATHS, st.sampled_from(["same", "changed", "gone"]), max_size=3)),
    )


def is_proven_home(run: Standing) -> bool:
    """The law once more, written from its text and not from its code."""
    if not run.is_launched:
        return True
    loaded = {
        (r.path, r.sha256)
        for r in run.receipts
        if r.run == run.run and run.home.get(r.path) == "same" and ("load" in r.proved or r.kind == "unknown")
    }
    owed = {(r["path"], r["sha256"]) for r in run.files if r["role"] == "output"}
    is_listed = bool(run.digest) and run.digest == roster_digest(run.files)
    is_listed = is_listed and (run.digest == run.verified or not owed)
    return (
        run.state.is_final
        and is_listed
        and (run.is_fresh or not run.is_reachable)
        and not run.refused
        and owed <= loaded
    )


def may_go(run: Standing, abandon: frozenset[str]) -> bool:
    """It is proven home, or given up by its name, which what lives cannot be."""
    lives = run.is_reachable and not run.state.is_final
    return is_proven_home(run) or (run.run in abandon and not lives)


@given(
    st.tuples(standings("r0"), standings("r1")),
    st.frozensets(st.sampled_from(["r0", "r1"])),
    st.sampled_from(["gpu-box", "gpu-box", "gpu"]),
    st.sampled_from(["2026-06", "2026-06", "2019-01"]),
)
def test_no_random_standing_is_cleared_unless_every_condition_holds(runs, abandon, typed, month) -> None:
    lease = replace(LEASE, facts_verified=month)
    # Receipts of one run and path: the last one counts, as a later pull replaces an earlier one.
    runs = tuple(replace(r, receipts=tuple({(x.run, x.path): x for x in r.receipts}.values())) for r in runs)
    may = typed == "gpu-box" and month == "2026-06" and all(may_go(r, abandon) for r in runs)
    try:
        clear(lease, runs, typed, NOW_S, abandon, abandon)
    except Withheld:
        assert not may
    else:
        assert may


# ---- the type ----


@pytest.mark.parametrize("mint", [None, object(), "mint", True])
def test_a_clearance_cannot_be_made_by_hand(mint: object) -> None:
    with pytest.raises(Defect, match="can only be minted by core.law.clear"):
        Clearance(mint, LEASE, Facts((), NOW_S))


def test_a_clearance_cannot_be_changed_or_remade() -> None:
    clearance = clear(LEASE, [], "gpu-box", NOW_S)
    with pytest.raises(AttributeError):
        clearance.lease = "other"  # type: ignore[misc]
    with pytest.raises((TypeError, ValueError)):
        replace(clearance, lease="other")
    with pytest.raises(Defect):
        check(pickle.loads(pickle.dumps(clearance)), LEASE)
    check(copy.copy(clearance), LEASE)


@pytest.mark.parametrize("thing", [None, "gpu-box", object(), object.__new__(Clearance), {"lease": "gpu-box"}])
def test_nothing_else_passes_for_a_clearance(thing: object) -> None:
    with pytest.raises(Defect):
        check(thing, LEASE)


@pytest.mark.parametrize("other", [replace(LEASE, name="other"), replace(LEASE, native="n-2")])
def test_a_clearance_is_for_one_lease_alone(other: Lease) -> None:
    with pytest.raises(Defect, match="the clearance is for gpu-box"):
        check(clear(LEASE, [], "gpu-box", NOW_S), other)


def test_no_other_file_of_ours_makes_a_clearance_or_reaches_for_the_mint() -> None:
    package = Path(sojourn.__file__).parent
    makers, reachers = set(), set()
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if "Clearance" in (getattr(called, "id", ""), getattr(called, "attr", "")):
                makers.add(name)
            if "_MINT" in (getattr(node, "id", ""), getattr(node, "attr", "")) or "_MINT" in [
                alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)
            ]:
                reachers.add(name)
    assert makers == reachers == {"core/law.py"}


def test_an_output_that_was_pulled_and_does_not_load_is_not_only_sent_to_pull_again() -> None:
    files = (row("best.pt"), row("c.json"))
    (pulled,) = withheld(standing(files=files))
    assert pulled.startswith("digits: c.json was pulled but does not load") and "--abandon" in pulled
    (never,) = withheld(standing(files=files, verified=""))
    assert never == "digits: c.json is not home"
