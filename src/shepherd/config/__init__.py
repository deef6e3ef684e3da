"""Settings: their schema, table of defaults, and sources.

Other packages are given the `Config` that they need.
"""

from __future__ import annotations

from shepherd.config.settings import SETTINGS, Config, Setting, default_user_id, known_setting

__all__ = ["SETTINGS", "Config", "Setting", "default_user_id", "known_setting"]
