"""`python -m tests.verdicts --fault NAME --seed N`: one trial. `--trials 20 --ledger FILE`: all of them, each in a
process of its own, written down as they end; what the file has already is not played again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.verdicts import trial

TRIAL_S = 420.0


def main() -> int:
    """0 where all that was played held."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=None, help="play this trial here and now")
    parser.add_argument("--keep", default="", metavar="DIR", help="keep the trial's folder here")
    parser.add_argument("--trials", type=int, default=20, help="so many of each fault, seeds 0 to N-1")
    parser.add_argument("--ledger", default="", help="one JSON line a trial")
    parser.add_argument("--for-s", type=float, default=1e9, help="begin no new trial after this long")
    args = parser.parse_args()
    faults = args.fault or list(trial.FAULTS)
    if args.seed is not None:
        return max(_here(fault, args.seed, args.keep) for fault in faults)
    return campaign(faults, args.trials, Path(args.ledger), args.for_s)


def _here(fault: str, seed: int, keep: str) -> int:
    with tempfile.TemporaryDirectory(prefix="sojourn-verdict-") as aside:
        folder = Path(keep or aside) / f"{fault}-{seed}"
        folder.mkdir(parents=True)
        told = trial.play(fault, seed, folder)
    print(json.dumps(asdict(told), ensure_ascii=False), flush=True)
    return 1 if told.wrong else 0


def campaign(faults: list[str], trials: int, ledger: Path, for_s: float) -> int:
    """Play what the ledger lacks, the faults in turn; 0 where all that it then has held."""
    done = {(row["fault"], row["seed"]) for row in read(ledger)}
    began_s = time.monotonic()
    for seed in range(trials):
        for fault in faults:
            if (fault, seed) not in done and time.monotonic() - began_s < for_s:
                row = _apart(fault, seed)
                with ledger.open("a") as f:
                    f.write(json.dumps(row, ensure_ascii=False) + "\n")
                print(fault, seed, row["wrong"] or "held", f"{row['took_s']} s", flush=True)
    return 1 if any(row["wrong"] for row in read(ledger) if row["fault"] in faults) else 0


def _apart(fault: str, seed: int) -> dict[str, object]:
    """One trial in a process of its own, so that one that hangs costs its own time only."""
    argv = [sys.executable, "-m", "tests.verdicts", "--fault", fault, "--seed", str(seed)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=TRIAL_S)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if lines:
            row: dict[str, object] = json.loads(lines[-1])
            return row
        story = f"no verdict, rc {child.returncode}: {err[-400:]}"
    except subprocess.TimeoutExpired:
        story = f"no end within {TRIAL_S:g} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return {**asdict(trial.Told(fault, seed)), "wrong": story}


def read(ledger: Path) -> list[dict[str, object]]:
    """What was written down; the newest of each trial."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(row["fault"], row["seed"]): row for row in rows}.values())


if __name__ == "__main__":
    sys.exit(main())
