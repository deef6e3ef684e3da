"""Interfaces of other libraries to Shepherd's memory: `adapters.langgraph`, `adapters.langchain`.

Each module needs its own extra; nothing else of Shepherd imports it.
"""
