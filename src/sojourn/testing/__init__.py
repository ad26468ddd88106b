"""Contract suites, fakes and fault wrappers for backends, ours and yours. Imported by no other room.

Imports: all
Outside: pytest
"""
