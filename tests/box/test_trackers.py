"""Progress out of the files that trackers of others write; every form is one that the library itself wrote."""

from __future__ import annotations

import io
import os
import random
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.box.run.log_progress import LogProgress
from sojourn.box.run.progress import Progress
from sojourn.box.trackers import files as module
from sojourn.box.trackers.files import Files
from sojourn.box.trackers.tensorboard import Events
from sojourn.box.trackers.wandb import Run
from sojourn.formats import tfrecord
from tests.box.rig import Rig, found, heard, until

HERE = Path(__file__).parent / "trackers"
TRAINERS = HERE.parent.parent / "trainers"
HF_EVENTS = next(TRAINERS.glob("hf/runs/*/events.out.*"))
LIGHTNING_EVENTS = next(TRAINERS.glob("lightning/tb/version_0/events.out.*"))
LLAMA_FACTORY = '{"current_steps": 10, "total_steps": 300, "loss": 0.9, "lr": 1e-05, "epoch": 0.1, "percentage": 3.3}\n'
DETECTRON = '{"data_time": 0.01, "eta_seconds": 9.5, "iteration": 19, "loss_cls": 0.4, "total_loss": 1.25}\n'

REAL: dict[str, tuple[Path, dict[str, Any]]] = {
    "tensorboard of Hugging Face": (HF_EVENTS, {"step": 4, "epoch": 0, "train/loss": 3.037409}),
    "tensorboard of Lightning": (LIGHTNING_EVENTS, {"step": 7, "epoch": 1, "loss": 0.2012937, "val": 0.2713031}),
    "tensorboard of TensorFlow": (HERE / "events.out.tfevents.tensors", {"step": 10, "epoch_loss": 0.1}),
    "trainer_state.json": (
        TRAINERS / "hf/checkpoint-4/trainer_state.json",
        {"step": 4, "total": 4, "epoch": 0, "loss": 3.0374085903167725, "learning_rate": 1.25e-05},
    ),
    "metrics.csv of Lightning": (
        TRAINERS / "lightning/csv/version_0/metrics.csv",
        {"step": 7, "epoch": 1, "loss": 0.2012937366962433, "val": 0.27130311727523804, "lr-AdamW": 0.001},
    ),
    "summary.csv of timm": (TRAINERS / "timm/summary.csv", {"step": 2, "epoch": 2, "eval_top1": 52.0}),
    "results.csv of Ultralytics": (TRAINERS / "ultralytics/results.csv", {"step": 2, "metrics/mAP50(B)": 0.6}),
    "offline W&B": (
        HERE / "run-offline.wandb",
        {"step": 200, "epoch": 5, "train/loss": 0.1, "eval.accuracy": 0.7},
    ),
}


def begin(folder: Path) -> Files:
    since = folder / "begun.json"
    since.touch()
    os.utime(since, ns=(1, 1))
    (folder / "copy").mkdir(exist_ok=True)
    return Files((str(folder / "copy"), str(folder / "nowhere")), str(since))


def flat(value: dict[str, Any] | None) -> dict[str, Any]:
    assert value is not None and value["at"] and value["source"] in module._ORDER
    return {**{key: value[key] for key in ("step", "total", "epoch") if key in value}, **value["metrics"]}


def told(folder: Path, files: dict[str, str | bytes]) -> dict[str, Any] | None:
    looks = begin(folder)
    for name, data in files.items():
        path = folder / "copy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    looks.look(is_last=True)
    return looks.value


@pytest.mark.parametrize("name", REAL)
def test_what_the_library_wrote_tells_its_progress(tmp_path: Path, name: str) -> None:
    source, expected = REAL[name]
    found = flat(told(tmp_path, {f"lightning_logs/version_0/{source.name}": source.read_bytes()}))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("trainer_log.jsonl", LLAMA_FACTORY, {"step": 10, "total": 300, "epoch": 0, "loss": 0.9, "lr": 1e-05}),
        ("metrics.json", DETECTRON * 2, {"step": 19, "total_loss": 1.25, "loss_cls": 0.4}),
        ("training.log", "epoch,accuracy,loss\n0,0.5,1.5\n1,0.75,0.5\n", {"step": 1, "accuracy": 0.75, "loss": 0.5}),
        ("progress.csv", "time/total_timesteps,rollout/ep_rew_mean\n2048,22.5\n", {"step": 2048}),
    ],
)
def test_other_tables_by_the_names_of_their_columns(tmp_path: Path, name: str, text: str, expected: Any) -> None:
    found = flat(told(tmp_path, {f"logs/{name}": text}))
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize("name", REAL)
def test_a_file_that_ends_anywhere_never_tells_more_than_it_holds_and_is_read_on(tmp_path: Path, name: str) -> None:
    source, expected = REAL[name]
    whole = source.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 60)):
        looks = begin(tmp_path)
        path = tmp_path / "copy" / source.name
        path.write_bytes(whole[:cut])
        looks.look(is_last=True)
        assert looks.value is None or flat(looks.value)["step"] <= expected["step"]
        with path.open("ab") as f:
            f.write(whole[cut:])
        looks.look(is_last=True)
        assert flat(looks.value)["step"] == expected["step"], cut
        path.unlink()


class Counting(io.BytesIO):
    """Counts what is read of it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def event(step: int, tag: bytes, value: float, more: bytes = b"") -> bytes:
    inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    number, left = b"", step
    while left > 127:
        number, left = number + bytes([left & 127 | 128]), left >> 7
    data = (
        b"\x09" + struct.pack("<d", 1.0) + b"\x10" + number + bytes([left]) + b"\x2a" + bytes([len(summary)]) + summary
    )
    length = struct.pack("<Q", len(data + more))
    sums = (struct.pack("<I", tfrecord.masked(part)) for part in (length, data + more))
    return length + next(sums) + data + more + next(sums)


def test_of_a_flood_of_events_the_end_counts_and_little_is_read() -> None:
    data = b"".join(event(step, b"loss", step / 4) for step in range(20_000)) + b"torn"
    f, events = Counting(data), Events()
    events.read(f, len(data))
    assert events.value == {"step": 19_999, "metrics": {"loss": 4999.75}}
    assert f.count < 300_000 < len(data)
    more = data[:-4] + event(20_000, b"loss", 1.0)
    f = Counting(more)
    events.read(f, len(more))
    assert events.value["step"] == 20_000 and f.count < 10_000, "only what is new is read"


def test_pictures_between_the_scalars_are_passed_over_unread() -> None:
    picture = b"\x1a\xff\xff\x7f" + bytes((1 << 21) - 1)  # one long field
    part = event(7, b"loss", 0.5) + event(7, b"picture", 0.0, picture)
    data = part * 9 + event(8, b"loss", 0.25)
    f, events = Counting(data), Events()
    events.read(f, len(data))
    assert events.value == {"step": 8, "metrics": {"loss": 0.25}}
    assert f.count < 1 << 20 < len(data) // 16


def framed(records: list[bytes]) -> bytes:
    """As wandb's datastore frames them: blocks of 32 KiB, records in fragments."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        first = True
        while first or record:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                continue
            part, record = record[: left - 7], record[left - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            out += struct.pack("<IHB", 0, len(part), kind) + part
            first = False
    return bytes(out)


def unframed(data: bytes) -> list[bytes]:
    at, records = 7, []
    while at < len(data):
        (length,) = struct.unpack_from("<H", data, at + 4)
        records.append(data[at + 7 : at + 7 + length])
        at += 7 + length
    return records


def test_a_wandb_file_of_many_blocks_is_read_as_it_grows_and_from_its_end() -> None:
    records = unframed((HERE / "run-offline.wandb").read_bytes())
    whole = framed([*records[:6] * 500, b"\x32" + b"\xff\x7f" + bytes(16383), *records])
    assert whole[:9000] == framed(records[:6] * 500)[:9000] and len(whole) > 8 * 32768
    grown = Run()
    for size in [*range(0, len(whole), 20_011), len(whole)]:
        grown.read(Counting(whole[:size]), size)
    f, late = Counting(whole), Run()
    late.read(f, len(whole))
    assert grown.value == late.value and late.value["step"] == 200 and f.count < 3 * 32768


@pytest.mark.parametrize("seed", range(20))
def test_garbage_under_any_of_the_names_tells_nothing_and_breaks_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = ("events.out.tfevents.1", "run-1.wandb", "trainer_state.json", "metrics.csv", "metrics.jsonl")
    heads = (b"", b":W&B\xe1\xbe\x00", b"{", b'{"step": ', b"step,loss\n", bytes(12))
    size = chance.choice((1, 10, 1000, 200_000))
    data = chance.choice(heads) + chance.getrandbits(8 * size).to_bytes(size, "little")
    assert told(tmp_path, dict.fromkeys(names, data)) is None
    source, _ = REAL[sorted(REAL)[seed % len(REAL)]]
    bad = bytearray(source.read_bytes())
    for _ in range(5):
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
    told(tmp_path, {source.name: bytes(bad)})


def test_a_pipe_a_link_and_a_folder_of_such_a_name_hold_nobody(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    os.mkfifo(copy / "metrics.csv")
    (copy / "progress.csv").mkdir()
    (tmp_path / "elsewhere.csv").write_text("step,loss\n9,1\n")
    (copy / "results.csv").symlink_to(tmp_path / "elsewhere.csv")
    (copy / "loop").symlink_to(copy)
    assert told(tmp_path, {"runs/log.csv": "step,loss\n5,0.5\n"})
    looks = begin(tmp_path)
    assert looks.look(is_last=True) and flat(looks.value) == {"step": 5, "loss": 0.5}


def test_what_came_with_the_code_or_from_an_attempt_before_is_not_this_ones(tmp_path: Path) -> None:
    looks = begin(tmp_path)
    old = tmp_path / "copy/metrics.csv"
    old.write_text("step,loss\n900,0.5\n")
    os.utime(tmp_path / "begun.json")
    os.utime(old, ns=(time.time_ns() - 10**9, time.time_ns() - 10**9))
    assert not looks.look(is_last=True)
    with old.open("a") as f:
        f.write("901,0.25\n")
    assert looks.look(is_last=True) and flat(looks.value) == {"step": 901, "loss": 0.25}


def test_a_table_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    looks = begin(tmp_path)
    path = tmp_path / "copy/metrics.csv"
    path.write_text("step,loss\n1,0.5\n2,0.4\n")
    assert looks.look(is_last=True)
    path.write_text("loss,step,val\n0.3,3,\n")  # as Lightning does when a metric comes in
    assert looks.look(is_last=True) and flat(looks.value) == {"step": 3, "loss": 0.3}
    assert not looks.look(is_last=True)


def test_a_huge_working_copy_is_looked_at_in_part_and_seldom(tmp_path: Path) -> None:
    looks = begin(tmp_path)
    (tmp_path / "copy/metrics.csv").write_text("step,loss\n1,0.5\n")
    for number in range(15):
        folder = tmp_path / f"copy/data/{number}"
        folder.mkdir(parents=True)
        for name in range(100):
            (folder / f"{name}.jpg").touch()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    assert looks.look() and flat(looks.value)["step"] == 1
    cpu_s = time.process_time() - began_cpu_s
    assert looks._seek_s - began_s > 1000 * cpu_s, "not again before it was a thousandth of the time"


def test_files_together_take_the_steps_of_one_and_the_total_of_another(tmp_path: Path) -> None:
    state = (TRAINERS / "hf/checkpoint-2/trainer_state.json").read_bytes()
    found = flat(
        told(tmp_path, {"out/checkpoint-2/trainer_state.json": state, f"runs/{HF_EVENTS.name}": HF_EVENTS.read_bytes()})
    )
    assert found["step"] == 4 and found["total"] == 4
    assert found["train/loss"] == 3.037409 and "loss" not in found, "one metric has one name"


def test_the_log_comes_first_and_the_files_add_to_it(tmp_path: Path) -> None:
    looks = begin(tmp_path)
    log = tmp_path / "1.log"
    log.write_text("step 50 | loss 0.75\n")
    progress = Progress(str(tmp_path / "1.json"), LogProgress(str(log)), looks)
    (tmp_path / "copy/metrics.csv").write_text("step,epoch,train_loss,val_acc\n40,2,0.9,0.5\n")
    assert progress.look(is_last=True) and progress.value is not None
    assert (progress.step, progress.value["epoch"], progress.value["source"]) == (50, 2, "log")
    assert progress.value["metrics"] == {"loss": 0.75, "val_acc": 0.5}
    (tmp_path / "1.json").write_text('{"step": 7}')
    (tmp_path / "copy/metrics.csv").write_text("step,epoch,train_loss,val_acc\n60,2,0.9,0.5\n")
    assert progress.look(is_last=True) and progress.value == {"step": 7}, (
        "a training that reports itself needs no files"
    )


def test_a_log_without_steps_gets_those_of_the_files(tmp_path: Path) -> None:
    looks = begin(tmp_path)
    log = tmp_path / "1.log"
    log.write_text("{'loss': 3.0, 'epoch': 0.5}\n")
    shutil.copy(TRAINERS / "hf/checkpoint-4/trainer_state.json", tmp_path / "copy")
    os.utime(tmp_path / "copy/trainer_state.json")
    progress = Progress(str(tmp_path / "1.json"), LogProgress(str(log)), looks)
    assert progress.look(is_last=True) and progress.value is not None
    assert [progress.value[key] for key in ("step", "total", "epoch", "source")] == [4, 4, 0, "trainer_state"]
    assert progress.value["metrics"]["loss"] == 3.0


def test_a_silent_script_with_a_tracker_has_progress_and_can_stall(rig: Rig) -> None:
    script = (
        "mkdir -p logs; exec 3> logs/metrics.csv; echo step,loss >&3"
        "; for n in 1 2 3; do echo $n,0.$n >&3; sleep 0.2; done"
        "; until [ -e ../../go ]; do sleep 0.2; done; echo 4,0.4 >&3"
    )
    root = rig.place(script, stall_after_s=1.5)
    rig.supervise(root)
    assert until(lambda: [beat for beat in found(root, "beat") if (beat.get("progress") or {}).get("step") == 3])
    assert heard(root, "stalled")["quiet_s"] >= 1.5
    Path(root.path, "go").touch()
    assert until(lambda: found(root, "sealed"))
    last = [beat["progress"] for beat in found(root, "beat") if beat.get("progress")][-1]
    assert (last["step"], last["metrics"], last["source"]) == (4, {"loss": 0.4}, "csv"), "the last rows count too"


def test_events_that_a_living_writer_appends_are_followed(tmp_path: Path) -> None:
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path / "copy/runs/a"), flush_secs=1)
    looks = begin(tmp_path)
    for step in (10, 20, 3_000_000_000):
        writer.add_scalar("loss/train", 1 / step, step)
        writer.add_histogram("weights", list(range(1000)), step)
        writer.flush()  # hands it to a thread of its own
        until(lambda: looks.look(is_last=True))
        assert looks.value is not None
        assert looks.value["step"] == step and looks.value["metrics"] == {"loss/train": pytest.approx(1 / step)}
    writer.close()
