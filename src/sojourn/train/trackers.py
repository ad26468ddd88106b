"""Experiment trackers that keep their data only on this disk: reported at the start, while it can still be owed.

They are left alone: nothing is imported, set or sent. Only trackers already imported by the process are checked.
"""

from __future__ import annotations

import os
import sys


def remarks() -> list[str]:
    """One line for each tracker in use that is offline or has no key.

    Source: the environment variables of wandb, comet_ml, mlflow and neptune in their manuals, 2026-11.
    """
    said = []
    if "wandb" in sys.modules:
        mode = os.environ.get("WANDB_MODE", "")
        if mode in ("offline", "dryrun"):
            said.append(_line("wandb", f"is offline (WANDB_MODE={mode})", "wandb/offline-run-*"))
        elif mode != "disabled" and not os.environ.get("WANDB_API_KEY") and not _in_netrc("wandb"):
            said.append(_line("wandb", "has no key (WANDB_API_KEY)", "wandb/*run-*"))
    if "comet_ml" in sys.modules and not os.environ.get("COMET_API_KEY"):
        if not os.path.exists(os.path.expanduser("~/.comet.config")):
            said.append(_line("comet_ml", "has no key (COMET_API_KEY)", ".cometml-runs/*.zip"))
    if "mlflow" in sys.modules:
        where = os.environ.get("MLFLOW_TRACKING_URI", "")
        if not where or where.startswith(("file:", "sqlite:")) or "://" not in where:
            said.append(_line("mlflow", "has no server (MLFLOW_TRACKING_URI)", "mlruns/**"))
    if "neptune" in sys.modules:
        mode = os.environ.get("NEPTUNE_MODE", "")
        if mode == "offline" or not os.environ.get("NEPTUNE_API_TOKEN"):
            why = "is offline (NEPTUNE_MODE)" if mode == "offline" else "has no key (NEPTUNE_API_TOKEN)"
            said.append(_line("neptune", why, ".neptune/**"))
    return said


def _line(name: str, why: str, files: str) -> str:
    return f"{name} {why}: what it logs stays on this disk. To bring it home, add to the job: outputs: [{files!r}]"


def _in_netrc(host: str) -> bool:
    try:
        with open(os.environ.get("NETRC") or os.path.expanduser("~/.netrc"), encoding="utf-8", errors="replace") as f:
            return host in f.read()
    except OSError:
        return False
