"""The keeper: shipped to the box as one zipapp; starts, guards, measures and reports runs there.

Imports: wire
Outside: none (standard library only, Python 3.8)
"""
