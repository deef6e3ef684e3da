"""Secrets are found where they are, ordinary speech is left alone."""

from __future__ import annotations

import json
import random
import string
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.secret_detection import find_secrets, holds_secret, is_secret, masked
from shepherd.secret_detection.unexplained import covered, find_unexplained
from shepherd.secret_detection.vocabulary import changes
from tests import programs

# Put together here, so that no scanner takes this file for a leak.
HEX32 = "0123456789abcdef" * 2
ALNUM40 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"
PEM = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEowIBAAKCAQEA7\nabc+/=\n-----END RSA PRIVATE " + "KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"


# Seconds of a processor, not of the clock, so that a busy machine changes nothing. Reading a hostile
# text twice over takes about half of one; a quadratic rule takes more than thirty.
MOST_CPU_S = 8
READ_SECRETS = """
import resource, sys
from shepherd.secret_detection import find_secrets
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
find_secrets(sys.stdin.read() * 2)
"""


def values(text: str) -> list[tuple[str, str]]:
    return [(secret.kind, text[secret.start : secret.end]) for secret in find_secrets(text)]


@pytest.mark.parametrize(
    "key",
    [
        "sk-" + ALNUM40,
        "sk-proj-" + ALNUM40 + "_" + ALNUM40,
        "sk-ant-api03-" + ALNUM40 + "-" + ALNUM40,
        "sk-or-v1-" + HEX32 * 2,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + ALNUM40[:36],
        "github_pat_" + ALNUM40 + "_" + ALNUM40,
        "glpat-" + ALNUM40[:20],
        "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKl",
        "AIza" + ALNUM40[:35],
        "sk_live_" + ALNUM40[:24],
        "hf_" + ALNUM40[:34],
        "npm_" + ALNUM40[:36],
        "pypi-" + ALNUM40 * 2,
        "SG." + ALNUM40[:22] + "." + ALNUM40 + "abc",
        "SK" + HEX32,
        "123456789:AA" + ALNUM40[:33],
        "dop_v1_" + HEX32 * 2,
        "shepherd_" + HEX32 * 2,
    ],
)
@pytest.mark.parametrize("frame", ["{}", "My key is {}, keep it.", "KEY={}\n", '{{"key": "{}"}}', "({})"])
def test_keys_of_known_makers_are_found(key: str, frame: str) -> None:
    assert values(frame.format(key)) == [("api-key", key)]


@pytest.mark.parametrize("prefix", ["sk-", "sk-test-", "sk_test_", "gh" + "p_", "h" + "f_"])
@pytest.mark.parametrize("rest", ["9fK2mQ7xLpR4", "KqLmZxRtVbNpWsYd"])
def test_short_keys_of_known_makers_are_found(prefix: str, rest: str) -> None:
    assert values(f"export KEY={prefix}{rest}") == [("api-key", prefix + rest)]


def test_a_long_word_in_no_order_is_a_token_and_an_identifier_is_none() -> None:
    assert values("the bucket wants q7RtB2xK9mLpZ4vNcW8yHdS3 here") == [("token", "q7RtB2xK9mLpZ4vNcW8yHdS3")]
    assert values("see https://example.com/d/q7RtB2xK9mLpZ4vNcW8yHdS3/edit") == []
    assert values("call getUserNameFromSessionToken2") == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("RSSMRA85T10A562S", "RSSMRA85T10A562T"),
        ("529.982.247-25", "529.982.247-26"),
        ("12345678Z", "12345678A"),
        ("756.9217.0769.85", "756.9217.0769.84"),
        ("85.07.30-033.28", "85.07.30-033.29"),
        ("1 85 05 78 006 084 91", "1 85 05 78 006 084 92"),
    ],
)
def test_numbers_of_persons_are_known_by_their_check_digits(right: str, wrong: str) -> None:
    assert values(f"It says {right} there") == [("account-number", right)]
    assert values(f"It says {wrong} there") == []


def test_private_key_is_one_secret_from_begin_to_end() -> None:
    assert values(f"Here:\n{PEM}\nthanks") == [("private-key", PEM)]
    cut = PEM[:60]
    assert values(f"Here:\n{cut}") == [("private-key", cut)]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcDEF123456ghiJKL789", "abcDEF123456ghiJKL789"),
        ("curl -H 'authorization: bearer 0a1b2c3d4e5f60718293'", "0a1b2c3d4e5f60718293"),
        ("Authorization: Basic c3RldmU6aHVudGVyMg==", "c3RldmU6aHVudGVyMg=="),
        (f"the cookie was {JWT};", JWT),
    ],
)
def test_tokens_are_found(text: str, secret: str) -> None:
    assert values(text) == [("token", secret)]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfi", "wJalrXUtnFEMI/K7MDENG/bPxRfi"),
        ('"client_secret": "4f8a1c9e7b2d6035f1ae"', "4f8a1c9e7b2d6035f1ae"),
        ("My API key is 9f86d081884c7d659a2f", "9f86d081884c7d659a2f"),
        ("STRIPE_WEBHOOK_SECRET=abc123def456ghi789", "abc123def456ghi789"),
    ],
)  # fmt: skip
def test_keys_that_are_called_so_are_found(text: str, secret: str) -> None:
    assert values(text) == [("api-key", secret)]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("My password is hunter2", "hunter2"),
        ("my password is hunter2.", "hunter2"),
        ("The password is swordfish", "swordfish"),
        ("the password is swordfish, but tell nobody", "swordfish"),
        ("password: Tr0ub4dor&3", "Tr0ub4dor&3"),
        ("Password: letmein\nUser: steve", "letmein"),
        ("PASSWORD=s3cr3t!", "s3cr3t!"),
        ("the wifi password is 'correct horse battery staple'", "correct horse battery staple"),
        ('{"user": "steve", "password": "qwertz"}', "qwertz"),
        ("My passcode was 4711-0815", "4711-0815"),
        ("The password for the router is Fritz7390.", "Fritz7390"),
        ("password (work): Sommer2024!", "Sommer2024!"),
        ("Mein Passwort ist Geheim123", "Geheim123"),
        ("la contraseña es Madrid99", "Madrid99"),
        ("le mot de passe est Soleil!9", "Soleil!9"),
        ("密码是abc123", "abc123"),
        ("my pin is 4711", "4711"),
        ("CVV: 123", "123"),
        ("postgresql://steve:hunter2@db.example.com/app", "hunter2"),
    ],
)
def test_passwords_are_found_where_speech_names_them(text: str, secret: str) -> None:
    assert values(text) == [("password", secret)]


@pytest.mark.parametrize("number", [
    "4012 8888 8888 1881", "4012888888881881", "5555-5555-5555-4444", "5105105105105100",
    "2223003122003222", "3782 822463 10005", "371449635398431", "30569309025904", "6011 1111 1111 1117",
    "3530111333300000", "6200000000000005",
])  # fmt: skip
def test_card_numbers_are_found(number: str) -> None:
    assert values(f"It is {number}, until 12/27.") == [("card-number", number)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "My favourite colour is blue.",
        "The password is wrong.",
        "my password is too long to remember",
        "The password is required",
        "password: required",
        "password: string",
        "Passwords are hashed with bcrypt.",
        "the password is kept in a safe place",
        "The password is Steve's birthday",
        "What is the password policy?",
        "I forgot my password. Is there a way to reset it?",
        "password: ********",
        "password=<your password>",
        "password = os.environ['DB_PASSWORD']",
        "password = getpass.getpass()",
        "DB_PASSWORD=${DB_PASSWORD}",
        "password: your_password",
        "pwd: /home/steve/src",
        "postgresql://steve:password@localhost/app",
        "http://localhost:8080/a@b",
        "the bearer of bad news is the messenger",
        "Bearer authentication-is-described-below",
        "The primary key is 550e8400-e29b-41d4-a716-446655440000",
        "commit 94d24ebf1c2bf260cdd715b85d915fdee765a1095a1234567",
        "Tokens per second: 42",
        "the token is appended to the message",
        "sk-learn-is-a-library-for-machine-learning",
        "The secret is to cook the onions slowly and never ever stir them too much",
        "4111 1111 1111 1112",
        "order 4012888888881882",
        "timestamp 1700000000000, id 1234567890123456",
        "3.14159265358979323846",
        "+49 151 2345 6789 0123",
        "ISBN 978-3-16-148410-0",
        "the pin is on the table",
        "monkey: 12345678901234567a",
    ],
)
def test_ordinary_text_has_no_secrets(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("If the alarm sounds, ring Estates on extension 5520 and do not open the door.", []),
        ("Locked out of the safe room? Call the porter, ext. 2203.", []),
        ("Security desk, extension number 3391, has the gate keys.", []),
        ("The alarm code is 5520, ring extension 4410 first.", [("password", "5520")]),
        ("Ring extension 4410, the door code is 6631.", [("password", "6631")]),
        ("The keypad on the extension 5520", [("password", "5520")]),
        ("Gate code for extension 4471", [("password", "4471")]),
        ("Alarm code extension 5520", [("password", "5520")]),
    ],
)
def test_extension_of_a_telephone_is_no_code_and_the_code_beside_it_is(text: str, found) -> None:
    assert values(text) == found


def test_secrets_of_a_sentence_are_found_without_the_words_around() -> None:
    found = values("My password is hunter2, and my card 4012888888881881.")

    assert found == [("password", "hunter2"), ("card-number", "4012888888881881")]


@given(st.text())
def test_spans_lie_in_the_text_in_order_and_apart(text: str) -> None:
    end = 0
    for secret in find_secrets(f"password: {text} token={text} {text}"):
        assert end <= secret.start < secret.end
        end = secret.end


@given(
    st.integers(min_value=0), st.lists(st.sampled_from(["is", "password", "my", "the", "key", "for", ":"]))
)
def test_key_is_found_whole_whatever_words_are_around(seed: int, words: list[str]) -> None:
    rng = random.Random(seed)
    key = "sk-proj-aA1" + "".join(rng.choices(string.ascii_letters + string.digits, k=48))
    text = " ".join([*words, key, *words])

    assert any(key in secret for _, secret in values(text))


@pytest.mark.parametrize(
    "text",
    ["eyJ-" * 50_000, "password for " * 20_000, "4111 " * 40_000, "-----BEGIN PRIVATE KEY-----" * 5_000,
     "a_" * 100_000, "://" * 60_000,
     "card 4929 1108 3357 " * 12_000, "api key " * 30_000, "password is ab-" * 16_000,
     "seed phrase is " + "abc " * 50_000, "key-" * 50_000],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_hostile_text_is_read_in_bounded_time(text: str) -> None:
    # The system ends a process that uses more than its processor time.
    done = programs.run(
        [sys.executable, "-c", READ_SECRETS, str(MOST_CPU_S)],
        input=text,
        encoding="utf-8",
        env=programs.in_utf8(),
        check=False,
    )

    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("My IBAN is DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"),
        ("pay to GB82WEST12345698765432, please", "GB82WEST12345698765432"),
        ("my ssn: 219-09-9999.", "219-09-9999"),
    ],
)
def test_account_numbers_are_found_by_their_check_digits_and_form(text, secret):
    assert values(text) == [("account-number", secret)]


@pytest.mark.parametrize(
    "text",
    ["DE89 3704 0044 0532 0130 01", "call 555-12-34567", "000-12-3456", "AB12 CDEF", "on 2019-09-9999"],
)
def test_other_numbers_are_no_account_numbers(text):
    assert values(text) == []


def test_a_pin_is_found_behind_the_thing_that_it_opens():
    assert values("The PIN of my phone is 2580.") == [("password", "2580")]


FOLDER = Path(__file__).with_name("secrets")
# Lines of five writers who knew no rule of the detector. What it found of the latest before anybody looked at
# them is its measure (docs/explanation/learning.md); the tests keep the share from falling.
CHATS = [json.loads(line) for line in FOLDER.joinpath("chats.jsonl").read_text("utf-8").splitlines()]
EVERYDAY = FOLDER.joinpath("everyday.txt").read_text("utf-8").splitlines()
WORDS = "ridge lunar pencil canyon velvet orbit hazard timber muscle gadget frozen walnut"
MADE = {
    "aws": "AKIA" + "QWERTYUIOPAS2345",
    "aws_secret": "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzzTESTKEY0",
    "openai": "sk-" + ALNUM40,
    "openai_project": "sk-proj-" + ALNUM40 * 2,
    "anthropic": "sk-ant-api03-" + ALNUM40 * 2,
    "github": "ghp_" + ALNUM40[:36],
    "github_fine": "github_pat_" + ALNUM40 + "_" + ALNUM40,
    "gitlab": "glpat-" + ALNUM40[:20],
    "slack": "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKl",
    "slack_hook": "https://hooks.slack.com/services/" + "T0AB12CD3/B0EF45GH6/" + ALNUM40[:24],
    "stripe": "sk_live_" + ALNUM40[:24],
    "stripe_restricted": "rk_live_" + ALNUM40[:24],
    "stripe_hook": "whsec_" + ALNUM40[:32],
    "google": "AIza" + ALNUM40[:35],
    "google_oauth": "GOCSPX-" + ALNUM40[:28],
    "google_access": "ya29." + ALNUM40,
    "huggingface": "hf_" + ALNUM40[:34],
    "sendgrid": "SG." + ALNUM40[:22] + "." + ALNUM40 + "abc",
    "jwt": JWT,
    "hex32": HEX32,
    "rsa": PEM,
    "openssh": PEM.replace("RSA", "OPENSSH"),
    "ec": PEM.replace("RSA", "EC"),
    "pgp": "-----BEGIN PGP PRIVATE " + "KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE " + "KEY BLOCK-----",
    "age": "AGE-SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8GF2TVDW0S3JN54KHCE",
    "visa": "4012888888881881",
    "visa_grouped": "4012 8888 8888 1881",
    "mastercard": "5555-5555-5555-4444",
    "amex": "3782 822463 10005",
    "iban_de": "DE89370400440532013000",
    "iban_de_grouped": "DE89 3704 0044 0532 0130 00",
    "iban_fr_grouped": "FR14 2004 1010 0505 0001 3M02 606",
    "iban_es": "ES9121000418450200051332",
    "ssn": "219-09-9999",
    "ssn_plain": "219099999",
    "bip39": WORDS,
    "bip39_numbered": " ".join(f"{number}. {word}" for number, word in enumerate(WORDS.split(), 1)),
    "bip39_24": f"{WORDS} " + " ".join(reversed(WORDS.split())),
}
SECRETS = [
    (kind, sentence.format(**MADE))
    for line in FOLDER.joinpath("secrets.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
    for kind, _, sentence in [line.partition(" | ")]
]


@pytest.mark.parametrize("sentence", EVERYDAY)
def test_everyday_sentences_hold_no_secret(sentence: str) -> None:
    assert values(sentence) == []


@pytest.mark.parametrize(("kind", "sentence"), SECRETS)
def test_secrets_in_sentences_are_found(kind: str, sentence: str) -> None:
    assert kind in [found for found, _ in values(sentence)]


@pytest.mark.parametrize(("kind", "sentence"), SECRETS)
def test_covered_text_has_its_length_and_no_secret(kind: str, sentence: str) -> None:
    covered, n_secrets = masked(sentence)

    assert n_secrets > 0
    assert len(covered) == len(sentence)
    assert all(secret not in covered for _, secret in values(sentence))


@pytest.mark.parametrize(
    ("writer", "least", "most_false"),
    [
        ("a", 82, 4),
        ("b", 61, 0),
        ("c", 45, 1),
        ("d", 48, 1),
        ("e", 47, 0),
        ("f", 58, 0),
        ("g", 55, 0),
        ("h", 54, 0),
        ("i", 59, 0),
    ],
)
def test_share_of_secrets_found_in_chats_does_not_fall(writer: str, least: int, most_false: int) -> None:
    lines = [line for line in CHATS if line["set"] == writer]
    found = [line["secret"] for line in lines if holds_secret(line["say"], "")]

    assert sum(line["secret"] for line in lines) in (60, 100)
    assert sum(found) >= least
    assert found.count(False) <= most_false


@pytest.mark.parametrize(
    ("writer", "least", "most_false"),
    [
        ("a", 99, 12),
        ("b", 96, 2),
        ("c", 94, 9),
        ("d", 94, 9),
        ("e", 85, 7),
        ("f", 60, 0),
        ("g", 60, 0),
        ("h", 59, 0),
        ("i", 60, 0),
    ],
)
def test_share_of_secrets_kept_from_memory_does_not_fall(writer: str, least: int, most_false: int) -> None:
    lines = [line for line in CHATS if line["set"] == writer]
    kept = [
        line["secret"] for line in lines if holds_secret(line["say"], "") or find_unexplained(line["say"])
    ]

    assert sum(kept) >= least
    assert kept.count(False) <= most_false


@pytest.mark.parametrize(
    ("message", "values"),
    [
        ("If it beeps, tell the sitter 6604 and then unset", ["6604"]),
        ("the shed is 17 right 3 left 29 right", ["17 right 3 left 29 right"]),
        ("you press 4 then 9 then 9 then 2 and turn the handle", ["4 then 9 then 9 then 2"]),
        ("they changed it to seven seven one three", ["seven seven one three"]),
        ("my two factor seed: N4QT W6ZR 2MHD K7VC", ["N4QT W6ZR 2MHD K7VC"]),
        ("to get into the computer: letmein_harold", ["letmein_harold"]),
        ("the insurer wants a word, the word is 'periwinkle'", ["'periwinkle'"]),
        ("my mother's maiden name is Ollerenshaw", ["Ollerenshaw"]),
        ("first 4471, no sorry, 9026 and press star", ["4471", "9026"]),
    ],
)
def test_what_nothing_explains_is_found(message: str, values: list[str]) -> None:
    assert [message[found.start : found.end] for found in find_unexplained(message)] == values


@pytest.mark.parametrize(
    "message",
    [
        "I live at 12 Rowan Close, BS6 7QD, since March 5, 2019, 7:30 in the evening",
        "Ich wohne in der Rosenstraße 14, 50667 Köln, Telefonnummer 0221 4711 881",
        "My rent is $1,100/month, 640 for the flat and 45 kg of coal",
        "flight BA2490 lands 14:25, gate B4, seat 21C, booking 7K2MPQ",
        "I run 10 km in 52 minutes, my best is 1850 points, 138/84 on the cuff",
        "Order number 7720415 is late, parcel RN482915730GB too",
        "I have a ThinkPad T480s with 16GB, an iPhone 15 and a Samsung WW90T534",
        "He was born in 1951, the war was 1939-1945, page 1204 has it",
        "My number is +44 7700 900123 and the shop's is 0113 496 0182",
        "one two three, testing",
        "lottery: 4 11 19 27 33 40, and the score was 62-58",
        "for i in range(1204): print(4711)",
        "x" * 700 + " 6604",
    ],
)
def test_what_something_explains_is_left_alone(message: str) -> None:
    assert find_unexplained(message) == []


@given(st.text("019 aAb.,:-/'\"_!@#leftrigh\n", max_size=620))
def test_unexplained_values_are_apart_and_in_order(text: str) -> None:
    found = find_unexplained(text)

    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(one.end <= two.start for one, two in pairwise(found))


def test_unexplained_values_are_covered_in_the_answer_too() -> None:
    question, answer = covered("tell the sitter 6604, or 66041 at night", "I'll tell her 6604, not 16604.")

    assert question == "tell the sitter ••••, or ••••• at night"
    assert answer == "I'll tell her ••••, not 16604."


def test_sentences_are_many() -> None:
    assert len(EVERYDAY) >= 200
    assert len(set(SECRETS)) >= 100


def test_names_of_facts_tell_secrets_from_others() -> None:
    assert is_secret("wifi_password", "hunter2")
    assert is_secret("mi contraseña", "girasol")
    assert not is_secret("favorite_password_manager", "Bitwarden")
    assert not is_secret("secret_ingredient", "miso")
    assert not is_secret("phone", "416-555-0139")  # the number, not the code that unlocks it
    assert is_secret("phone", "29-38-47")


def test_question_about_passwords_is_no_secret_without_one() -> None:
    assert not holds_secret("Which password manager do I use?", "Bitwarden")
    assert not holds_secret("How do I reset my password?", "Click on the link below the form.")
    assert holds_secret("What is the user's bank PIN?", "1234")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4111 1111 1111 1111", "4111 1111 1111 1111"),
        ("4111-1111-1111-1111", "4111-1111-1111-1111"),
        ("3782 822463 10005", "3782 822463 10005"),
        ("my visa 4571 2022 1999 2001", "4571 2022 1999 2001"),
        ("My card number is 4571 1998 2201 7733.", "4571 1998 2201 7733"),
        ("GB82WEST12345698765432", "GB82WEST12345698765432"),
        ("4111 1111 1111 1112", ""),
        ("4111 11111111 1111", ""),
        ("4111 1111-1111 1111", ""),
        ("6304 0000 0000 0000 000", ""),
        ("Card: 1990 2000 2010 2020", ""),
        ("the order number 4571 1998 2201 7733 of my visa", ""),
        ("My IBAN is DE89 3704 0044 0532 0130 01", ""),
    ],
)
def test_a_number_is_a_cards_by_its_digits_or_by_its_name(text: str, number: str) -> None:
    assert [found for _, found in values(text)] == ([number] if number else [])


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("the wlan password in our flat share is nobodycleansthesink - long story", "nobodycleansthesink"),
        ("netflix password got changed AGAIN its pineapple-on-pizza-NO now", "pineapple-on-pizza-NO now"),
        (
            "the backup wants its passphrase, i type the geese came late to school",
            "the geese came late to school",
        ),
        (
            "die Passphrase lautet sieben nasse Hamster tanzen Polka (ohne Punkt)",
            "sieben nasse Hamster tanzen Polka",
        ),
        ("the password has always been grandmascake, nobody wants another", "grandmascake"),
        ("our code word is marmalade", "marmalade"),
    ],
)
def test_words_behind_the_name_of_a_password_are_found(message: str, value: str) -> None:
    assert [message[found.start : found.end] for found in find_unexplained(message)] == [value]


@pytest.mark.parametrize(
    "message",
    [
        "the password is in the drawer",
        "my password was stolen last week",
        "my password manager is Bitwarden",
        "my passwords I keep in Bitwarden",
        "Das Passwort ist abgelaufen",
        "my passphrase is the same as last year",
        "our password policy is annoyingly strict",
        "Le mot de passe est trop court",
        "is the password case sensitive?",
    ],
)
def test_speech_about_a_password_holds_none(message: str) -> None:
    assert find_unexplained(message) == []


def test_number_before_a_word_is_found_without_the_blank() -> None:
    message = "Der Tresor im Arbeitszimmer geht mit 190-447 auf"

    assert [message[found.start : found.end] for found in find_secrets(message)] == ["190-447"]


@pytest.mark.parametrize(
    ("value", "n"), [("", 0), ("abc", 0), ("aB1-", 3), ("aAbB", 3), ("AAbb11--", 3), ("a1a1", 3), ("Ab", 1)]
)
def test_changes_are_those_between_capitals_small_letters_digits_and_others(value: str, n: int) -> None:
    assert changes(value) == n


@pytest.mark.parametrize("words", ["hidden broken safe velvet canyon", "velvet hidden broken safe canyon"])
def test_a_phrase_of_which_a_fourth_is_ordinary_is_found_whole(words: str) -> None:
    phrase = f"{words} orbit maple tunnel rocket garlic pepper lantern"

    assert values(phrase) == [("recovery-phrase", phrase)]


def test_a_row_of_years_beside_a_cards_name_is_no_card() -> None:
    assert values("my visa card, expired in 2019 2020 2021 2022") == []
    assert values("my visa card 2019 2020 2021 2322") == [("card-number", "2019 2020 2021 2322")]


STRANGE_WORDS = (
    "velvet canyon orbit maple tunnel rocket garlic pepper lantern saddle walnut meadow copper ribbon cactus "
    "glacier pickle turbine hammock violin thunder biscuit marble anchor kettle"
)


@pytest.mark.parametrize("n", range(11, 26))
def test_words_by_themselves_are_a_recovery_phrase_at_the_lengths_that_wallets_use(n: int) -> None:
    phrase = " ".join(STRANGE_WORDS.split()[:n])

    assert values(phrase) == ([("recovery-phrase", phrase)] if n in (12, 15, 18, 21, 24) else [])


@pytest.mark.parametrize(
    "sentence",
    [
        "Our wifi is called Fritz!Box 7590 XY.",
        "The name of the guest network is TP-LINK_8A3C.",
        'We moved in. Our wifi is named "SKY4F8A2". It is slow.',
        "The SSID is Linksys01234",
        "Unser WLAN heißt FRITZ!Box 7590 XY.",
        "Notre réseau s'appelle Livebox-4F8A.",
        "Mi red se llama MOVISTAR_7F2C.",
        "La mia rete si chiama Vodafone-A82731",
    ],
)
def test_the_name_of_a_network_is_no_secret(sentence: str) -> None:
    assert masked(sentence) == (sentence, 0)
    assert covered(sentence, "") == (sentence, "")


@pytest.mark.parametrize(
    ("sentence", "name", "secret"),
    [
        ("Our wifi is called Vodafone-3F2A and the password is hunter2.", "Vodafone-3F2A", "hunter2"),
        (
            "our wifi is called FRITZ!Box 7590 QN, key 40718826153399047216",
            "FRITZ!Box 7590 QN",
            "40718826153399047216",
        ),
        ("our wifi is called Home 40718826153399047216", "Home", "40718826153399047216"),
        ("The wifi is called Kellerkind tulip-garden-77x", "Kellerkind", "tulip-garden-77x"),
        ("Our wifi is called tulip77 and the password is the same.", "", "tulip77"),
        ("The wifi network is called X7f!kQ2 and so is the password", "", "X7f!kQ2"),
        ("the wifi password is called tulip-garden-77", "", "tulip-garden-77"),
        ("the wifi is called guest/hunter22", "", "hunter22"),
        # Without the word password, only the name gives the sentence away.
        ("the box has tulipgarden, and the wifi is called Livebox-7F20", "", "Livebox-7F20"),
        ("the wifi is called Livebox-7F20, tulipgarden gets you in", "", "Livebox-7F20"),
    ],
)
def test_a_password_beside_the_name_of_a_network_is_covered(sentence: str, name: str, secret: str) -> None:
    shown = covered(masked(sentence)[0], "")[0]

    assert secret not in shown
    assert name in shown


def test_keys_and_questions_about_the_name_of_a_network_tell_no_secret() -> None:
    assert not is_secret("wifi_name", "TP-LINK_8A3C")
    assert not is_secret("ssid", "Linksys01234")
    assert is_secret("wifi_password", "Linksys01234")
    assert not holds_secret("What is our wifi called?", "TP-LINK_8A3C")
    assert holds_secret("What is our wifi password?", "TP-LINK_8A3C")
