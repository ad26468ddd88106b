"""Evidence and rules give findings. Pure.

Imports: wire core
Outside: none
"""
