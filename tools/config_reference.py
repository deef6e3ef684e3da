#!/usr/bin/env python3
"""Write docs/reference/configuration.md from the table of settings; a test checks that it was.

tools/config_reference.py > docs/reference/configuration.md
"""

from __future__ import annotations

from shepherd.config import SETTINGS

INTRODUCTION = """\
# Settings

They live in `~/.config/shepherd/config.json` (below `$XDG_CONFIG_HOME`, or the file that `SHEPHERD_CONFIG`
names), which is written atomically with mode 0600. Keys that Shepherd does not know are kept. A later source
wins: default, file, environment, option of the command line.

    shepherd config show               all of them, with where each value comes from
    shepherd config set temperature 0.2
    shepherd config unset temperature
    SHEPHERD_TEMPERATURE=0.2 shepherd  for this run

"""


def reference() -> str:
    """The whole page as Markdown."""
    rows = ["| key | default | what it is | values |", "|---|---|---|---|"]
    for setting in SETTINGS.values():
        default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
        shown = "" if default == "" else f"`{default}`"
        rows.append(f"| `{setting.key}` | {shown} | {setting.help} | {setting.expected} |")
    return INTRODUCTION + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
