"""The keyring of tests: the tests that follow in the same process don't find it."""

from __future__ import annotations

import subprocess
import sys


def test_a_keyring_in_memory_is_gone_after_its_block_also_in_a_process_that_had_asked_for_none():
    # In a process of its own: here, another test may have asked for the keyring of the system.
    code = (
        "from tests.keyrings import keyring_in_memory\n"
        "from shepherd import system_keyring\n"
        "with keyring_in_memory() as kept:\n"
        "    system_keyring.store('name', 'secret', instead='')\n"
        "    assert kept == {'name': 'secret'} and system_keyring.lookup('name') == 'secret'\n"
        "    system_keyring.forget('name')\n"
        "    assert kept == {}\n"
        "import keyring\n"
        "print(type(keyring.get_keyring()).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() not in ("", "InMemory")
