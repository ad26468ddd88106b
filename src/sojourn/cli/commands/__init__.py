"""One file a command: its words (SUMMARY, ABOUT, EXAMPLES, EXITS), its `arguments`, and `call`: runs a verb, shows it.

INTERRUPTED, where it is given, is what Ctrl-C leaves behind. Verbs are imported only by `call`.
"""
