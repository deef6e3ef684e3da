"""Run the fuzz loops: python -m tests.native.fuzz [--seeds FIRST:END] [LOOP ...]

A seed does the same each time; a failure names it. tools/sanitize runs them on sanitized modules.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.native.fuzz import gguf, hot, store, text

LOOPS = {"text": text.run, "hot": hot.run, "store": store.run, "gguf": gguf.run}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.fuzz", description="Run the fuzz loops.")
    parser.add_argument("loops", nargs="*", help=f"of {', '.join(LOOPS)} (default: all)")
    parser.add_argument("--seeds", default="0:100", help="FIRST:END (default: 0:100)")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    failed = []
    for name in options.loops or LOOPS:
        began = time.monotonic()
        for seed in range(first, end):
            try:
                LOOPS[name](seed)
            except Exception:
                traceback.print_exc()
                failed.append(f"{name} {seed}")
        print(f"{name}: seeds {first} to {end - 1} in {time.monotonic() - began:.0f} s", flush=True)
    for one in failed:
        print(f"failed: {one}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
