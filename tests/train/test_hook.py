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

from sojourn.box.run import saved_files

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
        "assert joblib.dump({'n': n, 'w': np.zeros(size)}, 'm.pkl') == ['m.pkl']",
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


# ---- The functions stay the library's own, for pickle and for `is`

IN_OTHERS = """
import multiprocessing as mp, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from {home} import {name} as other_name
import {library}
save = {library}.{name}
assert save is other_name and pickle.loads(pickle.dumps({{"by": save}}))["by"] is save
assert hasattr(save, "__sojourn_plain__")
if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp.get_context("fork")) as pool:
        pool.submit(save, {first}, "a").result(60)
    with mp.get_context("fork").Pool(1) as pool:
        pool.apply_async(save, ({first}, "b")).get(60)
    one = mp.get_context("spawn").Process(target=save, args=({first}, "c"))
    one.start()
    one.join(60)
    sys.exit(one.exitcode)
"""


@pytest.mark.parametrize(
    ("library", "name", "home", "first"),
    [
        ("joblib", "dump", "joblib.numpy_pickle", "[1]"),
        pytest.param(
            "torch",
            "save",
            "torch.serialization",
            "{'a': torch.ones(3)}",
            marks=[pytest.mark.torch, pytest.mark.campaign],
        ),
    ],
)
def test_another_process_can_be_given_the_function(
    tmp_path: Path, library: str, name: str, home: str, first: str
) -> None:
    pytest.importorskip(library)
    (tmp_path / "t.py").write_text(IN_OTHERS.format(library=library, name=name, home=home, first=first))
    done = python(tmp_path, "import runpy, sys; sys.argv = ['t.py']; runpy.run_path('t.py', run_name='__main__')")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c", "t.py"]


def test_numpy_has_one_function_under_all_its_names_and_it_reads_as_before(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    inner = "numpy.lib._npyio_impl" if hasattr(numpy.lib, "_npyio_impl") else "numpy.lib.npyio"
    code = f"import importlib, inspect, pickle, numpy as np\nimpl = importlib.import_module('{inner}')\n"
    code += "for name in ('save', 'savez', 'savez_compressed'):\n    f = getattr(np, name)\n"
    code += "    assert f is getattr(impl, name) is pickle.loads(pickle.dumps(f)) and f.__sojourn_plain__\n"
    code += "assert 'def save(' in inspect.getsource(np.save) and 'arr' in inspect.signature(np.save).parameters\n"
    code += "assert type(np.__loader__) is type(np.__spec__.loader) is type(inspect.__loader__)"
    done = python(tmp_path, code)
    assert done.returncode == 0, done.stderr


# ---- What is somebody else's


def test_what_others_have_in_the_folder_stays(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    theirs = [".saving-mine/m.npy", ".saving-1-abcd/x", ".saving-1-2-3-mine-4/x"]
    for one in theirs:
        (tmp_path / one).parent.mkdir()
        (tmp_path / one).touch()
    # as this hook names them: of a living process, and of one on another machine
    alive = "import sitecustomize as ours, os\n"
    alive += "os.mkdir('.saving-1-%d-%s-%s-0' % (os.getppid(), ours._start(str(os.getppid())), ours._here()))\n"
    alive += "os.mkdir('.saving-1-999999999-1-00000000-0')\n"
    before = python(tmp_path, alive + "print(*sorted(os.listdir('.')))").stdout.split()
    assert len(before) == 5
    assert python(tmp_path, "import numpy as np; np.save('m.npy', np.arange(3))").stderr == ""
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "m.npy"])
    assert all((tmp_path / one).exists() for one in theirs)


STUCK = "import numpy.lib.format as f, os, time\ndef never(*a, **k):\n    print('in', flush=True); time.sleep(60)\n"


def test_what_a_killed_writer_left_goes_with_the_next_save_whatever_its_attempt(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    code = STUCK + "f.write_array = never\nimport numpy as np; np.save('m.npy', np.arange(3))"
    env = {**os.environ, "PYTHONPATH": str(HOOK), "SOJOURN_TOKEN": "1"}
    child = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"in\n"
    other = "import numpy as np; np.save('n.npy', np.arange(3))"
    for token in ("1", "2"):  # it lives: nobody takes its file away, of this attempt or a later one
        assert python(tmp_path, other, SOJOURN_TOKEN=token).stderr == ""
        (left,) = [name for name in os.listdir(tmp_path) if name.startswith(".saving-")]
        assert left.startswith(".saving-1-%d-" % child.pid) and os.listdir(tmp_path / left) == ["m.npy"]
    child.kill()
    child.wait()
    child.stdout.close()
    assert python(tmp_path, other, SOJOURN_TOKEN="1").stderr == ""
    assert os.listdir(tmp_path) == ["n.npy"]


# ---- What the place does not allow

REFUSING = """
import os, errno, numpy as np
np.save("m.npy", np.arange(9)); os.chmod("m.npy", 0o640)
def refuse(*args, **named): raise OSError(errno.{error}, "refused")
os.{call} = refuse
for n in range(3): np.save("m.npy", np.full(9, n)); np.save("n%d.npy" % n, np.arange(3))
print(np.load("m.npy")[0], *sorted(os.listdir(".")))
"""


@pytest.mark.parametrize("error", ["EOPNOTSUPP", "EPERM"])
@pytest.mark.parametrize("call", ["fsync", "chmod", "rename", "mkdir"])
def test_where_a_step_is_refused_the_file_is_written_as_ever_and_that_is_said_once(
    tmp_path: Path, call: str, error: str
) -> None:
    pytest.importorskip("numpy")
    done = python(tmp_path, REFUSING.format(call=call, error=error))
    assert (done.returncode, done.stdout) == (0, "2 m.npy n0.npy n1.npy n2.npy\n"), done.stderr
    assert done.stderr.count("written in place") == 1 and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "quiet",
    [
        "sys.stderr = None",
        "sys.stderr.close()",
        "os.close(2)",
        "os.close(2); f = open('other.npy', 'wb'); assert f.fileno() == 2",
        "r, w = os.pipe(); os.dup2(w, 2); os.close(r); os.close(w)",
    ],
)
def test_without_a_standard_error_it_is_silent(tmp_path: Path, quiet: str) -> None:
    pytest.importorskip("numpy")
    code = f"import numpy as np, os, sys\n{quiet}\nnp.save('m.npy', np.arange(3)); os.link('m.npy', 'n.npy')\n"
    code += "np.save('m.npy', np.arange(4)); print(len(np.load('n.npy')))"
    done = python(tmp_path, code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")
    assert not (tmp_path / "other.npy").exists() or not (tmp_path / "other.npy").stat().st_size


@pytest.mark.parametrize(
    ("make", "show"),
    [
        ("os.link('m.npy', 'best.npy')", "len(np.load('best.npy'))"),
        ("os.setxattr('m.npy', 'user.note', b'1')", "os.getxattr('m.npy', 'user.note')"),
        ("os.chown('m.npy', 1234, 4321)", "os.stat('m.npy')[4:6]"),
        ("os.chmod('m.npy', 0o604)", "oct(os.stat('m.npy').st_mode)"),
        ("f = open('m.npy', 'rb')", "len(f.read())"),
        ("f = np.load('m.npy', mmap_mode='r')", "float(f.sum())"),
    ],
)
def test_what_a_file_is_beside_its_content_stays_as_without_the_hook(tmp_path: Path, make: str, show: str) -> None:
    pytest.importorskip("numpy")
    code = f"import numpy as np, os\nnp.save('m.npy', np.zeros(3))\n{make}\n"
    code += f"for n in (1, 2): np.save('m.npy', np.full(3, n))\nprint({show}, np.load('m.npy')[0])"
    said = []
    for hook in ("", str(HOOK)):
        folder = tmp_path / ("with" if hook else "without")
        folder.mkdir()
        done = python(folder, code, PYTHONPATH=hook)
        if "Errno" in done.stderr and not hook:
            pytest.skip(done.stderr.splitlines()[-1])
        said.append((done.returncode, done.stdout))
        assert not [name for name in os.listdir(folder) if name.startswith(".")]
    assert said[0] == said[1]


def test_a_link_that_a_kill_left_between_two_steps_is_ours(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    work, kept = tmp_path / "run/attempts/1", tmp_path / "run/persist/before/m.npy"
    for folder in (work, kept.parent):
        folder.mkdir(parents=True)
    (work / "m.npy").write_bytes(b"old")
    os.link(work / "m.npy", kept)
    env = {"SOJOURN_RUN_DIR": str(tmp_path / "run"), "SOJOURN_ATTEMPT": "1"}
    done = python(work, "import numpy as np; np.save('m.npy', np.arange(3))", **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert kept.read_bytes() == b"old" and (work / "m.npy").stat().st_nlink == 1


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


def test_the_keeper_knows_the_names_of_unfinished_saves(tmp_path: Path) -> None:
    done = python(
        tmp_path, "import os, sitecustomize as ours; print(ours._aside(os.path.abspath('m.pt')))", SOJOURN_TOKEN="7"
    )
    assert saved_files.is_unfinished("out/%s/m.pt" % done.stdout.strip()), done
    assert not saved_files.is_unfinished("out/.saving-mine/m.pt")
