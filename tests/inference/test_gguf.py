"""Bad model files: caught in the header, before llama.cpp could abort the process."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from gguf.constants import GGML_QUANT_SIZES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.errors import ModelError, ModelFormatError, ModelLoadError
from shepherd.inference import Engine, read_header
from shepherd.inference.gguf import _BLOCKS


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_file(
    *,
    keys: bytes = text("general.architecture") + struct.pack("<I", 8) + text("llama"),
    n_keys: int = 1,
    tensors: bytes = b"",
    n_tensors: int = 0,
    version: int = 3,
    magic: bytes = b"GGUF",
    data: bytes = b"",
) -> bytes:
    head = magic + struct.pack("<IQQ", version, n_tensors, n_keys) + keys + tensors
    return head + bytes(-len(head) % 32) + data


def tensor(
    name: str = "token_embd.weight", shape: tuple[int, ...] = (4, 2), kind: int = 0, offset: int = 0
) -> bytes:
    dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dims + struct.pack("<IQ", kind, offset)


def header_of(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    read_header(path)


def test_header_says_what_the_file_holds(plain_model: Path) -> None:
    header = read_header(plain_model)

    assert header.architecture == "llama"
    assert header.metadata["general.name"] == "tiny-plain"
    assert header.metadata["llama.block_count"] == 2
    assert header.array_lengths["tokenizer.ggml.tokens"] == 401
    assert "token_embd.weight" in {tensor.name for tensor in header.tensors}
    assert header.file_bytes == plain_model.stat().st_size


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "0 bytes long"),
        (b"GGUF", "4 bytes long"),
        (b"PK\x03\x04" + bytes(60), "is not a GGUF file"),
        (gguf_file(magic=b"GGML"), "is not a GGUF file"),
        (gguf_file(version=1), "has GGUF version 1"),
        (gguf_file(version=99), "has GGUF version 99"),
        (gguf_file(version=3 << 24), "big-endian"),
        (gguf_file(n_tensors=1 << 60), "claims 1152921504606846976 tensors"),
        (gguf_file(n_keys=1 << 63), "keys; at most"),
        (gguf_file(keys=struct.pack("<Q", 1 << 40)), "key 0 is 1099511627776 bytes long"),
        (gguf_file(keys=text("k") + struct.pack("<I", 77)), "unknown type 77"),
        (
            gguf_file(keys=text("k") + struct.pack("<IQ", 8, 1 << 50)),
            "needs 1125899906842624 bytes, the file",
        ),
        (
            gguf_file(keys=text("k") + struct.pack("<IIQ", 9, 8, 1 << 60)),
            "claims 1,152,921,504,606,846,976 entries, more than the file has room for",
        ),
        (gguf_file(keys=text("k") + struct.pack("<IIQ", 9, 4, 1 << 62)), "truncated"),
        (
            gguf_file(keys=text("k") + struct.pack("<IIQ", 9, 9, 1 << 61)),
            "claims 2,305,843,009,213,693,952 entries, more than the file has room for",
        ),
        (gguf_file(keys=text("k") + struct.pack("<IIQ", 9, 5000, 1)), "elements of unknown type"),
        (gguf_file(keys=b"", n_keys=0), "does not say its architecture"),
        (
            gguf_file(keys=2 * (text("k") + struct.pack("<IB", 7, 1)), n_keys=2),
            "is there twice",
        ),
        (gguf_file(), "not a language model"),
        (gguf_file(tensors=tensor(shape=(1, 1, 1, 1, 1)), n_tensors=1), "5 dimensions"),
        (gguf_file(tensors=tensor(shape=(0, 2)), n_tensors=1), "has the shape"),
        (gguf_file(tensors=tensor(shape=(1 << 40, 1 << 40)), n_tensors=1), "has the shape"),
        (gguf_file(tensors=tensor(), n_tensors=1), "truncated: tensor"),
        (gguf_file(tensors=tensor(offset=1 << 62), n_tensors=1, data=bytes(64)), "truncated: tensor"),
        (gguf_file(tensors=tensor(offset=8), n_tensors=1, data=bytes(64)), "not a multiple of 32"),
        (gguf_file(tensors=tensor(shape=(20, 2), kind=8), n_tensors=1, data=bytes(99)), "rows of 20"),
        (gguf_file(tensors=2 * tensor(), n_tensors=2, data=bytes(64)), "is there twice"),
    ],
)
def test_damaged_header_is_refused_with_its_reason(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(ModelFormatError, match=says) as caught:
        header_of(tmp_path, content)

    assert "model.gguf" in str(caught.value)
    assert caught.value.hint


def test_tensor_of_a_type_that_is_newer_must_begin_in_the_file(tmp_path: Path) -> None:
    for offset, data in ((0, b""), (32, bytes(32))):
        newer = tensor(shape=(3, 1), kind=1000, offset=offset)
        header_of(tmp_path, gguf_file(tensors=newer, n_tensors=1, data=data))

    with pytest.raises(ModelFormatError, match="truncated: tensor"):
        header_of(tmp_path, gguf_file(tensors=tensor(kind=1000, offset=64), n_tensors=1, data=bytes(32)))


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    # Q8_1 and Q8_K are never stored, and those from 40 on are newer than the table.
    known = {
        int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items() if kind not in (9, 15) and kind < 40
    }

    assert known == _BLOCKS


def array_of(kind: int, n: int, content: bytes) -> bytes:
    """A file whose last key is an array; nothing follows it."""
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    keys = head + text("k") + struct.pack("<IIQ", 9, kind, n) + content
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + keys


@pytest.mark.parametrize(
    ("kind", "least", "element"),
    [(8, 8, text("")), (9, 12, struct.pack("<IQ", 4, 0)), (5, 4, bytes(4)), (10, 8, bytes(8))],
)
def test_an_array_can_reach_to_the_end_of_the_file(
    tmp_path: Path, kind: int, least: int, element: bytes
) -> None:
    assert len(element) == least
    with pytest.raises(ModelFormatError, match="not a language model"):
        header_of(tmp_path, array_of(kind, 3, 3 * element))
    says = "more than the file has room for" if kind in (8, 9) else "truncated"
    with pytest.raises(ModelFormatError, match=says):
        header_of(tmp_path, array_of(kind, 4, 3 * element))


def test_arrays_in_arrays_have_four_levels(tmp_path: Path) -> None:
    def nested(levels: int) -> bytes:
        return struct.pack("<IQ", 9, 1) * (levels - 1) + struct.pack("<IQB", 0, 1, 7)

    with pytest.raises(ModelFormatError, match="not a language model"):
        header_of(tmp_path, array_of(9, 1, nested(4)))
    with pytest.raises(ModelFormatError, match="elements of unknown type 9"):
        header_of(tmp_path, array_of(9, 1, nested(5)))


def test_lengths_of_arrays_and_scalars_are_what_is_kept(tmp_path: Path) -> None:
    numbers = b"".join(
        text(name) + struct.pack("<I", kind) + struct.pack(f"<{code}", value)
        for name, kind, code, value in (
            ("a", 0, "B", 200), ("b", 1, "b", -3), ("c", 2, "H", 60000), ("d", 3, "h", -5), ("e", 4, "I", 7),
            ("f", 5, "i", -9), ("g", 6, "f", 0.5), ("h", 7, "?", True), ("i", 10, "Q", 1 << 60),
            ("j", 11, "q", -1), ("l", 12, "d", 0.25),
        )
    )  # fmt: skip
    words = text("words") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("yy")
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    path = tmp_path / "model.gguf"
    path.write_bytes(
        gguf_file(keys=head + numbers + words, n_keys=13, tensors=tensor(), n_tensors=1, data=bytes(32))
    )

    header = read_header(path)

    assert header.metadata == {
        "general.architecture": "llama", "a": 200, "b": -3, "c": 60000, "d": -5, "e": 7, "f": -9, "g": 0.5,
        "h": True, "i": 1 << 60, "j": -1, "l": 0.25,
    }  # fmt: skip
    assert header.array_lengths == {"words": 2}
    assert header.version == 3
    [only] = header.tensors
    assert (only.name, only.shape, only.type, only.offset) == ("token_embd.weight", (4, 2), 0, 0)


def key(name: str, kind: int, code: str, value: int) -> bytes:
    return text(name) + struct.pack(f"<I{code}", kind, value)


@pytest.mark.parametrize(
    ("alignment", "says"),
    [
        (key("general.alignment", 4, "I", 0), "general.alignment is 0, not a power of two"),
        (key("general.alignment", 5, "i", -4), "general.alignment is -4, not a power of two"),
        (key("general.alignment", 4, "I", 48), "general.alignment is 48, not a power of two"),
        (key("general.alignment", 4, "I", 1), ""),
        (key("general.alignment", 4, "I", 64), "truncated: tensor"),
    ],
)
def test_data_begins_at_a_multiple_of_the_alignment(tmp_path: Path, alignment: bytes, says: str) -> None:
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 2) + head + alignment + tensor() + bytes(32)

    if not says:
        header_of(tmp_path, content)
        says, content = "truncated: tensor", content[:-1]
    with pytest.raises(ModelFormatError, match=says):
        header_of(tmp_path, content)


def test_a_projector_and_a_model_are_not_taken_for_each_other(plain_model: Path, tmp_path: Path) -> None:
    clip = text("general.architecture") + struct.pack("<I", 8) + text("clip")
    path = tmp_path / "mmproj.gguf"
    path.write_bytes(gguf_file(keys=clip, tensors=tensor("v.weight"), n_tensors=1, data=bytes(32)))

    assert read_header(path, is_projector=True).architecture == "clip"
    with pytest.raises(ModelFormatError, match="has no tensor 'token_embd"):
        read_header(path)
    with pytest.raises(ModelFormatError, match="is not a projector") as caught:
        read_header(plain_model, is_projector=True)
    assert "mmproj-….gguf" in caught.value.hint


@pytest.mark.parametrize(("n_parts", "is_read"), [(0, False), (1, False), (2, True)])
def test_a_part_of_a_model_may_lack_the_embedding(tmp_path: Path, n_parts: int, is_read: bool) -> None:
    head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    content = gguf_file(
        keys=head + key("split.count", 2, "H", n_parts), n_keys=2,
        tensors=tensor("blk.0.weight"), n_tensors=1, data=bytes(32),
    )  # fmt: skip

    if is_read:
        header_of(tmp_path, content)
    else:
        with pytest.raises(ModelFormatError, match="not a language model"):
            header_of(tmp_path, content)


def test_limits_of_counts_and_names_are_allowed_themselves(tmp_path: Path) -> None:
    for n_tensors, n_keys, says in (
        (1 << 17, 1, "^(?!.*make sense)"),
        ((1 << 17) + 1, 1, "at most 131072 and 65536 make sense"),
        (0, 1 << 16, "^(?!.*make sense)"),
        (0, (1 << 16) + 1, "at most 131072 and 65536 make sense"),
    ):
        with pytest.raises(ModelFormatError, match=says):
            header_of(tmp_path, gguf_file(n_tensors=n_tensors, n_keys=n_keys))
    for length, says in ((1 << 16, "not a language model"), ((1 << 16) + 1, "at most 65536 make sense")):
        head = text("general.architecture") + struct.pack("<I", 8) + text("llama")
        content = gguf_file(keys=head + key("k" * length, 0, "B", 1), n_keys=2)
        with pytest.raises(ModelFormatError, match=says):
            header_of(tmp_path, content)


def test_smallest_whole_file_is_accepted(tmp_path: Path) -> None:
    content = gguf_file(tensors=tensor(), n_tensors=1, data=bytes(32))

    header_of(tmp_path, content)
    with pytest.raises(ModelFormatError):
        header_of(tmp_path, content[:-1])


def test_truncated_file_is_refused_at_every_length(plain_model: Path, tmp_path: Path) -> None:
    whole = plain_model.read_bytes()
    path = tmp_path / "cut.gguf"
    lengths = {*range(64), *range(64, len(whole), 4999), len(whole) - 1, len(whole) - 33}

    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFormatError):
            Engine(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 400), value=st.integers(0, 255))
def test_flipped_byte_in_the_head_is_refused_or_harmless(
    plain_model: Path, tmp_path: Path, at: int, value: int
) -> None:
    content = bytearray(plain_model.read_bytes())
    content[at] = value
    path = tmp_path / "flipped.gguf"
    path.write_bytes(content)

    try:
        read_header(path)
    except ModelError as error:
        reason = error.hint
    else:
        reason = "harmless"
    assert reason


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match=r"nothing\.gguf: there is no such file"):
        Engine(tmp_path / "nothing.gguf")


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="is a folder"):
        Engine(tmp_path)


def test_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")

    with pytest.raises(ModelLoadError, match="not a regular file"):
        Engine(tmp_path / "pipe.gguf")


def test_nul_in_the_path_is_refused() -> None:
    with pytest.raises(ModelLoadError, match="cannot be read"):
        read_header("model\0.gguf")


def test_file_without_permission_is_refused_with_the_remedy(
    plain_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.gguf"
    path.write_bytes(plain_model.read_bytes())
    path.chmod(0)
    if os.access(path, os.R_OK):
        # Root may read anything: the kernel's refusal is then the only thing that is not real here.
        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("builtins.open", refuse)

    with pytest.raises(ModelLoadError, match="permission denied") as caught:
        read_header(path)

    assert "chmod" in caught.value.hint


def test_unknown_architecture_is_refused_in_the_words_of_llama_cpp(tmp_path: Path) -> None:
    keys = text("general.architecture") + struct.pack("<I", 8) + text("unheard-of")
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file(keys=keys, tensors=tensor(), n_tensors=1, data=bytes(32)))

    with pytest.raises(ModelLoadError, match="unknown model architecture: 'unheard-of'"):
        Engine(path)


def test_missing_hyperparameter_is_refused_in_the_words_of_llama_cpp(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_file(tensors=tensor(), n_tensors=1, data=bytes(32)))

    with pytest.raises(ModelLoadError, match=r"key not found in model: llama\.\w+") as caught:
        Engine(path)

    assert "llama-cpp-python" in caught.value.hint
