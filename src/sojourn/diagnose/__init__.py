"""Evidence and rules give findings. Pure.

Imports: wire core
Outside: numpy (to sieve logs of many megabytes)
"""
