"""The command line: parse, call, print. No rule lives here.

Modules import nothing heavy before a command runs, so that `shepherd --help` answers at once.
"""
