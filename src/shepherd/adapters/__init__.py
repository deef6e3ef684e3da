"""Shepherd's memory behind the interfaces of other libraries: `adapters.langgraph`, `adapters.langchain`.

Each module needs its own extra, and nothing else of Shepherd imports it.
"""
