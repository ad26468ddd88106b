"""Inside the user's training process: the Checkpointer, the preemption flag, progress. Works without any sojourn around it.

Imports: wire
Outside: torch, numpy (only when the process already uses them; Python 3.8)
"""
