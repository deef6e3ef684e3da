"""The HTTP server: the APIs of OpenAI and Anthropic, memory as a resource, and access rights.

It knows requests and their shapes; prompts, answers and memory belong to the floors below. Importing it loads
no web framework; making the app does.
"""

from __future__ import annotations
