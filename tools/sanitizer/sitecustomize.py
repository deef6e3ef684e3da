"""Import the native modules that tools/sanitize has built, in this process and those that it starts."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

_PACKAGE = "shepherd._native."
_FOLDER = Path(os.environ["SHEPHERD_SANITIZED"])


class SanitizedModules:
    """Finds shepherd._native.NAME before the editable installation does."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return where the module is, None for every other module."""
        if not name.startswith(_PACKAGE):
            return None
        [file] = _FOLDER.glob(f"{name.removeprefix(_PACKAGE)}.*.so")
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, str(file)))


sys.meta_path.insert(0, SanitizedModules())  # type: ignore[arg-type]
