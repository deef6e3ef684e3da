"""Lists without marks, lines with times and numbers behind abbreviations in notes."""

from __future__ import annotations

import pytest

from shepherd.knowledge import attached_block
from shepherd.prompt.questions import Question
from shepherd.turn.quotation import quotation, sources_of
from shepherd.types import Fact, Message

NOTES = {
    "rounds": """# Milk round

Mon, Thu:
05:40 Hotel Astoria, 24 bottles, side gate
06:05 Lindner's shop, 30 bottles
06:20 St. Anne nursery, 18 bottles""",
    "radio": """Channels on the lake

Boathouse: channel 4
Sluice: channel 9
Élodie's launch: channel 11
All listen on 16""",
    "pump": """# Pump

- Belt: Gates, part no. B-1120
- Foreman: ext. 27, not on Fridays
- Seal kit: art. 5""",
    "dogs": """# When we are away

Juno gets one scoop at noon. Pip gets two scoops and no biscuits. Both sleep in the porch.""",
    "gear": """# Dive gear

- 2 torches (one is Nadia's, yellow tape)
- tank: 12 l, tested in June

Dry the suit slowly: no smell means done.""",
    "kiln": """# Kiln

Turn on at 4, it needs two hours to get hot. Fuse 9 in the cellar is for the fan.""",
    "contacts": """# Site

1. Crane: Håkan, 0902 55 117
2. Skip: emptied every Monday at 7""",
}
FACTS = [Fact("first_dog", "Juno, a beagle", 0, 0), Fact("second_dog", "Pip, a pug", 0, 0)]


def quoted(title: str, question: str) -> str:
    message = Message("user", question, composed=f"{question}\n\n{attached_block(title, NOTES[title])}")
    found = quotation(Question(question), sources_of([message], (), ()), FACTS)
    return found.sentence if found else ""


@pytest.mark.parametrize(
    ("title", "question", "sentence"),
    [
        ("rounds", "How many bottles does the Astoria get?", "05:40 Hotel Astoria, 24 bottles, side gate"),
        ("rounds", "When do I get to the nursery?", "06:20 St. Anne nursery, 18 bottles"),
        ("radio", "Which channel is the sluice on?", "Sluice: channel 9"),
        ("pump", "What's the part number of the belt?", "Belt: Gates, part no. B-1120"),
        ("pump", "what extension does the foreman have", "Foreman: ext. 27, not on Fridays"),
        ("dogs", "How many scoops does Pip get?", "Pip gets two scoops and no biscuits."),
        ("gear", "Whose torch has the yellow tape?", "2 torches (one is Nadia's, yellow tape)"),
        ("gear", "how can I tell that the suit is dry", "Dry the suit slowly: no smell means done."),
        ("kiln", "How long does the kiln take to heat up?", "Turn on at 4, it needs two hours to get hot."),
        ("contacts", "what is Håkan's number", "Crane: Håkan, 0902 55 117"),
    ],
)  # fmt: skip
def test_the_line_that_answers_is_quoted_alone(title, question, sentence):
    assert quoted(title, question) == sentence


@pytest.mark.parametrize(
    ("title", "question"),
    [
        ("radio", "Which channel is Ødegaard's launch on?"),
        ("radio", "What is Élodie's number?"),
        ("dogs", "How many scoops does Bruno get?"),
        ("gear", "Whose torch has the Zeiss lens?"),
    ],
)
def test_a_name_that_no_line_has_is_not_answered(title, question):
    assert quoted(title, question) == ""
