"""One file per command: its words (SUMMARY, ABOUT, EXAMPLES, EXITS), its `arguments`, and `call`, which runs a verb and
shows the answer.

GROUP is the command's heading in `sojourn --help`, PLACE its place there (lowest first). INTERRUPTED, if given, is what
Ctrl-C leaves behind. Only `call` imports verbs. A new file here is a new command.
"""
