"""The conversation on a whole screen of the terminal: chat, what memory added, memories, knowledge.

It shows what the assistant tells and passes on what is typed; the rules of turns and commands live below.
"""
