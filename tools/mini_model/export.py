"""Write a trained checkpoint as GGUF: `python export.py run/checkpoint.pt MODEL.gguf --type q8_0`."""

from __future__ import annotations

import argparse
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from model import Shape
from tokenizer import CONTROL, Tokenizer
from train import LONGEST, load

__all__ = ["CHAT_TEMPLATE", "export"]

# As long as the conversations it was trained on. Beyond, it babbles: of a file that was trained on 1,024
# tokens, 5 of 5 answers were right after 700, 3 after 1,100, none after 1,300. Shepherd lets the oldest
# turns go before.
CONTEXT_LENGTH = LONGEST
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
FILE_TYPES = {
    "f32": LlamaFileType.ALL_F32,
    "f16": LlamaFileType.MOSTLY_F16,
    "q8_0": LlamaFileType.MOSTLY_Q8_0,
    # Attention and embedding hold the copying circuit; its few large weights spoil the scale of their block.
    "mixed": LlamaFileType.MOSTLY_Q8_0,
}


def neighbours(rows: np.ndarray, heads: int) -> np.ndarray:
    """Query or key rows with each rotary pair side by side, as llama.cpp turns them."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def export(checkpoint: Path, target: Path, kind: str) -> None:
    """Write the network of the checkpoint with tokenizer and chat template; `kind` is one of FILE_TYPES."""
    network, _ = load(checkpoint)
    shape = network.shape
    writer = GGUFWriter(target, "llama")
    write_metadata(writer, shape, kind)
    write_tokenizer(writer, Tokenizer(Path(__file__).with_name("tokenizer.json")))
    for name, weight in network.state_dict().items():
        array = weight.float().numpy()
        if ".attn_q." in name:
            array = neighbours(array, shape.heads)
        elif ".attn_k." in name:
            array = neighbours(array, shape.kv_heads)
        if array.ndim == 1 or kind == "f32":
            writer.add_tensor(name, np.ascontiguousarray(array))
        elif kind == "f16" or (kind == "mixed" and "ffn" not in name):
            writer.add_tensor(name, array.astype(np.float16))
        else:
            packed = gguf.quants.quantize(array, GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_metadata(writer: GGUFWriter, shape: Shape, kind: str) -> None:
    """What llama.cpp needs to know about the network."""
    writer.add_name("shepherd-mini")
    writer.add_description(
        "Small model that ships with Shepherd: answers from injected memory, writes memories as JSON"
    )
    writer.add_license("MIT")
    writer.add_sampling_temp(0.0)  # its answers are right or wrong, not a matter of taste
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(shape.norm_epsilon)
    writer.add_rope_dimension_count(shape.head_width)
    writer.add_rope_freq_base(shape.rope_theta)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(FILE_TYPES[kind])


def write_tokenizer(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    """Tokens, merges, control tokens and the chat template."""
    kinds = [
        TokenType.CONTROL
        if token in CONTROL
        else TokenType.UNUSED
        if token.startswith("[PAD")
        else TokenType.NORMAL
        for token in tokenizer.tokens
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([f"{left} {right}" for left, right in tokenizer.merges])
    writer.add_bos_token_id(tokenizer.pad)
    writer.add_eos_token_id(tokenizer.end)
    writer.add_eot_token_id(tokenizer.end)
    writer.add_pad_token_id(tokenizer.pad)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--type", choices=FILE_TYPES, default="q8_0")
    options = parser.parse_args()
    export(options.checkpoint, options.target, options.type)
    print(f"{options.target}: {options.target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
