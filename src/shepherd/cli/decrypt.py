"""`shepherd decrypt`: see encrypt.py."""

from __future__ import annotations

from shepherd.cli.encrypt import build_decrypt_parser as build_parser
from shepherd.cli.encrypt import execute_decrypt as execute

__all__ = ["build_parser", "execute"]
