"""Tiny real GGUF models, built here: a file llama.cpp loads, of every kind of cache, in milliseconds each.

Weights are random with a fixed seed, scaled so that activations stay near one. Vocabularies are trained on a
few sentences. `scripted` models say a given text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np

from shepherd.inference import load_check

CHATML = (
    "{%- for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)
# Knows tools as Qwen's do; what is to be said about a result comes after a tab instead of a line feed.
TOOL_TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>system\n' + messages[0].content }}"
    "{%- for t in tools %}{{ '\n' }}{{ t | tojson }}{%- endfor %}{{ '<|im_end|>\n' }}"
    "{%- else %}{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}"
    "{%- for m in messages[1:] %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- for c in m.tool_calls or [] %}"
    '{{ \'<tool_call>\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ '}\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}"
    "{{ '<|im_start|>assistant' + ('\t' if messages[-1].role == 'tool' else '\n') }}{%- endif %}"
)
SENTENCES = (
    "the quick brown fox jumps over the lazy dog. what is the name of the user? you are a helpful assistant. "
    "hello world, this is a test of a very small model. please remember that i live in texas and that my dog "
    "is called rex. the answer is that the cache is kept warm and the context small. "
) * 4
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
_MERGES = 200
_Kind = gguf.TokenType


@dataclass
class Vocab:
    """Tokens in id order, with the ids of the special ones."""

    tokens: list[str]
    ids: dict[str, int]


def byte_alphabet() -> list[str]:
    """The printable character that GPT-2's byte-level vocabularies write for each byte value."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def learn_merges(count: int) -> list[tuple[str, str]]:
    """The most frequent pairs of SENTENCES, merged one after the other: byte pair encoding."""
    alphabet = byte_alphabet()
    words = Counter(
        tuple(alphabet[byte] for byte in (" " + word).encode()) for word in SENTENCES.split(" ") if word
    )
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                pairs[pair] += n
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = Counter({_merge(word, best): n for word, n in words.items()})
    return merges


def _merge(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out: list[str] = []
    for symbol in word:
        if out and (out[-1], symbol) == pair:
            out[-1] += symbol
        else:
            out.append(symbol)
    return tuple(out)


class Builder:
    """One GGUF being written: hyperparameters, a vocabulary, tensors."""

    def __init__(self, path: Path, architecture: str, name: str, seed: int) -> None:
        self.path = path
        self.writer = gguf.GGUFWriter(str(path), architecture)
        self.writer.add_name(name)
        self.random = np.random.default_rng(seed)

    def shape(
        self, *, n_ctx: int, n_embd: int, n_layer: int, n_ff: int = 0, n_head: int = 0, n_kv: int = 0
    ) -> None:
        self.writer.add_context_length(n_ctx)
        self.writer.add_embedding_length(n_embd)
        self.writer.add_block_count(n_layer)
        self.writer.add_feed_forward_length(n_ff)
        self.writer.add_head_count(n_head)
        self.writer.add_head_count_kv(n_kv)
        self.writer.add_layer_norm_rms_eps(1e-6)

    def matrix(self, name: str, n_in: int, n_out: int, scale: float | None = None) -> np.ndarray:
        weights = self.random.standard_normal((n_out, n_in), dtype=np.float32)
        weights *= n_in**-0.5 if scale is None else scale
        self.writer.add_tensor(name, weights)
        return weights

    def vector(self, name: str, n: int, value: float = 1.0) -> None:
        noise = self.random.standard_normal(n, dtype=np.float32)
        self.writer.add_tensor(name, (value + 0.05 * noise).astype(np.float32))

    def attention(
        self, block: str, n_embd: int, *, n_head: int, n_kv: int, head: int, q_factor: int = 1
    ) -> None:
        self.matrix(block + "attn_q.weight", n_embd, head * n_head * q_factor, 2 * n_embd**-0.5)
        self.matrix(block + "attn_k.weight", n_embd, head * n_kv, 2 * n_embd**-0.5)
        self.matrix(block + "attn_v.weight", n_embd, head * n_kv)
        self.matrix(block + "attn_output.weight", head * n_head, n_embd)

    def feed_forward(self, block: str, n_embd: int, n_ff: int) -> None:
        self.matrix(block + "ffn_gate.weight", n_embd, n_ff)
        self.matrix(block + "ffn_up.weight", n_embd, n_ff)
        self.matrix(block + "ffn_down.weight", n_ff, n_embd)

    def norm(self, name: str, n: int) -> None:
        self.vector(name + ".weight", n)
        self.vector(name + ".bias", n, 0.0)

    def word_piece(self) -> int:
        """BERT's: the words of SENTENCES and single letters, beginnings with U+2581; how many tokens."""
        words = sorted({word.strip(".,?!") for word in SENTENCES.split()})
        letters = [chr(code) for code in range(33, 127)]
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        types = [_Kind.CONTROL, _Kind.UNKNOWN, *[_Kind.CONTROL] * 3]
        pieces = [*("\u2581" + piece for piece in dict.fromkeys([*words, *letters])), *letters]
        tokens += pieces
        types += [_Kind.NORMAL] * len(pieces)
        w = self.writer
        w.add_tokenizer_model("bert")
        w.add_tokenizer_pre("default")
        w.add_token_list(tokens)
        w.add_token_types(types)
        w.add_token_type_count(2)
        w.add_pad_token_id(0)
        w.add_unk_token_id(1)
        w.add_bos_token_id(2)
        w.add_sep_token_id(3)
        w.add_eos_token_id(3)
        w.add_mask_token_id(4)
        w.add_add_bos_token(True)
        w.add_add_eos_token(True)
        w.add_vocab_size(len(tokens))
        return len(tokens)

    def bpe(
        self,
        *,
        template: str | None = CHATML,
        extra: Sequence[str] = (),
        controls: Sequence[str] = (),
        pad_to: int = 0,
        extra_is_normal: bool = False,
        add_bos: bool = False,
        pre: str = "qwen2",
        more_merges: Sequence[tuple[str, str]] = (),
    ) -> Vocab:
        merges = [*learn_merges(_MERGES), *more_merges]
        tokens = [*byte_alphabet(), *(a + b for a, b in merges)]
        types = [_Kind.NORMAL] * len(tokens)
        for text in SPECIALS:
            tokens.append(text)
            types.append(_Kind.USER_DEFINED if "think" in text else _Kind.CONTROL)
        for text in controls:
            tokens.append(text)
            types.append(_Kind.CONTROL)
        for text in extra:
            if text not in tokens:
                tokens.append(text)
                types.append(_Kind.NORMAL if extra_is_normal else _Kind.USER_DEFINED)
        while len(tokens) < pad_to:
            tokens.append(f"[PAD{len(tokens)}]")
            types.append(_Kind.UNUSED)
        ids = {text: tokens.index(text) for text in (*SPECIALS, *controls, *extra)}
        w = self.writer
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre(pre)
        w.add_token_list(tokens)
        w.add_token_types(types)
        w.add_token_merges([f"{a} {b}" for a, b in merges])
        w.add_bos_token_id(ids["<|endoftext|>"])
        w.add_eos_token_id(ids["<|im_end|>"])
        w.add_add_bos_token(add_bos)
        w.add_vocab_size(len(tokens))
        if template:
            w.add_chat_template(template)
        return Vocab(tokens, ids)

    def spm(self, *, template: str | None = CHATML, add_bos: bool = True) -> Vocab:
        """SentencePiece: blanks are written as U+2581, bytes it has no piece for as <0xNN>."""
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        types = [_Kind.UNKNOWN, _Kind.CONTROL, _Kind.CONTROL, *[_Kind.BYTE] * 256]
        counts: Counter[str] = Counter()
        for word in ("\u2581" + word for word in SENTENCES.split()):
            for start in range(len(word)):
                counts.update(word[start:end] for end in range(start + 1, min(len(word), start + 8) + 1))
        letters = sorted({letter for piece in counts for letter in piece})
        pieces = letters + [piece for piece, _ in counts.most_common(300) if len(piece) > 1]
        scores = [0.0] * len(tokens) + [-float(rank) for rank in range(len(pieces))]
        tokens += pieces
        types += [_Kind.NORMAL] * len(pieces)
        for text in ("<|im_start|>", "<|im_end|>"):
            tokens.append(text)
            types.append(_Kind.CONTROL)
            scores.append(0.0)
        w = self.writer
        w.add_tokenizer_model("llama")
        w.add_tokenizer_pre("default")
        w.add_token_list(tokens)
        w.add_token_scores(scores)
        w.add_token_types(types)
        w.add_unk_token_id(0)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_eot_token_id(len(tokens) - 1)
        w.add_add_bos_token(add_bos)
        w.add_add_space_prefix(True)
        w.add_vocab_size(len(tokens))
        if template:
            w.add_chat_template(template)
        return Vocab(tokens, {text: i for i, text in enumerate(tokens)})

    def rwkv(self, words: Sequence[str]) -> Vocab:
        """RWKV's: all bytes, and these words; the longest one that fits is taken."""
        tokens = [f"\\x{byte:02x}" for byte in range(256)] + [word.replace("\n", "\\n") for word in words]
        w = self.writer
        w.add_tokenizer_model("rwkv")
        w.add_token_list(["<s>", *tokens])
        w.add_token_types([_Kind.CONTROL, *[_Kind.NORMAL] * len(tokens)])
        w.add_vocab_size(len(tokens) + 1)
        return Vocab(["<s>", *tokens], {"<s>": 0})

    def write(self) -> None:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        load_check.vouch(self.path)  # else each engine would load it in a child process first


def llama(
    path: Path,
    *,
    spm: bool = False,
    template: str | None = CHATML,
    add_bos: bool | None = None,
    ascii_only: bool = False,
    controls: Sequence[str] = (),
    n_ctx: int = 4096,
    n_vocab: int = 0,
    seed: int = 1,
    long_rope: int = 0,
) -> None:
    """Plain attention. `ascii_only`: it says printable ASCII and never ends by itself.

    `long_rope`: the context beyond which its positions turn by other factors, as in Phi 3.

    `controls`: more control tokens, for the vocabularies of certain templates.
    """
    n_embd, n_layer, n_ff, n_head, n_kv = 64, 2, 128, 4, 2
    build = Builder(path, "llama", "tiny-plain", seed)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=n_layer, n_ff=n_ff, n_head=n_head, n_kv=n_kv)
    build.writer.add_rope_dimension_count(n_embd // n_head)
    if long_rope:
        build.writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        build.writer.add_rope_scaling_orig_ctx_len(long_rope)
        build.vector("rope_factors_short.weight", n_embd // n_head // 2)
        build.vector("rope_factors_long.weight", n_embd // n_head // 2, 4.0)
    bos = spm if add_bos is None else add_bos
    vocab = (
        build.spm(template=template, add_bos=bos)
        if spm
        else build.bpe(template=template, controls=controls, add_bos=bos, pad_to=n_vocab)
    )
    build.matrix("token_embd.weight", n_embd, len(vocab.tokens), 1.0)
    build.vector("output_norm.weight", n_embd)
    output = build.random.standard_normal((len(vocab.tokens), n_embd), dtype=np.float32) * 2 * n_embd**-0.5
    if ascii_only:
        output[[i for i, text in enumerate(vocab.tokens) if not _is_ascii_text(text)]] = 0.0
    build.writer.add_tensor("output.weight", output)
    for i in range(n_layer):
        block = f"blk.{i}."
        build.vector(block + "attn_norm.weight", n_embd)
        build.vector(block + "ffn_norm.weight", n_embd)
        build.attention(block, n_embd, n_head=n_head, n_kv=n_kv, head=n_embd // n_head)
        build.feed_forward(block, n_embd, n_ff)
    build.write()


def _is_ascii_text(token: str) -> bool:
    # A logit of 0 loses to the largest of hundreds of random ones.
    printable = {*byte_alphabet()[32:127]}
    is_text = token not in (*SPECIALS, "<s>", "</s>", "<unk>") and not token.startswith(("[PAD", "<0x"))
    return is_text and set(token) <= printable


def scripted(
    path: Path,
    script: Sequence[str],
    *,
    template: str | None = CHATML,
    n_ctx: int = 4096,
    as_bytes: bool = False,
    after_tab: Sequence[str] = (),
    after: Mapping[str, Sequence[str]] | None = None,
    head: int = 64,
    n_head: int = 4,
) -> None:
    """Says the pieces of `script` in order after a generation prompt, then ends its turn.

    Those of `after_tab` instead where that prompt ends with a tab (see TOOL_TEMPLATE), and those of `after`
    where it ends with another character.

    Its blocks write nothing, so the next token depends on the current one alone: output row next(t) is the
    embedding of t. The pieces must differ from each other. `as_bytes`: they are spelt in byte_alphabet().
    A long prompt is read faster with fewer and smaller heads.
    """
    n_embd, n_ff, n_kv = 256, 32, max(n_head // 2, 1)
    build = Builder(path, "llama", "tiny-scripted", 3)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=1, n_ff=n_ff, n_head=n_head, n_kv=n_kv)
    build.writer.add_key_length(head)
    build.writer.add_value_length(head)
    build.writer.add_rope_dimension_count(head)
    scripts = {"\n": script, "\t": after_tab, **(after or {})}
    extra = [piece for pieces in scripts.values() for piece in pieces]
    vocab = build.bpe(template=template, extra=extra, extra_is_normal=as_bytes)
    embedding = build.random.standard_normal((len(vocab.tokens), n_embd), dtype=np.float32)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    output = np.zeros_like(embedding)
    for begin, pieces in scripts.items():
        first = vocab.tokens.index(byte_alphabet()[ord(begin)])
        chain = [first, *(vocab.ids[piece] for piece in pieces), vocab.ids["<|im_end|>"]]
        for now, next_one in pairwise(chain if pieces else ()):
            output[next_one] += 30 * n_embd**-0.5 * embedding[now]
    build.writer.add_tensor("token_embd.weight", embedding)
    build.writer.add_tensor("output.weight", output)
    build.writer.add_tensor("output_norm.weight", np.ones(n_embd, np.float32))
    block = "blk.0."
    build.vector(block + "attn_norm.weight", n_embd)
    build.vector(block + "ffn_norm.weight", n_embd)
    build.matrix(block + "attn_q.weight", n_embd, n_head * head)
    build.matrix(block + "attn_k.weight", n_embd, n_kv * head)
    build.matrix(block + "attn_v.weight", n_embd, n_kv * head)
    build.matrix(block + "attn_output.weight", n_head * head, n_embd, 0.0)
    build.matrix(block + "ffn_gate.weight", n_embd, n_ff)
    build.matrix(block + "ffn_up.weight", n_embd, n_ff)
    build.matrix(block + "ffn_down.weight", n_ff, n_embd, 0.0)
    build.write()


def gemma3(path: Path, *, window: int = 64, n_ctx: int = 4096, template: str | None = CHATML) -> None:
    """Sliding-window attention in every second layer."""
    n_embd, n_layer, n_ff, n_head, n_kv, head = 64, 4, 128, 4, 2, 16
    build = Builder(path, "gemma3", "tiny-sliding", 5)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=n_layer, n_ff=n_ff, n_head=n_head, n_kv=n_kv)
    build.writer.add_key_length(head)
    build.writer.add_value_length(head)
    build.writer.add_sliding_window(window)
    build.writer.add_uint32("gemma3.attention.sliding_window_pattern", 2)
    build.writer.add_rope_freq_base(10000.0)
    vocab = build.bpe(template=template)
    build.matrix("token_embd.weight", n_embd, len(vocab.tokens))
    build.vector("output_norm.weight", n_embd, 2.0)
    for i in range(n_layer):
        block = f"blk.{i}."
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            build.vector(f"{block}{norm}.weight", n_embd)
        build.vector(block + "attn_q_norm.weight", head)
        build.vector(block + "attn_k_norm.weight", head)
        build.attention(block, n_embd, n_head=n_head, n_kv=n_kv, head=head)
        build.feed_forward(block, n_embd, n_ff)
    build.write()


def olmo2(path: Path, *, window: int = 64, n_ctx: int = 4096, template: str | None = CHATML) -> None:
    """A sliding window again, with SiLU: llama.cpp takes Gemma's GELU from a table of 16-bit floats."""
    n_embd, n_layer, n_ff, n_head, head = 64, 4, 128, 4, 16
    build = Builder(path, "olmo2", "tiny-windowed", 6)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=n_layer, n_ff=n_ff, n_head=n_head, n_kv=n_head)
    build.writer.add_sliding_window(window)
    build.writer.add_rope_freq_base(10000.0)
    vocab = build.bpe(template=template)
    build.matrix("token_embd.weight", n_embd, len(vocab.tokens), 1.0)
    build.matrix("output.weight", n_embd, len(vocab.tokens), 2 * n_embd**-0.5)
    build.vector("output_norm.weight", n_embd)
    for i in range(n_layer):
        block = f"blk.{i}."
        for norm in ("post_attention_norm", "attn_q_norm", "attn_k_norm", "post_ffw_norm"):
            build.vector(f"{block}{norm}.weight", n_embd)
        build.attention(block, n_embd, n_head=n_head, n_kv=n_head, head=head)
        build.feed_forward(block, n_embd, n_ff)
    build.write()


def mamba(path: Path, *, n_ctx: int = 4096, template: str | None = CHATML) -> None:
    """A recurrent state instead of a KV cache."""
    n_embd, n_layer, conv, state, step_rank = 64, 2, 4, 8, 4
    inner = 2 * n_embd
    build = Builder(path, "mamba", "tiny-recurrent", 7)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=n_layer)
    build.writer.add_ssm_conv_kernel(conv)
    build.writer.add_ssm_inner_size(inner)
    build.writer.add_ssm_state_size(state)
    build.writer.add_ssm_time_step_rank(step_rank)
    vocab = build.bpe(template=template)
    build.matrix("token_embd.weight", n_embd, len(vocab.tokens), 1.0)
    build.vector("output_norm.weight", n_embd)
    build.matrix("output.weight", n_embd, len(vocab.tokens), 2 * n_embd**-0.5)
    decay = -np.tile(np.arange(1, state + 1, dtype=np.float32) * 0.1, (inner, 1))
    for i in range(n_layer):
        block = f"blk.{i}."
        build.vector(block + "attn_norm.weight", n_embd)
        build.matrix(block + "ssm_in.weight", n_embd, 2 * inner)
        build.matrix(block + "ssm_conv1d.weight", conv, inner)
        build.vector(block + "ssm_conv1d.bias", inner, 0.0)
        build.matrix(block + "ssm_x.weight", inner, step_rank + 2 * state)
        build.matrix(block + "ssm_dt.weight", step_rank, inner)
        build.vector(block + "ssm_dt.bias", inner, -2.0)
        build.writer.add_tensor(block + "ssm_a", decay)
        build.vector(block + "ssm_d", inner)
        build.matrix(block + "ssm_out.weight", inner, n_embd)
    build.write()


def qwen35(path: Path, *, n_ctx: int = 4096, template: str | None = CHATML) -> None:
    """Hybrid: gated delta net, and full attention in every second layer; positions in several dimensions."""
    n_embd, n_layer, n_ff, n_head, n_kv, head = 64, 4, 128, 4, 2, 16
    state, key_heads, value_heads, conv = 16, 2, 4, 4
    inner = state * value_heads
    channels = 2 * state * key_heads + inner
    build = Builder(path, "qwen35", "tiny-hybrid", 9)
    build.shape(n_ctx=n_ctx, n_embd=n_embd, n_layer=n_layer, n_ff=n_ff, n_head=n_head, n_kv=n_kv)
    w = build.writer
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head)
    w.add_rope_dimension_sections([2, 3, 3, 0])
    w.add_rope_freq_base(1e6)
    w.add_ssm_conv_kernel(conv)
    w.add_ssm_inner_size(inner)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(value_heads)
    w.add_ssm_group_count(key_heads)
    w.add_uint32("qwen35.full_attention_interval", 2)
    vocab = build.bpe(template=template)
    build.matrix("token_embd.weight", n_embd, len(vocab.tokens), 1.0)
    build.vector("output_norm.weight", n_embd)
    build.matrix("output.weight", n_embd, len(vocab.tokens), 2 * n_embd**-0.5)
    for i in range(n_layer):
        block = f"blk.{i}."
        build.vector(block + "attn_norm.weight", n_embd)
        build.vector(block + "post_attention_norm.weight", n_embd)
        if i % 2:
            build.attention(block, n_embd, n_head=n_head, n_kv=n_kv, head=head, q_factor=2)
            build.vector(block + "attn_q_norm.weight", head)
            build.vector(block + "attn_k_norm.weight", head)
        else:
            build.matrix(block + "attn_qkv.weight", n_embd, channels)
            build.matrix(block + "attn_gate.weight", n_embd, inner)
            build.matrix(block + "ssm_conv1d.weight", conv, channels)
            build.vector(block + "ssm_dt.bias", value_heads, 0.0)
            build.vector(block + "ssm_a", value_heads, -0.3)
            build.matrix(block + "ssm_beta.weight", n_embd, value_heads)
            build.matrix(block + "ssm_alpha.weight", n_embd, value_heads)
            build.vector(block + "ssm_norm.weight", state)
            build.matrix(block + "ssm_out.weight", inner, n_embd)
        build.feed_forward(block, n_embd, n_ff)
    build.write()


def bert(
    path: Path,
    *,
    pooling: gguf.PoolingType | None = gguf.PoolingType.MEAN,
    n_cls_out: int = 0,
    n_ctx: int = 64,
    n_embd: int = 32,
    n_layer: int = 2,
    n_head: int = 4,
    name: str = "tiny-encoder",
    seed: int = 11,
) -> None:
    """An encoder with learned positions and WordPiece; with `n_cls_out`, a classification head on top."""
    n_ff = 4 * n_embd
    build = Builder(path, "bert", name, seed)
    w = build.writer
    w.add_context_length(n_ctx)
    w.add_embedding_length(n_embd)
    w.add_block_count(n_layer)
    w.add_feed_forward_length(n_ff)
    w.add_head_count(n_head)
    w.add_layer_norm_eps(1e-12)
    w.add_causal_attention(False)
    if pooling is not None:
        w.add_pooling_type(pooling)
    n_vocab = build.word_piece()
    build.matrix("token_embd.weight", n_embd, n_vocab, 1.0)
    build.matrix("token_types.weight", n_embd, 2, 0.1)
    build.matrix("position_embd.weight", n_embd, n_ctx, 0.3)
    build.norm("token_embd_norm", n_embd)
    for i in range(n_layer):
        block = f"blk.{i}."
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            build.matrix(f"{block}{part}.weight", n_embd, n_embd, 2 * n_embd**-0.5)
            build.vector(f"{block}{part}.bias", n_embd, 0.0)
        build.norm(block + "attn_output_norm", n_embd)
        build.matrix(block + "ffn_up.weight", n_embd, n_ff)
        build.vector(block + "ffn_up.bias", n_ff, 0.0)
        build.matrix(block + "ffn_down.weight", n_ff, n_embd)
        build.vector(block + "ffn_down.bias", n_embd, 0.0)
        build.norm(block + "layer_output_norm", n_embd)
    if n_cls_out:
        w.add_classifier_output_labels([f"label {i}" for i in range(n_cls_out)])
        build.matrix("cls.weight", n_embd, n_embd)
        build.vector("cls.bias", n_embd, 0.0)
        build.matrix("cls.output.weight", n_embd, n_cls_out)
        build.vector("cls.output.bias", n_cls_out, 0.0)
    build.write()
