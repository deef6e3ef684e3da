"""The line of keys at the bottom of a view."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

__all__ = ["KeysFooter"]

# Keys that work in every view, and are listed under the first.
_HELP = "f1"
_EVERYWHERE = ("f2", "f3", "f4", "f5", "f6", "f7")


class KeysFooter(Footer):
    """The keys of a view, and as many of those that work everywhere as fit beside them."""

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._built_for = 0

    def compose(self) -> ComposeResult:
        """Build the keys, the view's own first, then help and the rest."""
        keys = [key for key in super().compose() if isinstance(key, FooterKey)]
        self._built_for = self.app.size.width
        left = self._built_for + 1  # nothing follows the last one
        places = {name: i for i, name in enumerate((_HELP, *_EVERYWHERE), 1)}
        for key in sorted(keys, key=lambda key: places.get(key.key, 0)):
            left -= _width(key)
            if left < 0 and key.key in places:
                return
            yield key

    def on_resize(self) -> None:
        """Build them anew for another width."""
        if self.app.size.width != self._built_for:
            self.refresh(recompose=True)


def _width(key: FooterKey) -> int:
    return len(key.key_display) + 1 + len(key.description) + 1
