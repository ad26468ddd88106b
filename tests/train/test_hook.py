"""`protect: saves`: saves of libraries that we did not write, whole or not at all. Each in a Python of its own."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[2] / "src/sojourn/train/hook"

SAVES = {
    "torch": (
        "import torch",
        "torch.save({'n': n, 'w': torch.zeros(size)}, 'm.pt')",
        "torch.load('m.pt')['n']",
        "m.pt",
    ),
    "torch.serialization": (
        "import torch",
        "torch.serialization.save({'n': n, 'w': torch.zeros(size)}, f='m.pt')",
        "torch.load('m.pt')['n']",
        "m.pt",
    ),
    "numpy": ("import numpy as np", "np.save('m', np.full(size, n))", "int(np.load('m.npy')[0])", "m.npy"),
    "savez": ("import numpy as np", "np.savez('m.npz', n=n, w=np.zeros(size))", "int(np.load('m.npz')['n'])", "m.npz"),
    "savez_compressed": (
        "import numpy as np",
        "np.savez_compressed(file='m', n=n, w=np.random.rand(size))",
        "int(np.load('m.npz')['n'])",
        "m.npz",
    ),
    "safetensors.numpy": (
        "import numpy as np; from safetensors.numpy import save_file, load_file",
        "save_file({'n': np.full(size, n)}, 'm.safetensors')",
        "int(load_file('m.safetensors')['n'][0])",
        "m.safetensors",
    ),
    "safetensors.torch": (
        "import torch; from safetensors.torch import save_file, load_file",
        "save_file({'n': torch.full((size,), n)}, 'm.safetensors')",
        "int(load_file('m.safetensors')['n'][0])",
        "m.safetensors",
    ),
    "joblib": (
        "import joblib, numpy as np",
        "assert joblib.dump({'n': n, 'w': np.zeros(size)}, 'm.pkl') in (['m.pkl'], [os.path.realpath('m.pkl')])",
        "joblib.load('m.pkl')['n']",
        "m.pkl",
    ),
}


def python(folder: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HOOK), "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def needs(name: str) -> None:
    for module in {"safetensors.torch": ("safetensors", "torch")}.get(name, (name.partition(".")[0],)):
        pytest.importorskip({"savez": "numpy", "savez_compressed": "numpy"}.get(module, module))


@pytest.mark.campaign(keep=1)
@pytest.mark.torch
@pytest.mark.parametrize("name", SAVES)
def test_a_save_is_whole_in_its_place_and_the_one_before_is_kept(tmp_path: Path, name: str) -> None:
    needs(name)
    imports, save, load, file = SAVES[name]
    work = tmp_path / "run/attempts/1"
    work.mkdir(parents=True)
    code = f"import os\n{imports}\nsize = 1000\nfor n in (1, 2, 3):\n    {save}\n    inode = os.stat('{file}').st_ino\n"
    code += f"    assert inode != globals().get('before'), 'written in place'\n    before = inode\nprint({load})\n"
    done = python(work, code, SOJOURN_RUN_DIR=str(tmp_path / "run"), SOJOURN_ATTEMPT="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert os.listdir(work) == [file]
    (work / file).write_bytes((tmp_path / "run/persist/before" / file).read_bytes())
    assert python(work, f"{imports}\nprint({load})").stdout == "2\n"


@pytest.mark.campaign
@pytest.mark.torch
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "import torch\ntorch.save({'n': 1}, 'm.pt')\n"
    code += "try:\n    torch.save({'w': torch.zeros(9), 'f': lambda: 1}, 'm.pt')\n"
    code += "except Exception as e: print(type(e).__name__)\n"
    code += "print(torch.load('m.pt'))"
    done = python(tmp_path, code)
    assert done.stdout.splitlines()[-1] == "{'n': 1}" and len(done.stdout.splitlines()) == 2, done.stderr
    assert os.listdir(tmp_path) == ["m.pt"]


@pytest.mark.campaign
def test_modes_links_and_what_is_no_file_stay_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    (tmp_path / "real").mkdir()
    (tmp_path / "link.npy").symlink_to("real/m.npy")
    code = "import numpy as np, os, io\nnp.save('link.npy', np.arange(3))\nos.chmod('real/m.npy', 0o640)\n"
    code += "np.save('link.npy', np.arange(4))\nassert os.path.islink('link.npy')\n"
    code += "print(oct(os.stat('real/m.npy').st_mode & 0o777), len(np.load('link.npy')))\n"
    code += "f = io.BytesIO(); np.save(f, np.arange(5)); print(len(f.getvalue()))\n"
    code += "with open('h.npy', 'wb') as f: np.save(f, np.arange(6))\nprint(len(np.load('h.npy')))\n"
    code += "np.save(open(os.devnull, 'wb'), np.arange(3))\n"
    done = python(tmp_path, code)
    assert done.stdout.split() == ["0o640", "4", "168", "6"], done.stderr


def test_the_sitecustomize_that_ours_hides_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.THEIRS = 7\n")
    done = python(tmp_path, "print(THEIRS)", PYTHONPATH=os.pathsep.join([str(HOOK), str(tmp_path)]))
    assert done.stdout == "7\n", done.stderr


def test_a_broken_one_of_theirs_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise RuntimeError('theirs')\n")
    done = python(tmp_path, "print(1)", PYTHONPATH=os.pathsep.join([str(HOOK), str(tmp_path)]))
    assert (done.returncode, done.stdout) == (0, "1\n") and "protect: off: theirs" in done.stderr


def test_it_loads_no_library_and_little_else(tmp_path: Path) -> None:
    done = python(
        tmp_path, "import sys; print([m for m in ('numpy', 'torch', 'tempfile', 'json') if m in sys.modules])"
    )
    assert done.stdout == "[]\n"


def test_without_room_for_two_it_is_written_as_it_always_was(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "t", disk]).returncode:
        pytest.skip("no file system of a size can be mounted here")
    try:
        code = "import numpy as np\nfor n in (1, 2): np.save('m.npy', np.full(250_000, n))\nprint(np.load('m.npy')[0])"
        done = python(disk, code)
        assert done.stdout == "2\n" and "no room to write it aside" in done.stderr, done.stderr
        assert os.listdir(disk) == ["m.npy"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_file_that_may_not_grow_so_large_leaves_the_old_one(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    assert python(tmp_path, "import numpy as np; np.save('m.npy', np.arange(10))").returncode == 0
    code = (
        "import numpy as np, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nnp.save('m.npy', np.zeros(100_000))"
    )
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # noqa: E731
    env = {**os.environ, "PYTHONPATH": str(HOOK)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, preexec_fn=limit, capture_output=True)
    assert done.returncode == 1
    assert os.listdir(tmp_path) == ["m.npy"]


def killed(folder: Path, seed: int, kills: int, is_protected: bool) -> int:
    """How many of so many SIGKILLs in a loop of saves left a file that does not load."""
    torch = pytest.importorskip("torch")
    code = "import torch, sys\nw = {str(i): torch.zeros(200_000) for i in range(20)}\nprint('go', flush=True)\n"
    code += "while True: torch.save(w, 'm.pt')\n"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "SOJOURN_ATTEMPT": "1"}
    env["PYTHONPATH"] = str(HOOK) if is_protected else ""
    chance, lost = random.Random(seed), 0
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=env, stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline()
        while not (folder / "m.pt").exists():
            time.sleep(0.01)
        time.sleep(0.2 + chance.random() * 0.3)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        try:
            torch.load(folder / "m.pt")
        except Exception:  # noqa: BLE001 - whatever a torn file raises
            lost += 1
            (folder / "m.pt").unlink()
    return lost


@pytest.mark.campaign
@pytest.mark.torch
def test_a_kill_in_the_middle_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    assert killed(tmp_path, 1, 3, is_protected=True) == 0


@pytest.mark.torch
@pytest.mark.campaign
def test_twenty_kills_lose_nothing_where_the_plain_save_loses_many(tmp_path: Path) -> None:
    assert killed(tmp_path, 2, 20, is_protected=False) > 3
    assert killed(tmp_path, 2, 20, is_protected=True) == 0
