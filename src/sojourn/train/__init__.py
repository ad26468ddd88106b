"""Inside the user's training process: Checkpointer, preemption flag, progress. Works without any sojourn around.

Imports: wire
Outside: torch, numpy (only when the process already uses them), transformers, lightning (in hf and lightning)
"""

from sojourn.train.checkpointer import Checkpointer
from sojourn.train.loaders import Batches
from sojourn.train.preempt import preempted
from sojourn.train.sampler import ResumableSampler

__all__ = ["Batches", "Checkpointer", "ResumableSampler", "preempted"]
