"""What looks like a secret is not stored, and what everyday facts look like is."""

from __future__ import annotations

import pytest

from shepherd.extraction import is_secret

# Written in parts, so that no scanner takes this file for a leak.
LETTERS = "aB3dE5gH7jK9mN1pQ2sT4uV6wX8yZ0"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wifi_password", "hunter2"),
        ("wifiPassword", "hunter2"),
        ("What is the user's bank PIN?", "1234"),
        ("API key", "abc"),
        ("github_token", "x"),
        ("seed phrase", "apple banana"),
        ("card number", "on file"),
        ("openai", "sk-" + LETTERS),
        ("stripe", "sk_live_" + LETTERS),
        ("github", "ghp_" + LETTERS + "abcdef"),
        ("gitlab", "glpat-" + LETTERS),
        ("slack", "xoxb-1234567890-abcdef"),
        ("aws", "AKIA" + "ABCDEFGHIJ234567"),
        ("google", "AIza" + LETTERS + "abcde"),
        ("hub", "hf_" + LETTERS),
        ("login", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl"),
        ("database", "postgres://steve:hunter2@db.example.org/x"),
        ("header", "Authorization: Bearer abcdefgh1234ijklmno"),
        ("note", "the password is hunter2"),
        ("note", "my PIN code: 4711"),
        ("card", "4111 1111 1111 1111"),
        ("card", "5500-0000-0000-0004"),
        ("card", "378282246310005"),
        ("key", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU"),
    ],
)
def test_secrets_are_recognised(name, value):
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", "Steve"),
        ("location", "Austin, Texas"),
        ("phone", "+49 170 1234567"),
        ("phone_number", "+1 (555) 010-4477"),
        ("email", "steve.mcintyre@example.org"),
        ("birthday", "1984-02-29"),
        ("favorite_color", "teal"),
        ("employer", "Wolters Kluwer"),
        ("book", "The Secretary of State"),
        ("pinned_board", "kitchen"),
        ("website", "https://example.org/steve/notes-about-everything"),
        ("order number", "1234567890123456"),  # fails Luhn's checksum
        ("What does the user keep in the garage?", "a 1967 Triumph Bonneville"),
        ("What IDE does the user prefer?", "VS Code with vim keybindings"),
        ("favorite word", "Donaudampfschifffahrtsgesellschaft"),
        ("project", "shepherd-memory-extraction-worker"),
    ],
)
def test_everyday_facts_are_not(name, value):
    assert not is_secret(name, value)
