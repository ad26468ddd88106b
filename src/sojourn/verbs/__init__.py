"""A user's intents, one file per command. A verb takes plain values, returns a value and prints nothing.

Imports: wire core store box train backends diagnose
Outside: yaml (a project's own settings, which init reads)
"""
