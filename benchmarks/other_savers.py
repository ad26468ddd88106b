"""How others save a state: what `bench_checkpoint` compares the Checkpointer with. Each call makes a function of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def torch_save(torch: Any, state: dict[str, Any], folder: Path) -> Callable[[], None]:
    """What a careful script does by hand."""

    def save() -> None:
        with open(folder / "aside", "wb") as f:
            torch.save(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(folder / "aside", folder / "saved.pt")

    return save


def safetensors_save(state: dict[str, Any], folder: Path) -> Callable[[], None]:
    """The same in the format of safetensors, which has no checksums."""
    from safetensors.torch import save_file

    def save() -> None:
        save_file(state, folder / "aside")
        fd = os.open(folder / "aside", os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        os.replace(folder / "aside", folder / "saved.safetensors")

    return save


def dcp(state: dict[str, Any], folder: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """(begin, end) of `torch.distributed.checkpoint.async_save` with a stager whose buffers are kept."""
    import torch
    import torch.distributed as dist
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
    from torch.distributed.checkpoint.state_dict_saver import async_save

    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{folder / 'rendezvous'}", rank=0, world_size=1)
    pinned = torch.cuda.is_available()
    options = {"use_pinned_memory": pinned, "use_non_blocking_copy": pinned}
    stager = DefaultStager(StagingOptions(use_shared_memory=True, use_async_staging=False, **options))
    running: list[Any] = []

    def begin() -> None:
        target = FileSystemWriter(str(folder / "dcp"), sync_files=True)
        done = async_save(state, storage_writer=target, async_stager=stager)
        running.append(getattr(done, "upload_completion", done))

    def end() -> None:
        running.pop().result()

    return begin, end
