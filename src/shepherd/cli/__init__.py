"""Command line: parse, call, print. It has no rules of its own.

Modules import nothing heavy before a command runs, so that `shepherd --help` is quick.
"""
