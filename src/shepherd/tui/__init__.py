"""The full-screen conversation in the terminal: chat, memory and knowledge.

It shows events and passes on input; the rules of turns and commands are in lower packages.
"""
