"""Claims of an extraction model about the user, and the judge that checks them against the user's words.

It knows wordings and keys; nothing of models, databases and conversations. Its modules are imported by name:
the memory needs only keys and endings, and need not wait for the patterns of the others.
"""
