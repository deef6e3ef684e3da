"""`shepherd tools`: list the tools for the memory that a model can have."""

from __future__ import annotations

from argparse import Namespace

from shepherd.cli.parsing import Parser, add_common_options, loaded_settings
from shepherd.commands.screen import Screen

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
List the memory tools that a model can use. Turn them on for one chat with shepherd --memtools, or for all
with the setting memory_tools. They work on the memory of the current user, never on that of another."""

_EPILOG = "--json prints them in the format of OpenAI's API."


def build_parser() -> Parser:
    """Build the parser of `shepherd tools`."""
    parser = Parser(prog="shepherd tools", description=_DESCRIPTION, epilog=_EPILOG)
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """List the tools."""
    config = loaded_settings(arguments).config
    from shepherd.tools import MEMORY_TOOLS

    if arguments.json:
        for tool in MEMORY_TOOLS:
            function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            screen.json({"type": "function", "function": function})
        return 0
    rows = [(tool.name, ", ".join(tool.parameters["properties"]), tool.description) for tool in MEMORY_TOOLS]
    screen.table(("name", "arguments", "what it does"), rows)
    screen.note(
        "these tools are on (setting memory_tools)"
        if config.memory_tools
        else "these tools are off; to turn them on for a chat: shepherd --memtools"
    )
    return 0
