"""The user's project before anything runs: `init`, `smoke`, `doctor --code`."""
