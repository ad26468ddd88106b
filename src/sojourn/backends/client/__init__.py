"""What providers with an HTTP API share: one client, keys by name, limits, and what an answer proves."""
