"""Which values of an assertion are the user's own words for it, and what of a message is the user's."""

from __future__ import annotations

import pytest

from shepherd.claims.judge import judge, learned, supported_value
from shepherd.claims.material import own_words
from shepherd.claims.statements import assertions


@pytest.mark.parametrize(
    ("said", "key", "value", "supported"),
    [
        ("I like tea and coffee.", "likes", "tea", "tea"),
        ("I like tea and coffee.", "likes", "coffee", "coffee"),
        ("I speak German, French and Dutch.", "languages", "french", "French"),
        ("My dogs are called Rex, Bello and Fido.", "dog", "Bello", "Bello"),
        ("I'm allergic to peanut butter.", "allergy", "peanut", ""),
        ("I'm allergic to peanut butter.", "allergy", "butter", ""),
        ("I work at Acme Steel.", "employer", "Acme", ""),
    ],
)
def test_whole_items_of_a_list_are_supported_and_no_parts_of_one(
    said: str, key: str, value: str, supported: str
) -> None:
    [assertion] = assertions(said)

    assert supported_value(assertion, key, value) == supported


@pytest.mark.parametrize(
    ("said", "key", "value", "learns"),
    [
        ("Forget about the car, I bought a bike yesterday", "car", "bike", False),
        ("About the car, I bought a trailer yesterday", "car", "trailer", False),
        ("About the car, I bought a Garmin yesterday", "car", "Garmin", False),
        ("I sold my car and I bought a bike", "car", "bike", False),
        ("I bought a bike, the car comes later", "car", "bike", False),
        ("About the laptop, I bought a desk", "laptop", "desk", False),
        ("About my boss, I hate mondays", "boss", "mondays", False),
        ("I bought a Tesla yesterday", "car", "Tesla", True),
        ("About the car, I bought a van yesterday", "car", "van", True),
        ("I bought an electric bike", "bike", "electric bike", True),
    ],
)
def test_what_another_clause_is_about_is_no_key_of_a_value(said, key, value, learns) -> None:
    assert bool(judge({key: value}, [said])) is learns


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ("You are a pirate. I live in Ulm.", ""),
        ("\u201cYou are a pirate.\u201d I live in Ulm.", ""),
        ("I live in Ulm. You are very helpful.", "I live in Ulm. You are very helpful."),
        ("I live in Ulm. A summary of this text: I live in Rome.", "I live in Ulm. A "),
        # The verb of the request stands at its end.
        ("Könntest du das ins Englische übersetzen: Ich heiße Peter.", ""),
        ("Ich bin müde. Kannst du das korrigieren: Ich wohne in Rom.", "Ich bin müde. "),
        ("Ich muss viel übersetzen: Briefe, Bücher.", "Ich muss viel übersetzen: Briefe, Bücher."),
        ("Podrías corregir esto: vivo en Roma.", ""),
        ("英語に訳してください\uff1a私はピーターです。", ""),
        ("大阪に住んでいます。英語に訳して\uff1a私はピーターです。", "大阪に住んでいます。"),
        ("直近の予定\uff1a京都に引っ越します。", "直近の予定\uff1a京都に引っ越します。"),
        ("请把这句话翻译成英文\uff1a我叫彼得。", ""),
    ],
)
def test_a_role_at_the_beginning_and_a_text_to_work_on_are_no_words_of_the_users_own(
    message: str, own: str
) -> None:
    assert own_words(message) == own


def test_what_a_line_ends_behind_what_it_states_is_not_learned() -> None:
    verdicts, ended = learned({}, ["I work at Acme.", "I live in Berlin. I no longer work at Acme."])

    assert [(verdict.key, verdict.value) for verdict in verdicts] == [("location", "Berlin")]
    assert [(assertion.kind, assertion.value) for assertion in ended] == [("employer", "Acme")]


@pytest.mark.parametrize(
    ("lines", "facts"),
    [
        (["My wife works at Bosch. I left Bosch last year."], {"wife_employer": "Bosch"}),
        (["My wife works at Bosch.", "I left Bosch last year."], {"wife_employer": "Bosch"}),
        (
            ["I live in Oslo. My brother lives in Oslo. I no longer live in Oslo."],
            {"brother_location": "Oslo"},
        ),
        (["I work at Bosch. I left Bosch last year."], {}),
        (["I left Bosch last year. I work at Bosch again."], {"employer": "Bosch"}),
        (["I'm allergic to nuts and latex. I'm no longer allergic to nuts."], {"allergy": "latex"}),
        (["I collect stamps and coins.", "I no longer collect coins."], {"collects": "stamps"}),
        (["I like rock and roll. I no longer like rock and roll."], {}),
    ],
)
def test_an_end_ends_what_it_concerns_and_nothing_else(lines, facts):
    verdicts, _ = learned({}, lines)

    assert {verdict.key: verdict.value for verdict in verdicts} == facts
