"""Our own disk: the journal (the truth) and its SQLite index, job files, settings, the parcel for the box.

Imports: wire core
Outside: yaml (job files), pathspec (what is not pushed)
"""
