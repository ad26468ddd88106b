"""Renting: what providers offer, what it would cost, what may be taken, and the machine from the intent to its ssh."""
