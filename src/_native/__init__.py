"""Native kernels: text, ranking, the SQLite store, token estimates and the decode loop.

They know numbers, bytes and statements; settings, files and logging live above.
"""
