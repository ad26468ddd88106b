"""What loads and no output names holds where its disk goes with the release; else it is listed."""

from dataclasses import replace

from tests.core.laws import LEASE, NOW_S, judge, standing, withheld

BEST = ("runs/best.pt", "10 5")


def test_it_holds_a_meter_and_a_final_release_and_is_listed_elsewhere() -> None:
    run = standing(unnamed=(BEST,))
    what = "digits: runs/best.pt looks like weights or a checkpoint, and no output names it"
    assert withheld(run) == [what]
    kept = replace(LEASE, is_final=False)
    assert withheld(run, lease=kept) == [what], "the machine ends, and nobody knows for how long its disk stays"
    free = replace(LEASE, is_final=False, provider="unmetered", rate_micro_per_h=0)
    told = judge(free, [run], NOW_S, ends_box=False)
    assert told.lacks == () and told.listed == (what,)
    assert judge(LEASE, [run], NOW_S, ends_box=False).lacks != (), "`clean` deletes the folder, whatever the meter"


def test_only_its_own_name_gives_it_up() -> None:
    run = standing(unnamed=(BEST, ("checkpoint", "1 1")))
    rest = ["digits: checkpoint looks like weights or a checkpoint, and no output names it"]
    assert (
        withheld(run, abandon=frozenset({"digits:runs/best.pt"}), journaled=frozenset({"digits:runs/best.pt"})) == rest
    )
    assert any("never on this lease" in lack for lack in withheld(run, abandon=frozenset({"digits:runs"})))


def test_what_was_given_up_is_bound_to_what_it_was() -> None:
    run = standing()
    marks = {replace(run, unnamed=rows).mark for rows in ((), (BEST,), (("runs/best.pt", "10 6"),))}
    assert len(marks) == 3 and run.mark == run.digest and replace(run, digest="", unnamed=(BEST,)).mark == ""
