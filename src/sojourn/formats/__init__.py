"""Walkers of file formats: a file's own structure, checked by arithmetic and checksums. Stdlib only, Python 3.8.

Imports: wire
Outside: isal (a faster CRC-32, if installed; else the standard library only)
"""
