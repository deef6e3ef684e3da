"""What the bundled model says to small talk, and to sad news."""

from __future__ import annotations

import pytest

from shepherd.turn.courtesies import is_harmless, is_sad, reply_to_small_talk
from shepherd.turn.small_model import Promise


@pytest.mark.parametrize(
    "text",
    [
        "My dad is in hospital.",
        "She was rushed to hospital this morning.",
        "My aunt has breast cancer",
        "He\u2019s got cancer again.",
        "Our cat is dead.",
        "My grandmother had a stroke.",
        "I got fired on Monday.",
        "I was made redundant in May.",
        "We filed for divorce.",
        "I work from home, since I've been depressed.",
        "His illness is terminal cancer.",
        "I miscarried last night.",
        "We had to put Rex down today.",
        "My brother killed himself.",
        "My best friend took her own life.",
        "I was diagnosed with MS yesterday.",
        "My son has leukaemia.",
        "I have six months to live.",
        "I buried my dad on Monday.",
        "My nan is in a hospice.",
        "My cat got run over.",
        "Mein Vater ist gestorben.",
        "Ma m\u00e8re est morte hier.",
        "Mi padre muri\u00f3 ayer.",
        "Mia madre \u00e8 morta.",
        "Meu av\u00f4 morreu.",
        "Mijn vader is overleden.",
    ],
)
def test_sad_news_are_recognised(text):
    assert is_sad(text)


@pytest.mark.parametrize(
    "text",
    [
        "I work as a nurse at Torbay Hospital.",
        "My wife is in the hospital kitchen, where she works.",
        "My star sign is Cancer.",
        "I'm a cancer researcher.",
        "I prefer the terminal to an IDE.",
        "My favourite film is Dead Poets Society.",
        "I swim breast stroke.",
        "The disks are a redundant array.",
        "I'm fired up about the race.",
        "I'm a divorce lawyer.",
        "My favourite band is the Grateful Dead.",
        "My favourite film is Suicide Squad.",
        "I lost my virginity in Paris.",
        "My uncle owns a funeral parlour.",
        "I work in a hospice.",
        "I put the kids to sleep at eight.",
        "He left me a voicemail.",
    ],
)
def test_words_of_sad_news_with_another_meaning_are_not_sad(text):
    assert not is_sad(text)


def test_unpleasant_news_are_not_nice():
    for text in ("I'm feeling sick", "I broke my leg last year.", "I hate Mondays"):
        assert Promise(stores=True).acknowledgement(text) == "I'll remember that."
        assert Promise().acknowledgement(text) == "I'll keep that in mind for this conversation."
    assert Promise(stores=True).acknowledgement("I like jazz.") == "Nice, I'll remember that."


@pytest.mark.parametrize(
    "text",
    [
        "My name is Anna.",
        "I live in Kiel.",
        "My cat is called Tom.",
        "I use Vim as my editor.",
        "I'm from Chile and I speak Spanish.",
        "I have two children, Mia and Ben.",
        "Ich hei\u00dfe Anna.",
        "Vivo en Madrid.",
    ],
)
def test_plain_facts_are_nice(text):
    assert is_harmless(text)
    assert Promise(stores=True).acknowledgement(text) == "Nice, I'll remember that."


@pytest.mark.parametrize(
    "text",
    [
        "My name is Anna and I'm falling apart.",
        "I live in Ulm, since my wife walked out.",
        "My late husband was called Karl.",
        "I'm 30 and not well at all.",
        "My dog is called Rex. He won't make it.",
        "I'm allergic to nuts.",
        "My house is gone.",
        "Nobody came to my party.",
    ],
)
def test_what_may_be_bad_news_is_not_nice(text):
    assert Promise(stores=True).acknowledgement(text) == "I'll remember that."


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Hi, how are you?", "I'm fine"),
        ("hey there! how's it going", "I'm fine"),
        ("Thank you, how are you doing today?", "I'm fine"),
        ("What\u2019s up?", "I'm fine"),
        ("Hello, who are you?", "I'm Shepherd's bundled demo model"),
        ("What can you do for me?", "I'm Shepherd's bundled demo model"),
        ("Are you ChatGPT?", "I'm Shepherd's bundled demo model"),
        ("Nice to meet you!", "Nice to meet you, too!"),
    ],
)
def test_small_talk_has_a_reply(text, reply):
    assert reply_to_small_talk(text).startswith(reply)


@pytest.mark.parametrize(
    "text",
    [
        "How are you going to the wedding?",
        "How are my sisters called?",
        "Who are you going to invite?",
        "What is my name?",
        "What do you do on Fridays? My rehearsal is then.",
        "How are you? My name is Rob.",
        "Hi",
        "",
    ],
)
def test_what_is_more_than_small_talk_has_none(text):
    assert reply_to_small_talk(text) == ""
