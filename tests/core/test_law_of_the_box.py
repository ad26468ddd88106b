"""The Iron Law of attempts, checkpoints and seals, of what others left on the box, and of what was only just seen."""

from dataclasses import replace

import pytest

from sojourn.core import law
from sojourn.core.law import Facts, Given, Stray, Withheld
from sojourn.core.values import State
from sojourn.wire.manifest import digest_of
from tests.core.laws import LEASE, NOW_S, clear, judge, receipt, row, standing, withheld

# ---- attempts, checkpoints, what was sealed ----


def whole(**parts) -> dict:
    """A standing's list of outputs with the digest that names it, verified."""
    digest = digest_of({"files": parts["files"], "earlier": parts.get("earlier", ()), "gone": parts.get("gone", ())})
    return {**parts, "digest": digest, "verified": digest}


def checkpoint(name: str, sha256: str = "c" * 64) -> dict:
    return {**row(f"checkpoints/{name}", sha256, role="checkpoint"), "set": name}


def test_the_newest_checkpoint_of_a_run_that_did_not_succeed_is_owed() -> None:
    one = checkpoint("ckpt-t000001-s00000075.pt")
    killed = standing(state=State.KILLED, **whole(files=(one,)), receipts=())
    (lack,) = withheld(killed)
    assert "its newest checkpoint, ckpt-t000001-s00000075.pt, is not home" in lack
    home = {one["path"]: "same"}
    assert clear(
        LEASE, [replace(killed, receipts=(receipt(one["path"], sha256="c" * 64),), home=home)], "gpu-box", NOW_S
    )


def test_a_checkpoint_is_given_up_by_its_own_name_and_nothing_else_with_it() -> None:
    files = (row("best.pt"), checkpoint("ckpt-t000001-s00000075.pt"))
    killed = standing(state=State.KILLED, **whole(files=files), receipts=())
    given_up = frozenset(["digits:checkpoint"])
    (lack,) = withheld(killed, abandon=given_up, journaled=given_up)
    assert lack.startswith("digits: best.pt was pulled but does not load")
    home = replace(killed, receipts=(receipt("best.pt"),))
    assert clear(LEASE, [home], "gpu-box", NOW_S, given_up, given_up)
    alone = standing(state=State.KILLED, **{**whole(files=files[1:]), "verified": ""}, receipts=())
    assert clear(LEASE, [alone], "gpu-box", NOW_S, given_up, given_up), "it need not be pulled to be given up"


def test_a_checkpoint_that_does_not_load_falls_back_to_the_one_before() -> None:
    bad, good = checkpoint("ckpt-t000001-s00000080.pt"), checkpoint("ckpt-t000001-s00000075.pt", "d" * 64)
    killed = standing(
        state=State.KILLED,
        **whole(files=(bad,), earlier=(good,)),
        receipts=(receipt(good["path"], sha256="d" * 64),),
        home={good["path"]: "same"},
    )
    assert "s00000080.pt, is not home" in withheld(killed)[0]
    failed = ({"path": bad["path"], "sha256": bad["sha256"]},)
    assert clear(LEASE, [replace(killed, failed=failed)], "gpu-box", NOW_S)
    both = (*failed, {"path": good["path"], "sha256": good["sha256"]})
    assert withheld(replace(killed, failed=both)) == ["digits: has checkpoints, and none of them loads"]


def test_of_a_path_the_newest_that_loads_is_owed_and_the_bad_one_is_listed() -> None:
    newest = {**row("best.pt", "e" * 64), "from": "attempts/2/best.pt"}
    older = {**row("best.pt"), "from": "attempts/1/best.pt"}
    failed = standing(state=State.FAILED, **whole(files=(newest,), earlier=(older,)))
    assert withheld(failed) == ["digits: best.pt changed on the box after it was brought home"]
    seen = replace(failed, failed=({"path": "best.pt", "sha256": "e" * 64},))
    assert clear(LEASE, [seen], "gpu-box", NOW_S)
    assert judge(LEASE, [seen], NOW_S).listed == (
        "digits: best.pt of attempt 2 does not load; that of attempt 1 is home",
    )


def test_what_was_sealed_and_is_gone_from_the_box_is_home_or_lost() -> None:
    gone = (row("best.pt"),)
    run = standing(**whole(files=(), gone=gone))
    assert clear(LEASE, [run], "gpu-box", NOW_S)
    (lack,) = withheld(replace(run, receipts=()))
    assert lack == "digits: best.pt was sealed by its keeper and then deleted on the box: it is lost"


def test_a_run_that_owes_nothing_that_exists_need_not_be_pulled() -> None:
    log = (row("logs/1.log", "b" * 64, 5, "log"),)
    failed = standing(state=State.FAILED, **{**whole(files=log), "verified": ""}, receipts=(), missing=("best.pt",))
    assert clear(LEASE, [failed], "gpu-box", NOW_S)


def test_what_the_box_says_is_alive_keeps_it_whatever_the_records_say() -> None:
    again = standing(lives="attempt 2 lives")
    assert withheld(again) == ["digits: attempt 2 lives"]
    named = frozenset(["digits"])
    assert withheld(again, abandon=named, journaled=named) == ["digits: attempt 2 lives"]


# ---- the rest of the box ----

STRAY = Stray("gpu:/base/other", "a run that this machine has no record of is there", "sojourn recover gpu")


def test_a_run_of_another_client_keeps_the_box_until_it_is_given_up_by_its_own_name() -> None:
    assert withheld(standing(), strays=(STRAY,)) == [f"{STRAY.name}: {STRAY.what}"]
    assert withheld(standing(), strays=(STRAY,), abandon=frozenset(["other"]), journaled=frozenset(["other"]))
    named = frozenset([STRAY.name])
    assert clear(LEASE, [standing()], "gpu-box", NOW_S, named, named, strays=(STRAY,))


def test_a_living_run_of_another_client_cannot_be_given_up() -> None:
    alive, named = replace(STRAY, is_alive=True), frozenset([STRAY.name])
    assert withheld(standing(), strays=(alive,), abandon=named, journaled=named)


def test_what_ends_no_machine_names_the_runs_of_others_and_goes_on() -> None:
    assert clear(LEASE, [standing()], "gpu-box", NOW_S, strays=(STRAY,), ends_box=False)
    judgement = judge(LEASE, [standing()], NOW_S, strays=(replace(STRAY, state="killed"),), ends_box=False)
    assert judgement.beside == (f"{STRAY.name}  killed, not touched",)
    assert STRAY.name not in " ".join(judgement.listed), "it is nothing to agree to"


def test_a_gap_in_the_journal_keeps_it() -> None:
    assert withheld(standing(), gaps=("record 7 of the journal is damaged",)) == [
        ": record 7 of the journal is damaged"
    ]


# ---- the clearance is of what was seen, and soon over ----


def test_facts_that_changed_since_they_were_shown_clear_nothing() -> None:
    shown, now = Facts((standing(),), NOW_S), Facts((standing(superseded=1),), NOW_S)
    with pytest.raises(Withheld, match="something changed after the list was shown"):
        law.clear(LEASE, now, Given("gpu-box", shown=shown.digest()), NOW_S)


@pytest.mark.parametrize("age_s", [-1.0, law.LASTS_S + 0.1, 3600.0])
def test_facts_that_are_old_clear_nothing_and_a_clearance_expires(age_s: float) -> None:
    facts = Facts((standing(),), NOW_S)
    given = Given("gpu-box", shown=facts.digest())
    with pytest.raises(Withheld, match="is older than 30 s"):
        law.clear(LEASE, facts, given, NOW_S + age_s)
    clearance = law.clear(LEASE, facts, given, NOW_S)
    law.in_time(clearance, NOW_S + law.LASTS_S)
    with pytest.raises(Withheld, match="is older than 30 s"):
        law.in_time(clearance, NOW_S + age_s)


def test_a_long_list_is_cut_and_the_rest_counted_by_reason() -> None:
    files = tuple(row(f"{n:03}.json") for n in range(100))
    with pytest.raises(Withheld) as caught:
        clear(LEASE, [standing(**{**whole(files=files), "verified": ""}, receipts=())], "gpu-box", NOW_S)
    lines = caught.value.fields["lines"]
    assert len(lines) == law.SHOWN + 1 and lines[-1] == "and 80 more: 80 not home"
    assert len(caught.value.missing) == 100
