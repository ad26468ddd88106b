"""`scripts/test PATH...`: format, lint and types of these files, and the tests of them.

The tests of a file in tests/ are its own. Those of a file in src/ are the files of tests that import its module, or are
named after it. A folder stands for the files in it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts import run_tests

TYPED = ("src/", "scripts/", "benchmarks/")


def main(paths: list[str]) -> int:
    """0 where all is well; 2 for a path that does not exist."""
    for path in paths:
        if not Path(path.partition("::")[0]).exists():
            print(f"test: no such file: {path}", file=sys.stderr)
            return 2
    files = [path.partition("::")[0] for path in paths]
    python = [name for name in files if Path(name).is_dir() or name.endswith(".py")]
    good = True
    if python:
        good = ran("ruff", "format", "--check", "--quiet", "--diff", *python) and good
        good = ran("ruff", "check", "--quiet", *python) and good
    if typed := [name for name in python if name.startswith(TYPED)]:
        good = ran("mypy", *typed) and good
    tests = [path for path in paths if path.startswith("tests/")]
    tests += [name for name in tests_of(files) if name not in tests]
    if tests:
        print("test:", *tests, flush=True)
        good = run_tests.main(["-n", "3", "--dist", "loadfile", *tests] if len(tests) > 1 else tests) == 0 and good
    return 0 if good else 1


def ran(*words: str) -> bool:
    """Whether a module's command ended well."""
    return subprocess.run([sys.executable, "-m", *words]).returncode == 0


def tests_of(files: list[str]) -> list[str]:
    """The files of tests that import a module of `files` in src/, or are named after it; sorted."""
    modules = set()
    for name in files:
        if name.startswith("src/"):
            path = Path(name)
            for one in [path] if path.is_file() else path.rglob("*.py"):
                dotted = ".".join(one.with_suffix("").parts[1:])
                modules.add(dotted[: -len(".__init__")] if dotted.endswith(".__init__") else dotted)
    if not modules:
        return []
    stems = {f"test_{module.rpartition('.')[2]}.py" for module in modules}
    found = []
    for test in sorted(Path("tests").rglob("test_*.py")):
        text = test.read_text("utf-8")
        imports = (f"import {name} " in f"{text} " or imports_it(text, name) for name in modules)
        if test.name in stems or any(imports):
            found.append(str(test))
    return found


def imports_it(text: str, module: str) -> bool:
    """`from a.b.c import x`, or `from a.b import c`."""
    package, _, name = module.rpartition(".")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("from ")]
    return any(
        line.startswith(f"from {module} import")
        or (line.startswith(f"from {package} import") and name in line.partition("import")[2].replace(",", " ").split())
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
