"""Walkers of file formats: what a file says of itself, checked by arithmetic and checksums. Stdlib only, Python 3.8.

Imports: wire
Outside: isal (a faster CRC-32, where it is installed; else the standard library only)
"""
