"""The job file is read as written, and so are the task files people bring along."""

from pathlib import Path

import pytest

from sojourn.core.need import Need
from sojourn.core.values import Retry
from sojourn.store.job.keys import KEYS
from sojourn.store.job.read import read_job
from sojourn.store.job.values import JobFile, Mount, Rule, SweepSpec
from tests.store.jobs import read

WHOLE = """\
name: digits
workdir: .
site: local
resources: {accelerators: "A100:1", cpus: 4+, memory: 24+, disk_size: 100}
num_nodes: 1
envs: {DATA: /data/digits}
secrets: [WANDB_API_KEY]
file_mounts: {data: ./data}
setup: pip install -r requirements.txt
smoke: python train.py --steps 2
run: python train.py --epochs 30 --data ${DATA}
outputs: ["checkpoints/best.pt", "metrics.json"]
scratch: ["checkpoints/epoch_*.pt"]
retry: {attempts: 3, on: [preempted, node-failure, network]}
stall_after: 20m
max_duration: 12h
budget: 20 USD
rules:
  - {name: cuda-flake, pattern: "CUDNN_STATUS_EXECUTION_FAILED", action: retry}
hooks: {before_down: ./check.sh}
notify: ["ntfy://topic"]
after: tokenize
sweep:
  matrix: {lr: [0.10, 1e-2], seed: [0, 1]}
"""


def test_every_key_of_the_interface_is_read(folder: Path) -> None:
    assert read(folder, WHOLE) == JobFile(
        path=str(folder / "sojourn.yaml"),
        name="digits",
        workdir=str(folder),
        run="python train.py --epochs 30 --data /data/digits",
        site="local",
        need=Need((("A100", 1),), 4.0, True, 24.0, True, 100.0),
        envs={"DATA": "/data/digits"},
        secrets=("WANDB_API_KEY",),
        file_mounts=(Mount("data", str(folder / "data")),),
        setup="pip install -r requirements.txt",
        smoke="python train.py --steps 2",
        outputs=("checkpoints/best.pt", "metrics.json"),
        scratch=("checkpoints/epoch_*.pt",),
        retry=Retry(3, ("preempted", "node-failure", "network")),
        stall_after_s=1200.0,
        max_duration_s=43200.0,
        budget=(20_000_000, "USD"),
        rules=(Rule("cuda-flake", "CUDNN_STATUS_EXECUTION_FAILED", "retry"),),
        hooks={"before_down": "./check.sh"},
        notify=("ntfy://topic",),
        after=("tokenize",),
        sweep=SweepSpec({"lr": ("0.10", "1e-2"), "seed": ("0", "1")}),
    )


def test_one_line_is_a_job_and_its_name_is_the_folders(folder: Path) -> None:
    job = read(folder, "run: python train.py\n")
    assert (job.name, job.workdir, job.run, job.site, job.sweep) == (
        "my-project",
        str(folder),
        "python train.py",
        "",
        None,
    )


def test_relative_paths_start_at_the_job_files_folder_not_at_ours(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "code").mkdir()
    (folder / "sojourn.yaml").write_text("run: x\nworkdir: code\nfile_mounts: {d: data}\n")
    monkeypatch.chdir(folder.parent)
    job = read_job("My Project/sojourn.yaml")
    assert job.workdir == str(folder / "code") and job.file_mounts == (Mount("d", str(folder / "data")),)
    assert job.path == str(folder / "sojourn.yaml")


def test_a_home_path_is_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert read(folder, "run: x\nworkdir: ~/data\n").workdir == str(folder / "data")


@pytest.mark.parametrize(
    "text",
    [
        "run: x\r\nname: a\r\n",
        "\ufeffrun: x\nname: a\n",
        "# c\n---\nrun: x\nname: a\n...\n",
        "{run: x, name: a}",
        '"run": "x"\n"name": "a"\n',
    ],
)
def test_the_ways_of_writing_the_same_job_are_the_same(folder: Path, text: str) -> None:
    job = read(folder, text)
    assert (job.run, job.name) == ("x", "a")


def test_words_that_yaml_takes_for_other_things_stay_what_was_written(folder: Path) -> None:
    envs = (
        "A: yes, B: on, C: 12:30, D: 0x10, E: 1e-3, F: 010, G: 2026-11-21, H: 1_000, I: .inf, J: 'null', K: '', L: 1.10"
    )
    job = read(folder, f"run: x\nname: on\nenvs: {{{envs}}}\n")
    assert job.name == "on"
    assert job.envs == {
        "A": "yes", "B": "on", "C": "12:30", "D": "0x10", "E": "1e-3", "F": "010", "G": "2026-11-21", "H": "1_000",
        "I": ".inf", "J": "null", "K": "", "L": "1.10",
    }  # fmt: skip


def test_the_key_on_is_no_boolean(folder: Path) -> None:
    assert read(folder, "run: x\nretry:\n  attempts: 2\n  on: [preempted]\n").retry == Retry(2, ("preempted",))


@pytest.mark.parametrize(
    ("line", "read_as"),
    [
        ("accelerators: A100", (("A100", 1),)),
        ('accelerators: "A100:2"', (("A100", 2),)),
        ("accelerators: A100:2", (("A100", 2),)),
        ("accelerators: {A100: 2}", (("A100", 2),)),
        ("accelerators: [L4:1, 'H100:8']", (("L4", 1), ("H100", 8))),
        ("accelerators: {'L4:1', A100-80GB}", (("L4", 1), ("A100-80GB", 1))),
    ],
)
def test_the_ways_of_asking_for_accelerators(folder: Path, line: str, read_as: object) -> None:
    assert read(folder, f"run: x\nresources:\n  {line}\n").need.accelerators == read_as


@pytest.mark.parametrize(
    ("line", "gib", "more"),
    [("24", 24, False), ("24+", 24, True), ("64GB", 64, False), ("512MB+", 0.5, True), ("0.5", 0.5, False)],
)
def test_the_ways_of_asking_for_memory(folder: Path, line: str, gib: float, more: bool) -> None:
    need = read(folder, f"run: x\nresources: {{memory: {line}}}\n").need
    assert (need.memory_gib, need.memory_or_more) == (gib, more)


def test_one_value_is_a_list_of_one(folder: Path) -> None:
    job = read(folder, "run: x\noutputs: best.pt\nsecrets: TOKEN\nretry: {on: preempted}\n")
    assert (job.outputs, job.secrets, job.retry.on) == (("best.pt",), ("TOKEN",), ("preempted",))


def test_a_key_without_value_is_not_there(folder: Path) -> None:
    assert read(folder, "run: x\nsetup:\noutputs: ~\nresources:\nname: null\n") == read(folder, "run: x\n")


def test_anchors_and_merge_keys_work(folder: Path) -> None:
    cells = "- {name: a, envs: &e {L: 1, S: 2}}\n  - {name: b, envs: {<<: *e, S: 3}}\n"
    job = read(folder, f"run: &r python x\nsmoke: *r\nsweep:\n  cells:\n  {cells}")
    assert job.smoke == "python x" and job.sweep is not None
    assert job.sweep.cells == (("a", {"L": "1", "S": "2"}), ("b", {"L": "1", "S": "3"}))


SKYPILOT = """\
name: task
resources:
  infra: aws/us-east-1
  accelerators: H100:8
  cpus: 4+
  instance_type: p3.8xlarge
  use_spot: true
  image_id: docker:ubuntu
  any_of: [{infra: aws}, {infra: gcp}]
  disk_tier: best
  ports: 8081
  labels: {a: b}
  job_recovery: none
envs: {MODEL_SIZE: 13b}
secrets: {HF_TOKEN: null, WANDB_API_KEY: abc}
service: {readiness_probe: /v1}
config: {kubernetes: {provision_timeout: 600}}
event_callback: ./x.sh
experimental: {}
setup: pip install x
run: python train.py --size ${MODEL_SIZE} --rank ${SKYPILOT_NODE_RANK}
"""


def test_a_skypilot_task_is_read_and_what_means_nothing_here_is_named(folder: Path) -> None:
    job = read(folder, SKYPILOT)
    assert job.need.accelerators == (("H100", 8),) and job.secrets == ("HF_TOKEN", "WANDB_API_KEY")
    assert job.run == "python train.py --size 13b --rank ${SKYPILOT_NODE_RANK}"
    ignored = [warning.split("`")[1] for warning in job.warnings]
    assert sorted(ignored) == [
        "config", "event_callback", "experimental", "resources.any_of", "resources.disk_tier", "resources.image_id",
        "resources.infra", "resources.instance_type", "resources.job_recovery", "resources.labels", "resources.ports",
        "resources.use_spot", "service", "the value of secrets.WANDB_API_KEY",
    ]  # fmt: skip
    assert "abc" not in repr(job)
    assert job.warnings[0].startswith(f"{folder}/sojourn.yaml:")


def test_skypilots_outputs_are_ignored_with_a_warning(folder: Path) -> None:
    job = read(folder, "run: x\noutputs: {gs://b: 3}\n")
    assert job.outputs == () and "list of what must come home" in job.warnings[0]


def test_every_key_is_explained_on_its_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/job-file.md").read_text()
    assert [key for key in KEYS if f"| `{key}` |" not in page] == []
