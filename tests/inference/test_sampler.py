"""What a model's file recommends for sampling."""

import math

import numpy as np
import pytest
from gguf import GGUFWriter

from shepherd.errors import UsageError
from shepherd.inference import read_header
from shepherd.inference.sampler import check_sampling, recommended_sampling
from shepherd.types import Sampling


def test_a_recommendation_is_read_from_a_real_header(tmp_path):
    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", np.zeros((32, 32), np.float32))
    writer.add_sampling_temp(0.6)
    writer.add_sampling_top_k(20)
    writer.add_sampling_penalty_repeat(1.1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = recommended_sampling(read_header(path).metadata)

    assert found == Sampling(temperature=0.6, top_k=20, repeat_penalty=1.1)


def test_a_file_that_says_nothing_leaves_the_defaults():
    assert recommended_sampling({"general.name": "x"}) == Sampling()


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "hot", True, None])
def test_a_recommendation_out_of_range_is_passed_over(value):
    found = recommended_sampling({"general.sampling.temp": value, "general.sampling.top_k": 7})

    assert found == Sampling(top_k=7)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("temperature", [0, 2.0], [-0.1, math.inf, math.nan]),
        ("top_k", [0, 1], [-1]),
        ("top_p", [0.01, 1], [0, 1.01]),
        ("min_p", [0, 1], [-0.01, 1.01]),
        ("repeat_penalty", [0.01, 1, 100], [0, 101]),
        ("repeat_last_n", [0, 1 << 20], [-1, (1 << 20) + 1]),
        ("seed", [0, 0xFFFFFFFE], [-1, 0xFFFFFFFF]),
    ],
)
def test_settings_are_allowed_up_to_the_ends_of_their_ranges(name, allowed, refused):
    for value in allowed:
        check_sampling(Sampling(**{name: value}))
    for value in refused:
        with pytest.raises(UsageError, match=f"^{name} is "):
            check_sampling(Sampling(**{name: value}))
