"""Inside the user's training process: Checkpointer, preemption flag, progress. Also works without sojourn.

Imports: wire formats
Outside: torch, numpy (only when the process already uses them), transformers, lightning (in hf and lightning)
"""

from sojourn.train.checkpointer import Checkpointer
from sojourn.train.preempt import preempted
from sojourn.train.state.loaders import Batches
from sojourn.train.state.sampler import ResumableSampler

__all__ = ["Batches", "Checkpointer", "ResumableSampler", "preempted"]
