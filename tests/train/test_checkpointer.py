"""What the Checkpointer promises a script, tried in one process: `again` is what the next start of the script does."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from sojourn.formats.torch import zip as torch_zip
from sojourn.train import Batches, Checkpointer, preempt
from sojourn.train.best import BadBest
from sojourn.train.pace import BadPace
from sojourn.train.progress import NoNumber
from sojourn.train.run_env import BadUse
from sojourn.train.saving.commit import Superseded
from sojourn.train.saving.folder import FolderBusy
from sojourn.train.state.loaders import PositionLost
from sojourn.train.state.state import BadItem, OtherState
from tests.train.killing import environment


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.pt"))


def test_restores_items_in_place_so_that_every_other_reference_sees_it(tmp_path: Path) -> None:
    array, inner = np.arange(3.0), np.ones(2)
    ckpt = Checkpointer(array=array, box={"inner": inner, "n": 1})
    ckpt.save()
    array[:], inner[:] = 7, 8
    box: dict[str, Any] = {"new": 1, "inner": inner, "n": 2}
    again = Checkpointer(array=array, box=box)
    assert again.resumed and array.tolist() == [0, 1, 2]
    assert box == {"inner": inner, "n": 1} and inner.tolist() == [1, 1] and list(box) == ["inner", "n"]


def test_without_anything_to_go_on_from_it_says_so_and_changes_nothing() -> None:
    array = np.arange(3.0)
    ckpt = Checkpointer(array=array)
    assert (ckpt.resumed, ckpt.epoch, ckpt.step_count, array.tolist()) == (False, 0, 0, [0, 1, 2])


@pytest.mark.parametrize("value", [3, 1.5, "text", None, (1, 2), object()])
def test_refuses_an_item_that_could_not_be_put_back(value: object) -> None:
    with pytest.raises(BadItem, match="x cannot be an item"):
        Checkpointer(x=value)


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"best": ("accuracy", "highest")}, BadBest),
        ({"best": "accuracy"}, BadBest),
        ({"keep": 0}, BadUse),
        ({"sojourn": {}}, BadUse),
        ({"every_s": 0}, BadPace),
        ({"every_steps": -1}, BadPace),
        ({"mtbf_s": 0}, BadPace),
    ],
)
def test_refuses_settings_that_mean_nothing(wrong: dict, error: type) -> None:
    with pytest.raises(error):
        Checkpointer(**wrong)


def test_refuses_a_checkpoint_of_other_items_and_uses_none_of_it() -> None:
    Checkpointer(a=np.zeros(2)).save()
    a = np.ones(2)
    with pytest.raises(OtherState, match="it holds a; the Checkpointer was given a, b"):
        Checkpointer(a=a, b={})
    with pytest.raises(OtherState, match="saved float64"):
        Checkpointer(a=np.ones(3))
    assert a.tolist() == [1, 1]


@pytest.mark.parametrize("keep", [1, 3])
def test_keeps_the_newest_and_never_fewer_than_one(keep: int, tmp_path: Path) -> None:
    ckpt = Checkpointer(keep=keep, every_steps=1, state={})
    for count in range(1, 6):
        ckpt.step()
        found = names(tmp_path / "checkpoints")
        assert found == ["ckpt-t000001-s%08d.pt" % step for step in range(max(1, count - keep + 1), count + 1)]
    assert json.loads((tmp_path / "checkpoints/latest.json").read_text())["path"] == found[-1]


@pytest.mark.parametrize("mode, values, best", [("max", [1, 3, 2, 3], 3), ("min", [5, float("nan"), 4, 6], 4)])
def test_best_is_the_best_epoch_in_its_direction(mode: str, values: list, best: float, tmp_path: Path) -> None:
    state = {"epoch": -1}
    ckpt = Checkpointer(best=("score", mode), state=state)
    for epoch in ckpt.epochs(4):
        state["epoch"] = epoch
        ckpt.end_epoch(score=values[epoch])
    opened = torch_zip.read_zip(str(tmp_path / "checkpoints/best.pt"))
    assert opened.facts["best"]["value"] == best and values[opened.tree["state"]["epoch"]] == best
    assert opened.facts["best"]["epoch"] == values.index(best) + 1


def test_best_goes_on_after_a_restart_and_a_worse_epoch_does_not_take_its_place(tmp_path: Path) -> None:
    ckpt = Checkpointer(best=("score", "max"), state={})
    for _ in ckpt.epochs(1):
        ckpt.end_epoch(score=5)
    ckpt = Checkpointer(best=("score", "max"), state={})
    for _ in ckpt.epochs(2):
        ckpt.end_epoch(score=4)
    assert torch_zip.facts(str(tmp_path / "checkpoints/best.pt"))["best"]["value"] == 5


def test_best_that_a_kill_left_behind_is_made_good_at_the_next_start(tmp_path: Path) -> None:
    ckpt = Checkpointer(best=("score", "max"), state={})
    for _ in ckpt.epochs(1):
        ckpt.end_epoch(score=5)
    (tmp_path / "checkpoints/best.pt").unlink()  # as when killed between the save and the link
    Checkpointer(best=("score", "max"), state={})
    assert torch_zip.facts(str(tmp_path / "checkpoints/best.pt"))["best"]["value"] == 5


def test_the_metric_of_best_must_be_given() -> None:
    ckpt = Checkpointer(best=("accuracy", "max"), state={})
    with pytest.raises(BadBest, match="was not given accuracy; it was given loss"):
        ckpt.end_epoch(loss=1)


def test_a_metric_must_be_a_number() -> None:
    with pytest.raises(NoNumber, match="loss"):
        Checkpointer(state={}).step(loss="small")


def test_steps_and_epochs_are_counted_over_all_starts() -> None:
    for want in (1, 2, 3):
        ckpt = Checkpointer(state={})
        for _ in ckpt.epochs(want):
            for _ in ckpt.batches([1, 2, 3, 4]):
                ckpt.step()
        assert (ckpt.epoch, ckpt.step_count) == (want, 4 * want)


def test_goes_on_behind_the_batch_it_was_killed_at() -> None:
    ckpt = Checkpointer(state={}, every_steps=1)
    seen = []
    for batch in ckpt.batches(list("abcdef")):
        seen.append(batch)
        ckpt.step()
        if batch == "c":
            break
    again = Checkpointer(state={}, every_steps=1)
    seen += list(again.batches(list("abcdef")))
    assert "".join(seen) == "abcdef"


def test_what_the_top_of_an_epoch_does_again_is_undone(tmp_path: Path) -> None:
    def train(stop_at: int | None) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        totals: dict[str, Any] = {"sum": 0, "tops": 0}
        ckpt = Checkpointer(totals=totals, rng=rng, every_steps=1)
        for _ in ckpt.epochs(2):
            totals["sum"] = 0
            totals["tops"] += 1
            order = rng.permutation(5)
            for index in ckpt.batches(range(5)):
                totals["sum"] += int(order[index]) * (index + 1) + random.randrange(9)
                ckpt.step()
                if ckpt.step_count == stop_at:
                    return totals
        return totals

    random.seed(5)
    whole = train(None)
    for stop_at in range(1, 10):
        for path in (tmp_path / "checkpoints").iterdir():
            path.unlink()
        random.seed(5)
        train(stop_at)
        random.seed(99)
        assert train(None) == whole, stop_at


def test_two_passes_in_one_epoch_and_steps_behind_them_are_each_gone_on_from() -> None:
    def train(folder: str, stop_at: int | None) -> list[Any]:
        log: dict[str, list[Any]] = {"seen": []}
        ckpt = Checkpointer(folder=folder, log=log, every_steps=1)
        for epoch in ckpt.epochs(2):
            for name, data in (("a", range(3)), ("b", range(10, 12))):
                for item in ckpt.batches(data):
                    log["seen"].append((epoch, name, item, random.random()))
                    ckpt.step()
                    if ckpt.step_count == stop_at:
                        return []
            for tail in range(2):
                log["seen"].append((epoch, "tail", tail, random.random()))
                ckpt.step()
                if ckpt.step_count == stop_at:
                    return []
        return log["seen"]

    random.seed(5)
    whole = train("whole", None)
    assert len(whole) == 14
    for stop_at in range(1, 14):
        random.seed(5)
        train("f%d" % stop_at, stop_at)
        assert train("f%d" % stop_at, None) == whole, stop_at


def test_a_loop_of_its_own_goes_on_from_the_step_count() -> None:
    state = {"x": 0}
    for stop in (3, 7):
        ckpt = Checkpointer(state=state, every_steps=1)
        while ckpt.step_count < stop:
            state["x"] += ckpt.step_count
            ckpt.step()
    assert state["x"] == sum(range(7))


def test_a_loop_that_reads_past_batches_is_saved_at_ends_of_epochs_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt = Checkpointer(state={}, every_steps=1)
    for _ in ckpt.epochs(2):
        for _ in range(3):
            ckpt.step()
            assert all(torch_zip.facts(str(path))["step"] % 3 == 0 for path in (tmp_path / "checkpoints").glob("*.pt"))
    assert capsys.readouterr().err.count("only ends of epochs are saved") == 1
    assert names(tmp_path / "checkpoints") == ["ckpt-t000001-s00000003.pt", "ckpt-t000001-s00000006.pt"]


def test_stopping_early_behind_end_epoch_is_saved(tmp_path: Path) -> None:
    state: dict[str, int] = {}
    ckpt = Checkpointer(state=state, every_s=1000)
    for epoch in ckpt.epochs(100):
        state["epoch"] = epoch
        ckpt.end_epoch()
        if epoch == 2:
            break
    gc.collect()
    again: dict[str, int] = {}
    assert Checkpointer(state=again).epoch == 3 and again == {"epoch": 2}


def test_an_error_in_the_loop_saves_nothing_half_done(tmp_path: Path) -> None:
    state = {"x": 0}
    with pytest.raises(ZeroDivisionError):
        ckpt = Checkpointer(state=state, every_s=1000)
        for _ in ckpt.epochs(2):
            for item in ckpt.batches([1, 2, 3]):
                state["x"] += item
                ckpt.step()
                state["x"] //= item - 2
    gc.collect()
    assert names(tmp_path / "checkpoints") == []


@pytest.mark.parametrize("loader", [iter([1]), (i for i in range(3)), zip([1], [2]), map(str, [1])], ids=type)
def test_refuses_to_keep_the_position_in_what_is_read_only_once(loader: Any) -> None:
    with pytest.raises(PositionLost, match="can be read only once"):
        list(Checkpointer(state={}).batches(loader))


def test_refuses_a_loader_whose_generator_nobody_keeps() -> None:
    loader = Batches(np.arange(4), size=2, rng=np.random.default_rng(0))
    with pytest.raises(PositionLost, match=r"loader=\.\.\."):
        list(Checkpointer(state={}).batches(loader))
    assert len(list(Checkpointer(state={}, loader=loader).batches())) == 2
    assert len(list(Checkpointer(folder="b", state={}, any_name=loader.generator).batches(loader))) == 2


def test_refuses_to_go_on_in_a_loader_of_another_length() -> None:
    ckpt = Checkpointer(state={}, every_steps=1)
    for _ in ckpt.batches([1, 2, 3]):
        ckpt.step()
        break
    with pytest.raises(PositionLost, match="had 3 batches when the checkpoint was written, now 2"):
        list(Checkpointer(state={}).batches([1, 2]))


def test_refuses_a_pass_inside_a_pass() -> None:
    ckpt = Checkpointer(state={})
    with pytest.raises(BadUse, match="inside"):
        for _ in ckpt.batches([1, 2]):
            list(ckpt.batches([1, 2]))


def test_says_when_random_numbers_are_drawn_behind_the_end_of_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    ckpt = Checkpointer(state={})
    for _ in ckpt.epochs(3):
        ckpt.end_epoch()
        random.random()
    assert capsys.readouterr().err.count("put it last") == 1


def test_a_later_checkpointer_of_the_process_takes_the_folder_over() -> None:
    first = Checkpointer(state={}, every_steps=1)
    second = Checkpointer(state={}, every_steps=1)
    second.step()
    with pytest.raises(FolderBusy):
        first.step()


def test_says_size_pace_and_disk_budget_before_the_first_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ckpt = Checkpointer(array=np.zeros(250000, np.float32), best=("a", "max"), every_steps=1)
    ckpt.step()
    said = capsys.readouterr().err
    assert "a checkpoint is 9" in said and "written every step\n" in said
    assert "the newest 2 and best.pt stay in %s: up to 3.9 MiB, free" % (tmp_path / "checkpoints") in said


class TestUnderSojourn:
    @pytest.fixture(autouse=True)
    def run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = tmp_path / "run"
        (root / "progress").mkdir(parents=True)
        monkeypatch.setenv("SOJOURN_RUN_DIR", str(root))
        monkeypatch.setenv("SOJOURN_CHECKPOINT_DIR", str(root / "checkpoints"))
        monkeypatch.setenv("SOJOURN_PROGRESS", str(root / "progress/1.json"))
        monkeypatch.setenv("SOJOURN_TOKEN", "4")
        return root

    def progress(self, root: Path) -> Any:
        return json.loads((root / "progress/1.json").read_text())

    def test_checkpoints_lie_in_the_run_and_carry_its_token(self, run: Path) -> None:
        Checkpointer(state={}).save()
        assert names(run / "checkpoints") == ["ckpt-t000004-s00000000.pt"]

    def test_a_relative_folder_lies_in_the_root_and_not_in_the_working_copy(self, run: Path) -> None:
        assert Checkpointer(folder="more/gan", state={}).folder == str(run / "more/gan")

    def test_progress_tells_steps_total_metrics_and_checkpoint(self, run: Path) -> None:
        ckpt = Checkpointer(state={}, every_steps=2)
        for _ in ckpt.epochs(3):
            for _ in ckpt.batches([1, 2]):
                ckpt.step(loss=np.float32(0.5), bad=float("nan"))
            ckpt.end_epoch(accuracy=0.75)
            if ckpt.epoch == 2:
                seen = self.progress(run)
        assert {key: seen[key] for key in ("step", "total", "epoch")} == {"step": 4, "total": 6, "epoch": 2}
        assert seen["metrics"] == {"loss": 0.5, "bad": None, "accuracy": 0.75}
        path = "checkpoints/ckpt-t000004-s00000004.pt"
        assert seen["checkpoint"].items() > {"path": path, "step": 4, "bytes": (run / path).stat().st_size}.items()
        assert seen["at"].endswith("Z")
        assert self.progress(run)["step"] == 6

    def test_progress_is_not_written_more_than_about_once_a_second(self, run: Path) -> None:
        ckpt = Checkpointer(state={}, every_s=1000)
        stamps = set()
        for _ in range(200):
            ckpt.step()
            stamps.add((run / "progress/1.json").stat().st_mtime_ns)
        assert len(stamps) <= 2 + (max(stamps) - min(stamps)) / 1e9  # however slow the machine is

    def test_a_lower_token_does_not_win_however_far_it_came(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old = Checkpointer(state={"who": "old"}, every_steps=1)
        monkeypatch.setenv("SOJOURN_TOKEN", "5")
        state = {"who": "new"}
        new = Checkpointer(folder=run / "elsewhere", state=state, every_steps=1)
        new.step()
        for name in names(run / "elsewhere"):
            (run / "checkpoints" / name).write_bytes((run / "elsewhere" / name).read_bytes())
        with pytest.raises(Superseded, match=r"\(fencing token 5\)"):
            for _ in range(50):
                old.step()
        assert names(run / "checkpoints") == ["ckpt-t000005-s00000001.pt"]
        monkeypatch.setenv("SOJOURN_TOKEN", "6")
        third: dict[str, str] = {}
        Checkpointer(state=third)
        assert third == {"who": "new"}

    def test_an_attempt_finds_out_that_a_later_one_has_begun_before_that_has_saved(
        self, run: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code = "from sojourn.train import Checkpointer; Checkpointer(state={})"
        old = Checkpointer(state={}, every_steps=1)
        old.step()
        env = environment(SOJOURN_CHECKPOINT_DIR=str(run / "checkpoints"), SOJOURN_TOKEN="5")
        subprocess.run([sys.executable, "-c", code], env=env, check=True)
        with pytest.raises(Superseded, match=r"\(fencing token 5\)"):
            old.step()
        assert [path.name for path in (run / "checkpoints").iterdir() if path.is_dir()] == [".t000005.fence"]

    @pytest.mark.parametrize("count", ["2", "16"])
    def test_several_processes_are_refused_in_clear_words(self, count: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", count)
        with pytest.raises(Exception, match=count + " processes are training together"):
            Checkpointer(state={})
