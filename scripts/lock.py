"""Write requirements/*.txt from requirements/*.in: every file pinned by hash, no host or path of this machine named.

    .venv/bin/python scripts/lock.py [--keep] [NAME ...]     (all lists when none is named)

uv resolves, from the same .venv, for every platform at once, from Python 3.11 on; py38 for 3.8.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

UV = Path(sys.executable).parent / "uv"
LISTS = Path(__file__).resolve().parent.parent / "requirements"
ORDER = ["run", "dev", "docs", "demo", "torch", "adapters", "py38"]
UNWANTED = re.compile(r"://|(?:^|[\s=@'\"])/\w|index-url|find-links", re.M)  # an address, or an absolute path

# PyTorch's CPU build for x86_64 Linux: torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl.
TORCH_CPU_LINUX = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"


def compiled(name: str, *, keep: bool) -> str:
    """The lock of `requirements/<name>.in` as uv resolves it: an entry for each name, `--hash` lines below it.

    `keep`: what is pinned today stays at its version.
    """
    python = "3.8" if name == "py38" else "3.11"
    argv = [str(UV), "pip", "compile", "--universal", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    argv += ["--no-emit-index-url", "--no-emit-find-links", "--python-version", python, f"{name}.in"]
    argv += ["--constraints", f"{name}.txt"] if keep else []
    return subprocess.run(argv, cwd=LISTS, check=True, capture_output=True, text=True).stdout


def cpu_only(lock: str) -> str:
    """The same lock without CUDA: on Linux the CPU file, elsewhere the registry's own (which has no CUDA)."""
    kept = []
    for entry in re.split(r"\n(?=\S)", lock.strip()):
        first = entry.splitlines()[0]
        if first.startswith("torch=="):
            kept.append(f"torch==2.13.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{TORCH_CPU_LINUX}")
            kept.append(entry.replace("torch==2.13.0", "torch==2.13.0 ; sys_platform != 'linux'", 1))
        elif not re.match(r"(nvidia|cuda)-|triton==", first):
            kept.append(entry)
    return "\n".join(kept) + "\n"


def main() -> int:
    """Lock the named lists in order; 1 when a lock would name a host or a path."""
    parser = argparse.ArgumentParser(description="Write requirements/*.txt from requirements/*.in.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(ORDER)} (default: all)")
    parser.add_argument("--keep", action="store_true", help="leave versions that are pinned as they are")
    args = parser.parse_args()
    for name in args.names or ORDER:
        lock = compiled(name, keep=args.keep)
        if "\ntorch==" in lock:
            lock = cpu_only(lock)
        if unwanted := UNWANTED.search(lock):
            print(f"lock: {name}.txt would name {unwanted.group(0)!r}; nothing written", file=sys.stderr)
            return 1
        (LISTS / f"{name}.txt").write_text(lock)
        print(f"locked  requirements/{name}.txt  {lock.count('==')} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
