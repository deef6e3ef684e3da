"""A short check of the whole chain, `python smoke.py`: a tiny network trained, widened, exported, read back.

Fails when the loss does not fall, when llama.cpp does not load the file, when it splits a text into other
tokens, or when its logits differ from the network's.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from evaluate import parity
from export import export
from grow import deepened
from model import Block, CausalAttention, Shape, Transformer, fused_attention
from restore import restored
from torch.nn import functional
from train import learn_hardest, load, losses_of

HERE = Path(__file__).parent
TINY = (
    "--width",
    "64",
    "--layers",
    "2",
    "--feed-forward",
    "128",
    "--batch-tokens",
    "2048",
    "--log-every",
    "10",
    "--warm-up",
    "20",
)


def train(out: Path, *more: str) -> list[float]:
    """Run the training command; the losses in its log."""
    _run("train.py", "--out", out, *TINY, "--minutes", "3", *more)
    with (out / "log.csv").open(encoding="utf-8") as log:
        return [float(row["loss"]) for row in csv.DictReader(log)]


def check_attention() -> None:
    """Attention and its way back, both written out, against torch's own: pieces and a part of one."""
    random = torch.Generator().manual_seed(1)
    query, key, value, back = (
        torch.randn(2, length, 4, generator=random, dtype=torch.float64) for length in (300, 150, 150, 300)
    )
    inputs = [part.requires_grad_() for part in (query, key, value)]
    heads = [query.view(2, 150, 2, 4).transpose(1, 2), key[:, None], value[:, None]]
    expected = functional.scaled_dot_product_attention(*heads, is_causal=True, scale=1.0, enable_gqa=True)
    found = CausalAttention.apply(*inputs)
    torch.testing.assert_close(found, expected.transpose(1, 2).reshape(2, 300, 4))
    for one, other in zip(
        torch.autograd.grad(found, inputs, back),
        torch.autograd.grad(expected.transpose(1, 2).reshape(2, 300, 4), inputs, back),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)  # sums of keys are float32


def check_fused_attention() -> None:
    """A block computes the same with the attention of a GPU."""
    random = torch.Generator().manual_seed(2)
    block = Block(Shape(vocabulary=8, width=64, heads=4, kv_heads=2))
    query, key, value = (torch.randn(2, 150, heads, 16, generator=random) for heads in (4, 2, 2))
    expected = block.attend(query, key, value)
    torch.testing.assert_close(fused_attention(query, key, value), expected, rtol=1e-4, atol=1e-5)


def check_depth() -> None:
    """New layers change nothing before they have learned something, and can learn."""
    random = torch.Generator().manual_seed(3)
    network = Transformer(Shape(vocabulary=64, width=64, layers=2, heads=2, kv_heads=1, feed_forward=128))
    ids = torch.randint(64, (2, 33), generator=random)
    larger = deepened(network, 4)
    torch.testing.assert_close(larger(ids), network(ids))
    learn_hardest(larger, ids, torch.ones_like(ids, dtype=torch.bool), 66)
    assert all(block.ffn_down.weight.grad.abs().sum() > 0 for block in larger.blk)


def check_choice() -> None:
    """Of more rows than are to be learned from, those with the largest loss are, and no others."""
    random = torch.Generator().manual_seed(1)
    network = Transformer(Shape(vocabulary=64, width=64, layers=2, heads=2, kv_heads=1, feed_forward=128))
    ids = torch.randint(64, (10, 33), generator=random)
    said = torch.rand(ids.shape, generator=random) < 0.5
    counted, mean = learn_hardest(network, ids, said, 3 * 33)
    found = [weight.grad for weight in network.parameters()]
    network.zero_grad()
    rows = [losses_of(network, ids[row : row + 1], said[row : row + 1]) for row in range(10)]
    worst = torch.tensor([losses.sum().item() for losses in rows]).topk(3).indices
    losses_of(network, ids[worst], said[worst]).mean().backward()
    assert counted == int(said[worst, 1:].sum())
    assert abs(mean - torch.cat(rows).mean().item()) < 1e-3
    for gradient, weight in zip(found, network.parameters(), strict=True):
        torch.testing.assert_close(gradient, weight.grad)


def _run(script: str, *words: object) -> None:
    command = [sys.executable, str(HERE / script), *map(str, words)]
    subprocess.run(command, check=True, env={**os.environ, "CI": "1"})


def main() -> None:
    """Every step of the chain, once."""
    check_attention()
    check_fused_attention()
    check_depth()
    check_choice()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        before = train(out, "--tokens", "0.3")
        _run("generate.py", "--count", "200", "--rows", out / "rows.npz")
        after = train(
            out, "--tokens", "0.36", "--rows", out / "rows.npz", "--resume", "--feed-forward", "160"
        )
        assert before[-1] < 0.75 * before[0], f"the loss did not fall: {before[0]:.2f} to {before[-1]:.2f}"
        assert len(after) > len(before), "the resumed run logged nothing"
        # The rows are harder than those of the first run, so its loss says little: a new run has them, too.
        anew = train(out / "anew", "--tokens", "0.06", "--rows", out / "rows.npz")
        assert after[-1] < 0.8 * anew[-1], (
            f"the resumed run began anew: {after[-1]:.2f}, and {anew[-1]:.2f} from the beginning"
        )
        _run("average.py", out / "checkpoint.pt", out / "checkpoint.pt", "--out", out / "mean.pt")
        # f32 shows that the export is right. llama.cpp rounds what goes into f16 and q8_0 products, too, and
        # the copying circuit has large numbers there; quantised files are judged by the tokens they choose.
        for kind, most in (("f32", 0.1), ("f16", 0.2), ("q8_0", 4.0)):
            export(out / "mean.pt", out / f"{kind}.gguf", kind)
            difference = parity(out / f"{kind}.gguf", out / "checkpoint.pt")
            print(kind, difference)
            assert difference["texts_with_other_tokens"] == 0
            assert difference["largest_logit_difference"] < most
            assert difference["same_best_token_percent"] > 95
        network, _ = load(out / "mean.pt")
        for name, weight in restored(out / "f32.gguf").state_dict().items():
            torch.testing.assert_close(weight, network.state_dict()[name], rtol=0, atol=0)
    print("the chain works")


if __name__ == "__main__":
    main()
