"""Many files verified on all cores: small ones together, the largest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from sojourn.backends.proof.proof import Prover, Task
from sojourn.core.artifact import Artifact

SMALL_BYTES = 256 << 10  # a larger file takes longer than a question about it
_MOST_FILES, _MOST_BYTES = 100, 4 << 20  # of one question
_SHARES = 4  # questions to each process, at least, so that all end at about the same time


def prove_each(
    prover: Prover, tasks: Sequence[Task], sizes_bytes: Sequence[int], processes: int
) -> Iterator[tuple[int, Artifact]]:
    """(number of the task, its proof) of each, in no order.

    The largest files are begun first, so that no core is left with one at the end; among those of about one size in the
    order of their names, so that not all wait for PyTorch at the same time. Left early, what runs is ended with the
    Prover's processes, not waited for.
    """
    order = sorted(range(len(tasks)), key=lambda number: (-(sizes_bytes[number] >> 26), tasks[number].name))
    # Twice as many as there are processes: while some files are loaded, others are looked up and compared.
    pool = ThreadPoolExecutor(2 * processes, "prove")
    try:
        running: dict[Future[list[Artifact]], list[int]] = {}
        for numbers in batches(order, sizes_bytes, processes):
            running[pool.submit(prover.prove_many, [tasks[number] for number in numbers])] = numbers
        for future in as_completed(running):
            yield from zip(running.pop(future), future.result(), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def batches(order: Sequence[int], sizes_bytes: Sequence[int], processes: int) -> Iterator[list[int]]:
    """The numbers of `order` by turns: large files alone, small ones together."""
    most = max(1, min(_MOST_FILES, len(order) // (_SHARES * processes)))
    batch: list[int] = []
    total_bytes = 0
    for number in order:
        size_bytes = sizes_bytes[number]
        if size_bytes > SMALL_BYTES:
            yield [number]
            continue
        if batch and (len(batch) >= most or total_bytes + size_bytes > _MOST_BYTES):
            yield batch
            batch, total_bytes = [], 0
        batch.append(number)
        total_bytes += size_bytes
    if batch:
        yield batch
