"""Tables of tools that stand in a log are evidence, wherever in its end, and not where training went on after them."""

import textwrap

import pytest

from sojourn.diagnose import evidence, scan
from sojourn.diagnose.case import Case
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas

SMI = """\
    Wed Nov 25 01:02:03 2026
    +-----------------------------------------------------------------------------------------+
    | NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
    |-----------------------------------------+------------------------+----------------------+
    | GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
    | Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
    |=========================================+========================+======================|
    |   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |                    0 |
    | N/A   35C    P0            118W /  700W |   61234MiB /  81559MiB |    100%      Default |
    +-----------------------------------------+------------------------+----------------------+
    |   1  NVIDIA H100 80GB HBM3          On  |   00000000:2A:00.0 Off |                    0 |
    | N/A   36C    P0            121W /  700W |   61230MiB /  81559MiB |    100%      Default |
    +-----------------------------------------+------------------------+----------------------+
    """
DF = """\
    $ df -h
    Filesystem      Size  Used Avail Use% Mounted on
    overlay         100G   41G   60G  41% /
    tmpfs            64M     0   64M   0% /dev
    shm              64G     0   64G   0% /dev/shm
    /dev/nvme0n1p1  1.8T  1.8T     0 100% /workspace
    """
DF_I = """\
    Filesystem       Inodes    IUsed   IFree IUse% Mounted on
    /dev/vdb        6553600  6553600       0  100% /root/autodl-tmp
    """
FREE = """\
                   total        used        free      shared  buff/cache   available
    Mem:           125Gi        98Gi       2.0Gi       1.0Gi        24Gi        12Gi
    Swap:             0B          0B          0B
    """
PS = """\
    USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
    root      4242  0.0  3.1 9876543 876543 ?      Dl   01:00   3:12 python train.py --epochs 30
    root      4300  0.0  0.0  12345   678 pts/0    S+   02:00   0:00 grep python
    """
SQUEUE = """\
                 JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
                  4711       gpu    train      ann PD       0:00      2 (QOSMaxGRESPerUser)
    """
PODS = """\
    NAME            READY   STATUS             RESTARTS      AGE
    train-0-x7x2q   0/1     ImagePullBackOff   0             4m
    """
DESCRIBE = """\
    Name:             train-0
    Namespace:        ml
    Status:           Running
    Controlled By:  Job/train
    Containers:
      train:
        Image:          repo/train:1
        Last State:     Terminated
          Reason:       OOMKilled
          Exit Code:    137
        Restart Count:  1
    Events:
      Type     Reason   Age   From     Message
      ----     ------   ----  ----     -------
      Warning  BackOff  1m    kubelet  Back-off restarting failed container
    """
STEPS = "".join(f"step {n}/1000 loss 0.5\n" for n in range(50))


def case_of(text: str) -> Case:
    return evidence.from_log(scan.scan_log(text.encode(), gotchas()))


@pytest.mark.parametrize(
    ("pasted", "expected"),
    [
        (SMI, {"gpu.count": 2, "gpu.util": 100.0, "gpu.power_frac": 0.169, "gpu.driver_cuda": "12.4"}),
        (DF, {"disk.bytes_pct": 1.0, "disk.avail": 0, "shm.pct": 0.0}),
        (DF_I, {"disk.inodes_pct": 1.0}),
        (FREE, {"box.mem_total": 125 << 30, "box.mem_available": 12 << 30}),
        (PS, {"run.state": "D"}),
        (SQUEUE, {"sl.state": "PENDING", "sl.reason": "QOSMaxGRESPerUser"}),
        (PODS, {"k.wait": "ImagePullBackOff"}),
        (DESCRIBE, {"k.last": {"reason": "OOMKilled", "exitCode": 137}, "k.phase": "Running"}),
    ],
    ids=["nvidia-smi", "df -h", "df -i", "free", "ps", "squeue", "kubectl get pods", "kubectl describe"],
)
def test_a_table_of_a_tool_is_read_wherever_it_stands_and_however_it_is_quoted(
    pasted: str, expected: dict[str, object]
) -> None:
    text = textwrap.dedent(pasted)
    quoted = "".join(f"> {line}\n" for line in text.splitlines())
    for found in (case_of(text), case_of(STEPS + text + "it hangs since then\n"), case_of("what is wrong?\n" + quoted)):
        assert {name: found.value(name) for name in expected} == expected


def test_a_table_says_nothing_once_training_went_on() -> None:
    found = case_of(textwrap.dedent(DF) + STEPS)
    assert found.value("disk.bytes_pct") is None
    assert reason(gotchas(), found).is_healthy


@pytest.mark.parametrize(
    ("pasted", "name"),
    [
        (DF, "disk-full"),
        (DF_I, "inodes-used-up"),
        (PS, "uninterruptible-sleep"),
        (SQUEUE, "slurm-pending"),
        (PODS, "k8s-image-pull"),
        (DESCRIBE, "k8s-out-of-memory"),
        (SMI, "collective-hangs"),
    ],
    ids=["df -h", "df -i", "ps", "squeue", "kubectl get pods", "kubectl describe", "nvidia-smi"],
)
def test_a_pasted_table_alone_names_its_cause(pasted: str, name: str) -> None:
    found = reason(gotchas(), case_of(textwrap.dedent(pasted)))
    assert found.verdict is not None and found.verdict.id == name
