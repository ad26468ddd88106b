"""The keeper of a box as seen from here: calls to it, its process, and the decoding of its answers."""
