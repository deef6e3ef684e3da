"""Names of models: hf:user/repo:quant, files, quantisations, and which of many files a name means."""

from __future__ import annotations

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.inference.names import (
    _SHOWN,
    FILE_TYPES,
    HubName,
    choose,
    hub_name_meant,
    is_projector,
    is_safe_path,
    parse_hub_name,
    projector_of,
    quant_of,
    stem_of,
    variants,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hf:u/r", HubName("u/r")),
        ("hf:u/r:q4_k_m", HubName("u/r", quant="q4_k_m")),
        ("hf:u/r/a.GGUF", HubName("u/r", file="a.GGUF")),
        ("hf:u/r/d/a-00001-of-00002.gguf", HubName("u/r", file="d/a-00001-of-00002.gguf")),
    ],
)
def test_a_name_has_a_repository_and_perhaps_a_quantisation_or_a_file(text, name):
    assert parse_hub_name(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "hf:",
            "hf:u",
            "hf:u/",
            "hf:/r",
            "hf:../r",
            "hf:u/..",
            "hf:u/a--b",
            "hf:u/r?x",
            "hf:u x/r",
            "hf:u/r\n",
        ),
        *("hf:u/r:", "hf:u/r:q/4", "hf:u/r/", "hf:u/r/x.bin", "hf:u/r/../x.gguf", "hf:u/r/a\\b.gguf"),
        "hf:u/" + "r" * 99,
    ],
)
def test_a_malformed_name_says_what_was_expected(text):
    with pytest.raises(UsageError, match="is not the name of a model") as caught:
        parse_hub_name(text)

    assert "hf:user/repo:quant" in caught.value.hint


@given(st.text(max_size=40))
def test_any_text_is_a_name_or_a_mistake_and_never_a_way_out(text):
    try:
        name = parse_hub_name("hf:" + text)
    except UsageError:
        return
    assert ".." not in name.repo.split("/")
    assert name.repo.count("/") == 1
    assert not name.file or is_safe_path(name.file)


def test_a_safe_path_stays_below_its_folder_on_any_system():
    safe = ["a", "a/b.gguf", "a..b", ".a", "x" * 1024, "é"]
    unsafe = ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "x" * 1025, "a\n", "\u200b"]
    unsafe += [f"a{character}b" for character in '\\:*?"<>|']

    assert [path for path in [*safe, *unsafe] if is_safe_path(path)] == safe


@pytest.mark.parametrize(
    ("file", "quant"),
    [
        ("m-q4_k_m.gguf", "Q4_K_M"),
        ("M.Q5_K_S.gguf", "Q5_K_S"),
        ("m-UD-IQ2_XXS.gguf", "UD-IQ2_XXS"),
        ("m_fp16.gguf", "F16"),
        ("m-fp16.gguf", "F16"),
        ("m-BF16-00001-of-00002.gguf", "BF16"),
        ("Q3_K_XL/m-Q3_K_XL-00001-of-00002.gguf", "Q3_K_XL"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("qwen2.5-0.5b-instruct-q8_0.gguf", "Q8_0"),
        ("model.gguf", ""),
    ],
)
def test_the_quantisation_is_read_from_the_file_name(file, quant):
    assert quant_of(file) == quant


def test_file_types_are_those_of_llama_cpp():
    theirs = {t.value: t.name.removeprefix("MOSTLY_").removeprefix("ALL_") for t in gguf.LlamaFileType}
    del theirs[gguf.LlamaFileType.GUESSED.value]

    assert {number: FILE_TYPES.get(number) for number in theirs} == theirs


def test_projectors_and_importance_matrices_are_no_models():
    files = ["mmproj-F16.gguf", "m-F16.gguf", "imatrix_unsloth.gguf", "m.imatrix.gguf", "x.safetensors"]

    assert [variant.files for variant in variants(files)] == [("m-F16.gguf",)]


MANY = (
    "m-Q4_0.gguf",
    "m-Q4_K_M.gguf",
    "m-UD-Q4_K_XL.gguf",
    "m-BF16-00001-of-00002.gguf",
    "m-BF16-00002-of-00002.gguf",
)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("hf:u/r", "m-Q4_K_M.gguf"),
        ("hf:u/r:q4_0", "m-Q4_0.gguf"),
        ("hf:u/r:Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        ("hf:u/r:ud-q4_k_xl", "m-UD-Q4_K_XL.gguf"),
        ("hf:u/r:bf16", "m-BF16-00001-of-00002.gguf"),
        ("hf:u/r/M-BF16-00002-OF-00002.gguf", "m-BF16-00001-of-00002.gguf"),
        ("hf:u/r/m-q4_0.gguf", "m-Q4_0.gguf"),
    ],
)
def test_a_name_chooses_one_model_of_many(name, first):
    assert choose(parse_hub_name(name), variants(MANY)).files[0] == first


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (("m.gguf", "mmproj-BF16.gguf", "mmproj-F16.gguf"), "mmproj-F16.gguf"),
        (("m.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf", "mmproj-BF16.gguf"), "mmproj-BF16.gguf"),
        (("m.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf"), "mmproj-Q8_0.gguf"),
        (("m.gguf", "mmproj-F32.gguf", "mmproj-Q4_0.gguf"), "mmproj-F32.gguf"),
        (("m.gguf", "mmproj-Q5_0.gguf", "mmproj-Q4_0.gguf"), "mmproj-Q4_0.gguf"),
        (("m.gguf", "other.gguf", "mmproj-F16.gguf"), ""),
        (("m-Q4_0.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf"), "mmproj-F16.gguf"),
        (("m.gguf", "other.gguf", "mmproj-other-F16.gguf", "mmproj-m-F16.gguf"), "mmproj-m-F16.gguf"),
        (("m.gguf",), ""),
    ],
)  # fmt: skip
def test_a_projector_is_that_of_the_model_and_one_of_16_bits_if_there_is_one(files, chosen):
    assert projector_of("m.gguf", files) == chosen


@pytest.mark.parametrize(
    ("file", "is_one"),
    [
        ("mmproj-F16.gguf", True),
        ("a/MMPROJ-model.GGUF", True),
        ("mmproj/m.gguf", False),
        ("m.gguf", False),
        ("mmproj-F16.bin", False),
    ],
)
def test_a_projector_is_known_by_the_name_of_its_file(file, is_one):
    assert is_projector(file) is is_one


def test_parts_are_numbered_from_one_to_their_count():
    files = [
        "a-00000-of-00002.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "a-00003-of-00002.gguf",
        "b-00002-of-00003.gguf", "c.gguf", "c.gguf",
    ]  # fmt: skip

    found = {variant.files: (variant.n_parts, variant.is_complete) for variant in variants(files)}

    assert found == {
        ("a-00000-of-00002.gguf",): (1, True),
        ("a-00001-of-00002.gguf", "a-00002-of-00002.gguf"): (2, True),
        ("a-00003-of-00002.gguf",): (1, True),
        ("b-00002-of-00003.gguf",): (3, False),
        ("c.gguf",): (1, True),
    }
    assert list(found) == sorted(found)
    assert stem_of("a-00001-of-00002.gguf") == "a"
    assert stem_of("c-1.gguf") == "c-1"


def test_a_choice_that_is_not_one_model_is_refused_with_those_that_there_are():
    many = variants([f"m-v{n}-Q4_0.gguf" for n in range(30)])
    for name, candidates, says, hint in (
        ("hf:u/r", (), "hf:u/r has no GGUF model", "repositories of their own"),
        ("hf:u/r:Q8_0", variants(MANY), "hf:u/r has no model of quantisation Q8_0", "there are hf:u/r"),
        ("hf:u/r", many, "has no model of quantisation Q4_K_M", "there are "),
        ("hf:u/r:Q4_0", many, "hf:u/r has more than one model of quantisation Q4_0", " and "),
        ("hf:u/r:Q8_0", variants(["x-Q4_0.gguf"]), "has no model", "there is hf:u/r:Q4_0"),
        ("hf:u/r/z.gguf", variants(MANY), "hf:u/r has no z.gguf", "there are "),
        ("hf:u/r", variants(["b-00002-of-00003.gguf"]), "of b-00002-of-00003.gguf only 1 are there",
         "the publisher's upload is incomplete"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            choose(parse_hub_name(name), candidates)
        assert says in str(caught.value)
        assert hint in caught.value.hint


@pytest.mark.parametrize("n", [_SHOWN, _SHOWN + 1, _SHOWN + 5])
def test_a_long_list_ends_with_how_many_more_there_are(n):
    many = variants([f"m-v{i:02}-Q4_0.gguf" for i in range(n)])

    with pytest.raises(UsageError) as caught:
        choose(parse_hub_name("hf:u/r:Q4_0"), many)

    assert caught.value.hint.count("hf:u/r/") == _SHOWN
    assert caught.value.hint.endswith(f" and {n - _SHOWN} more" if n > _SHOWN else ".gguf")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Pub/Big-GGUF", "hf:Pub/Big-GGUF"),
        ("HF:Pub/Big-GGUF:q4_k_m", "hf:Pub/Big-GGUF:q4_k_m"),
        ("https://huggingface.co/Pub/Big-GGUF", "hf:Pub/Big-GGUF"),
        ("huggingface.co/Pub/Big-GGUF/tree/main", "hf:Pub/Big-GGUF"),
        ("models/big.gguf", ""),
        ("./models", ""),
        ("/srv/models", ""),
        ("~/models/big", ""),
        ("big", ""),
    ],
)
def test_addresses_and_names_without_their_prefix_are_understood(typed, meant):
    assert hub_name_meant(typed) == meant
