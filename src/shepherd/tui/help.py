"""The help screen: keys, and the commands of the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.content import Content

__all__ = ["help_text"]

_KEYS = {
    "At the prompt": [
        ("Enter", "send"),
        ("Alt-Enter, Ctrl-J, \\ Enter", "begin a new line"),
        ("Up, Down", "lines that were sent before"),
        ("Tab", "complete a command, or leave the prompt"),
        ("Esc, Ctrl-C", "stop the answer"),
        ("Ctrl-D", "quit where nothing was typed, else delete a character"),
    ],
    "Everywhere": [
        ("F1, ? outside the prompt", "this help"),
        ("F2", "the panel, shown or hidden"),
        ("F3", "memories and facts"),
        ("F4", "knowledge and focus"),
        ("F5", "go on with another provider"),
        ("F6", "private: recall nothing, keep nothing"),
        ("Ctrl-P", "all commands, by name"),
        ("Ctrl-Q", "quit; Ctrl-C twice does, too"),
    ],
    "In a list": [
        ("Up, Down, j, k", "move"),
        ("Enter", "read it in full"),
        ("e", "change it"),
        ("f, Delete", "forget it"),
        ("p", "pin it: it stays when old ones make room"),
        ("/", "search, where there is a search"),
    ],
}


def help_text(usages: Mapping[str, tuple[str, str]]) -> Content:
    """Keys, then commands; each with what it does."""
    sections = [_section(title, rows) for title, rows in _KEYS.items()]
    sections.append(_section("Commands", usages.values()))
    sections.append(Content("A message that begins with a slash is written with two: //etc/fstab"))
    return Content("\n\n").join(sections)


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Content:
    lines = [Content.styled(title, "bold $accent")]
    lines += [Content.assemble((f"  {key:28}", "bold"), text) for key, text in rows]
    return Content("\n").join(lines)
