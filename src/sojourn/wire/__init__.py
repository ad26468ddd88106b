"""Words that both sides of the wire speak: errors, events, frames, manifests, atomic files, names, units.

Imports: none
Outside: isal (a faster CRC-32, where it is installed; else the standard library only, Python 3.8)
"""
