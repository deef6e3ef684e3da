"""Pasted words of other people state nothing about the user; what only looks like a label hides nothing."""

from __future__ import annotations

import pytest

from shepherd.claims.judge import plain_facts
from shepherd.claims.material import own_words
from shepherd.claims.speakers import sentences_with_speakers


def learned(message: str) -> dict[str, str]:
    return {verdict.key: verdict.value for verdict in plain_facts(message)}


@pytest.mark.parametrize(
    "message",
    [
        "Lea 10:32\nI moved to Hamburg and I'm vegan now",
        "Lea Müller\n10:32\nIch wohne jetzt in Hamburg",
        "Tom Baker, [29.11.26 10:32]\nI moved to Cork last week",
        "lea_m — Today at 10:32 AM\nI work at Siemens now",
        "29/11/2026, 10:32 - Lea Müller: I live in Hamburg now",
        "[10:32] <lea> I live in Hamburg",
        "On Mon, 3 Nov 2026 at 10:32, Lea Müller <lea@example.org> wrote:\nI live in Hamburg now",
        "Lea:\nI moved to Hamburg",
        "standup notes: Tom - done with tickets. Lea - I live in Hamburg now, commuting.",
        "Paul (DevOps) - I live in Berlin",
        "Mum - I'm diabetic",
        "@lea - I moved to Hamburg",
        "Message from Lea\nI moved to Hamburg",
        "got a text from my sister, I'm pregnant!!",
        "This is what my mum posted on Facebook. I live in Wales and I love it here",
        "Ben wrote this. I live in Oslo and work at Equinor",
        "saw this on Reddit. I'm a 34 year old nurse and I live in Ohio",
        "my kid's essay: My name is Finn. I live in Bradford.",
        "He's like I'm a doctor and I live in Miami",
        "and then he goes, I'm from Texas",
        "my gran emailed, I live in Whitby now",
        "Léa a écrit :\nJ'habite à Lyon",
        "lea 10:30\nI live in Ulm",
        "Ольга, [29.11.26 10:32]\nI live in Ulm",
        "Żaneta 10:32\nI live in Ulm",
        "張偉 10:30\nI live in Ulm",
        "Şule - I live in Ulm",
        "I copied this from my friend's blog. I live in Ulm.",
    ],
)
def test_words_of_others_teach_nothing(message):
    assert learned(message) == {}


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        ("Hi - I'm Sam, I live in Leeds", {"name": "Sam", "location": "Leeds"}),
        ("Quick intro - I live in York", {"location": "York"}),
        ("Correction: I live in York", {"location": "York"}),
        ("Korrektur: ich bin 42", {"age": "42"}),
        ("Corrección: vivo en Cádiz", {"location": "Cádiz"}),
        ("Oh no sorry, I'm 75 since Tuesday", {"age": "75"}),
        ("Ah non pardon, j'ai 75 ans depuis mardi !", {"age": "75"}),
        ("Health - I'm diabetic", {"condition": "diabetic"}),
        ("Work:\nI work at Asda", {"employer": "Asda"}),
        ("About me:\nI live in Leeds", {"location": "Leeds"}),
        ("Monday 10:30\nI work at Asda", {"employer": "Asda"}),
        ("I get up at 6:30\nI live in York", {"location": "York"}),
        ("I just read an email from HR and I work at Asda", {"employer": "Asda"}),
        ("I wrote this. I live in Oslo", {"location": "Oslo"}),
        ("Posting this from the train. I live in Ulm", {"location": "Ulm"}),
        ("He goes to school in Hull. I live in York", {"location": "York"}),
        ("My mum's like me, I live in York", {"location": "York"}),
        ("Wow - I'm 40 and I live in Ulm.", {"age": "40", "location": "Ulm"}),
        ("Rex - my dog - is ill. I work at Asda.", {"employer": "Asda"}),
        ("Coffee - I love it black. I live in Ulm.", {"location": "Ulm"}),
        ("v1.2 - my favourite editor is vim", {"favorite_editor": "vim"}),
        ("Dentist 14:30\nI live in Ulm.", {"location": "Ulm"}),
        ("Frühstück\n7:00\nIch wohne in Ulm.", {"location": "Ulm"}),
        ("bus 7:42\nI live in Ulm.", {"location": "Ulm"}),
        ("I copied this from my CV. I work at Asda.", {"employer": "Asda"}),
        ("Is what they sent correct? I live in Ulm.", {"location": "Ulm"}),
        ("Rv by the lake. I live in Ulm.", {"location": "Ulm"}),
    ],
)
def test_what_only_looks_like_a_label_hides_nothing(message, facts):
    assert learned(message).items() >= facts.items()


def test_sentences_of_others_stand_behind_their_labels():
    text = "I like tea.\n10:30 Lea\nI hate tea. I live in Rome.\nTom: I don't."

    assert sentences_with_speakers(text) == [
        "I like tea.",
        "10:30 Lea: I hate tea.",
        "10:30 Lea: I live in Rome.",
        "Tom: I don't.",
    ]


def test_thousands_of_blank_lines_are_read_once():
    # From each of them, all the others were read: that took half a minute.
    blank = "\n" * 4000

    assert own_words(f"I live in Ulm.{blank}I have a dog.") == f"I live in Ulm.{blank}I have a dog."
    assert own_words(f"I live in Ulm.{blank}Dear Anna,\nI have a dog.") == "I live in Ulm."
