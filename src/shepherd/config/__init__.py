"""Settings: their schema, their values, and the file, environment and options that the values come from.

It knows no other package: each of them is given the `Config` that it needs.
"""

from __future__ import annotations

from shepherd.config.settings import SETTINGS, Config, Setting, default_user_id, known_setting

__all__ = ["SETTINGS", "Config", "Setting", "default_user_id", "known_setting"]
