"""`python -m tests.verdicts --fault NAME --seed N`: one trial. `--trials 20 --ledger FILE`: all of them, each in a
process of its own, written down as they end; what the file has already is not played again. With `--again` the evidence
that they left beside the file is judged anew.
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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sojourn.diagnose import evidence
from sojourn.diagnose.reason import reason
from sojourn.store.gotchas import gotchas
from tests import reliability
from tests.verdicts import report, trial

TRIAL_S = 420.0  # a box with a kernel of its own takes long to boot


def main() -> int:
    """0 where all that was played held."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=None, help="play this trial here and now")
    parser.add_argument("--keep", default="", metavar="DIR", help="keep the trial's folder here")
    parser.add_argument("--trials", type=int, default=20, help="so many of each fault, seeds 0 to N-1")
    parser.add_argument("--ledger", default="", help="one JSON line a trial")
    parser.add_argument("--evidence", default="", metavar="FILE", help="of the trial: keep what was judged")
    parser.add_argument("--again", action="store_true", help="judge the evidence of all trials of the ledger anew")
    parser.add_argument("--page", action="store_true", help="write what the ledger has into docs/reliability.md")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="so many trials beside each other")
    parser.add_argument("--for-s", type=float, default=1e9, help="begin no new trial after this long")
    args = parser.parse_args()
    faults = args.fault or list(trial.FAULTS)
    if args.seed is not None:
        return max(
            _here(fault, args.seed, args.keep, Path(args.evidence) if args.evidence else None) for fault in faults
        )
    if args.again:
        return again(Path(args.ledger))
    if args.page:
        rows = sorted(read(Path(args.ledger)), key=lambda row: faults.index(row["fault"]))
        reliability.put(report.TITLE, report.lines(rows), sum(row["took_s"] for row in rows))
        return 0
    return campaign(faults, args.trials, Path(args.ledger), args.for_s, args.at_once)


def _here(fault: str, seed: int, keep: str, kept: Path | None) -> int:
    with tempfile.TemporaryDirectory(prefix="sojourn-verdict-") as aside:
        folder = Path(keep or aside) / f"{fault}-{seed}"
        folder.mkdir(parents=True)
        told = trial.play(fault, seed, folder, kept)
    print(json.dumps(asdict(told), ensure_ascii=False), flush=True)
    return 1 if told.wrong else 0


def campaign(faults: list[str], trials: int, ledger: Path, for_s: float, at_once: int = 1) -> int:
    """Play what the ledger lacks, the faults in turn, `at_once` beside each other; 0 where all that it then has held.

    Each has a home, a box, control groups and a laboratory of its own.
    """
    done = {(row["fault"], row["seed"]) for row in read(ledger) if row["verdict"]}
    began_s = time.monotonic()

    def play(fault: str, seed: int) -> dict[str, Any] | None:
        if time.monotonic() - began_s > for_s:
            return None
        return apart(fault, seed, _evidence(ledger, fault, seed))

    todo = [(fault, seed) for seed in range(trials) for fault in faults if (fault, seed) not in done]
    with ThreadPoolExecutor(at_once) as pool:
        for played in as_completed([pool.submit(play, *one) for one in todo]):
            if (row := played.result()) is not None:
                with ledger.open("a") as f:
                    f.write(json.dumps(row, ensure_ascii=False) + "\n")
                print(row["fault"], row["seed"], row["wrong"] or "held", f"{row['took_s']} s", flush=True)
    return 1 if any(row["wrong"] for row in read(ledger) if row["fault"] in faults) else 0


def again(ledger: Path) -> int:
    """Judge what was kept, by the code as it is now, and write the ledger anew; 0 where all held."""
    catalog, rows = gotchas(), []
    for row in read(ledger):
        told = trial.Told(**row)
        path = _evidence(ledger, told.fault, told.seed)
        if row["verdict"] and path.exists():
            document = json.loads(path.read_text())
            trial.judge(told, reason(catalog, evidence.from_document(document, catalog)), document)
        rows.append(asdict(told))
        if told.wrong:
            print(told.fault, told.seed, told.wrong, flush=True)
    ledger.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return 1 if any(row["wrong"] for row in rows if row["verdict"]) else 0


def _evidence(ledger: Path, fault: str, seed: int) -> Path:
    folder = ledger.with_name(ledger.stem + "-evidence")
    folder.mkdir(exist_ok=True)
    return folder / f"{fault}-{seed}.json"


def apart(fault: str, seed: int, kept: Path | None = None) -> dict[str, Any]:
    """One trial in a process of its own, so that one that hangs costs its own time only."""
    argv = [sys.executable, "-m", "tests.verdicts", "--fault", fault, "--seed", str(seed)]
    if kept is not None:
        argv += ["--evidence", str(kept)]
    pipe, top = subprocess.PIPE, Path(__file__).resolve().parents[2]
    child = subprocess.Popen(argv, cwd=top, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=TRIAL_S)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if lines:
            row: dict[str, Any] = json.loads(lines[-1])
            return row
        story = f"no verdict, rc {child.returncode}: {err[-400:]}"
    except subprocess.TimeoutExpired:
        story = f"no end within {TRIAL_S:g} s"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return {**asdict(trial.Told(fault, seed)), "wrong": story}


def read(ledger: Path) -> list[dict[str, Any]]:
    """What was written down; the newest of each trial."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(row["fault"], row["seed"]): row for row in rows}.values())


if __name__ == "__main__":
    sys.exit(main())
