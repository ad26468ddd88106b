"""What both sides of the wire share: errors, events, frames, manifests, atomic files, names, units.

Imports: none
Outside: none (standard library only, Python 3.8)
"""
