"""The memory for the first copy: there before the first step, for the size that the state will have by then."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

from sojourn.train import Checkpointer, preempt
from sojourn.train.saving import shared_memory
from sojourn.train.state.size import expected_bytes
from tests.train.killing import environment
from tests.train.lives import until

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not shared_memory.is_possible(), reason="only Linux has memfd"),
]


@pytest.fixture(autouse=True)
def quiet_signals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    preempt.uninstall()
    preempt.forget()


@pytest.mark.campaign
def test_memory_for_the_first_save_is_mapped_before_the_first_step() -> None:
    model = torch.nn.Linear(1000, 1000)
    optimizer = torch.optim.AdamW(model.parameters())
    ckpt = Checkpointer(model=model, optimizer=optimizer, every_steps=1)
    background = ckpt._saver._background
    assert background is not None
    until(lambda: background.arena.bytes > 0, "no memory came")
    mapped = background.arena.bytes
    model(torch.ones(1000)).sum().backward()
    optimizer.step()
    ckpt.step()
    assert ckpt.wait() and background.arena.bytes == mapped  # enough, also for what the optimizer keeps by now
    ckpt.close()


@pytest.mark.parametrize("kind, more", [("AdamW", {}), ("Adam", {"amsgrad": True}), ("SGD", {"momentum": 0.9}),
                                        ("SGD", {}), ("RMSprop", {}), ("Adagrad", {})])  # fmt: skip
def test_the_size_after_an_optimizers_first_step_is_known_before_it(kind: str, more: dict[str, object]) -> None:
    model = torch.nn.Linear(300, 300)
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, **more)
    items = {"model": model, "optimizer": optimizer}
    before = expected_bytes(items)
    model(torch.ones(300)).sum().backward()
    optimizer.step()
    ckpt = Checkpointer(background=False, **items)
    assert ckpt.save()
    size = next(Path("checkpoints").glob("ckpt-*.pt")).stat().st_size
    assert size <= shared_memory.with_room(before) and before < 1.1 * size
    ckpt.close()


def test_what_has_no_size_yet_is_not_expected() -> None:
    assert expected_bytes({"model": torch.nn.LazyLinear(3), "odd": [torch.zeros(3).to_sparse()]}) < 2000


def test_a_script_that_saves_nothing_does_not_wait_for_the_memory(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom sojourn.train import Checkpointer\n"
        "Checkpointer(folder=sys.argv[1], state={'b': bytearray(1 << 28)})\n"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    assert done.returncode == 0 and done.stdout == b""
