"""The user interface: parses the command line, calls one verb, shows what it returns.

Imports: wire core store verbs
Outside: rich (live table), shtab (completion), matplotlib (pictures)
"""
