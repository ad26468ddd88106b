"""Frozen values and pure laws: what a run is, what its events mean, when a meter may stop. No I/O, clock or randomness.

Imports: wire
Outside: none (standard library only)
"""
