"""`init` writes a job file that is valid and says what the source says. Each file of init_cases is a project."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.store.job.read import read_job
from sojourn.verbs.project.init import JobFileExists, NoFolder, init, quoted, scalar
from sojourn.verbs.project.source import flags, paths, scripts

CASES = sorted(Path(__file__).with_name("init_cases").glob("*.case"))


def unpack(case: Path, folder: Path) -> str:
    """Write the files of a case into `folder`; the job file that is expected."""
    head, *parts = case.read_text().split("\n--- ")
    expected = ""
    for part in parts:
        name, _, text = part.partition("\n")
        if name == "=> sojourn.yaml":
            expected = text
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_project_gets_the_job_file_that_its_source_asks_for(case: Path, tmp_path: Path) -> None:
    folder = tmp_path / case.stem
    folder.mkdir()
    expected = unpack(case, folder)
    before = sorted(folder.rglob("*"))
    draft = init(str(folder))
    if os.environ.get("ACCEPT") == "1":
        case.write_text(case.read_text().split("\n--- => ")[0].rstrip("\n") + "\n--- => sojourn.yaml\n" + draft.text)
        return
    how = f"To accept this: ACCEPT=1 python -m pytest {Path(__file__).name}, then read git diff {case.name}"
    assert draft.text == expected, how
    job = read_job(draft.path)
    assert (job.name, job.outputs, job.warnings) == (draft.name, draft.outputs, ())
    assert sorted(folder.rglob("*")) == sorted([*before, folder / "sojourn.yaml"])


def test_the_job_file_of_an_empty_folder_does_not_succeed_at_nothing(tmp_path: Path) -> None:
    job = read_job(init(str(tmp_path)).path)
    ran = subprocess.run(["bash", "-eo", "pipefail", "-c", job.run], cwd=tmp_path, timeout=120, capture_output=True)
    assert ran.returncode == 64 and b"put the command of your training under run" in ran.stderr


def test_the_smoke_line_of_a_script_with_a_difficult_name_runs(tmp_path: Path) -> None:
    name = 'it\'s a "train" ünï.py'
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--steps', type=int)\n"
    (tmp_path / name).write_text(text + "open('steps.txt', 'w').write(str(p.parse_args().steps))\n")
    job = read_job(init(str(tmp_path)).path)
    subprocess.run(["bash", "-eo", "pipefail", "-c", job.smoke], cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "steps.txt").read_text() == "2"


def test_a_module_of_a_package_is_run_from_its_import_root(tmp_path: Path) -> None:
    package = tmp_path / "src" / "pix"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "size.py").write_text("N = 3\n")
    (package / "train.py").write_text("from .size import N\nopen('n.txt', 'w').write(str(N))\n__name__ == '__main__'\n")
    job = read_job(init(str(tmp_path)).path)
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", job.run],
        cwd=tmp_path,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert (tmp_path / "n.txt").read_text() == "3"


def test_nothing_of_the_project_is_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, torch\nopen('ran', 'w')\nos._exit(3)\n")
    init(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_an_existing_job_file_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "sojourn.yaml").write_text("mine")
    with pytest.raises(JobFileExists):
        init(str(tmp_path))
    assert (tmp_path / "sojourn.yaml").read_text() == "mine"
    assert "name:" in init(str(tmp_path), dry_run=True).text
    assert (tmp_path / "sojourn.yaml").read_text() == "mine"
    init(str(tmp_path), force=True)
    assert (tmp_path / "sojourn.yaml").read_text() != "mine"


def test_a_link_that_leads_nowhere_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "sojourn.yaml").symlink_to("nowhere")
    with pytest.raises(JobFileExists):
        init(str(tmp_path))


def test_no_such_folder_is_misuse(tmp_path: Path) -> None:
    with pytest.raises(NoFolder):
        init(str(tmp_path / "nope"))


def test_a_folder_whose_name_cannot_be_a_run_gets_the_nearest(tmp_path: Path) -> None:
    folder = tmp_path / "Größe: 3 & mehr!"
    folder.mkdir()
    assert read_job(init(str(folder)).path).name == init(str(folder), dry_run=True).name == "gr-e-3-mehr"


def test_a_script_whose_name_is_not_utf8_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"train_\xff.py")).write_text("import torch\nloss.backward()\n__name__\n")
    assert init(str(tmp_path)).script == ""


def test_a_virtual_environment_is_not_the_project(tmp_path: Path) -> None:
    inside = tmp_path / "my-env" / "lib"
    inside.mkdir(parents=True)
    (tmp_path / "my-env" / "pyvenv.cfg").touch()
    shutil.copy(scripts.__file__, inside / "train.py")
    assert init(str(tmp_path)).script == ""


def test_a_script_that_is_not_pushed_is_not_the_training(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("train.py\n")
    (tmp_path / "train.py").write_text("import torch\nloss.backward()\n__name__\n")
    assert init(str(tmp_path)).script == ""


def test_a_big_file_that_would_be_pushed_is_named(tmp_path: Path) -> None:
    for name in ("kept.bin", "ignored.bin"):
        with open(tmp_path / name, "wb") as f:
            f.truncate(30 << 20)
    (tmp_path / ".sojournignore").write_text("ignored.bin\n")
    notes = " ".join(init(str(tmp_path)).notes)
    assert "kept.bin has 30.0 MiB" in notes and "ignored.bin" not in notes


def test_a_link_round_in_circles_ends(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    assert init(str(tmp_path)).script == ""


def test_a_path_that_defines_itself_ends(tmp_path: Path) -> None:
    text = "import torch\nname = 'a'\nname = name + name\ndef f(p=f(p)):\n    torch.save(m, name + p)\nf(f)\n"
    text += "loss.backward()\n__name__\n"
    (tmp_path / "train.py").write_text(text)
    assert init(str(tmp_path)).script == "train.py"


@given(st.text(max_size=40))
def test_any_text_is_the_same_after_yaml(text: str) -> None:
    import yaml

    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return
    assert yaml.safe_load(quoted(text)) == text
    if text and text == text.strip():
        assert yaml.compose(f"- {scalar(text)}").value[0].value == text


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("import typer\n@app.command()\ndef main(out, epochs: int = 3): ...", ["--out", "--epochs"]),
        ("import fire\ndef go(steps=3): ...\nfire.Fire(go)", ["--steps"]),
        ("from absl import flags\nflags.DEFINE_integer('steps', 5, 'x')", ["--steps"]),
        ("p.add_argument('-e', '--epochs', dest='n')\np.add_argument('data', nargs='?')", ["--epochs", "data"]),
    ],
)
def test_flags_of_other_libraries_are_found(code: str, names: list[str]) -> None:
    import ast

    assert [flag.name for flag in flags.flags(ast.parse(code))] == names


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x('a/b.pt')", "a/b.pt"),
        ("x(f'a/{name}.pt')", "a/*.pt"),
        ("x(os.path.join(os.environ['SOJOURN_CHECKPOINT_DIR'], 'last.pt'))", "checkpoints/last.pt"),
        ("x(os.environ.get('OUT', 'runs') + '/m.pt')", "runs/m.pt"),
        ("x(Path('a') / 'b' / f'{i}.pt')", "a/b/*.pt"),
        ("x('model_{}.pt'.format(seed))", "model_*.pt"),
        ("d = 'out'\nx('%s/m_%d.pt' % (d, n))", "out/m_*.pt"),
        ("x('{d}/{d}/m.pt'.format(d=d))", "*/*/m.pt"),
        ("x(str(Path('a/b.txt').with_suffix('.json')))", "a/b.json"),
        ("D = 'd'\ndef f(p): x(D + '/' + p)\nf('one.pt')", "d/one.pt"),
        ("x('./a//[b].pt')", "a/[[]b].pt"),
        ("n = 0\nx(f'm{n}.pt')", "m*.pt"),
    ],
)
def test_a_path_is_read_from_its_expression(code: str, found: str) -> None:
    import ast

    tree = ast.parse(code)
    names = paths.Names([paths.Module("train.py", tree)])
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and flags.last(node.func) == "x")
    assert paths.as_glob(names.paths(call.args[0])[0]) == found


def test_the_command_prints_the_draft_and_writes_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "sojourn", "init", "--dry-run"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])
    assert done.stdout == init(str(tmp_path), dry_run=True).text
