"""One file a command: its words (SUMMARY, ABOUT, EXAMPLES, EXITS), its `arguments`, and `call`: runs a verb, shows it.

GROUP is the command's heading in `sojourn --help`, PLACE where it stands there (lowest first). INTERRUPTED, where it is
given, is what Ctrl-C leaves behind. Verbs are imported only by `call`. A new file here is a new command.
"""
