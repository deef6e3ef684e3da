"""Claims of an extraction model about the user, and the judge that checks them against the user's words.

It knows wordings and keys; nothing of models, databases and conversations. Its modules are imported by name,
so that a module that needs only the keys loads no patterns.
"""
