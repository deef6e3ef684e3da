"""Small conversations with what each turn means, written by hand; the rules are to find it."""

from __future__ import annotations

import pytest

from shepherd.entities import USER, EntityRegistry, Known, known_from_facts
from shepherd.types import Fact

# Turns with the names they refer to, in order, each once; a turn that begins with > is an answer.
DIALOGUES: dict[str, list[tuple[str, list[str]]]] = {
    "sister by role, then by pronoun": [
        ("My sister Anna works at Acme.", ["Anna", "Acme"]),
        ("Where does she work?", ["Anna"]),
        ("Does my sister like it there?", ["Anna", "Acme"]),
        ("anna is on holiday", ["Anna"]),
    ],
    "manager introduced by a copula": [
        ("My manager is called Bob Miller.", ["Bob Miller"]),
        ("What should I tell him?", ["Bob Miller"]),
        ("Is the manager in a good mood?", ["Bob Miller"]),
        ("Bob said no.", ["Bob Miller"]),
        ("I wrote to Mr. Miller.", ["Mr. Miller"]),
    ],
    "a description gets its name later": [
        ("My sister is visiting.", ["the user's sister"]),
        ("She is Austrian.", ["the user's sister"]),
        ("My sister's name is Maria.", ["Maria"]),
        ("What did I say about my sister?", ["Maria"]),
    ],
    "a name gets its role later": [
        ("Dr. Weber called.", ["Dr. Weber"]),
        ("He is my new dentist.", ["Dr. Weber"]),
        ("When does the dentist open?", ["Dr. Weber"]),
    ],
    "somebody of somebody": [
        ("Anna's brother Tom lives in Austin.", ["Anna", "Tom", "Austin"]),
        ("Her brother is nice.", ["Anna", "Tom"]),
        ("Is it a big city?", ["Austin"]),
        ("And the city, is it warm?", ["Austin"]),
    ],
    "two friends stay two": [
        ("My friend Tom is here.", ["Tom"]),
        ("My friend Bob is not.", ["Bob"]),
        ("Tom is late.", ["Tom"]),
    ],
    "agreement decides between two": [
        ("Anna met Tom in Berlin.", ["Anna", "Tom", "Berlin"]),
        ("What did he say to her?", ["Tom", "Anna"]),
        ("Did they like it?", ["Tom", "Anna", "Berlin"]),
    ],
    "a name of no known gender gets one": [
        ("I met Priyanka yesterday. She is a plumber.", ["Priyanka"]),
        ("Priyanka has a van.", ["Priyanka"]),
        ("Is he nice?", []),
        ("What is her van like?", ["Priyanka"]),
    ],
    "an answer names somebody": [
        ("Who wrote the novel about the sand worms?", []),
        ("> It was written by Frank Herbert, of Tacoma.", ["Frank Herbert"]),
        ("What else did he write?", ["Frank Herbert"]),
    ],
    "they are a company, or somebody just named whose gender is not known": [
        ("I work for Initech Corp.", ["Initech Corp"]),
        ("Do they pay well?", ["Initech Corp"]),
        ("Robin came. Were they late?", ["Robin"]),
    ],
    "they of another turn are nobody": [
        ("Robin came.", ["Robin"]),
        ("Were they late?", []),
    ],
    "a man is no woman": [
        ("Anna is here.", ["Anna"]),
        ("Where is the woman?", ["Anna"]),
        ("Where is the man?", []),
    ],
    "a nickname within a name": [
        ('I met William "Bill" Turner.', ["William Turner"]),
        ("Did Bill call?", ["William Turner"]),
        ("William (Bill) Turner's boat is nice.", ["William Turner"]),
    ],
    "a place or a company within a name": [
        ("Anna (Berlin) Meier is 34.", ["Anna", "Berlin", "Meier"]),
        ("Bob lives in Berlin.", ["Bob", "Berlin"]),
    ],
    "a relative's name in German": [
        ("Meine Schwester Anna wohnt in Berlin.", ["Anna", "Berlin"]),
        ("Ich war mit meiner Schwester Anna im Kino.", ["Anna"]),
    ],
    "a title beside a name": [
        ("The manager Bob called.", ["Bob"]),
        ("Ask the manager.", ["Bob"]),
        ("The boss called.", ["the boss"]),
        ("The boss is Kim.", ["Kim"]),
    ],
    "nobody's sister": [
        ("His sister called. Their dog barks.", []),
        ("We met Anna's brother and his wife.", ["Anna", "Anna's brother", "Anna's brother's wife"]),
    ],
    "companies": [
        ("I work for Initech Corp.", ["Initech Corp"]),
        ("Initech is moving.", ["Initech Corp"]),
        ("Is the company large? Does it pay well?", ["Initech Corp"]),
    ],
    "a pet": [
        ("My dog Rex is ill.", ["Rex"]),
        ("Can he eat rice? What does my dog need?", ["Rex"]),
    ],
    "nothing is meant": [
        ("It is raining. It's hard to say when it stops.", []),
        ("Tell me about the PDF API, please.", []),
        ("Monday is fine, in English or German.", []),
        ("Write a poem. Make it short.", []),
        ("I'm Steve.", []),
        ("see `Anna.Smith()` and https://example.com/Berlin", []),
    ],
    "a longer name": [
        ("Anna called.", ["Anna"]),
        ("Anna Smith is a lawyer.", ["Anna Smith"]),
        ("Ask the lawyer.", ["Anna Smith"]),
        ("Smith knows.", ["Anna Smith"]),
    ],
    "another name": [
        ("Robert Miller, also known as Bobby, called.", ["Robert Miller"]),
        ("Bobby is late.", ["Robert Miller"]),
    ],
    "what is said in passing": [
        ("Wow, I'd love that! You've made my day.", []),
        ("I know Anna. Poor Anna is ill.", ["Anna"]),
        ("Poor Anna.", ["Anna"]),
        ("My customer base grows, and my school event was nice.", []),
        ("Gina is here. Thanks, Gina! It was awesome.", ["Gina"]),
        ("Wow Gina, keep it up!", ["Gina"]),
    ],
    "sentence beginnings": [
        ("Paris is lovely. Ask Tom.", ["Paris", "Tom"]),
        ("However, Vienna wins.", ["Vienna"]),
        ("Coffee is good. Bananas too.", []),
    ],
}


@pytest.mark.parametrize("turns", DIALOGUES.values(), ids=DIALOGUES.keys())
def test_the_dialogue_means_what_is_meant(turns):
    registry = EntityRegistry()

    for text, expected in turns:
        is_answer = text.startswith("> ")
        found = registry.register(text.removeprefix("> "), "assistant" if is_answer else "user")
        names = list(dict.fromkeys(registry[one.entity_id].name for one in found))
        assert names == expected, text
        if is_answer or not any(other.startswith("> ") for other, _ in turns):
            registry.end_turn()


def test_two_who_fit_as_well_are_less_sure():
    registry = EntityRegistry()
    registry.register("Tom called Bob.")
    registry.end_turn()

    [he] = registry.resolve("What did he say?")
    [tom] = registry.resolve("What did Tom say?")

    assert he.confidence < 0.7
    assert tom.confidence == 1.0


def test_pronoun_looks_no_farther_than_the_focus():
    registry = EntityRegistry()
    registry.register("I met Anna.")
    for _ in range(20):
        registry.end_turn()

    assert registry.resolve("Where is she?") == ()
    assert len(registry.resolve("Where is Anna?")) == 1


def test_what_facts_and_nodes_name_is_known():
    facts = [Fact("wife", "Carla", 0, 0), Fact("employer", "Initech", 0, 0), Fact("city", "Austin", 0, 0)]
    node = Known("vector databases", "abstract", description="where vectors are kept", node_id=7)
    registry = EntityRegistry(known=[*known_from_facts(facts), node])

    found = registry.register("Does carla like Vector Databases at initech?")

    said = {registry[one.entity_id].name: registry[one.entity_id] for one in found}
    assert list(said) == ["Carla", "vector databases", "Initech"]
    assert said["Carla"].gender == "f"
    assert [one.label for one in said["Carla"].relations] == ["wife of"]
    assert (said["vector databases"].node_id, said["vector databases"].description) == (
        7,
        "where vectors are kept",
    )


def test_a_role_is_found_in_the_facts():
    registry = EntityRegistry(known=known_from_facts([Fact("wife", "Carla", 0, 0)]))

    found = registry.register("What could I give my wife?")

    assert [registry[one.entity_id].name for one in found] == ["Carla"]


@pytest.mark.parametrize(
    ("text", "name", "attribute", "value"),
    [
        ("Anna's email is anna.smith+x@example.org.", "Anna", "email", "anna.smith+x@example.org"),
        ("Anna called. Her phone number is +43 660 123456.", "Anna", "phone", "+43 660 123456"),
        ("Tom is a software developer at Acme.", "Tom", "title", "software developer"),
        ("Tom is 34 years old.", "Tom", "age", "34"),
        ("Tom's favourite colour is dark green.", "Tom", "favorite colour", "dark green"),
        ("Tom moved to Vienna.", "Tom", "location", "Vienna"),
    ],
)
def test_attributes_are_read_from_plain_statements(text, name, attribute, value):
    registry = EntityRegistry()
    registry.register(text)

    entity = registry.find(name)
    assert entity is not None
    found = entity.attribute(attribute)
    assert found is not None
    assert found.value == value


@pytest.mark.parametrize(
    "text", ["Is Anna a dentist?", "Anna's email is?", "Does Anna live in Berlin?", "Has Anna married Tom?"]
)
def test_a_question_states_nothing(text):
    registry = EntityRegistry()
    registry.register(text)

    assert all(not entity.attributes and not entity.relations for entity in registry)


@pytest.mark.parametrize(
    ("text", "first", "label", "second"),
    [
        ("Anna works at Acme.", "Anna", "works at", "Acme"),
        ("Tom is married to Anna.", "Tom", "married to", "Anna"),
        ("Anna reports to Bob.", "Anna", "reports to", "Bob"),
        ("Anna is a nurse at Mercy Hospital.", "Anna", "works at", "Mercy Hospital"),
        ("Initech Corp is based in Austin.", "Initech Corp", "located in", "Austin"),
    ],
)
def test_relations_are_read_from_plain_statements(text, first, label, second):
    registry = EntityRegistry()
    registry.register(text)

    one, other = registry.find(first), registry.find(second)
    assert one is not None
    assert other is not None
    assert (label, other.id) in [(relation.label, relation.target) for relation in one.relations]


def who(registry: EntityRegistry, text: str) -> list[int]:
    return [one.entity_id for one in registry.register(text)]


def roles(registry: EntityRegistry) -> list[tuple[str, list[str]]]:
    people = sorted((one for one in registry if one.type == "person"), key=lambda one: one.id)
    return [(one.name, [relation.label for relation in one.relations]) for one in people]


def test_sister_and_boss_of_one_name_are_two():
    registry = EntityRegistry()
    registry.register("My sister Anna lives in Berlin.")
    registry.register("My boss Anna lives in Hamburg.")

    assert roles(registry) == [("Anna", ["sister of", "lives in"]), ("Anna", ["boss of", "lives in"])]
    sister, boss = (who(registry, f"What does my {role} say?")[0] for role in ("sister", "boss"))
    assert sister != boss
    assert who(registry, "My sister Anna is here, my boss Anna is not.") == [sister, sister, boss, boss]
    # Whoever was named last, less surely.
    [anna] = registry.resolve("What does Anna say?")
    assert (anna.entity_id, anna.confidence) == (boss, 0.75)


def test_sister_and_boss_of_one_name_are_two_in_one_sentence():
    registry = EntityRegistry()

    registry.register("My sister Anna and my boss Anna met.")

    assert roles(registry) == [("Anna", ["sister of"]), ("Anna", ["boss of"])]


@pytest.mark.parametrize(
    ("first", "second", "n"),
    [
        ("friend", "sister", 1),
        ("colleague", "boss", 1),
        ("girlfriend", "wife", 1),
        ("boss", "manager", 1),
        ("mother", "mom", 1),
        ("sister", "doctor", 2),
        ("landlord", "cousin", 2),
        ("sister", "daughter", 2),
        ("sister", "brother", 2),
    ],
)
def test_roles_that_one_person_has_are_one_person(first, second, n):
    registry = EntityRegistry()

    registry.register(f"My {first} Robin called.")
    registry.register(f"My {second} Robin called.")

    assert len(roles(registry)) == n


def test_facts_of_one_name_are_two_people():
    facts = [Fact("sister", "Anna", 0, 0), Fact("boss", "Anna", 0, 0)]
    registry = EntityRegistry(known=known_from_facts(facts))

    [anna] = registry.register("Anna called.")
    boss = who(registry, "My boss called.")
    sister = who(registry, "My sister called.")

    assert anna.confidence < 0.8
    assert sister == [anna.entity_id]
    assert boss != sister
    assert roles(registry) == [("Anna", ["sister of"]), ("Anna", ["boss of"])]


@pytest.mark.parametrize("is_fact", [True, False])
def test_a_surname_does_not_rename_the_sister(is_fact):
    known = known_from_facts([Fact("sister", "Anna", 0, 0)]) if is_fact else []
    registry = EntityRegistry(known=known)
    [sister] = {*who(registry, "My sister Anna is here.")}

    [other, _] = who(registry, "Anna Weber from accounting moved to Hamburg.")

    assert other != sister
    assert who(registry, "Is my sister there?") == [sister]
    assert registry[sister].name == "Anna"
    assert who(registry, "Anna is nice.") == [sister]


def test_somebody_else_with_a_surname_leaves_the_fact_its_name():
    registry = EntityRegistry(known=known_from_facts([Fact("sister", "Anna", 0, 0)]))
    registry.register("Anna Weber from accounting moved to Hamburg.")

    registry.register("Anna called.")

    assert roles(registry) == [("Anna Weber", []), ("Anna", ["sister of"])]


def test_the_sister_gets_her_surname_where_it_is_said_of_her():
    registry = EntityRegistry()
    registry.register("My sister Anna is here.")

    registry.register("My sister Anna Weber lives in Rome.")

    assert roles(registry) == [("Anna Weber", ["sister of", "lives in"])]


def test_plural_role_means_everybody_who_has_it():
    registry = EntityRegistry()
    for text in ("My friend Tom lives in Oslo.", "My friend Eve lives in Rome.", "My boss Kim is here."):
        registry.register(text)
        registry.end_turn()
    for _ in range(20):  # out of focus
        registry.end_turn()

    def meant(text):
        return {registry[found.entity_id].name for found in registry.resolve(text)}

    assert meant("Tell me about all my friends") == {"Tom", "Eve"}
    assert meant("Do my bosses like me?") == {"Kim"}
    assert meant("my sisters") == set()
    assert len(registry) == 5  # and nobody new


@pytest.mark.parametrize(
    ("question", "is_meant"),
    [
        *((text, True) for text in ("Is it large?", "It pays well.", "Does it hire?", "What makes it rich?")),
        *((text, False) for text in (
            "Is it warm there?", "Was it raining?", "Will it be safe?", "Who makes it easy?", "Find it hard?",
            "It rains.", "It takes hours.", "It's clear.", "It is not late.",
            "It seems likely.",
            "It turns out well.", "It depends.",
        )),
    ],
)  # fmt: skip
def test_an_it_without_a_meaning_refers_to_nothing(question, is_meant):
    registry = EntityRegistry()
    registry.register("I work for Initech Corp.")
    registry.end_turn()

    assert len(registry.resolve(question)) == is_meant


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Coffee is good.", {}),
        ("Zorbax is my brother.", {"Zorbax": "person"}),
        ("Quill is from Oslo.", {"Quill": "unknown", "Oslo": "location"}),
        ("Plim was married to Anna.", {"Plim": "unknown", "Anna": "person"}),
        ("Brakk is late.", {}),
        ("Zorbax thinks it over.", {"Zorbax": "person"}),
        ("Zorbax's car is red.", {"Zorbax": "unknown"}),
        ("I saw PDF and X.", {}),
        (
            "I met Dr. Weber and Ludwig van Beethoven.",
            {"Dr. Weber": "person", "Ludwig van Beethoven": "unknown"},
        ),
        ("We saw Anna's Brother.", {"Anna": "person", "Brother": "unknown"}),
        ("I met One Two Three Four Five Six Seven.", {"Three Four Five Six Seven": "unknown"}),
        ("I work at Blarg.", {"Blarg": "organization"}),
        ("I joined Blarg.", {"Blarg": "organization"}),
        ("I live in Flumph.", {"Flumph": "location"}),
        ("I travel to Flumph.", {"Flumph": "location"}),
        ("I visited Flumph.", {"Flumph": "unknown"}),
        ("My older sister called.", {"the user's sister": "person"}),
        ("I met the manager.", {"the manager": "person"}),
        ("My customer base grows.", {}),
        ("My friends are here.", {}),
    ],
)
def test_a_name_has_the_kind_that_its_sentence_tells(text, kinds):
    registry = EntityRegistry()
    registry.register(text)

    assert {entity.name: entity.type for entity in sorted(registry, key=lambda one: one.id)} == kinds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("My sister Kim called.", {"Kim": ["sister of"]}),
        ("My sister, Kim, called.", {"Kim": ["sister of"]}),
        ("My sister is called Kim.", {"Kim": ["sister of"]}),
        ("My sister's name is Kim.", {"Kim": ["sister of"]}),
        ("Kim, my sister, is here.", {"Kim": ["sister of"]}),
        ("Kim is my boss.", {"Kim": ["boss of"]}),
        ("Kim's my boss.", {"Kim": ["boss of"]}),
        ("My sister met Kim.", {"the user's sister": ["sister of"], "Kim": []}),
        ("My dog Rex met my sister Kim.", {"Rex": ["dog of"], "Kim": ["sister of"]}),
        ("Lea, called Lulu, came.", {"Lea": [], "Lulu": []}),
        ("Anna's brother is nice.", {"Anna": [], "Anna's brother": ["brother of"]}),
        ("I met Anna's boss.", {"Anna": [], "Anna's boss": ["boss of"]}),
        ("Anna's boss is Tom.", {"Anna": [], "Tom": ["boss of"]}),
        ("Robert (also known as Bobby) came.", {"Robert": []}),
    ],
)
def test_a_description_beside_a_name_is_its_role(text, told):
    registry = EntityRegistry()
    registry.register(text)

    entities = sorted(registry, key=lambda one: one.id)
    assert {entity.name: [one.label for one in entity.relations] for entity in entities} == told


def test_what_is_found_has_its_kind_and_is_noted_in_the_words_of_the_text():
    text = "The manager said that she met Anna's brother."
    registry = EntityRegistry()
    found = registry.register(text)

    assert [(text[one.start : one.end], one.by) for one in found] == [
        ("The manager", "description"),
        ("she", "pronoun"),
        ("Anna", "name"),
        ("brother", "description"),
    ]
    mentions = {entity.name: [mention.text for mention in entity.mentions] for entity in registry}
    assert mentions == {"the manager": ["The manager"], "Anna": ["Anna"], "Anna's brother": ["brother"]}


def test_an_owner_in_a_later_turn_is_noted_in_its_word():
    registry = EntityRegistry()
    registry.register("Anna is here.")
    registry.end_turn()

    text = "Her brother came."
    found = registry.register(text)

    assert [(text[one.start : one.end], one.by) for one in found] == [
        ("Her", "pronoun"),
        ("Her brother", "description"),
    ]
    mentions = {entity.name: [mention.text for mention in entity.mentions] for entity in registry}
    assert mentions == {"Anna": ["Anna", "Her"], "Anna's brother": ["Her brother"]}


def test_an_answer_adds_only_what_is_clearly_a_name():
    registry = EntityRegistry()

    registry.register(
        "# Heading About Things\n\nThe Plan is Good. **Anna Smith** met Tom, of Acme.", "assistant"
    )

    assert [entity.name for entity in sorted(registry, key=lambda one: one.id)] == ["Anna Smith", "Tom"]
    assert registry.register("He met my sister.", "assistant") == ()


def test_the_word_that_begins_a_sentence_is_no_part_of_a_known_name():
    known = known_from_facts([Fact("wife", "Carla Quist", 0, 0), Fact("dog", "Rexus", 0, 0)])
    registry = EntityRegistry(known=known)

    registry.register("Poor Carla Quist. Poor Rexus.")

    assert {entity.name for entity in registry} == {"Carla Quist", "Rexus"}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("My new project manager called.", True),
        ("My very new project manager called.", False),
        ("Coffee is from Peru.", True),
        ("Coffee was married.", True),
        ("Coffee is good.", False),
        ("Coffee is so from Peru.", False),
    ],
)
def test_what_stands_at_the_beginning_is_found_within_its_next_words(text, is_found):
    registry = EntityRegistry()

    found = registry.register(text)

    assert bool(found and found[0].start == 0) is is_found


def described(registry: EntityRegistry) -> list[str]:
    """Each entity: its name, kind, gender, other names, attributes, relations and mentions."""
    names = {one.id: one.name for one in registry} | {USER: "user"}
    parts = [
        (
            one.name,
            f"{one.type} {one.gender}".strip(),
            ", ".join(one.aliases),
            ", ".join(f"{a.name}={a.value} {a.confidence:g}" for a in one.attributes),
            ", ".join(f"{relation.label} {names[relation.target]}" for relation in one.relations),
            str(len(one.mentions)),
        )
        for one in sorted(registry, key=lambda one: one.id)
    ]
    return [" | ".join(filter(None, one)) for one in parts]


@pytest.mark.parametrize(
    ("turns", "found"),
    [
        (["Dr. Anna Weber called."], ["Dr. Anna Weber | person f | 1"]),
        (["Mr. Quistel called."], ["Mr. Quistel | person m | 1"]),
        (["Anna Smith Jones came."], ["Anna Smith Jones | person f | 1"]),
        (["I work at Quistel."], ["Quistel | organization | 1"]),
        (["I moved to Quistel."], ["Quistel | location | 1"]),
        (["Quistel lives here."], ["Quistel | person | 1"]),
        (["Quistel Ltd is big."], ["Quistel Ltd | organization | 1"]),
        (["I met Anna.", "Anna Smith is nice."], ["Anna Smith | person f | Anna | 2"]),
        (["I met Anna.", "Anna Smith Jones is nice."], ["Anna Smith Jones | person f | Anna | 2"]),
        (["I met Anna.", "Anna Smith Jones Miller is nice."],
         ["Anna | person f | 1", "Anna Smith Jones Miller | unknown | 1"]),
        (["My sister is here.", "My sister Anna is here."], ["Anna | person f | sister of user | 1"]),
        (["My sister, Anna, is here."], ["Anna | person f | sister of user | 1"]),
        (["My sister, Anna is here."],
         ["the user's sister | person f | sister of user | 1", "Anna | person f | 1"]),
        (["Anna, my boss, is here."], ["Anna | person f | boss of user | 1"]),
        (["Anna, my boss! She left."], ["Anna | person f | boss of user | 1"]),
        (["Anna, my boss called."], ["Anna | person f | 1", "the user's boss | person | boss of user | 1"]),
        (["The dentist Anna called."], ["Anna | person f | title=dentist 0.8 | 1"]),
        (["Anna's my boss."], ["Anna | person f | boss of user | 1"]),
        (["Anna called, and it is my boss."],
         ["Anna | person f | 1", "the user's boss | person | boss of user | 1"]),
        (["Anna's boss called."], ["Anna | person f | 1", "Anna's boss | person | boss of Anna | 1"]),
        (["Robert, also known as Bob, came.", "Bob left."], ["Robert | person m | Bob | 2"]),
        (["I know Anna. Her brother Tom is here."],
         ["Anna | person f | 1", "Tom | person m | brother of Anna | 1"]),
        (["I met Zorbel. He is here."], ["Zorbel | person m | 1"]),
        (["I met Anna Smith.", "smith is nice."], ["Anna Smith | person f | 1"]),
        (["I met Tom Miller.", "the miller called."], ["Tom Miller | person m | 1"]),
        (["(Zorbel lives here)"], ["Zorbel | person | 1"]),
        (["so: Zorbel is here"], []),
        (["I called Anna, Zorbel is here."], ["Anna | person f | 1", "Zorbel | unknown | 1"]),
        (["Dr. Weber and Anna came."], ["Dr. Weber | person | 1", "Anna | person f | 1"]),
        (["I met Tom.", "I met Bob.", "He is nice."], ["Tom | person m | 1", "Bob | person m | 2"]),
        (["I live near Zorbel said Anna."], ["Zorbel | unknown | 1", "Anna | person f | 1"]),
        (["Anna lives in Quistel."],
         ["Anna | person f | location=Quistel 0.9 | lives in Quistel | 1", "Quistel | location | 1"]),
        (["Anna works for Acme as a nurse."],
         ["Anna | person f | works at Acme | 1", "Acme | organization | 1"]),
    ],
)  # fmt: skip
def test_who_is_named_has_a_kind_a_gender_and_relations(turns, found):
    registry = EntityRegistry()
    for text in turns:
        registry.register(text)
        registry.end_turn()

    assert described(registry) == found


@pytest.mark.parametrize(
    ("told", "text", "confidences"),
    [
        (("My sister Ann called.", "My sister Eve called."), "My sisters are here.", [0.9, 0.9]),
        (("My sister Ann called.",), "My sister is here.", [0.9]),
        (("My sister Ann called.", "My sister Eve called."), "My sister is here.", [0.9 * 0.75]),
        (("The dentist called.",), "The dentist is nice.", [0.75]),
        (("My sister Ann called.",), "Ann is here.", [1.0]),
    ],
)
def test_a_description_is_less_sure_than_a_name_and_one_of_several_least(told, text, confidences):
    registry = EntityRegistry()
    for one in told:
        registry.register(one)

    assert [one.confidence for one in registry.resolve(text)] == pytest.approx(confidences)


@pytest.mark.parametrize(("told", "name"), [("My sister Anna called.", ["ANNA BERG"]), ("It is late.", [])])
def test_words_in_capitals_are_a_name_if_they_begin_with_a_known_one(told, name):
    registry = EntityRegistry()
    registry.register(told)
    text = "I work on it and met ANNA BERG about an API there."

    assert [text[one.start : one.end] for one in registry.register(text)] == name
