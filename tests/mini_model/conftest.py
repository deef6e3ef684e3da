"""The tools folder is no package: its modules are imported by their own names, as its commands do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools" / "mini_model"))
