"""Which sentence of a document or of the user answers a question."""

from __future__ import annotations

import pytest

from shepherd.knowledge import attached_block
from shepherd.prompt.plan import Part
from shepherd.prompt.questions import Question
from shepherd.turn.quotation import MOST_WORDS, Quote, best_first, quotation, repeats, sources_of
from shepherd.types import Fact, Message, SearchResult

CAVE = """# The show cave

The cave opens at half past nine. It was found by Ada Lunt in 1911. The tour leaves every hour.

## Prices

- Adults pay 12 euros
- Children: half of that

## Ways

The tour takes fifty minutes. The lamp of the guide
hangs beside the gate. The path is 900 metres long. Bring a coat."""
TALES = (
    "I sold my red kayak to Bruno for 300 euros. He paid at once.",
    "I am saving for a loom. So far I have 450 euros. It will take two years.",
    "Pebble hid behind the stove, so we were late. My nephew Finn is 9, and Bruno is 3 km from here.",
    "Do you think Bruno has a boat?",
)
FACTS = [Fact("cat_name", "Pebble", 0, 0), Fact("name", "Nora Lind", 0, 0)]


def quoted(question: str, before: str = "") -> str:
    memories = [
        SearchResult(n, tale, "Noted.", 0, 1.0, 1.0, 0.0, source="turn") for n, tale in enumerate(TALES)
    ]
    message = Message("user", question, composed=f"{question}\n\n{attached_block('cave.md', CAVE)}")
    quote = quotation(Question(question, before), sources_of([message], (), memories), FACTS)
    return quote.sentence if quote else ""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When does the cave open?", "The cave opens at half past nine."),
        ("Who found the cave?", "It was found by Ada Lunt in 1911."),
        ("What do adults pay?", "Adults pay 12 euros"),
        ("How much does it cost for adults?", "Adults pay 12 euros"),
        ("How much is it for children?", "Children: half of that"),
        ("How long does the tour take?", "The tour takes fifty minutes."),
        ("How often does the tour leave?", "The tour leaves every hour."),
        ("How long is the path?", "The path is 900 metres long."),
        ("Where does the guide's lamp hang?", "The lamp of the guide hangs beside the gate."),
        ("Who bought my red kayak?", "I sold my red kayak to Bruno for 300 euros."),
        ("How much have I saved for the loom?", "I am saving for a loom. So far I have 450 euros."),
        ("How old is Finn?", "My nephew Finn is 9, and Bruno is 3 km from here."),
        ("Where did my cat hide?", "Pebble hid behind the stove, so we were late."),
    ],
)
def test_sentence_with_what_is_asked_for_is_quoted(question, sentence):
    assert quoted(question) == sentence


@pytest.mark.parametrize(
    "question",
    [
        "How old is Bruno?",
        "How old is the cave?",
        "How many coats do I have?",
        "How much did the coat cost?",
        "How heavy is the lamp of the guide?",
        "When did Pebble hide?",
        "Where did my dog hide?",
        "Who sold Leo a kayak?",
        "How far is the path of tour 7?",
        "Is there a museum beside the castle with the gate?",
        "Has Bruno got a boat?",
        "Who am I?",
    ],
)
def test_sentence_without_what_is_asked_for_is_not_quoted(question):
    assert quoted(question) == ""


@pytest.mark.parametrize(
    "told",
    [
        "My nephew Finn, who is 9, plays chess.",
        "I have two nephews, Leo and Finn, he's 9.",
        "My nephews are Leo (12), Finn (9) and little Max.",
        "Finn is already 9 and Leo is 12.",
    ],
)
def test_age_is_quoted_where_it_stands_behind_the_name(told):
    def answers(name: str) -> bool:
        memory = SearchResult(1, told, "Noted.", 0, 1.0, 1.0, 0.0, source="turn")
        return quotation(Question(f"How old is {name}?", ""), sources_of([], (), [memory])) is not None

    assert answers("Finn")
    assert not answers("chess")
    assert not answers("Max")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Someone found the mill. The mill was found by Ada Lunt.", "The mill was found by Ada Lunt."),
        ("I found the mill. Ada Lunt found the mill.", "Ada Lunt found the mill."),
    ],
)
def test_who_it_was_is_told_by_the_sentence_that_names_somebody(text, sentence):
    question = "Who found the mill?"
    message = Message("user", question, composed=f"{question}\n\n{attached_block('mill.md', text)}")

    quote = quotation(Question(question), sources_of([message], (), []), [])

    assert quote is not None
    assert quote.sentence == sentence


NOTES = {
    "Hens": "# Hens\n\nPellets 120 g each, mornings. Our vet is Mrs Abara, 01632 960. Cleaned on Sundays.",
    "Kiln": "# Kiln\n\n| Name | Cone | Shelf |\n|--|--|--|\n| Ash | 9 | low |\n\nHeight 92 cm.",
    "bread": "Rye bread: leave in water overnight. Then 240 for an hour. Baker's tins are in the loft.",
    "Hut": "# Hut B\n\nRent 340, paid to Olu. Visitors stay three nights. The seal was replaced in May.",
}


def note_quoted(question: str) -> tuple[str, bool]:
    parts = [
        Part("knowledge", f"chunk:{n}", f"Source: {title}\n```\n{text}\n```", about={"title": title})
        for n, (title, text) in enumerate(NOTES.items())
    ]
    first = best_first(Question(question), parts)[:1]
    quote = quotation(Question(question), sources_of([], first, []))
    return (quote.sentence, quote.is_sure) if quote else ("", False)


@pytest.mark.parametrize(
    ("question", "sentence", "is_sure"),
    [
        ("how much do the hens get in the morning", "Pellets 120 g each, mornings.", True),
        ("Who is the vet of the hens?", "Our vet is Mrs Abara, 01632 960.", True),
        ("how often do I clean the hens", "Cleaned on Sundays.", True),
        ("which shelf is Ash on", "Ash: 9, low", True),
        ("How high is the kiln?", "Height 92 cm.", False),
        ("How long does the rye soak?", "Rye bread: leave in water overnight.", False),
        ("how hot is the oven for the rye", "Then 240 for an hour.", False),
        ("where are the tins for baking", "Baker's tins are in the loft.", True),
        ("What do I pay for the hut?", "Rent 340, paid to Olu.", False),
        ("how long can guests stay at the hut", "Visitors stay three nights.", True),
        ("When was the seal of hut A replaced?", "", False),
        ("When was the seal of hut B replaced?", "The seal was replaced in May.", True),
        ("What is the phone number of the hut?", "", False),
        ("When is the kiln's birthday?", "", False),
    ],
)  # fmt: skip
def test_note_is_quoted_that_tells_it_in_other_words(question, sentence, is_sure):
    assert note_quoted(question) == (sentence, is_sure)


def test_a_note_goes_before_talk_and_talk_answers_where_only_with_a_place():
    note = Part(
        "knowledge", "chunk:1", "Source: Trip\n```\n# Trip\n\nCamp from 2 June.\n```", about={"title": "Trip"}
    )
    talk = [SearchResult(1, "We went camping in May.", "Ok.", 0, 1.0, 1.0, 0.0, source="turn")]
    work = [SearchResult(1, "I love my work, it is hard.", "Ok.", 0, 1.0, 1.0, 0.0, source="turn")]

    found = quotation(Question("When do we go to camp?"), sources_of([], (note,), talk))

    assert found == Quote("document", "Trip", "Camp from 2 June.", is_sure=True)
    assert quotation(Question("Where do I work?"), sources_of([], (), work)) is None


def test_two_sentences_that_answer_about_as_well_are_quoted_together():
    text = "Source: Ned\n```\n# Ned\n\nYear 4, Mrs Hale. Piano with Mr Oye. He likes cake on Weds.\n```"
    passage = Part("knowledge", "chunk:1", text, about={"title": "Ned"})

    def found(question: str) -> Quote | None:
        return quotation(Question(question), sources_of([], (passage,), []))

    assert found("Who teaches Ned?") == Quote("document", "Ned", "Year 4, Mrs Hale. Piano with Mr Oye.")
    assert found("what does Ned like on Wednesday") == Quote(
        "document", "Ned", "He likes cake on Weds.", is_sure=True
    )


def test_name_alone_does_not_tell_what_is_asked_about_somebody():
    text = "Source: Yard\n```\nPebble sleeps in the hall at 9.\n```"
    passage = Part("knowledge", "chunk:1", text, about={"title": "Yard"})

    def found(question: str) -> Quote | None:
        return quotation(Question(question), sources_of([], (passage,), []), FACTS)

    assert found("When is Pebble's birthday?") is None
    assert found("Where does my cat sleep?") is not None


def test_question_about_it_needs_the_thing_before():
    assert quoted("And when?", "Who found the cave?") == "It was found by Ada Lunt in 1911."
    assert quoted("How long does it take?", "What is the tour called?") == "The tour takes fifty minutes."
    assert quoted("How long does it take?", "What is the ferry called?") == ""


@pytest.mark.parametrize(
    ("line", "is_sure"),
    [
        ("Next check-up on 14 January 2027.", True),
        ("My next check-up: 14 January 2027.", True),
        ("Your next check-up is on 14 January 2027.", False),
        ("Ida's next check-up is on 14 January 2027.", False),
    ],
)
def test_line_that_begins_with_the_thing_is_as_sure_as_one_that_says_whose_it_is(line, is_sure):
    note = Message("user", "Look.", composed=f"Look.\n\n{attached_block('dentist', line)}")
    asked = "When is my next check-up?"
    quote = quotation(Question(asked), sources_of([note, Message("user", asked)], [], []))

    assert quote is not None
    assert (quote.sentence, quote.is_sure) == (line, is_sure)


def test_every_attached_document_and_passage_can_be_quoted_with_its_name():
    blocks = [
        attached_block("a ``` b.txt", "The fence is ```green```."),
        attached_block("b", "The roof is red."),
    ]
    asked = "Is the roof red?"
    earlier = Message("user", "Look.", composed="\n\n".join(["Look.", *blocks]))
    chunk = "Source: Walls (2026-01-01)\n```\n# Walls\n\nThe walls are blue. Unfinished\n```"
    passage = Part("knowledge", "chunk:1", chunk, about={"title": "Walls"})
    sources = sources_of([earlier, Message("assistant", "I see."), Message("user", asked)], [passage], [])

    def found(question: str) -> Quote | None:
        return quotation(Question(question), sources)

    assert found(asked) == Quote("document", "b", "The roof is red.", is_sure=True)
    assert found("What is the fence?") == Quote(
        "document", "a ``` b.txt", "The fence is ```green```.", is_sure=True
    )
    assert found("What are the walls?") == Quote("document", "Walls", "The walls are blue.", is_sure=True)
    assert found("Is it unfinished?") is None
    assert [one for source in sources if source.kind != "document" for one in source.sentences] == ["Look."]


def test_block_that_is_only_typed_is_no_document():
    typed = attached_block("x", "The moon is green.")

    assert sources_of([Message("user", typed)], (), ()) == []


def test_what_was_said_before_in_the_conversation_is_quoted_the_newest_first():
    def found(*said: str) -> Quote | None:
        messages = [Message("user", text) for text in said]
        return quotation(Question(said[-1]), sources_of(messages, (), ()))

    boat, newer = "My boat needs new paint in March.", "My boat needs new paint in May."
    asked = "When does my boat need paint?"
    assert found(boat, asked) == Quote("told", "", boat, is_sure=True)
    assert found(boat, newer, asked) == Quote("told", "", newer, is_sure=True)
    assert found("My friend's boat needs paint in June.", asked) == Quote(
        "told", "", "My friend's boat needs paint in June."
    )
    assert found(boat, "When does my boat need paint for the cabin?") == Quote("told", "", boat)
    assert found("Does my boat need paint in March?", asked) is None
    assert found(asked) is None


def test_answer_that_no_assistant_wrote_is_quoted_for_its_question():
    def found(memory: SearchResult, asked: str) -> Quote | None:
        return quotation(Question(asked), sources_of([Message("user", asked)], (), [memory]))

    entered = SearchResult(1, "Which boat does the user row?", "The Tern", 0, 1.0, 1.0, 0.0, source="user")
    replied = SearchResult(1, "Which boat do I row?", "The Tern", 0, 1.0, 1.0, 0.0, source="turn")
    assert found(entered, "Which boat do I row?") == Quote("stored", "", "The Tern", is_sure=True)
    assert found(entered, "Which harbour do I like?") is None
    assert found(replied, "Which boat do I row?") is None


FERRY = "How do I get the ferry to Bardsey Island?"
LEAVES = "The boat to Bardsey leaves from Porth Meudwy."


def test_an_imported_answer_of_another_assistant_is_quoted_if_nothing_else_is():
    def found(asked: str, *others: SearchResult, source: str = "chatgpt") -> Quote | None:
        told = SearchResult(1, FERRY, f"{LEAVES} Book ahead.", 0, 1.0, 1.0, 0.0, source=source)
        return quotation(Question(asked), sources_of([Message("user", asked)], (), [told, *others]))

    own = SearchResult(
        2, "The boat to Bardsey leaves at noon from Aberdaron.", "Ok.", 0, 1.0, 1.0, 0.0, source="turn"
    )
    asked = "Where does the boat to Bardsey leave from?"

    assert found(asked) == Quote("answered", FERRY, LEAVES)
    assert found(asked, source="turn") is None
    assert found("Where does my boat to Bardsey leave from?") is None
    assert found("Where does the train to Rhyl leave from?") is None
    assert found(asked, own) == Quote("told", "", own.question, is_sure=True)


def test_sources_are_the_sections_of_documents_with_their_headings():
    text = "Before all headings stands this.\n\n# Cave\n\nIt is old. Is it?\n\n"
    text += "## Prices\n\n- Adults pay 12 euros\n\n## Empty\n"
    message = Message("user", "Ask.", composed=f"Ask.\n\n{attached_block('cave.md', text)}")

    found = sources_of([Message("user", "I like tea."), Message("assistant", "Hm."), message], (), ())

    assert [(one.kind, one.title, one.about.split(), list(one.sentences)) for one in found] == [
        ("document", "cave.md", ["cave.md"], ["Before all headings stands this."]),
        ("document", "cave.md", ["cave.md", "Cave", "Cave"], ["It is old."]),
        ("document", "cave.md", ["cave.md", "Cave", "Prices"], ["Adults pay 12 euros"]),
        ("told", "", [], ["I like tea."]),
    ]


def test_a_passage_is_quoted_from_between_its_fences():
    passage = Part(
        "knowledge", "chunk:1", "Source: Cave\n```\nIt is old.\n\nIt is wet.\n```", about={"title": "Cave"}
    )

    [found] = sources_of([], (passage,), ())

    assert (found.title, list(found.sentences)) == ("Cave", ["It is old.", "It is wet."])


@pytest.mark.parametrize(
    ("question", "answer", "source", "found"),
    [
        ("I have a boat.", "Nice.", "turn", [("told", "", ["I have a boat."])]),
        ("Which boat?", "A red one.", "user", [("told", "", []), ("stored", "Which boat?", ["A red one."])]),
        ("Boat", "A red one.", "user", [("told", "", ["Boat"]), ("stored", "", ["A red one."])]),
    ],
)
def test_a_memory_is_quoted_in_the_users_words(question, answer, source, found):
    memory = SearchResult(1, question, answer, 0, 1.0, 1.0, 0.0, source=source)

    assert [(one.kind, one.about, list(one.sentences)) for one in sources_of([], (), [memory])] == found


HEADED = """# Trip to Orkney

Scrabster to Stromness on 4 July at 13:15, cabin 12. Staying at the Lodge with Bram. Back on the 11th.

# Resistance bands

Bands are in the blue box. Yellow is light, green medium, black extra strong.

# Choir

Practice is Monday 7.15 in the hall. I am a second alto.

# Minus eighty freezer

Rack 4 is mine.

# Before a ride

- Tyres 80 psi on the van
- Chain oiled

# Contacts

- Caravan service: Gears, Tom, 01632 960111

# Bills

The internet is in Paul's name, 28 pounds a month. Paul rang Teifi Fuels. Ask Lena Brook about it."""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When is the ferry back?", "Back on the 11th."),
        ("What's the cabin on the ferry?", "Scrabster to Stromness on 4 July at 13:15, cabin 12."),
        ("What's the cabin number for the ferry home?", ""),
        ("Who am I sharing with in Orkney?", "Staying at the Lodge with Bram."),
        ("which band is the strong one", "Yellow is light, green medium, black extra strong."),
        ("what part do I sing in the choir?", "I am a second alto."),
        ("which rack is mine in the -80", "Rack 4 is mine."),
        ("which rack is mine in the -20", ""),
        ("What should the caravan's tyres be at?", "Tyres 80 psi on the van"),
        ("What is the caravan's registration?", ""),
        ("Whose name is the broadband under?", "The internet is in Paul's name, 28 pounds a month."),
        ("what's paul's surname", ""),
        ("what is Lena's last name?", "Ask Lena Brook about it."),
    ],
)
def test_what_stands_in_a_heading_or_beside_is_about_the_question(question, sentence):
    message = Message("user", question, composed=f"{question}\n\n{attached_block('trip.md', HEADED)}")
    quote = quotation(Question(question), sources_of([message], (), ()))

    assert (quote.sentence if quote else "") == sentence


HOUSE = """# Boiler

Installed in 2018, pressure 1.2 to 1.8 bar. Serviced every October by Desmet. Error F.22 means low water.

# Lisbon

Check-in from 15:00. Flat in Alfama, Rua do Monte 12, host Beatriz. Back: TP 634 at 06:40.

# Allotment

Plot 61, water is on from April to October. Rent of 85 due in January to Wim. Pick-up of the waste by 17:00.

# Notary

Mr Vandaele, Korenmarkt 4. No parking.

# Bay

You can swim there at low tide. Scramble down, water shoes needed.

# Splits

For the record: me 50, Tove 30, Anselm 20."""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("How old is the boiler?", "Installed in 2018, pressure 1.2 to 1.8 bar."),
        ("In which month is the boiler checked?", "Serviced every October by Desmet."),
        ("What does F.22 mean?", "Error F.22 means low water."),
        ("What time can we check in?", "Check-in from 15:00."),
        ("What's the address in Lisbon?", "Flat in Alfama, Rua do Monte 12, host Beatriz."),
        ("How much does the allotment cost?", "Rent of 85 due in January to Wim."),
        ("By when must the waste be picked up?", "Pick-up of the waste by 17:00."),
        ("When can you swim in the bay?", "You can swim there at low tide."),
        ("What's Tove's share of the record?", "For the record: me 50, Tove 30, Anselm 20."),
        ("How much does the notary charge?", ""),
        ("What does F.23 mean?", ""),
        ("What's Bruno's share of the record?", ""),
    ],
)
def test_a_house_book_tells_when_how_much_and_where(question, sentence):
    message = Message("user", question, composed=f"{question}\n\n{attached_block('house.md', HOUSE)}")
    quote = quotation(Question(question), sources_of([message], (), ()), FACTS)

    assert (quote.sentence if quote else "") == sentence


@pytest.mark.parametrize(
    ("sentences", "is_so"),
    [
        ([" ".join(f"word{n}" for n in range(MOST_WORDS))], False),
        ([" ".join(f"word{n}" for n in range(MOST_WORDS)), "more"], True),
        (["The old red barn.", "The old red boat."], False),
        (["The old red barn.", "The old red boat.", "The old red door."], True),
        (["one two", "three one", "two three one two three"], True),  # across sentences
        (["red red red red"], False),
        (["red red red red red"], True),
        (["two words"], False),
        ([], False),
    ],
)
def test_an_answer_that_repeats_three_words_or_is_too_long(sentences, is_so):
    assert repeats(sentences) == is_so


SHORT_NOTES = {
    "Barrels": "# Barrels\n\n| row | wood | wine |\n|-|-|-|\n| A | Allier | Merlot |\n| B | Vosges | Syrah |",
    "Laundry": "The laundry van comes Monday at 10. Driver is called Selwyn. Count the pillowcases.",
    "Jabs": "The flu clinic gives 9 jabs an hour. Book no more than 22 jabs a morning. Gloves by Niamh.",
    "Hours": "This year needs 450 hours of practice. So far 21 hours of practice are done.",
    "Groups": "- Pawns: Tuesday, room Tal\n- Substitute coach: Liisbet\n- Coach's whistle: drawer 3",
    "Trip": "Entry fee 35 euros per child. Allergic to peanuts: Joosep. Four children to a room.",
    "Plum crumble": "900 g plums, 80 g sugar, star anise. Bake for 38 minutes.",
    "Flat": "Flat stuff. Rent 410 is due on the 28th. The stopcock is under the bath.",
    "Rota": "Jorrit is in class 4H2 this year. His room is 12.",
}


def quoted_from(title: str, question: str) -> str:
    text = f"Source: {title}\n```\n{SHORT_NOTES[title]}\n```"
    part = Part("knowledge", "chunk:1", text, about={"title": title})
    quote = quotation(Question(question), sources_of([], [part], []))
    return quote.sentence if quote else ""


@pytest.mark.parametrize(
    ("title", "question", "sentence"),
    [
        ("Barrels", "What's in the barrels of row B?", "B: Vosges, Syrah"),
        ("Laundry", "What's the name of the man with the laundry van?", "Driver is called Selwyn."),
        ("Jabs", "How many flu jabs may we book for one morning?", "Book no more than 22 jabs a morning."),
        ("Hours", "How many hours of practice have I already done?", "So far 21 hours of practice are done."),
        ("Groups", "Who stands in for me as coach?", "Substitute coach: Liisbet"),
        ("Trip", "Which child can't have peanuts?", "Allergic to peanuts: Joosep."),
        ("Flat", "Where do I turn the water off in the flat?", "The stopcock is under the bath."),
        ("Plum crumble", "What spice is in the crumble?", SHORT_NOTES["Plum crumble"]),
        ("Plum crumble", "Is the crumble vegan?", ""),
        ("Plum crumble", "Where did I eat the crumble?", ""),
        ("Plum crumble", "What spice is in the trifle?", ""),
        ("Rota", "What's the name of Jorrit's maths teacher?", ""),
    ],
)
def test_a_short_note_is_quoted_by_the_line_that_answers_or_as_a_whole(title, question, sentence):
    assert quoted_from(title, question) == sentence


def test_only_a_colour_answers_which_colour_something_is():
    def answer(said: str, asked: str = "What gave you the idea for all the colors?") -> str:
        memory = SearchResult(1, asked, said, 0, 1.0, 1.0, 0.0, source="import")
        found = quotation(Question("What color are my eyes?"), sources_of([], (), [memory]))
        return found.sentence if found else ""

    assert answer("I made something to catch the eye.") == ""
    assert answer("They go with my eyes, which are hazel.") == "They go with my eyes, which are hazel."
    assert answer("Like the sea, they say.", "What color are my eyes?") == "Like the sea, they say."


def test_what_others_have_is_not_the_users():
    def answer(asked: str, said: str) -> str:
        memory = SearchResult(1, said, "Noted.", 0, 1.0, 1.0, 0.0, source="turn")
        found = quotation(Question(asked), sources_of([], (), [memory]))
        return found.sentence if found else ""

    assert answer("What's my license plate?", "That plate is awesome!") == ""
    assert answer("What's my plate?", "My plate is S-KR 88.") == "My plate is S-KR 88."
    assert answer("What is my ring made of?", "Her ring is made of gold.") == ""


LEASE = """Lease agreement
Between Ruth Amsel (landlord) and Olaf Kern (tenant).
1. Term
The lease begins on 1 February 2025 and ends on 31 January 2030. The notice period is
three months to the end of a month.
2. Rent
The monthly rent is 1,180 euros, due on the fifth of each month.
Printed on 11/28/26, page 1 of the lease."""


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("When does the lease end?", "The lease begins on 1 February 2025 and ends on 31 January 2030."),
        ("When does the notice period end?", "The notice period is three months to the end of a month."),
        ("When is the rent due?", "The monthly rent is 1,180 euros, due on the fifth of each month."),
    ],
)
def test_word_in_a_sentence_is_worth_no_less_than_in_the_title(question, sentence):
    message = Message("user", question, composed=f"{question}\n\n{attached_block('lease.pdf', LEASE)}")

    quote = quotation(Question(question, ""), sources_of([message], (), ()), ())

    assert quote is not None
    assert quote.sentence == sentence


def recalled(question: str, *said: str) -> Quote | None:
    """Return the quotation out of memories, the oldest of which was told first, as recall may give them."""
    memories = [
        SearchResult(n, text, "Noted.", 1000 + 86_400 * n, 1.0, 1.0, 0.0, source="turn")
        for n, text in enumerate(said, 1)
    ]
    found = {
        quotation(Question(question), sources_of([Message("user", question)], (), order))
        for order in (memories, memories[::-1])
    }
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        (
            "When does the plumber come?",
            "The plumber comes on Tuesday",
            "The plumber comes on Thursday instead",
        ),
        ("How much is my rent?", "My rent is 900 euros", "My rent went up, it's 950 euros now"),
        ("When is my knee scan?", "The knee scan is booked for 3 May", "The knee scan was moved to 9 May"),
        ("Am I doing the Rome trip?", "I decided against the Rome trip", "We do the Rome trip after all"),
        ("Where is the spare key?", "The spare key is under the pot", "The spare key is with Ida now"),
        ("When is dinner with Ben?", "Dinner with Ben is at 8", "Dinner with Ben is cancelled"),
        ("When does the choir meet?", "The choir meets on Mondays", "The choir meets on Fridays, I think"),
        ("Am I allergic to nuts?", "I'm allergic to nuts", "I'm not allergic to nuts after all"),
        ("Where is my bike?", "My bike is in the cellar", "I moved my bike to the garage"),
        ("When is the party?", "The party is on Friday", "They cancelled the party"),
    ],
)
def test_what_the_user_told_last_replaces_what_he_told_before(question, old, new):
    found = recalled(question, old, new)

    assert found is not None
    assert (found.sentence, found.later) == (new, "")


@pytest.mark.parametrize(
    ("question", "told", "later"),
    [
        ("How much is my rent?", "My rent is 900 euros", "My sister's rent is 700 euros"),
        ("When is my scan?", "My scan is on 5 June", "My last scan was on 2 January"),
        ("When does the party start?", "The party starts at 5", "If the party starts at 7 I can't come"),
        (
            "When does the plumber come?",
            "The plumber comes on Tuesday",
            "The plumber used to come on Fridays",
        ),
        ("Where is the spare key?", "The spare key is under the pot", "I need a new spare key now"),
        ("When is the fair?", "The fair is on 12 June", "I'm nervous about the fair now"),
        (
            "Where is the spare key?",
            "The spare key is under the mat.",
            "Lea moved her spare key to the shed.",
        ),
        ("How much is the rent?", "The rent is 800 euros.", "My sister's rent went up to 1200 euros."),
        ("When is the party?", "The party is on Friday.", "My sister cancelled her party."),
        ("When is dinner?", "Dinner is at 7.", "Breakfast and dinner at the hotel is cancelled."),
        ("When is the meeting?", "The meeting is at 5.", "Zoom's hosting for the meeting was cancelled."),
    ],
)
def test_a_later_sentence_about_something_else_replaces_nothing(question, told, later):
    found = recalled(question, told, later)

    assert found is not None
    assert (found.sentence, found.later) == (told, "")


@pytest.mark.parametrize(
    ("question", "told", "later"),
    [
        (
            "When is my exam?",
            "My exam is on Monday at 9.",
            "I lie awake since the exam on Friday was announced.",
        ),
        ("When is my exam?", "My exam is on Monday at 9.", "The train to the exam on Monday is cancelled."),
        ("When is Ben's party?", "Ben's party is on Friday.", "Ben cancelled his Netflix after the party."),
        ("When does the course start?", "The course starts at 5.", "The yoga course starts at 7 now."),
        ("What does my dad do?", "My dad is a nurse.", "My dad moved."),
    ],
)
def test_a_change_of_something_else_beside_the_thing_is_quoted_behind_the_answer(question, told, later):
    found = recalled(question, told, later)

    assert found is not None
    assert (found.sentence, found.later) == (told, later)


@pytest.mark.parametrize(
    ("question", "said", "is_answer"),
    [
        ("Is my dad still alive?", "My dad loves death metal.", False),
        ("Is my dad still alive?", "My dad's dog died.", False),
        ("Did my sister pass away?", "I lost my sister's keys.", False),
        ("Did my sister pass away?", "My sister passed her exam.", False),
        ("Is my grandpa still alive?", "My grandpa lost our chess game.", False),
        ("Are my neighbours still alive?", "My neighbours' cat died.", False),
        ("Is my dad still alive?", "We lost our dad in May.", True),
        ("Is my dad still alive?", "My dad was a nurse. He died in 2019.", True),
        ("Is my dad still alive?", "I went to my dad's funeral.", True),
        ("Is my sister's dog dead?", "My sister's dog has died.", True),
        ("Are my neighbours still living next door?", "My neighbours still live next door.", True),
    ],
)
def test_whether_somebody_lives_is_answered_only_by_their_own_fate(question, said, is_answer):
    assert recalled(question, said) == (Quote("told", "", said, is_sure=True) if is_answer else None)


@pytest.mark.parametrize(
    ("question", "said", "is_sure"),
    [
        ("Wie hei\u00dft mein Hund?", "Mein Hund hei\u00dft Rex.", True),
        ("Wo wohnt meine Schwester?", "Meine Schwester wohnt in Graz.", True),
        ("Wann f\u00e4hrt mein Zug?", "Mein Zug f\u00e4hrt um 8 Uhr.", True),
        ("\u00bfC\u00f3mo se llama mi perro?", "Mi perro se llama Rex.", True),
        ("\u00bfD\u00f3nde vivo?", "Vivo en Madrid.", True),
        ("Comment s'appelle mon chien ?", "Mon chien s'appelle Rex.", True),
        ("\u00c0 quoi suis-je allergique ?", "Je suis allergique aux noix.", True),
        ("Hoe heet mijn hond?", "Mijn hond heet Rex.", True),
        ("Quanti anni ho?", "Ho 34 anni.", True),
        ("Wer ist mein Zahnarzt?", "Mein Zahnarzt ist krank.", False),
        ("Wie hei\u00dft mein Hund?", "Mein Hund bei\u00dft.", False),
        ("Wo wohnt mein Bruder?", "Meine Schwester wohnt in Graz.", False),
        ("Wo ist mein Zug?", "Mein Zug ist kaputt.", False),
    ],
)
def test_a_question_in_another_language_is_surely_answered_by_its_own_words(question, said, is_sure):
    found = recalled(question, said)

    assert (found is not None and found.is_sure) == is_sure


def test_both_sentences_are_quoted_where_the_later_one_may_be_about_something_else():
    maths, physics = "My maths exam is in room 12.", "My physics exam is in room 30."

    both = recalled("Which room is my exam in?", maths, physics)

    assert both == Quote("told", "", maths, is_sure=True, later=physics)
    assert recalled("Which room is my maths exam in?", maths, physics) == Quote(
        "told", "", maths, is_sure=True
    )


@pytest.mark.parametrize(
    ("question", "said", "is_answer"),
    [
        ("Where do I live?", 'A patient told me "I\'m a pilot and I live in Spain"', False),
        ("Where does the patient live?", 'A patient told me "I\'m a pilot and I live in Spain"', True),
        ("What's my favourite colour?", "My neighbour says 'my favourite colour is red'", False),
        ("¿Cuántos años tengo?", 'Dice el médico: "yo tengo 60 años y corro"', False),
        ("Wann ist mein Geburtstag?", "Sie sagte: „mein Geburtstag ist am 4. Mai“", False),
        ("What did she say of my scan?", 'She said "my scan of your knee is fine"', True),
        ("What do I hate?", "10:30 Lea\nI hate tea.", False),
        ("What is my band called?", 'My band is called "The Loud Owls"', True),
        ("When is my race?", 'She said "you need rest", so my race is on 3 May', True),
    ],
)
def test_what_others_said_of_themselves_answers_nothing_about_the_user(question, said, is_answer):
    assert recalled(question, said) == (Quote("told", "", said, is_sure=True) if is_answer else None)
