"""Published clients against a real server: `python -m tests.clients.run`."""
