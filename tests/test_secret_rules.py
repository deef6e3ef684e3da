"""The rules for secrets one by one: what each takes for a secret, and what it leaves beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shepherd.secret_detection import (
    find_secrets,
    holds_secret,
    is_secret,
    keys,
    masked,
    masked_lines,
    masked_value,
    numbers,
    vocabulary,
)
from shepherd.secret_detection.unexplained import find_unexplained
from shepherd.secret_detection.vocabulary import around, is_random, lowered
from tests.plain_secret_rules import without_anchors


def unexplained(message: str) -> list[str]:
    return [message[found.start : found.end] for found in find_unexplained(message)]


def secrets(text: str) -> list[str]:
    return [text[found.start : found.end] for found in find_secrets(text)]


# ---- what nothing explains


@pytest.mark.parametrize(
    ("message", "value"),
    [
        # Of a number: what it counts, measures or dates, near a lock and elsewhere.
        ("the sitter types 6604 and waits", "6604"),
        ("the sitter types 66 and waits", ""),
        ("the alarm wants 604 and beeps", "604"),
        ("the alarm takes 60 seconds", ""),
        ("we paid $ 6604 for it", ""),
        ("it measures 6604 x 320", ""),
        ("it is 6604 by 20", ""),
        ("the numbers 12, 45, 67 came up", ""),
        ("the code is 12, 45, 67", "12, 45, 67"),
        ("the safe takes 12 45 67", "12 45 67"),
        ("press 112 345 678 on it", "112 345 678"),
        ("press 11-22-33 on it", "11-22-33"),
        ("from 1939 1945 nothing", ""),
        ("the alarm is 1987", "1987"),
        ("the alarm was installed in 1987", ""),
        ("we moved here, 1987 it was", ""),
        ("there were 6604 people there", ""),
        ("there were 6604 then more", "6604"),
        ("at the door 660 people stood", ""),
        ("Studio 6604 is nice", ""),
        ("about 66043 is fine", ""),
        ("about 6604312 is fine", "6604312"),
        ("changed to 66043 by them", "66043"),
        ("call me on 660412", ""),
        ("call me on 66041", "66041"),
        # Of a word with digits: the name of a thing, unless something is opened with it.
        ("I have the Bosch WW90T534XY here", ""),
        ("I have the WW90T534XY here", "WW90T534XY"),
        ("the lock says X7B9", "X7B9"),
        ("the keypad wants X7B", "X7B"),
        ("he said X7B to me", ""),
        ("he said X7B9 to me", ""),
        ("he said X7B9Q2 to me", "X7B9Q2"),
        # Of a label before or behind it.
        ("order number 6604123 is late", ""),
        ("order number is X7B9Q2L and late", ""),
        ("the door number code is 6604", "6604"),
        ("my locker number is 6604", "6604"),
        ("the code for room is 6604", "6604"),
        ("6604 is the bus we take", ""),
        ("6604 is what I typed, and then the slow old bus came", "6604"),
        # Of the sentence before.
        ("The bus number matters. It is 6604 now", ""),
        ("The bus number matters at the safe. It is 6604 now", "6604"),
        ("The alarm is odd. It is 6604 now", "6604"),
        # A date may run into the number behind it.
        ("March 5, 2024, 7:30 it was", ""),
        ("March 5, 2024 73 it was", ""),
        ("March 5, 2024, 7304 it was", "5, 2024, 7304"),
        # Words.
        ("wifi: Wh!teVan and more", "Wh!teVan"),
        ("we drove the Wh!teVan and more", ""),
        ("my netflix login is letmein_harold", "letmein_harold"),
        ("the file is letmein_harold", ""),
        ("security word is 'periwinkle'", "'periwinkle'"),
        ("he said 'periwinkle' to me", ""),
        ("he typed star 6 0 4 1 there", "star 6 0 4 1"),
        ("lotto 6 0 4 1 there", ""),
        ("call 6 0 4 1 there", ""),
        ("one two four", "one two four"),
        ("they said two four six eight", "two four six eight"),
        ("my parcel JT5 8QK 2WN came", ""),
        ("turn left to 47, right to 12", "left to 47, right to 12"),
        ("turn left 47 then right", "left 47"),
        ("turn 47 left", ""),
        ("my first pet's name is Harold", "Harold"),
        ("name of my first school: Saint Mary", "Saint Mary"),
        ("my mother's maiden name is the best", ""),
        ("my password is long one here", ""),
        ("my passphrase is the blue bird sings", "the blue bird sings"),
        ("my passphrase is the blue", ""),
        ("Das Passwort ist geändert", ""),
        ("Das Passwort ist Blumenkohl", "Blumenkohl"),
        # What is pasted from a program.
        ("the code; 6604", "6604"),
        ("the code;6604", ""),
        (">>> 6604", ""),
        ("{ 6604", ""),
    ],
)
def test_a_value_is_found_by_what_stands_around_it(message: str, value: str) -> None:
    assert unexplained(message) == ([value] if value else [])


def test_a_message_of_the_greatest_length_is_still_read() -> None:
    message = "the sitter types 6604 and waits".ljust(599) + "x"

    assert unexplained(message) == ["6604"]
    assert unexplained(message + "x") == []


def test_values_that_overlap_are_one_value() -> None:
    # A word with digits, and the words behind the name, which begin with it.
    assert unexplained("the wifi password is blue-4471 sky") == ["blue-4471 sky"]
    assert unexplained("passphrase: 4471 geese came late to school") == ["4471 geese came late to school"]


# ---- names of facts, and questions


@pytest.mark.parametrize(
    ("name", "value", "tells"),
    [
        ("my secret", "swordfish", True),
        ("my secret", "a swordfish", False),
        ("token", "abc", True),
        ("token", "abc def", False),
        ("password", "two words", True),
        ("wifiPassword", "two words", True),
        ("secretary", "Ann", False),
    ],
)
def test_a_name_tells_of_any_value_or_of_one_word_alone(name: str, value: str, tells: bool) -> None:
    assert is_secret(name, value) is tells


@pytest.mark.parametrize(
    ("question", "answer", "holds"),
    [
        ("What is the secret?", "swordfish1", True),
        ("What is the secret?", "swordfish", False),
        ("What is the secret?", "the swordfish1", False),
        ("Where is it?", "password: Tr0ub4dor", True),
    ],
)
def test_an_answer_of_one_word_with_a_digit_is_read_with_its_question(question, answer, holds) -> None:
    assert holds_secret(question, answer) is holds


# ---- codes beside a name


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("PIN 1177", "1177"),
        ("PIN tablet kids 1177 .", "1177"),
        ("the PIN, 1177 it is for the tablet upstairs", "1177"),
        ("PIN    1177 of the tablet that we bought in town", ""),
        ("the tablet has 1177 as its PIN and works well", ""),
        ("codice fiscale RSSMRA85T10A562S", "RSSMRA85T10A562S"),
    ],
)
def test_a_number_is_a_code_beside_its_name(text: str, value: str) -> None:
    assert secrets(text) == ([value] if value else [])


# ---- keys


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6q7r8s9t0", ["api-key"]),
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKE", ["api-key"]),  # 14 changes, as few as there may be
        ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ["api-key"]),
        ("abcdefghij0123456789abcdefghij0123456789", []),
        ("a1b2c3d4e5f6g7h8i9j0" * 2, ["api-key"]),  # 20 different ones, as few as there may be
        ("a1b2c3d4e5f6g7h8i9i0" * 2, []),
        ("aB1" * 13 + "a", []),
    ],
)
def test_forty_signs_are_a_key_if_they_are_in_no_order(word: str, kinds: list[str]) -> None:
    assert [found.kind for found in keys._unnamed_keys(word, word.lower())] == kinds


@pytest.mark.parametrize(
    ("part", "is_key"),
    [
        ("a1B2c3", True),
        ("a1B2c", False),
        ("aB1cD2", True),
        ("x-a1B2c3", True),
        ("aa1bb2", False),
        ("a1a1a1", False),
        ("ab1caD", True),  # three changes, and five different ones
        ("abc123", False),
        ("ABCD-1234-EFGH", True),
        ("ABC-1234-EFGH", False),
        ("ABCD-1234", False),
    ],
)
def test_a_short_word_is_a_key_if_it_makes_no_sense(part: str, is_key: bool) -> None:
    assert keys._is_key_part(part) is is_key


def test_the_shortest_word_that_is_a_key_is_read() -> None:
    assert len("sk-9fK2mQ7xLpR4") == keys._LEAST_KEY
    assert secrets("sk-9fK2mQ7xLpR4") == ["sk-9fK2mQ7xLpR4"]


@pytest.mark.parametrize("place", range(15))
def test_each_letter_of_an_italian_tax_code_counts(place: int) -> None:
    """A letter or a digit in it becomes the next one: the sum is another, whatever place and value."""
    for letter in range(26):
        code = "A" * place + chr(ord("A") + letter) + "A" * (14 - place)
        # The sums of the official tables: an A is worth 1 on odd places, and 0 on even ones.
        odd = [1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23]
        total = 8 - (1 - place % 2) + (letter if place % 2 else odd[letter])
        assert numbers._is_codice_fiscale(code + chr(ord("A") + total % 26))
        assert not numbers._is_codice_fiscale(code + chr(ord("A") + (total + 1) % 26))


# ---- long texts


def parts(text: str) -> list[tuple[int, str]]:
    return list(around(text, re.finditer(r"\d+", text)))


def test_of_a_long_text_the_parts_around_what_was_found_are_read() -> None:
    # Distances that are no more than a rule reads on each side make one part.
    text = "word " * 200 + "12 " + "word " * 150 + "34 " + "word " * 300 + "56 " + "word " * 99
    assert [(begin, begin + len(part)) for begin, part in parts(text)] == [(500, 2255), (2756, 3754)]
    assert all(text[begin:].startswith(part) for begin, part in parts(text))
    assert parts("word " * 400) == []
    assert parts("12 " + "x" * 1997) == [(0, "12 " + "x" * 1997)]
    assert [len(part) for _, part in parts("12 " + "x" * 1998)] == [502]
    assert parts("x" * 2001) == []
    # The first part begins at the beginning, and what comes later is apart from it.
    text = "1" + "x" * 1400 + "2" + "x" * 1400
    assert [(begin, len(part)) for begin, part in parts(text)] == [(0, 501), (401, 1501)]


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("ab cd\nef gh", 11, 9),
        ("ab cd\nef gh", 8, 6),
        ("ab cd\nef gh", 2, 0),
        ("ab cd", -400, 0),
        ("x" * 1200, 600, 100),  # no blank within reach: cut where it may be
        ("a b" + "x" * 1200, 600, 100),
        ("a b" + "x" * 1200, 501, 2),
    ],
)
def test_a_part_begins_behind_a_blank(text: str, place: int, found: int) -> None:
    assert vocabulary._blank_before(text, place) == found


def test_the_lists_of_words_are_whole() -> None:
    lists = vocabulary.WORDS

    assert len(lists) > 30
    assert all(lists.values())
    assert not any(row.startswith(("#", "|")) or "||" in row or "\n" in row for row in lists.values())


def test_small_letters_keep_the_places_and_random_means_letters_and_digits() -> None:
    assert lowered("ÄB") == "äb"
    assert lowered("İB") == "İb"
    assert is_random("a1b2", 4)
    assert not is_random("a1b1", 4)
    assert not is_random("abcd", 4)
    assert not is_random("1234", 4)


# ---- keys of a keypad, and rows of words that open a store of passwords


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Shed keypad: star 71934 pound. Mind the step", ["star 71934 pound"]),
        ("press 4421 then hash", ["4421 then hash"]),
        ("press 4421 and the star key", ["4421 and the star key"]),
        ("front door is #2915* and second floor", ["#2915*"]),
        ("the gate wants *4421#", ["*4421#"]),
        ("*2915* is bold in Markdown", []),
        ("I paid 4500 pound for it", []),
        ("in 2019 star wars came back", []),
        ("that is issue #2915 again", []),
    ],
)
def test_keys_of_a_keypad_around_a_number_make_it_a_code(text, found):
    assert secrets(text) == found


def test_the_token_of_a_discord_bot_is_a_key():
    token = ".".join(
        ("NDI3" + "MTc3ODExNTIxNTYxMjI0", "GCSq" + "Cr", "sEw3eb4zhoWOouWo" + "Cct464tvX05tmJJT8vGp1pq")
    )
    assert secrets(f"client.run('{token}') goes offline") == [token]
    assert secrets("see Makefile.common.inc and module.submodule.function_of_many_words") == []


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("for the keepass file use copper pillow tango umbrella please", ["copper pillow tango umbrella"]),
        ("bitwarden: copper pillow tango umbrella", ["copper pillow tango umbrella"]),
        (
            "my wallet: rally cable bright thank year wave useful lamp ocean fix tiger moon at startup",
            ["rally cable bright thank year wave useful lamp ocean fix tiger moon"],
        ),
        ("my wallet was stolen near the station when we saw Rome last summer with friends", []),
        ("my ssh key unlocks if you type gravel-lantern-otter-nine", ["gravel-lantern-otter-nine"]),
        ("keepass is great because everything syncs between machines", []),
        ("we encrypt backups with modern tools every single night", []),
        ("my vault is copper and tango umbrella", []),
    ],
)
def test_a_row_of_words_behind_a_store_of_passwords_opens_it(message, found):
    assert unexplained(message) == found


# ---- documents

DOCUMENTS = Path(__file__).parent.joinpath("secrets", "documents.txt").read_text("utf-8")
GIVEN, _, KEPT = DOCUMENTS.partition("[kept]\n")


def test_what_a_document_gives_to_a_lock_or_an_account_is_covered() -> None:
    lines = [
        line.split(" | ", 1) for line in GIVEN.splitlines() if " | " in line and not line.startswith("#")
    ]

    assert [line for value, line in lines if value in masked(line)[0]] == []


def test_a_document_keeps_what_it_only_mentions_beside_a_code() -> None:
    # Alone, and in a document that tells a secret elsewhere.
    assert [line for line in KEPT.splitlines() if masked(line)[0] != line] == []
    assert [line for line in KEPT.splitlines() if line not in masked(f"PIN: 4711\n{line}\nThe end.")[0]] == []


def test_a_certificate_is_public_and_a_private_key_is_not() -> None:
    body = "\n".join(f"MIIDJzCCApCgAwIBAgIBATANBgkqhkiG9w0BAQQFADCBzjELMAkGA1UEBhMC{n}" for n in range(3))
    certificate = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
    private = certificate.replace("CERTIFICATE", "RSA PRIVATE " + "KEY")

    assert masked(certificate) == (certificate, 0)
    assert masked(f"-----BEGIN CERTIFICATE-----\n{body}")[1] == 3  # without an end, nothing says what it is
    covered, n_secrets = masked(certificate + private + certificate)
    assert n_secrets == 1
    assert covered.startswith(certificate)
    assert covered.endswith(certificate)
    assert covered.count("MIID") == 6


@pytest.mark.parametrize(
    "text",
    [
        'The passphrase is "correct horse battery".',
        "Sicherheitsfrage: Name des ersten Haustiers, Antwort: Bello",
    ],
)
def test_masking_a_masked_document_again_covers_nothing_more(text: str) -> None:
    covered, n_secrets = masked(text)

    assert n_secrets > 0
    assert masked(covered) == (covered, 0)


def test_lines_with_covered_secrets_are_counted_from_one() -> None:
    text = "Notes\nPIN: 4711\n\nThe door code is 5520."

    assert masked_lines(text, masked(text)[0]) == (2, 4)


@pytest.mark.parametrize(
    "text",
    [
        "<db:password>{}</db:password>",
        '<add key="DbPassword" value="{}"/>',
        "<clientSecret>{}7k</clientSecret>",
        "ansible_ssh_pass: {}",
        '"smtp_pass": "{}",',
        "export MYSQL_PWD={}",
        "let dbPass = '{}';",
        "my slack_token is {}7k, keep it",
        "| Name | Password |\n|---|:-:|\n| anna | {} |\n| bob | `{}` |",
        'name,api key\n"Smith, Anna","{}7k"\nBob,',
        "name;Passwort\nanna;{}\n",
    ],
)
@pytest.mark.parametrize("value", ["Fritz7390", "tulip-ember-99"])
def test_the_value_of_an_element_a_setting_or_a_column_named_after_a_secret_is_covered(text, value):
    filled = f"Notes\n{text}\nThe end.".replace("{}", value)
    covered, _ = masked(filled)

    assert value not in covered
    assert re.sub(r"[\w-]*\u2022+", "X", covered) == re.sub(rf"{value}\w*", "X", filled)


@pytest.mark.parametrize(
    "text",
    [
        "<token>IDENTIFIER</token>",
        '<xs:element name="password" type="xs:string"/>',
        "db_pass = os.environ['DB_PASS']",
        "smtp_pass: {{ vault_pass }}",
        "first_pass: compile",
        "next_token = tokens[i]",
        "self.user_pass = password_of(user)",
        "csrf_token: true",
        "| Option | Password |\n|---|---|\n| x | required |",
        "name,token\nplus,PLUS\nnumber,NUMBER",
        "Who has a user name, password, token\nor key, an address, a phone",
    ],
)
def test_programs_and_tables_about_passwords_tell_none(text):
    assert masked(text) == (text, 0)


def test_a_long_document_is_masked_as_if_every_rule_were_tried_at_every_character() -> None:
    secrets_file = Path(__file__).parent / "secrets" / "secrets.txt"
    lines = [*secrets_file.read_text("utf-8").splitlines()[::4], *GIVEN.splitlines()]
    filler = "Nothing of this part of the minutes is worth a word. " * 250
    text = f"\n{filler}\n".join("\n".join(lines[n : n + 40]) for n in range(0, len(lines), 40))
    with without_anchors():
        expected = masked(text)

    assert masked(text) == expected
    assert expected[1] > 20


@pytest.mark.parametrize(
    "kept",
    [
        {"pin": "red pushpin near the station"},
        {"password_changed_at": "2026-01-02"},
        {"password": "required"},
        {"pin_code_required": "yes"},
        {"credentials": {"user": "anna"}},
        {"token": "the", "tokens": 1200},
    ],
)
def test_a_field_that_is_about_a_secret_keeps_its_value(kept):
    assert masked_value(kept) == (kept, 0)


@pytest.mark.parametrize(
    ("fields", "covered"),
    [
        ({"wifi": {"password": "tulip garden"}}, {"wifi": {"password": "••••• ••••••"}}),
        ({"door": {"pin": 4711}}, {"door": {"pin": "••••"}}),
        (
            {"credentials": {"user": "anna", "password": "no7"}},
            {"credentials": {"user": "anna", "password": "•••"}},
        ),
        ({"token": "abcdefghijklm"}, {"token": "•••••••••••••"}),
        ({"notes": "x " * 2000, "secret": "swordfish"}, {"notes": "x " * 2000, "secret": "•••••••••"}),
    ],
)
def test_a_field_named_after_a_secret_is_covered(fields, covered):
    assert masked_value(fields) == (covered, 1)
