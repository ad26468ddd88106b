"""Connections that several ports and verbs share: no port of its own."""
