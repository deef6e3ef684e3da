"""The command line: parses arguments, calls other packages and prints. It contains no rules.

Modules import nothing heavy before a command runs, so that `shepherd --help` is quick.
"""
