"""Cost of a restart after kill -9 during many conversations.

Each conversation has about 2,000 tokens. The tokens that its next turn reads are compared with those that are
new; "first token" is the time of that turn, including the file, and "warm" that of the turn after it.

  python -m pytest bench/test_restart.py --benchmark-only -s

SHEPHERD_BENCH_CONVERSATIONS (default 100) is their number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import talk_models
from bench.restarts import restart
from bench.small import IN_SMALL, JUDGED, count, sized

CONVERSATIONS = count("SHEPHERD_BENCH_CONVERSATIONS", 100, 4)
TOKENS = sized(2_000, 200)


KINDS = ["tiny", "sliding", "recurrent", "hybrid", "0.5b"]


@pytest.mark.parametrize("kind", KINDS[:2] if IN_SMALL else KINDS)
def test_the_next_turn_of_each_reads_its_new_tokens(benchmark, kind: str, tmp_path: Path) -> None:
    model = talk_models.make(kind, tmp_path, n_ctx=4096)
    options = {"n": CONVERSATIONS, "n_tokens": TOKENS, "n_ctx": 4096, "n_threads": 1, "slots": 4}
    found = benchmark.pedantic(restart, args=(model, tmp_path), kwargs=options, rounds=1)

    print(
        f"\n{kind}, {found.n} conversations of {found.n_tokens:,} tokens, {found.size_mb:,.0f} MB on disk: "
        f"{found.n_decoded:,} tokens read for {found.n_new:,} new ones; "
        f"first token {found.first_ms:.1f} ms, warm {found.warm_ms:.1f} ms"
    )
    assert found.n_decoded <= found.n_new
    if JUDGED:
        assert found.first_ms <= 2 * found.warm_ms
