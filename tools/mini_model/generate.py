"""Write generated conversations as JSON lines, to look at: `python generate.py --count 20`.

With `--rows FILE.npz` they become token ids, which `train.py --rows` reads on a machine without the package.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random

from generator import JOBS, Split, conversation, rows
from tqdm import tqdm


def write_rows(path: Path, count: int, seed: int) -> None:
    """Write so many conversations in the shares of training: ids, 1 where learned from, and lengths."""
    import numpy as np
    from tokenizer import Tokenizer

    tokenizer, random = Tokenizer(Path(__file__).with_name("tokenizer.json")), Random(seed)
    made: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in tqdm(range(count)):
        job = random.choices([*JOBS], [*JOBS.values()])[0]
        made += [tokenizer.conversation(row) for row in rows(random, job, tokenizer.count)]
    ids, said = (np.concatenate(parts) for parts in zip(*made, strict=True))
    np.savez_compressed(path, ids=ids, said=said, lengths=[len(row) for row, _ in made])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument(
        "--job", choices=JOBS, help="one job only; all of them, in the shares of training, without it"
    )
    parser.add_argument(
        "--held-out", action="store_true", help="wordings and values that training never sees"
    )
    parser.add_argument("--level", type=float, default=1.0, help="0.15 short and simple … 1 everything")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file instead of standard output")
    parser.add_argument("--rows", type=Path, help="write token ids to this .npz file; needs `tokenizers`")
    options = parser.parse_args()
    if options.rows:
        write_rows(options.rows, options.count, options.seed)
        return
    random = Random(options.seed)
    split = Split(options.held_out, options.held_out, options.level)
    target = options.out.open("w", encoding="utf-8") if options.out else sys.stdout
    for _ in tqdm(range(options.count), disable=options.out is None):
        job = options.job or random.choices([*JOBS], [*JOBS.values()])[0]
        turns = [{"role": role, "content": text} for role, text in conversation(random, job, split)]
        print(json.dumps({"job": job, "messages": turns}, ensure_ascii=False), file=target)
    if options.out:
        target.close()


if __name__ == "__main__":
    main()
