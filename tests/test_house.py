"""The rules of the house hold in src/sojourn, and every rule is seen to fire on a small tree that breaks it."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import house

ROOT = Path(__file__).resolve().parent.parent
DOOR = '"""The room.\n\nImports: {imports}\nOutside: {outside}\n"""\n'


def rooms(tmp_path: Path, files: dict[str, str]) -> list[house.Breach]:
    """Write the files as a package called sojourn, give every room without a door an ordinary one, and judge it."""
    package = tmp_path / "sojourn"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for room in {name.split("/")[0] for name in files if "/" in name}:
        door = package / room / "__init__.py"
        if not door.exists():
            door.write_text(DOOR.format(imports="none", outside="none"))
    return house.breaches(package)


def rules(found: list[house.Breach]) -> list[str]:
    return sorted({breach.rule for breach in found})


def test_our_own_house_is_in_order() -> None:
    found = house.breaches(ROOT / "src/sojourn")
    assert not found, "\n" + "\n".join(f"src/sojourn/{breach}" for breach in found)


NAMED = re.compile(r"from (sojourn(?:\.\w+)+) import ([\w, ]+)")


def test_programs_kept_in_strings_import_what_exists() -> None:
    lost = []
    for folder in ("tests", "benchmarks", "scripts", "docs", "examples"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix not in (".py", ".md", ".sh") or path.name == "test_house.py":
                continue
            for module, names in NAMED.findall(path.read_text()):
                wanted = [name.split(" as ")[0].strip() for name in names.split(",") if name.strip()]
                lost += [f"{path}: {module}.{name}" for name in wanted if not exists(module, name)]
    assert not lost, "\n".join(lost)


def exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or bool(importlib.util.find_spec(f"{module}.{name}"))
    except ModuleNotFoundError:
        return False


# Files of a scheduler: its launcher, its client, and what a diagnosis reads of its records. All else goes by the port
# and by data. Named here is what speaks of it and decides nothing by it.
SCHEDULERS = {
    r"(?i)slurm|sbatch|squeue|sacct|scontrol|\bsrun": (
        ("backends/launcher/sbatch.py", "backends/slurm/", "diagnose/facts/slurm.py"),
        {
            "box/run/masking.py": "variables that hold no secret",
            "verbs/project/source/flags.py": "variables that a person does not set",
            "store/scripts.py": "endings of names of shell scripts",
            "diagnose/case.py": "scopes of gotchas",
            "diagnose/reason.py": "themes of gotchas",
            "diagnose/pasted.py": "heads of tables that people paste",
            "diagnose/facts/machine.py": "a variable of the environment, which tells the cores asked for",
            "diagnose/logend.py": "texts that logs end with",
            "cli/commands/gotchas.py": "help",
            "store/job/keys.py": "the key of a job's own options",
            "store/job/scalars.py": "how such an option is written, in a job file and on a command line",
            "cli/parser.py": "the flag for them",
        },
    ),
    r"(?i)kube|k8s": (
        ("backends/launcher/k8s_job.py", "backends/transport/kube.py", "backends/kube/", "diagnose/facts/pods.py"),
        {
            "box/run/masking.py": "a variable that holds no secret",
            "diagnose/case.py": "scopes of gotchas",
            "diagnose/evidence.py": "texts that a cluster keeps",
            "diagnose/pasted.py": "heads of tables that people paste",
            "diagnose/reason.py": "themes of gotchas",
            "diagnose/vocabulary_world.py": "observations",
            "store/gotchas.py": "streams of texts",
        },
    ),
}


@pytest.mark.parametrize("named", SCHEDULERS)
def test_nothing_but_its_own_files_and_data_knows_a_scheduler_by_name(named: str) -> None:
    its_files, mentions = SCHEDULERS[named]
    found = set()
    for path in sorted((ROOT / "src/sojourn").rglob("*.py")):
        tree, name = ast.parse(path.read_text()), path.relative_to(ROOT / "src/sojourn").as_posix()
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        told = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and ast.get_docstring(node)
        }  # type: ignore[attr-defined]
        words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told]
        words += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
        if re.search(named, " ".join(map(str, words))):
            found.add(name)
    assert {name for name in found if not name.startswith(its_files)} == set(mentions)


def test_no_test_script_or_benchmark_is_longer_than_a_file_may_be() -> None:
    long = []
    for folder in ("tests", "scripts", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            count = len(path.read_text().splitlines())
            if count > house.MAX_LINES:
                long.append(f"{path.relative_to(ROOT)}: {count} lines")
    assert not long, "\n".join(long)


def test_a_clean_tree_has_no_breach(tmp_path: Path) -> None:
    files = {
        "__init__.py": '"""The package."""\n__version__ = "1"\n',
        "wire/units.py": '"""Units."""\nimport json\n\n\ndef gib() -> str:\n    """One."""\n    return json.dumps(1)\n',
        "core/__init__.py": DOOR.format(imports="wire", outside="none (standard library only)"),
        "core/fold.py": '"""Folds."""\nfrom sojourn import __version__\nfrom sojourn.wire import units\n',
        "store/__init__.py": DOOR.format(imports="wire core", outside="yaml (job files), pathspec"),
        "store/spec.py": '"""Jobs."""\n\n\ndef load() -> object:\n    """Read."""\n    import yaml\n    return yaml\n',
    }
    assert rooms(tmp_path, files) == []


BREAKS = {
    "a room without a door": ("door", {"core/__init__.py": '"""No lines."""\n'}),
    "a door that allows a higher floor": ("floor", {"core/__init__.py": DOOR.format(imports="store", outside="none")}),
    "a door that allows its own floor": ("floor", {"box/__init__.py": DOOR.format(imports="core", outside="none")}),
    "a door that allows all": ("floor", {"cli/__init__.py": DOOR.format(imports="all", outside="none")}),
    "a room that is not in the house": ("floor", {"attic/__init__.py": DOOR.format(imports="none", outside="none")}),
    "an import that the door does not allow": ("door", {"core/a.py": '"""A."""\nimport sojourn.wire.units\n'}),
    "a room taken from the package": ("door", {"core/a.py": '"""A."""\nfrom sojourn import wire\n'}),
    "an import inside a function": ("door", {"core/a.py": '"""A."""\ndef _f():\n    from sojourn.store import x\n'}),
    "testing imported by a room": ("door", {"verbs/a.py": '"""A."""\nfrom sojourn.testing import fakes\n'}),
    "an outsider that the door does not name": ("outside", {"wire/a.py": '"""A."""\nimport requests\n'}),
    "an outsider in the package itself": ("outside", {"a.py": '"""A."""\nimport requests\n'}),
    "the package loading a room at once": ("lazy", {"__init__.py": '"""A."""\nfrom sojourn.train import x\n'}),
    "a relative import": ("absolute", {"wire/a.py": '"""A."""\nfrom . import b\n'}),
    "a heavy import at module top": (
        "heavy",
        {
            "store/__init__.py": DOOR.format(imports="none", outside="yaml"),
            "store/a.py": '"""A."""\nimport yaml\n',
        },
    ),
    "a wrapping file imported at module top": (
        "heavy",
        {
            "store/__init__.py": DOOR.format(imports="none", outside="yaml"),
            "store/a.py": '"""A.\n\nWraps: yaml\n"""\nimport yaml\n',
            "store/b.py": '"""B."""\nfrom sojourn.store import a\n',
        },
    ),
    "a file that is too long": ("length", {"wire/a.py": '"""A."""\n' + "\n" * 400}),
    "a name that says nothing": ("name", {"wire/utils.py": '"""A."""\n'}),
    "a folder name that says nothing": ("name", {"wire/helpers/a.py": '"""A."""\n'}),
    "a file without a docstring": ("docstring", {"wire/a.py": "X = 1\n"}),
    "a public function without a docstring": ("docstring", {"wire/a.py": '"""A."""\ndef f(): return 1\n'}),
    "a public class without a docstring": ("docstring", {"wire/a.py": '"""A."""\nclass A: x = 1\n'}),
    "an error swallowed": ("swallow", {"wire/a.py": '"""A."""\ntry:\n    X = 1\nexcept Exception:\n    pass\n'}),
    "any error swallowed": ("swallow", {"wire/a.py": '"""A."""\ntry:\n    X = 1\nexcept:\n    ...\n'}),
    "a clock in core": ("pure", {"core/a.py": '"""A."""\nimport time\n'}),
    "chance in core": ("pure", {"core/a.py": '"""A."""\nfrom random import random\n'}),
    "the time of day in core": ("pure", {"core/a.py": '"""A."""\nimport datetime\nX = datetime.datetime.now()\n'}),
    "a file opened in diagnose": ("pure", {"diagnose/a.py": '"""A."""\nX = open("x")\n'}),
    "a path that touches the disk": ("pure", {"diagnose/a.py": '"""A."""\nfrom pathlib import Path\n'}),
    "a match statement on the box": ("py38", {"box/a.py": '"""A."""\nmatch 1:\n    case 1:\n        X = 1\n'}),
    "a new method in training": ("py38", {"train/a.py": '"""A."""\nX = "ab".removeprefix("a")\n'}),
    "an annotation 3.8 cannot evaluate": ("py38", {"wire/a.py": '"""A."""\nX: int | None = None\n'}),
    "a type alias 3.8 cannot evaluate": ("py38", {"wire/a.py": '"""A."""\nX = dict[str, int]\n'}),
    "a union tested on 3.8": ("py38", {"wire/a.py": '"""A."""\nX = isinstance(1, int | str)\n'}),
    "code among the data": ("data", {"data/a.py": "X = 1\n", "wire/a.py": '"""A."""\n'}),
    "two files that import each other": (
        "circle",
        {
            "core/a.py": '"""A."""\nfrom sojourn.core import b\n',
            "core/b.py": '"""B."""\n\n\ndef f() -> None:\n    """F."""\n    from sojourn.core.a import b\n\n    b()\n',
        },
    ),
    "two folders of a room that import each other": (
        "circle",
        {
            f"verbs/{a}/{name}.py": f'"""A."""\n{text}'
            for a, name, text in (
                ("one", "__init__", ""),
                ("two", "__init__", ""),
                ("one", "a", "from sojourn.verbs.two import b\n"),
                ("two", "b", ""),
                ("two", "c", "from sojourn.verbs.one import d\n"),
                ("one", "d", ""),
            )
        },
    ),
    "a folder of too many files": ("crowd", {f"core/a{number}.py": '"""A."""\n' for number in range(26)}),
    "a file that is not Python": ("syntax", {"wire/a.py": '"""A."""\ndef\n'}),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_broken_rule_is_found(case: str, tmp_path: Path) -> None:
    rule, files = BREAKS[case]
    assert rules(rooms(tmp_path, files)) == [rule]


def test_a_breach_names_the_line(tmp_path: Path) -> None:
    (breach,) = rooms(tmp_path, {"core/a.py": '"""A."""\n\n\nimport time\n'})
    assert str(breach).startswith("core/a.py:4: pure: ")


def test_an_import_for_types_only_may_be_heavy_at_the_top(tmp_path: Path) -> None:
    text = '"""A."""\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import numpy\n'
    door = DOOR.format(imports="none", outside="numpy")
    assert rooms(tmp_path, {"store/__init__.py": door, "store/a.py": text}) == []


@pytest.mark.parametrize("module", ["sojourn", "sojourn.cli.main"])
def test_importing_the_command_line_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(sorted(set(sys.modules) & {house.HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
