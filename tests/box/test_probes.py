"""What /proc, control groups, disks and cards say, on this machine and on recorded ones."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Dict, Optional

import pytest

from sojourn.box.system import cgroup, disk, machine, members, process
from sojourn.box.system.wake import open_pidfd
from tests.box.rig import Rig, found, heard, until

GIB = 1 << 30


def recorded(tmp_path: Path, cgroups: str, mounts: str, files: Dict[str, str]) -> cgroup.Groups:
    """The control groups of a machine of which `files` were recorded, below tmp_path, which is `@` in `mounts`."""
    for path, text in files.items():
        target = tmp_path / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (tmp_path / "cgroup").write_text(cgroups)
    (tmp_path / "mountinfo").write_text(mounts.replace("@", str(tmp_path).replace(" ", "\\040")))
    return cgroup.Groups(str(tmp_path))


V2 = "30 23 0:26 / @/sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_version_2_limits_are_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    groups = recorded(
        tmp_path,
        "0::/user.slice/user-1000.slice/job\n",
        V2,
        {
            "/sys/fs/cgroup/user.slice/memory.max": "max\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/user.slice/user-1000.slice/memory.max": "%d\n" % (4 * GIB),
            "/sys/fs/cgroup/user.slice/user-1000.slice/cpu.max": "150000 100000\n",
            "/sys/fs/cgroup/user.slice/user-1000.slice/job/memory.max": "%d\n" % (9 * GIB),
            "/sys/fs/cgroup/user.slice/user-1000.slice/job/memory.current": "12345\n",
            "/sys/fs/cgroup/user.slice/user-1000.slice/job/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n",
            "/sys/fs/cgroup/user.slice/user-1000.slice/job/cpu.max": "400000 100000\n",
        },
    )
    assert groups.limits() == {"version": 2, "memory_limit_bytes": 4 * GIB, "cpu_quota": 1.5}
    assert (groups.memory_bytes(), groups.oom_kills()) == (12345, 3)


def test_version_2_in_a_container_whose_mount_shows_its_own_group_as_the_root(tmp_path: Path) -> None:
    groups = recorded(
        tmp_path,
        "0::/\n",
        "30 23 0:26 /kubepods/pod7/abc @/sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        {
            "/sys/fs/cgroup/memory.max": "%d\n" % GIB,
            "/sys/fs/cgroup/memory.current": "1\n",
            "/sys/fs/cgroup/memory.events": "oom_kill 0\n",
            "/sys/fs/cgroup/cpu.max": "50000 100000\n",
        },
    )
    assert groups.limits() == {"version": 2, "memory_limit_bytes": GIB, "cpu_quota": 0.5}
    assert groups.oom_kills() == 0


V1 = (
    "32 31 0:29 / @/sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / @/sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / @/sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)


def test_version_1_beside_an_almost_empty_version_2(tmp_path: Path) -> None:
    groups = recorded(
        tmp_path,
        "8:cpu,cpuacct:/slurm/job_7\n4:memory:/slurm/job_7/step_0\n0::/system.slice\n",
        V1,
        {
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": "250000\n",
            "/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000\n",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes": "%d\n" % (2 * GIB),
            "/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.usage_in_bytes": "777\n",
            "/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.oom_control": "under_oom 0\noom_kill 4\n",
            "/sys/fs/cgroup/memory/slurm/job_7/step_0/memory.stat": "cache 1\nhierarchical_memory_limit 2147483648\n",
        },
    )
    assert groups.limits() == {"version": 1, "memory_limit_bytes": 2 * GIB, "cpu_quota": 2.5}
    assert (groups.memory_bytes(), groups.oom_kills()) == (777, 4)


def test_version_1_in_a_container_that_is_told_a_path_it_cannot_see(tmp_path: Path) -> None:
    groups = recorded(
        tmp_path,
        "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n",
        V1.replace(" / @", " /docker/abc @"),
        {
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "%d\n" % GIB,
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
            "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    )
    assert groups.limits() == {"version": 1, "memory_limit_bytes": GIB, "cpu_quota": 3.0}


def test_no_control_groups_at_all_is_no_limit_and_no_error(tmp_path: Path) -> None:
    groups = cgroup.Groups(str(tmp_path / "nothing"))
    assert groups.limits() == {"version": 0, "memory_limit_bytes": None, "cpu_quota": None}
    assert groups.memory_bytes() is None


def test_a_mount_point_with_a_space_in_it_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    files = {"/sys/fs/cgroup/a/memory.max": "5\n", "/sys/fs/cgroup/a/memory.current": "1\n"}
    assert recorded(folder, "0::/a\n", V2, files).memory_limit_bytes() == 5


@pytest.mark.lab
def test_real_limits_of_this_machine_are_read_and_a_real_oom_kill_is_told(rig: Rig) -> None:
    top = Path("/sys/fs/cgroup/memory")
    if os.getuid() or not (top / "memory.limit_in_bytes").exists():
        pytest.skip("needs root and the memory controller of control groups version 1")
    group = top / ("sojourn-test-%d" % os.getpid())
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text("%d" % (80 << 20))
        hog = "python3 -c 'b = bytearray(300 << 20); print(len(b))'"
        root = rig.place("echo $$ >/dev/null; " + hog)
        argv = ["sh", "-c", 'echo $$ > "$1/cgroup.procs"; shift; exec "$@"', "x", str(group)]
        argv += [sys.executable, "-I", "-S", str(rig.keeper), "supervise", "--root", root.path]
        assert subprocess.run(argv, timeout=60).returncode == 0
        end = found(root, "ended")[0]
        assert end["state"] == "oom" and end["oom_kill_delta"] >= 1, end
        assert found(root, "attempt")[0]["limits"]["memory_bytes"] == 80 << 20
    finally:
        until(lambda: not (group / "cgroup.procs").read_text().split())
        group.rmdir()


def test_a_process_is_named_by_its_pid_and_start_together() -> None:
    with subprocess.Popen(["sleep", "600"]) as child:
        start = process.start_of(child.pid)
        assert start > 0 and process.is_alive(child.pid, start)
        assert not process.is_alive(child.pid, start + 1)
        child.kill()
        until(lambda: not process.is_alive(child.pid, start))  # a zombie does not live
        assert process.read_stat(child.pid) is not None
    assert not process.is_alive(child.pid, start)
    assert not process.is_alive(0, 0) and not process.is_alive(-1, 0)


def _resident(pid: int) -> Optional[process.Stat]:
    stat = process.read_stat(pid)
    return stat if stat is not None and stat.rss_bytes > 0 else None


def test_a_command_with_parentheses_and_spaces_does_not_shift_the_fields(tmp_path: Path) -> None:
    program = tmp_path / "a ) b (c"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([str(program), "600"]) as child:
        try:
            until(lambda: process.command(child.pid).startswith(str(program)))
            stat = until(lambda: _resident(child.pid))  # the kernel counts its pages late
            assert stat.ppid == os.getpid() and stat.state in "RSD"
            assert machine.age_s(stat.start) is not None and 0 <= machine.age_s(stat.start) < 60  # type: ignore[operator]
        finally:
            child.kill()


def test_members_are_all_below_wherever_a_thread_started_them() -> None:
    code = "import subprocess,threading,time\n"
    code += "t=threading.Thread(target=lambda: subprocess.run(['sleep','600'])); t.start(); t.join()"
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        until(lambda: len(members.below(child.pid)) == 2)
        by_list, by_scan = members.below(child.pid), members._below_by_scan(child.pid)
        assert sorted(by_list) == sorted(by_scan)
        members.send(by_list, signal.SIGKILL)


def test_a_pidfd_wakes_when_a_process_ends() -> None:
    import select

    with subprocess.Popen(["sleep", "600"]) as child:
        fd = open_pidfd(child.pid)
        if fd < 0:
            child.kill()
            pytest.skip("this kernel has no pidfd_open")
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(50) == []
        child.kill()
        assert poll.poll(60_000)
        os.close(fd)
    assert open_pidfd(child.pid) == -1


def test_who_holds_a_file_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    assert members.holders(str(path)) == []
    with open(path) as held, subprocess.Popen(["sleep", "600"], pass_fds=[held.fileno()]) as child:
        assert until(lambda: members.holders(str(path))) == [child.pid]
        child.kill()
    assert members.holders(str(tmp_path / "nothing")) == []


def test_a_signal_never_goes_to_our_own_group_nor_to_everybody() -> None:
    for pgid in (0, 1, -1, os.getpgrp()):
        members.send_group(pgid, signal.SIGKILL)  # we are still here to tell


def test_room_on_a_disk_is_told_in_bytes_and_inodes(tmp_path: Path) -> None:
    room = disk.room(str(tmp_path))
    assert room is not None and room["free_bytes"] <= room["total_bytes"]
    assert set(room) == {"free_bytes", "total_bytes", "free_inodes", "total_inodes"}
    assert disk.room(str(tmp_path / "nothing")) is None


def test_the_keeper_s_own_beat_is_quick_with_many_processes(rig: Rig) -> None:
    root = rig.place("for i in {1..150}; do sleep 600 & done; wait", beat_s=0.2)
    keeper = rig.supervise(root)
    until(lambda: [b for b in found(root, "beat") if b.get("threads", 0) >= 151])
    had, before = len(found(root, "beat")), process.read_stat(keeper.pid)
    heard(root, "beat", had + 5)
    after = process.read_stat(keeper.pid)
    assert before is not None and after is not None
    beats = len(found(root, "beat")) - had  # more than five where we were slow to look
    assert (after.ticks - before.ticks) / process.TICKS_PER_S < 0.1 * beats  # of 151 processes each
