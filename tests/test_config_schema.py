"""Values of settings as people write them: sizes, shares, and numbers at the ends of their ranges."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from shepherd.config import SETTINGS, Config, Setting
from shepherd.config.schema import parse_limit, parse_size, percentages, shortened
from shepherd.errors import ConfigError, UsageError
from tools.config_reference import reference

MIB = 1 << 20
REFERENCE = Path(__file__).resolve().parents[1] / "docs/reference/configuration.md"
NUMBERS = [one for one in SETTINGS.values() if one.kind in ("number", "whole number")]


def test_reference_of_the_settings_is_that_of_the_code() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference()


def is_valid(setting: Setting, value: Any) -> bool:
    try:
        return setting.parse(str(value)) == setting.check(value) == value
    except ValueError:
        return False


@pytest.mark.parametrize("setting", NUMBERS, ids=lambda one: one.key)
def test_a_number_can_be_the_end_of_its_range_and_not_beyond(setting: Setting) -> None:
    whole = setting.kind == "whole number"
    for end, side in ((setting.least, -1), (setting.most, 1)):
        if math.isfinite(end):
            beyond = end + side if whole else end + side * 0.001
            assert (is_valid(setting, end), is_valid(setting, beyond)) == (True, False), end
    assert is_valid(setting, setting.default)
    assert not is_valid(setting, math.nan)
    assert whole != is_valid(setting, (setting.least + min(setting.most, setting.least + 1)) / 2)


def test_a_program_cannot_make_an_invalid_config() -> None:
    assert Config(temperature=1).temperature == 1.0
    for wrong in ({"temperature": "hot"}, {"max_tokens": -1}, {"model": b"a.gguf"}):
        with pytest.raises(ConfigError, match=rf"Config: {next(iter(wrong))} is .*; expected .*"):
            Config(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("history=40, memory=60", {"history": 40, "memory": 60}),
        ("memory = 100", {"memory": 100}),
        ("memory=100,history=0,", {"memory": 100, "history": 0}),
        ("memory=099,history=1", {"memory": 99, "history": 1}),
        *((f"memory={number}", "is not a share") for number in ("", "-1", "1e2", "٣", "0100")),
        ("=100", "is not a share"),
        ("memory=50, memory=50", "is not a share"),
        ("cats=100", "there is no"),
        ("memory=99", "add up to 99"),
        ("memory=60, history=41", "add up to 101"),
        ("", "add up to 0"),
    ],
)  # fmt: skip
def test_shares_of_known_parts_add_up_to_100(text: str, shares: dict[str, int] | str) -> None:
    if isinstance(shares, dict):
        assert percentages(text, ["history", "memory"]) == shares
    else:
        with pytest.raises(ValueError, match=shares):
            percentages(text, ["history", "memory"])


def test_a_path_is_taken_as_text_and_other_objects_are_named_by_their_type() -> None:
    given: Any = Path("my.db")
    assert Config(memory_database=given).memory_database == "my.db"
    for other, name in ((b"my.db", "bytes"), ([Path()], "list")):
        with pytest.raises(ConfigError, match=f"memory_database is of type {name}; expected text"):
            Config(memory_database=other)


def test_a_value_is_shortened_beyond_40_characters_and_not_at_them() -> None:
    assert shortened("a" * 38) == f'"{"a" * 38}"'
    assert shortened("a" * 39) == f'"{"a" * 38}…'
    assert (shortened("é"), shortened([1, "é"])) == ('"\\xe9"', '[1, "\\u00e9"]')


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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://anna:pass@host/db", "postgresql://anna:***@host/db"),
        ("postgresql://anna:p@ss:w@host/db", "postgresql://anna:***@host/db"),
        ("postgresql://host/db?user=a&password=pass&x=1", "postgresql://host/db?user=a&password=***&x=1"),
        ("postgresql://host/db?sslpassword=pass#x", "postgresql://host/db?sslpassword=***#x"),
        ("postgresql://anna@host:5432/db", "postgresql://anna@host:5432/db"),
        ("~/memory.db", "~/memory.db"),
        ("a:b@c", "a:b@c"),
    ],
)
def test_an_address_is_shown_without_its_password(value: str, shown: str) -> None:
    assert SETTINGS["memory_database"].shown(value) == shown


def test_a_secret_is_shown_as_set_or_as_empty() -> None:
    secret = next(setting for setting in SETTINGS.values() if setting.secret)

    assert (secret.shown("abc"), secret.shown("")) == ("(set)", "")


@pytest.mark.parametrize(
    ("text", "size"), [("1M", MIB), ("1.5G", 1536 * MIB), ("1023K", None), ("ten", None)]
)
def test_the_limit_of_a_database_is_a_size_of_at_least_a_mebibyte(text: str, size: int | None) -> None:
    if size is not None:
        assert parse_limit(text) == size
        return
    with pytest.raises(UsageError, match=f"max_db_size: '{text}' is not a size of at least 1M") as caught:
        parse_limit(text)
    assert "500M" in caught.value.hint
