"""`doctor` on this machine for real, and its rules on facts of machines that we do not have here."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sojourn.cli.show import doctor as show
from sojourn.core.values import Site
from sojourn.store.home import Store
from sojourn.verbs.context import Context
from sojourn.verbs.explain.doctor import Doctor, doctor
from sojourn.verbs.launch import checkup
from sojourn.wire.errors import Unreachable

GIB = 1 << 30
ROOM = {"free_bytes": 50 * GIB, "total_bytes": 100 * GIB, "free_inodes": 900_000, "total_inodes": 1_000_000}
HELLO: dict[str, Any] = {
    "base": "/home/ada/.local/share/sojourn",
    "host": "gpu-box",
    "user": "ada",
    "python": "/usr/bin/python3",
    "python_version": "3.10.12",
    "cpus": 64,
    "memory_bytes": 512 * GIB,
    "cgroup": {"version": 2, "memory_limit_bytes": None, "cpu_quota": None},
    "disks": {"/home/ada/.local/share/sojourn": ROOM},
    "gpus": [],
    "has": {"bash": True, "git": True, "tmux": False},
    "os": {"system": "Linux", "release": "6.8.0", "machine": "x86_64"},
    "now": "2026-11-21T13:03:00.000Z",
    "clock_offset_s": 0.2,
    "clock_unsure_s": 0.1,
}
PROBE = {"base": HELLO["base"], "base_parent": "/home/ada", "base_writable": "yes", "nvidia_nodes": "0", "uid": "1000"}
KILLS = {
    **PROBE,
    "booted_systemd": "yes",
    "session": "session-7.scope",
    "kill_user_processes": "yes",
    "kill_user_processes_from": "/etc/systemd/logind.conf",
}
GPU = Site("gpu", "ssh", address="gpu")


def judged(hello: Mapping[str, Any] = HELLO, probe: Mapping[str, Any] = PROBE, site: Site = GPU) -> list[str]:
    return [f"{f.severity} {f.id}" for f in checkup.check_site(site, {"link-drop"}, hello, probe)]


def disk(**changes: int) -> dict[str, Any]:
    return {**HELLO, "disks": {HELLO["base"]: {**ROOM, **changes}}}


def asked(site: str = "") -> Doctor:
    with Context(Store()) as ctx:
        return doctor(ctx, site)


def settings(text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "sojourn"
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(text)


def test_this_machine_is_looked_at_and_its_facts_are_its_own() -> None:
    answer = asked()
    assert answer.facts["host"] == os.uname().nodename and answer.facts["base_writable"] == "yes"
    assert answer.facts["cpus"] == len(os.sched_getaffinity(0))
    assert abs(answer.facts["clock_offset_s"]) <= answer.facts["clock_unsure_s"] + 0.01
    assert not [f for f in answer.findings if f.severity == "blocker"] and answer.exit_status in (0, 10)
    written = json.loads(json.dumps(answer.as_json()))
    assert written["schema"] == "sojourn/doctor/v1" and {"facts", "findings"} <= set(written)


def test_nothing_is_left_where_the_base_was_tried(private_home: Path) -> None:
    asked()
    assert not [path for path in private_home.rglob("*") if "doctor" in path.name]


def test_a_base_that_cannot_be_written_is_a_blocker_with_its_path() -> None:
    settings('[sites.odd]\nbase = "/proc/1/sojourn"\n')
    answer = asked("odd")
    (finding,) = answer.findings
    assert (finding.id, finding.status, finding.severity, answer.exit_status) == (
        "base-not-writable",
        "confirmed",
        "blocker",
        11,
    )
    assert "/proc/1/sojourn cannot be written" in finding.title and answer.next == "sojourn doctor odd"


def test_a_missing_tmux_is_a_blocker_only_for_the_launcher_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings('[sites.look]\nlauncher = "tmux"\n')
    assert "no-tmux" not in [f.id for f in asked("look").findings] or not shutil.which("tmux")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            if tool.name != "tmux" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))
    assert [(f.id, f.severity) for f in asked("look").findings if f.severity == "blocker"] == [("no-tmux", "blocker")]
    assert [f for f in asked().findings if f.severity == "blocker"] == []


def test_a_launcher_whose_systemd_does_not_run_is_a_blocker_with_what_to_do() -> None:
    if Path("/proc/1/comm").read_text().strip() == "systemd":
        return
    settings('[sites.unit]\nlauncher = "systemd"\n')
    (finding,) = [f for f in asked("unit").findings if f.severity == "blocker"]
    assert finding.id == "no-systemd" and "setsid" in finding.fix


def test_a_box_that_does_not_answer_is_no_finding() -> None:
    settings('[sites.away]\ntransport = "ssh"\naddress = "me@127.0.0.1:1"\n')
    with pytest.raises(Unreachable):
        asked("away")


def test_a_box_with_room_and_without_oddities_has_no_finding() -> None:
    assert judged() == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"free_bytes": 4 * GIB}, ["warning disk-nearly-full"]),
        ({"free_bytes": 6 * GIB}, []),
        ({"free_bytes": 1 << 20}, ["blocker disk-too-small"]),
        ({"free_inodes": 40_000}, ["warning inodes-nearly-used-up"]),
        ({"free_inodes": 10}, ["blocker inodes-too-few"]),
        ({"free_inodes": 0, "total_inodes": 0}, []),
    ],
)
def test_bytes_and_inodes_are_judged_each_for_itself(changes: dict[str, int], found: list[str]) -> None:
    assert judged(disk(**changes)) == found


def test_a_box_without_bash_is_a_blocker() -> None:
    assert judged({**HELLO, "has": {"bash": False}}) == ["blocker no-bash"]


@pytest.mark.parametrize(("limit", "found"), [(32 * GIB, ["warning memory-limit"]), (500 * GIB, []), (None, [])])
def test_a_memory_limit_far_below_the_machine_is_told(limit: int | None, found: list[str]) -> None:
    assert judged({**HELLO, "cgroup": {"version": 2, "memory_limit_bytes": limit}}) == found


def test_device_nodes_without_a_gpu_are_told_and_with_one_are_not() -> None:
    nodes = {**PROBE, "nvidia_nodes": "2"}
    assert judged(probe=nodes) == ["warning gpu-without-driver"]
    assert judged({**HELLO, "gpus": [{"name": "NVIDIA A100"}]}, nodes) == []


@pytest.mark.parametrize(
    ("offset_s", "unsure_s", "found"), [(-300.0, 0.1, ["note clock-offset"]), (1.0, 0.1, []), (4.0, 3.0, [])]
)
def test_a_clock_that_differs_by_more_than_the_way_takes_is_a_note(
    offset_s: float, unsure_s: float, found: list[str]
) -> None:
    assert judged({**HELLO, "clock_offset_s": offset_s, "clock_unsure_s": unsure_s}) == found


def test_a_logout_that_kills_is_a_blocker_for_what_runs_in_the_session() -> None:
    assert judged(probe=KILLS) == ["blocker kill-user-processes"]


@pytest.mark.parametrize(
    "spared",
    [
        {"kill_user_processes": "no"},
        {"session": ""},
        {"uid": "0"},
        {"booted_systemd": "no"},
    ],
)
def test_a_logout_spares_root_what_is_in_no_session_and_machines_without_logind(spared: dict[str, str]) -> None:
    assert judged(probe={**KILLS, **spared}) == []


def test_the_launcher_systemd_is_not_killed_by_a_logout() -> None:
    assert judged(probe=KILLS, site=Site("gpu", "ssh", "systemd")) == []


@pytest.mark.parametrize(
    ("lines", "value", "path"),
    [
        (["/etc/systemd/logind.conf yes"], "yes", "/etc/systemd/logind.conf"),
        (["/usr/lib/systemd/logind.conf yes", "/etc/systemd/logind.conf "], "no", ""),
        (["/etc/systemd/logind.conf yes", "/usr/lib/systemd/logind.conf.d/10.conf no"], "no", "10.conf"),
        (["/usr/lib/systemd/logind.conf.d/10.conf yes", "/etc/systemd/logind.conf.d/10.conf "], "no", ""),
        (["/run/systemd/logind.conf.d/20.conf yes", "/etc/systemd/logind.conf.d/10.conf no"], "yes", "20.conf"),
        ([], "no", ""),
    ],
)
def test_the_setting_in_force_is_the_last_of_the_drop_ins(lines: list[str], value: str, path: str) -> None:
    read = checkup.parse_probe(
        "".join(f"logind\t{line}\n" for line in ["", *lines]).encode() + b"uid\t0\nhello there\n"
    )
    assert read["kill_user_processes"] == value
    assert read["kill_user_processes_from"].endswith(path) and bool(read["kill_user_processes_from"]) is bool(path)


def test_findings_come_with_blockers_first() -> None:
    hello = {**disk(free_bytes=4 * GIB), "clock_offset_s": 100.0}
    assert judged(hello, KILLS) == [
        "blocker kill-user-processes",
        "warning disk-nearly-full",
        "note clock-offset",
    ]


def test_the_screen_fits_80_columns_and_says_what_to_do() -> None:
    hello = {**disk(free_bytes=4 * GIB), "cgroup": {"version": 2, "memory_limit_bytes": 32 * GIB, "cpu_quota": 7.5}}
    hello["gpus"] = [{"name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 80 * GIB}] * 2
    findings = tuple(checkup.check_site(GPU, set(), hello, KILLS))
    facts = {"transport": "ssh", "launcher": "setsid", **hello, **KILLS}
    shown = show.lines(Doctor("gpu", facts, findings, "sojourn doctor gpu", 11), 80)
    golden = Path(__file__).parent.parent / "cli" / "screens" / "doctor.txt"
    if os.environ.get("ACCEPT") == "1":
        golden.write_text("\n".join(shown) + "\n")
    assert "\n".join(shown) + "\n" == golden.read_text(), "To accept this: ACCEPT=1 and the same test again"
    assert max(len(line) for line in shown) <= 80
