"""Sizes as people write them."""

from __future__ import annotations

import pytest

from shepherd.config.schema import parse_size

MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10G", 10 << 30),
        ("1M", MIB),
        ("1048576", MIB),
        ("1048576B", MIB),
        ("1024k", MIB),
        ("1.5m", MIB * 3 // 2),
        (" 2 T ", 2 << 40),
        ("0.5GiB", MIB * 512),
        ("2.MB", 2 * MIB),
        ("0", 0),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "ten", "-5G", "1e9", "10X", "1M1", "nan", "1 PB", "9" * 30, "٣G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        parse_size(text)


def test_a_size_below_the_least_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1048576 bytes"):
        parse_size("1023K", least=MIB)
