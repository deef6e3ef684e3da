"""What chat and TUI share: slash commands, the screen, and the words that explain a turn."""
