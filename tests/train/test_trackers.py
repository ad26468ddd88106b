"""A tracker that keeps what it is told on this disk alone is said at the start; the others are not spoken of."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from sojourn.train import Checkpointer, trackers


def use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("wandb", "comet_ml", "mlflow", "neptune"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    for variable in ("WANDB_MODE", "WANDB_API_KEY", "COMET_API_KEY", "MLFLOW_TRACKING_URI", "NEPTUNE_MODE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


@pytest.mark.parametrize(
    "name, env, says",
    [
        ("wandb", {}, "wandb has no key (WANDB_API_KEY)"),
        ("wandb", {"WANDB_MODE": "offline", "WANDB_API_KEY": "x"}, "wandb is offline (WANDB_MODE=offline)"),
        ("wandb", {"WANDB_API_KEY": "x"}, ""),
        ("wandb", {"WANDB_MODE": "disabled"}, ""),
        ("comet_ml", {}, "comet_ml has no key"),
        ("mlflow", {}, "mlflow has no server"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "https://tracker.example"}, ""),
        ("neptune", {"NEPTUNE_MODE": "offline"}, "neptune is offline"),
        ("json", {}, ""),
    ],
)
def test_only_a_tracker_that_stays_on_this_disk_is_said(
    name: str, env: dict, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, name)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    said = "\n".join(trackers.remarks())
    assert (says in said and "outputs: [" in said) if says else said == ""


def test_a_key_in_netrc_is_a_key(monkeypatch: pytest.MonkeyPatch, private_home: Path) -> None:
    use(monkeypatch, "wandb")
    (private_home / ".netrc").write_text("machine api.wandb.ai login user password x\n")
    assert trackers.remarks() == []


def test_it_is_said_at_the_first_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    use(monkeypatch, "wandb")
    ckpt = Checkpointer(state={"x": 1.0}, folder=tmp_path / "ckpt", every_steps=10)
    ckpt.step()
    ckpt.step()
    assert capsys.readouterr().err.count("wandb has no key") == 1
    ckpt.close()
