"""Observations of the box: boot, control groups, kernel log, disks, shared memory, GPUs."""

# ruff: noqa: E501  one observation is one row
TABLE = """
box.alone | bool | | launch | the evidence is of a box, of no run on it
box.boot_id_changed | bool | | boot | /proc/sys/kernel/random/boot_id is another than at launch; a container shows its host's
box.pid1_changed | bool | | boot | start of PID 1 is another than at launch: sees reboots and container restarts
box.uptime_s | float | s | boot | /proc/uptime; in a container the host's
box.hostname_changed | bool | | boot | another host name than at launch
box.session_present | bool | | session | our session or keeper is there
box.load1 | float | tasks | cpu | /proc/loadavg, first number; the whole host's
box.nproc | int | cores | cpu | cores the machine shows
box.affinity | int | cores | cpu | cores this process may use
box.mem_available | int | bytes | memory | MemAvailable of /proc/meminfo; the whole host's
box.mem_total | int | bytes | memory | MemTotal of /proc/meminfo; the whole host's
box.date_skew_s | float | s | clock | clock of the box minus ours
box.logins_ok | bool | | ssh | a trivial command just worked
cg.version | text | | cgroup | v1, v2: where the memory controller is
cg.oom_kill_delta | int | kills | cgroup | oom_kill of our group now minus at launch; starts at 0 with the container
cg.oom_kill_elsewhere | int | kills | cgroup | those of them that the end and the log of this run know nothing of: another process of the group
cg.mem_frac | float | share | cgroup | memory of the group without inactive file cache, over its limit
cg.mem_peak_frac | float | share | cgroup | highest memory of the group over its limit
cg.mem_peak | int | bytes | cgroup | highest memory of the group
cg.mem_beat_peak | int | bytes | events | highest memory of the group that the keeper's beats saw
cg.mem_max | int? | bytes | cgroup | memory limit; null: none
cg.cpu_quota | float? | cores | cgroup | CPU quota; null: none
cg.throttled_frac | float | share | cgroup | throttled periods over all periods between two looks, else since the group began
cg.psi_cpu | float | pct | cgroup | cpu.pressure, some avg60
cg.psi_mem | float | pct | cgroup | memory.pressure, full avg60
cg.psi_io | float | pct | cgroup | io.pressure, full avg60
cg.frozen | bool | | cgroup | the freezer holds a process of the run: freezer.state of version 1, cgroup.events of version 2
cg.pids_frac | float | share | cgroup | pids.current over pids.max
kmsg.readable | bool | | kernel log | dmesg or /dev/kmsg can be read
kmsg.oom_lines | list | lines | kernel log | OOM kills since launch, of our control group or of one that cannot be told
kmsg.oom_others | list | lines | kernel log | OOM kills since launch that are known to be another control group's
box.oom_kill_delta | int | kills | kernel log | memory kills of the whole machine since launch (/proc/vmstat), where our group has no counter
kmsg.xid | list | code | kernel log | Xid codes since launch; bus ids are hexadecimal, some drivers write them decimal
kmsg.xid154_action | text? | | kernel log | recovery that Xid 154 asks for
kmsg.segfaults | list | lines | kernel log | segfault, general protection and trap lines of our processes
kmsg.fs_errors | list | lines | kernel log | I/O errors, aborted journals, remounts read-only
disk.bytes_pct | float | share | disk | used bytes of the file system that holds the run, for users: 1 - bavail/blocks
disk.avail | int | bytes | disk | bytes a user may still write
disk.inodes_pct | float? | share | disk | used inodes: 1 - favail/files; null: the file system has no fixed number
disk.ro | bool | | mounts | mounted read-only
disk.fstype | text | | mounts | type of file system
disk.probe_write | text | | disk | a 4 KiB file made, synced and removed: ok, ENOSPC, EDQUOT, EROFS, EIO, ESTALE, EACCES, timeout
disk.others_unseen | bool | | disk | the run's disk takes files, and whether another one is full could not be read
disk.survives | text | | platform | yes, no, unknown: does this mount outlive the stop verb
disk.mount_kind | text | | platform | container, volume, network, local_scratch, shared, pvc, drive
disk.top_consumer | text | | disk | largest folder of the mount, linked caches followed
disk.tmp_left | list | names | disk | .tmp, .part, .incomplete files below the run
shm.total | int | bytes | disk | size of /dev/shm
shm.pct | float | share | disk | used part of /dev/shm
gpu.count | int | cards | gpu | cards the driver lists
gpu.smi_rc | int | status | gpu | nvidia-smi: 0 ok, 6 no such object, 9 driver not loaded, 12 library lacks, 14 infoROM, 15 lost
gpu.smi_text | text | | gpu | what nvidia-smi said
gpu.name | text | | gpu | name of the card
gpu.mem_total | int | bytes | gpu | memory of the card
gpu.mem_used | int | bytes | gpu | used memory of the card
gpu.dev_holders | list | pid | gpu | processes with /dev/nvidiaN open, as far as we see them
gpu.holders_orphaned | list | pid | gpu | holders that are proven to be nobody's: of a run of ours that is over, or a worker whose parent is gone
gpu.mem_unexplained | int | bytes | gpu | used memory without that of holders we see, while no run of ours lives
gpu.util | float | pct | gpu | utilisation, mean of 10 looks or more
gpu.mem_util | float | pct | gpu | memory utilisation, mean
gpu.sm_clock_frac | float | share | gpu | SM clock over its maximum, only while utilisation is 50 or more
gpu.power_frac | float | share | gpu | power over its limit, only while utilisation is 50 or more
gpu.temp | float | C | gpu | temperature
gpu.throttle | list | reasons | gpu | active reasons: hw_slowdown hw_thermal_slowdown sw_thermal_slowdown hw_power_brake_slowdown sw_power_cap
gpu.ecc_uncorr | int | errors | gpu | uncorrected ECC errors since the driver was loaded
gpu.remap_failed | bool | | gpu | a row could not be remapped
gpu.recovery_action | text | | gpu | what the driver recommends (None, Reset, Reboot, Drain)
gpu.driver | text | version | gpu | version of the kernel driver
gpu.driver_cuda | text | version | gpu | newest CUDA the driver speaks
gpu.cc | text | version | gpu | compute capability
gpu.torch_cuda | text? | version | torch | CUDA that torch was built for; null: a CPU build
gpu.torch_avail | bool | | torch | torch.cuda.is_available()
gpu.torch_arch_ok | bool | | torch | the card's sm_XY is among those torch was built for
gpu.torch_probe | text | | torch | a tiny product on every card: ok, or what it said
gpu.runs_on_device | int | runs | gpu | live runs that have the same card open
"""
