"""Help texts with commands that can be run as they are shown, where PATH may not have the program."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shepherd.installation import NAME, program, with_program

__all__ = ["runnable_help"]

_HEADING = re.compile(r"^examples?:", re.MULTILINE)
# In an example the name stands for the program, whatever follows it.
_IN_EXAMPLE = re.compile(rf"(?<![\w./-]){NAME}(?= |$)")
# An indented line, perhaps with a second column.
_COLUMNS = re.compile(r"( +\S.*?)(?:  +(\S.*))?")


def runnable_help(text: str, columns: int) -> str:
    """Return a help text with its commands as they can be run from the present folder.

    Indented lines below `examples:` are whole commands. What explains them stays in one column, or goes below
    them where that exceeds `columns`.
    """
    if NAME not in text or (own := program()) == NAME:
        return text
    prose, heading, rest = text, "", ""
    if match := _HEADING.search(text):
        prose, heading, rest = text[: match.start()], match[0], text[match.end() :]
    examples, *after = rest.split("\n\n", 1)
    shown = "\n".join(_examples(examples.split("\n"), own, columns)) if heading else ""
    more = [runnable_help(one, columns) for one in after]
    return "\n\n".join([with_program(prose, own) + heading + shown, *more])


def _examples(lines: list[str], own: str, columns: int) -> Iterator[str]:
    rows = [match.groups("") if (match := _COLUMNS.fullmatch(line)) else (line, "") for line in lines]
    made = [(_IN_EXAMPLE.sub(lambda _: own, first), with_program(second, own)) for first, second in rows]
    width = max((len(first) for first, second in made if second), default=0)
    is_below = any(second and width + 2 + len(second) > columns for _, second in made)
    for first, second in made:
        if second and is_below:
            yield from (first, f"      {second}")
        else:
            yield f"{first:{width}}  {second}" if second else first
