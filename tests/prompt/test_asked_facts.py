"""Which facts a question plainly asks for, by its words."""

from __future__ import annotations

import pytest

from shepherd.prompt.asked_facts import asked_facts, asks_for_all, is_given_to_user, is_of_others, named_in
from shepherd.prompt.fact_values import whole
from shepherd.types import Fact

FACTS = [
    Fact(key, value, 0, 0)
    for key, value in {
        "allergy": "hazelnuts",
        "cat_age": "7",
        "cat_name": "Pebble",
        "email": "nora@example.org",
        "employer": "Lindqvist & Co",
        "favorite_dish": "pelmeni",
        "job": "glazier",
        "location": "Turku",
        "name": "Nora Lind",
        "number_of_boats": "2",
        "sister_allergy": "wool",
        "sister_location": "Oulu",
        "sister_name": "Elsa",
        "project": "a greenhouse",
    }.items()
]


def keys(question: str) -> list[list[str]]:
    return [[fact.key for fact in meant] for meant in asked_facts(question, FACTS)]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What's my name?", "name"),
        ("What is my full name?", "name"),
        ("What is my cat called?", "cat_name"),
        ("Who is my sister?", "sister_name"),
        ("How old is my cat?", "cat_age"),
        ("How old is Pebble?", "cat_age"),
        ("Where does my sister live?", "sister_location"),
        ("What is Elsa allergic to?", "sister_allergy"),
        ("What am I allergic to?", "allergy"),
        ("What's my favourite dish?", "favorite_dish"),
        ("What's my email address?", "email"),
        ("Give me my email, please.", "email"),
        ("How many boats do I own?", "number_of_boats"),
        ("What am I working on?", "project"),
        ("Where do I live?", "location"),
        ("Do you remember who I am?", "name"),
        ("Who is Pebble?", "cat_name"),
        ("Do you know Elsa?", "sister_name"),
        ("I forgot what my cat's name is.", "cat_name"),
    ],
)
def test_a_plain_question_asks_for_its_fact(question, key):
    assert keys(question) == [[key]]


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Does my sister Elsa live in Rome?", ["sister_location"]),
        ("does my sister still live in rome", ["sister_location"]),
        ("Do I work for Bosch at the moment?", ["employer"]),
        ("Is my cat 9 years old?", ["cat_age"]),
        ("Is my sister called Ida?", ["sister_name"]),
        ("Does my sister Ida live in Rome?", []),
        ("Did I live in Rome?", []),
        ("Do I live in Rome in summer?", []),
        ("Does my cat live in Rome?", []),
        ("Do I live in sin?", []),
        ("Does my sister live in fear?", []),
        ("do i work at bosch", ["employer"]),
    ],
)
def test_a_question_for_another_value_asks_for_the_known_one(question, meant):
    assert keys(question) == [meant]


def test_what_one_does_for_a_living_is_no_place():
    assert keys("What do I do for a living?") == [["employer", "job"]]


@pytest.mark.parametrize(
    "question",
    [
        "What was my cat called?",
        "What is my cat's vet called?",
        "What is my sister's cat called?",
        "What is the name of my school?",
        "How old am I?",
        "How old is Elsa?",
        "What is my brother called?",
        "Why do I live here?",
        "Where did I live before?",
        "My cat is called Pebble.",
        "What will my next job be?",
    ],
)
def test_where_it_is_not_sure_no_fact_is_asked_for(question):
    assert keys(question) == [[]]


def test_a_question_of_what_a_value_tells_has_an_end():
    """It ended in an IndexError: "is" names no kind of thing."""
    assert keys("What is my greenhouse?") == [[]]


def test_several_questions_ask_for_facts_each_by_itself():
    assert keys("What's my name and where do I live?") == [["name"], ["location"]]
    assert keys("How old is Pebble? And what is my sister called?") == [["cat_age"], ["sister_name"]]
    assert keys("What's my name and who is my landlord?") == [["name"], []]
    assert keys("Who is Elsa? What is my sister called and where does she live?") == [
        ["sister_name"],
        ["sister_name"],
        ["sister_location"],
    ]


PETRA = [
    Fact(key, value, 0, 0)
    for key, value in {
        "full_name": "Petra Holm",
        "home_town": "Visby",
        "previous_job": "lighthouse keeper",
        "trade": "saddler, with a stall on the harbour market",
        "twin_daughters": "Wilma and Alva, both 9",
        "youngest_child": "Nils (4)",
        "dog": "Kajsa, a three-year-old grey elkhound",
        "mother_in_law": "Gunborg",
        "mother_phone": "0498 555 12",
        "wedding_date": "6 July 2011",
        "husband_name": "Arvid",
        "fish_allergy": "Nils is allergic to cod",
        "glove_size": "7",
        "gp": "Dr Lindqvist",
        "choir": "Klinte Singers",
        "bike_registration": "KLM 482",
    }.items()
]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("whats my surname", "surname"),
        ("which town do I live in?", "home_town"),
        ("What do I do for a living?", "trade"),
        ("what did I do for a living before", "previous_job"),
        ("How old are my girls?", "twin_daughters"),
        ("how old is Nils now", "youngest_child"),
        ("what breed is Kajsa?", "dog"),
        ("What colour is my dog?", "dog"),
        ("how old is the dog", "dog"),
        ("what is my mother-in-law called", "mother_in_law"),
        ("I want to ring mum later, what's her number?", "mother_phone"),
        ("When did Arvid and I get married?", "wedding_date"),
        ("what year did we get married", "wedding_date"),
        ("The school kitchen is asking about allergies. What can't Nils eat?", "fish_allergy"),
        ("I'm in the shop for new gloves, what size am I?", "glove_size"),
        ("who is my doctor", "gp"),
        ("What's the name of my choir?", "choir"),
        ("the insurance form asks for my bike's plate, what is it", "bike_registration"),
    ],
)
def test_people_ask_in_other_words_than_those_of_a_key(question, key):
    assert [[fact.key for fact in meant] for meant in asked_facts(question, PETRA)] == [[key]]


IRO = [
    Fact(key, value, 0, 0)
    for key, value in {
        "known_as": "Ro",
        "hometown": "Bar Harbor",
        "works_at": "the ferry terminal",
        "herd": "34 milking goats",
        "brother": "Teo, a welder in Leeds",
        "boyfriend": "Sam",
        "ex_wife": "Gunn",
        "childminder": "Berit",
        "dentist": "Dr Holt",
        "rower_licence": "NR 2240",
        "member_number": "MB-8812",
        "licence_plate": "BD 33218",
        "favourite_writer": "Tove Jansson",
        "coffee_order": "cortado",
        "sport": "rowing",
    }.items()
]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("what do friends call me", "known_as"),
        ("What am I known as?", "known_as"),
        ("where am i from", "hometown"),
        ("Where do I work?", "works_at"),
        ("how many goats have I got", "herd"),
        ("what does Teo do", "brother"),
        ("Where does my brother live?", "brother"),
        ("who am I dating", "boyfriend"),
        ("Who's my ex?", "ex_wife"),
        ("who minds the children", "childminder"),
        ("Who looks after my teeth?", "dentist"),
        ("The rowing club wants my member number", "member_number"),
        ("The harbour office is asking for my member number again.", "member_number"),
        ("what's my number plate", "licence_plate"),
        ("Which author do I like best?", "favourite_writer"),
        ("my favourite writer", "favourite_writer"),
        ("How do I take my coffee?", "coffee_order"),
        ("which sport do I do", "sport"),
    ],
)
def test_more_ways_of_asking_find_a_fact(question, key):
    assert [[fact.key for fact in meant] for meant in asked_facts(question, IRO)] == [[key]]


@pytest.mark.parametrize(
    "question",
    [
        "what does Sam do",
        "Where does Sam live?",
        "Who looks after my garden?",
        "how many sheep have I got",
        "She wants my boat.",
        "My brother lent me a bike",
        "my brother is late",
        "They want my passport number",
        "Who minds the shop?",
        "What is Berit's phone number?",
        "How do I make my coffee stronger?",
    ],
)
def test_what_only_looks_like_one_of_them_finds_none(question):
    assert not any(asked_facts(question, IRO))


def test_two_things_of_somebody_are_two_questions():
    pets = [Fact("dog_name", "Skip", 0, 0), Fact("dog_breed", "lurcher", 0, 0)]
    found = asked_facts("My dog's name and breed?", pets)

    assert [[fact.key for fact in meant] for meant in found] == [["dog_name"], ["dog_breed"]]


@pytest.mark.parametrize(
    "question",
    [
        "When is Wilma's birthday?",
        "What is my father-in-law called?",
        "What size shoes does Arvid wear?",
        "How old is Kajsa's sister?",
        "Where did Arvid grow up?",
        "what is my doctor's phone number",
        "What should I feed my dog?",
        "Can you recommend a choir?",
        "What is a saddler?",
        "How do I get to the harbour market?",
        "Why is my dog barking?",
        "Which bike should I buy?",
        "What was my dog's name before Kajsa?",
        "Where is my dog?",
    ],
)
def test_a_fact_of_somebody_or_something_else_is_no_answer(question):
    assert not any(asked_facts(question, PETRA))


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("Where do I live and work?", [["location", "employer"]]),
        ("Where do I work and what is my job?", [["employer"], ["job"]]),
        ("email?", [["email"]]),
        ("Do I have boats?", [["number_of_boats"]]),
        ("How many cats do I have?", [[]]),
        ("What is my sister's name and where does she live?", [["sister_name"], ["sister_location"]]),
        ("My sister Elsa is ill. What is she allergic to?", [["sister_allergy"]]),
        ("Who do I work for?", [["employer"]]),
        ("Is Elsa my sister?", [["sister_name"]]),
        ("Where does she live?", [[]]),
        ("What does Elsa do?", [[]]),
        ("When is my project due?", [[]]),
        ("How much is my project?", [[]]),
        ("Which project do I have?", [["project"]]),
    ],
)
def test_a_question_means_what_its_words_and_those_before_it_say(question, meant):
    assert keys(question) == meant


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("how old is my youngest child", ["youngest_child"]),
        ("What is my dog?", ["dog"]),
        ("dog's name?", ["dog"]),
        ("What year was my wedding?", ["wedding_date"]),
        ("When did my husband and I get married?", ["wedding_date"]),
        ("What is my husband's name?", ["husband_name"]),
        ("who is Arvid", ["husband_name"]),
        ("Phone number of my mother?", ["mother_phone"]),
        ("how old are Wilma and Alva", ["twin_daughters"]),
        ("what is Nils allergic to", ["fish_allergy"]),
        ("what was my former job", ["previous_job"]),
        ("who sings in my choir", []),
        ("which stall do I have", []),
    ],
)
def test_a_value_tells_more_than_its_key_names(question, meant):
    assert [[fact.key for fact in found] for found in asked_facts(question, PETRA)] == [meant]


@pytest.mark.parametrize(
    ("question", "key", "value", "is_told"),
    [
        ("Which ward am I on?", "job", "nurse on the burns ward", True),
        ("Which ward am I on?", "job", "nurse on the ward", False),
        ("Which ward am I on?", "job", "nurse", False),
        ("Which band do I play in?", "hobby", "plays in a brass band", True),
        ("Which band do I play in?", "hobby", "plays in a band", False),
    ],
)
def test_a_kind_is_told_by_a_value_that_says_which_one(question, key, value, is_told):
    [meant] = asked_facts(question, [Fact(key, value, 0, 0)])

    assert bool(meant) == is_told


@pytest.mark.parametrize(
    ("question", "meant"),
    [
        ("boss's name pls", "my boss's name"),
        ("who is the youngest of my three kids", "who is the youngest of my kids"),
        ("the youngest of my three?", "the youngest of my children?"),
        ("my three are ill", "my children are ill"),
        ("where do our 2 sisters live", "where do our sisters live"),
        ("the oldest of the two brothers", "the oldest of the brothers"),
        ("what are my two boats called", "what are my two boats called"),
        ("what are my 2 cats called", "what are my 2 cats called"),
        ("the three live here", "the three live here"),
        ("my two and yours", "my two and yours"),
    ],
)
def test_short_questions_are_made_whole_and_children_lose_their_number(question, meant):
    assert whole(question) == meant


@pytest.mark.parametrize(
    ("question", "key", "of_others"),
    [
        ("How old is Ida?", "cat_age", True),
        ("How old is my cat?", "cat_age", False),
        ("Where does my sister live?", "location", True),
        ("Where does my sister live?", "sister_location", False),
        ("Where does my brother live?", "sister_location", True),
        ("What is the registration of my cat?", "cat_name", True),
        ("Where do I live?", "location", False),
        ("What is Elsa allergic to?", "allergy", True),
    ],
)
def test_a_question_of_others_is_told_from_one_of_the_fact(question, key, of_others):
    [fact] = [one for one in FACTS if one.key == key]

    assert is_of_others(question, fact, FACTS) is of_others


@pytest.mark.parametrize(
    ("sentence", "key", "is_given"),
    [
        ("You are allergic to wool.", "sister_allergy", True),
        ("Your allergy is wool.", "sister_allergy", True),
        ("Your sister is allergic to wool.", "sister_allergy", False),
        ("Elsa is allergic to wool.", "sister_allergy", False),
        ("You live in Oulu.", "sister_location", True),
        ("You live in Turku.", "location", False),
        ("Your notes say: Wash wool by hand.", "sister_allergy", False),
        ("You have a cat called Pebble.", "cat_name", False),
    ],
)
def test_what_is_of_a_relative_is_not_told_as_the_users_own(sentence, key, is_given):
    [fact] = [one for one in FACTS if one.key == key]

    assert is_given_to_user(sentence, fact, FACTS) is is_given


def test_all_that_is_known_is_asked_for_of_the_user_alone():
    asked = ("What do you know about me?", " Tell me everything you know about me.\n")
    assert [asks_for_all(text) for text in (*asked, "What do you know about dogs?", "")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_those_who_are_named_have_facts_that_tell_who_they_are():
    assert [fact.key for fact in named_in("I met Elsa and Pebble in Oulu.", FACTS)] == [
        "cat_name",
        "sister_name",
    ]
    assert named_in("I met Ida.", FACTS) == []


ANA = [
    Fact(key, value, 0, 0)
    for key, value in {
        "name": "Ana Prior",
        "blood_type": "A positive",
        "boss": "Carl",
        "car": "blue Fiat 500, petrol",
        "diet": "vegetarian",
        "eldest_child": "Tess, 14, a dancer in Cork",
        "hobby": "pottery and model boats",
        "job": "student of medieval history",
        "medication": "levothyroxine 75 mcg",
        "sister": "Mina (23, a nurse in Bonn)",
        "supervisor": "Dr Amara Holt",
        "youngest_child": "Rob, 8",
    }.items()
]


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("my blood group pls", "blood_type"),
        ("boss's name plz", "boss"),
        ("how old is mina", "sister"),
        ("which town did my eldest move to", "eldest_child"),
        ("who's the youngest of my three kids?", "youngest_child"),
        ("Which of my two is the eldest?", "eldest_child"),
        ("is my car diesel or petrol", "car"),
        ("do i drive a diesel?", "car"),
        ("do i eat fish?", "diet"),
        ("What am I a student of?", "job"),
        ("what am i studying", "job"),
        ("what craft do I do in my free time", "hobby"),
        ("What sort of boats do I build models of?", "hobby"),
        ("The nurse asked what I take and at what dose, can you remind me please?", "medication"),
        ("what's my surname", "surname"),
    ],
)
def test_a_fact_is_found_by_role_by_what_it_excludes_and_in_short_forms(question, key):
    assert [[fact.key for fact in found] for found in asked_facts(question, ANA)] == [[key]]


@pytest.mark.parametrize(
    "question",
    [
        "Who is my second supervisor?",
        "who's my deputy boss",
        "what's Mina's surname?",
        "what is my boss's last name",
        "is my car manual or automatic",
        "who is my middle child?",
        "what's my dose of aspirin",
        "what do i take with me to Bonn?",
        "when did Tess move to Cork",
        "when do i eat meat",
    ],
)
def test_a_fact_without_what_is_asked_is_no_answer(question):
    assert asked_facts(question, ANA) == [[]]


def test_what_is_called_second_or_a_surname_is_of_others():
    [supervisor] = [fact for fact in ANA if fact.key == "supervisor"]
    [sister] = [fact for fact in ANA if fact.key == "sister"]

    assert is_of_others("Who is my second supervisor?", supervisor, ANA)
    assert not is_of_others("Who is my supervisor?", supervisor, ANA)
    assert is_of_others("What's Mina's surname?", sister, ANA)


SISTERS = {
    "oldest_sister": "Mirjam", "oldest_sister_job": "vet", "middle_sister": "Salome",
    "youngest_sister": "Tekla", "youngest_sister_age": "24", "godson_name": "Otis", "uncle": "Max",
}  # fmt: skip


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("How old is Tekla?", ["youngest_sister_age"]),
        ("How old is Salome?", []),
        ("What does Mirjam do?", ["oldest_sister_job"]),
        ("What does Tekla do?", []),
        ("What's my godson called?", ["godson_name"]),
        ("Who is my godchild?", ["godson_name"]),
        ("What's my goddaughter called?", []),
        ("What's my uncle's name?", ["uncle"]),
        ("What's my aunt's name?", []),
    ],
)
def test_one_of_several_relatives_is_not_another(question: str, keys: list[str]) -> None:
    facts = [Fact(key, value, 0, 0) for key, value in SISTERS.items()]

    assert [[fact.key for fact in found] for found in asked_facts(question, facts)] == [keys]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("How many goats do we keep?", "herd_size", "35 Toggenburg goats"),
        ("How many hens did I own?", "poultry", "12 hens"),
        ("Which hospital is closest to me?", "nearest_hospital", "St. Vinzenz"),
        ("Who do I share my room with?", "roommate", "Dilnoza"),
    ],
)
def test_what_one_does_with_a_thing_is_not_what_is_asked_for(question, key, value):
    facts = [Fact(key, value, 0, 0), Fact("shoe_size", "41", 0, 0)]

    assert [[fact.key for fact in meant] for meant in asked_facts(question, facts)] == [[key]]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("Which part of Lisbon do I live in?", "neighbourhood", "Graça"),
        ("Which bit of Leeds is my flat in?", "flat_area", "Headingley"),
        ("What is my first son called?", "eldest_son", "Iker"),
        ("When did I finish art school?", "art_school_year", "1998"),
        ("How many nieces have I got?", "number_of_nieces", "four"),
        ("Which cream do I use for my eczema?", "eczema_cream", "Dermovate"),
        ("What's the matter with my knee?", "knee", "torn meniscus"),
        ("What kind of boat do I sail?", "boat_type", "ketch"),
        ("How is my canary called?", "canary_name", "Pavarotti"),
        ("Can you tell me what I'm called?", "user_name", "Ilse Brand"),
        ("Tell me my full name", "first_and_last_name", "Ilse Brand"),
        ("What's the name of the place I work at?", "workplace", "Tate Library"),
    ],
)
def test_how_a_question_is_put_hides_no_fact(question, key, value):
    facts = [Fact(key, value, 0, 0), Fact("shoe_size", "41", 0, 0)]

    assert [[fact.key for fact in meant] for meant in asked_facts(question, facts)] == [[key]]


@pytest.mark.parametrize(
    ("question", "key", "value"),
    [
        ("What do I take for my eczema?", "eczema", "since 2011"),
        ("Which part of Hamlet do I like best?", "neighbourhood", "Graça"),
    ],
)
def test_what_a_fact_does_not_tell_is_not_asked_of_it(question, key, value):
    assert asked_facts(question, [Fact(key, value, 0, 0)]) == [[]]
