#!/usr/bin/env python3
"""Write docs/reference/configuration.md from the table of settings; a test checks that it was.

tools/config_reference.py > docs/reference/configuration.md
"""

from __future__ import annotations

from shepherd.config import SETTINGS

INTRODUCTION = """\
# Settings

Settings are stored in `~/.config/shepherd/config.json`. The folder follows `$XDG_CONFIG_HOME`, and
`SHEPHERD_CONFIG` names another file. Shepherd writes the file atomically with mode 0600, and keeps keys
that it doesn't know. A setting can come from several sources. The last of these wins: default, file,
environment, command-line option.

    shepherd config show               # show all settings, and where each value comes from
    shepherd config set temperature 0.2
    shepherd config unset temperature
    SHEPHERD_TEMPERATURE=0.2 shepherd  # set it for this run only

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
