"""Pure parsers from the raw text of one probe to observations, one file for each source. `table` finds them.

A parser takes a probe and returns {observation: value}; what the text does not tell is absent. Probes are known by
their names (a path, a command, a short word) or, where the name says nothing, by how their text begins.
"""
