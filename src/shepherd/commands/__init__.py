"""Slash commands, screen output and explanations of turns, which chat and TUI share."""
