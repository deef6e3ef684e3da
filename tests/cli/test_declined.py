"""Commands that ask at a terminal before they change much. Without a yes, nothing changes."""

from __future__ import annotations

import sys

import pexpect
import pytest

from tests import programs

ASKING = [
    (("memory", "restore", "{copy}"), "Replace "),
    (("memory", "forget", "--everything"), "Delete everything that is stored for 'steve'"),
    (("memory", "claim", "--from", "anna"), "Take over "),
    (("encrypt", "--key-file", "{key}"), "Encrypt "),
    (("sync", "--leave"), "End the sync of this machine?"),
]


@pytest.mark.parametrize(("arguments", "question"), ASKING, ids=lambda value: value[0] if value else "")
def test_who_does_not_agree_is_told_that_nothing_was_changed(arguments, question, shepherd, home, tmp_path):
    for user in ("steve", "anna"):
        shepherd("facts", "set", "name", user.title(), SHEPHERD_USER_ID=user)
    copy, key = tmp_path / "copy.db", tmp_path / "key"
    shepherd("memory", "backup", str(copy))
    command = [word.format(copy=copy, key=key) for word in arguments]

    terminal = programs.spawn(
        sys.executable,
        ["-m", "shepherd", *command],
        env={**home.environment, "SHEPHERD_USER_ID": "steve"},
        encoding="utf-8",
        dimensions=(30, 200),
        timeout=60,
    )
    terminal.expect_exact(question)
    terminal.expect_exact("[y/N]")
    terminal.sendline("n")
    terminal.expect_exact("nothing was changed")
    terminal.expect(pexpect.EOF)
    terminal.close()

    assert terminal.exitstatus == 1
    facts = shepherd("facts", "list", SHEPHERD_USER_ID="steve")
    assert "Steve" in facts.stdout
    assert facts.stderr == ""
    assert "Anna" in shepherd("facts", "list", SHEPHERD_USER_ID="anna").stdout
    assert not key.exists()
