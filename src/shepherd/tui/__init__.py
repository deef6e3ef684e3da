"""The conversation on the whole screen of the terminal: chat, memory and knowledge.

It shows events and passes on input; the rules of turns and commands are in lower packages.
"""
