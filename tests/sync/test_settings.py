"""Settings that belong to the person: the newer value counts, and none is lost or taken back unasked."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from shepherd.config.file import ConfigFile
from shepherd.errors import ConfigError
from shepherd.sync import Report, settings, sync
from tests.sync.replicas import NOW, PASSPHRASE, Machine


class Files:
    """The settings of each machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, machine: Machine) -> ConfigFile:
        return ConfigFile(self._folder / f"{machine.name}.json")

    def set(self, machine: Machine, key: str, value: str, after_s: float) -> None:
        self.of(machine).set(key, value)
        os.utime(self.of(machine).path, (NOW + after_s, NOW + after_s))

    def sync(self, machine: Machine, *others: Machine) -> Report:
        file = self.of(machine)
        report = sync(machine.memory, machine.folder, lambda is_new: PASSPHRASE, settings_file=file)
        for other in others:
            machine.carry_to(other)
        return report


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


# Half a second apart: the time of the file decides, to the millisecond.
@pytest.mark.parametrize(("a_after", "b_after", "winner"), [(10.9, 10.4, "casual"), (10.4, 10.9, "formal")])
def test_the_newer_of_two_values_is_used_and_the_machine_that_loses_says_so(
    machines, files, a_after, b_after, winner
) -> None:
    a, b = machines("a", "b")
    files.sync(a, b)
    files.sync(b, a)
    files.set(a, "answer_style", "casual", a_after)
    files.set(b, "answer_style", "formal", b_after)
    files.set(a, "answer_level", "expert", a_after)
    files.set(b, "answer_level", "expert", b_after)
    told = []
    with patch("shepherd.sync.registers._SEGMENT_BYTES", 1 << 20):
        files.sync(a, b)
        for machine, other in ((b, a), (a, b), (b, a)):
            report = files.sync(machine, other)
            told += [(machine, one) for one in report.conflicts]

    assert files.of(a).read() == files.of(b).read() == {"answer_style": winner, "answer_level": "expert"}
    [(loser, conflict)] = told
    assert loser is (b if winner == "casual" else a)
    assert conflict.what == "setting answer_style"
    assert conflict.kept.startswith("the newer value, from ")


def test_a_setting_of_a_newer_version_does_not_keep_back_the_others(machines, files) -> None:
    a, b = machines("a", "b")
    files.sync(a, b)
    with patch.object(settings, "PORTABLE", ("unheard_of", *settings.PORTABLE)):
        files.of(a).path.write_text('{"unheard_of": 7, "answer_style": "casual"}')
        with patch.object(ConfigFile, "read", lambda self: {"unheard_of": 7, "answer_style": "casual"}):
            files.sync(a, b)
    report = files.sync(b, a)

    assert files.of(b).read() == {"answer_style": "casual"}
    assert report.conflicts == report.warnings == []


def test_a_value_that_is_not_valid_here_is_not_taken_away_from_the_other_machine(machines, files) -> None:
    a, b = machines("a", "b")
    files.sync(a, b)
    files.of(a).path.write_text('{"answer_level": "wizard"}')
    with patch.object(ConfigFile, "read", lambda self: {"answer_level": "wizard"}):
        files.sync(a, b)
    for _ in range(2):
        report = files.sync(b, a)
        assert report.warnings == ["the value that another machine has for answer_level is not valid here"]
        assert report.written == {}
    assert files.of(b).read() == {}
    with patch.object(ConfigFile, "read", lambda self: {"answer_level": "wizard"}):
        assert files.sync(a, b).read == {}

    files.set(b, "answer_level", "expert", 10**9)
    files.sync(b, a)
    files.sync(a, b)
    assert files.of(a).read() == {"answer_level": "expert"}


@pytest.mark.parametrize(("hint", "shown"), [("", "correct the file"), ("of its own", "of its own")])
def test_a_file_that_cannot_be_read_stops_the_sync_with_a_hint(tmp_path, hint, shown) -> None:
    def read(self: ConfigFile) -> None:
        raise ConfigError("damaged", hint=hint)

    with patch.object(ConfigFile, "read", read), pytest.raises(ConfigError) as caught:
        settings.check(ConfigFile(tmp_path / "config.json"))
    assert caught.value.hint == shown


def test_a_file_that_is_gone_counts_as_changed_now(tmp_path) -> None:
    with patch("time.time", lambda: NOW + 0.5):
        assert settings._changed_ms(ConfigFile(tmp_path / "config.json")) == NOW * 1000 + 500
