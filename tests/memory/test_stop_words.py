"""Questions in languages whose stop words the index keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.text import keywords
from shepherd.memory import Memory
from shepherd.memory.stop_words import without_stop_words

_MEMORIES = {
    "de": [
        "Die Farbe von meinem Fahrrad ist grün.",
        "Meine Katze heißt Mia.",
        "Meine Schwester wohnt in Graz.",
        "Das Passwort für das Gästenetz ist auf dem Zettel.",
        "Wir haben in der Küche einen neuen Herd.",
        "Wer den Hund ausführt, das bin meistens ich.",
    ],
    "fr": [
        "La couleur de mon vélo est le vert.",
        "Mon chat s'appelle Mia.",
        "Ma sœur habite à Lyon.",
        "Le mot de passe est sur la table de la cuisine.",
        "Nous avons une nouvelle voiture dans le garage.",
        "C'est moi qui sors le chien.",
    ],
    "es": [
        "El color de mi bicicleta es el verde.",
        "Mi perro se llama Toby.",
        "Mi hermana vive en Sevilla.",
        "La contraseña está en la mesa de la cocina.",
        "Tenemos un coche nuevo en el garaje.",
        "Soy yo quien pasea al perro.",
    ],
    "it": [
        "Il colore della mia bicicletta è il verde.",
        "Il mio gatto si chiama Mia.",
        "Mia sorella abita a Torino.",
        "La chiave della cantina è nella cucina.",
        "Abbiamo una macchina nuova nel garage.",
        "Sono io che porto fuori il cane.",
    ],
    "nl": [
        "De kleur van mijn fiets is groen.",
        "Mijn kat heet Mia.",
        "Mijn zus woont in Utrecht.",
        "Het wachtwoord ligt op de tafel in de keuken.",
        "We hebben een nieuwe auto in de garage.",
        "Ik ben degene die de hond uitlaat.",
    ],
    "pt": [
        "A cor da minha bicicleta é o verde.",
        "O meu gato chama-se Mia.",
        "A minha irmã mora no Porto.",
        "A senha está na mesa da cozinha.",
        "Temos um carro novo na garagem.",
        "Sou eu que passeio com o cão.",
    ],
}
_GENERAL = {
    "de": [
        "Was ist die Hauptstadt von Frankreich?",
        "Wann wurde Goethe geboren?",
        "Wer hat das Telefon erfunden?",
        "Kannst du mir bitte die Photosynthese erklären?",
        "Wie heißt die Hauptstadt von Peru?",
    ],
    "fr": [
        "Quelle est la capitale de l'Allemagne ?",
        "Qu'est-ce que la photosynthèse ?",
        "Qui a écrit Les Misérables ?",
        "Peux-tu m'expliquer la relativité ?",
        "Quelle heure est-il à Tokyo ?",
    ],
    "es": [
        "¿Cuál es la capital de Francia?",
        "¿Quién escribió el Quijote?",
        "¿Qué es la fotosíntesis?",
        "¿Cómo se llama la capital de Perú?",
        "¿Qué hora es en Tokio?",
    ],
    "it": [
        "Qual è la capitale della Francia?",
        "Chi ha scritto la Divina Commedia?",
        "Cos'è la fotosintesi?",
        "Come si chiama la capitale del Perù?",
        "Dov'è la Torre Eiffel?",
    ],
    "nl": [
        "Wat is de hoofdstad van Frankrijk?",
        "Wie heeft de telefoon uitgevonden?",
        "Hoe heet de hoofdstad van Peru?",
        "Kun je mij de relativiteit uitleggen?",
        "Waar ligt de Eiffeltoren?",
    ],
    "pt": [
        "Qual é a capital da França?",
        "Quem é que escreveu Os Lusíadas?",
        "O que é a fotossíntese?",
        "Como se chama a capital do Peru?",
        "Que horas são em Tóquio?",
    ],
}
# A question, and which of the memories answers it.
_OWN = {
    "de": [
        ("Wo wohnt meine Schwester?", 2),
        ("Welche Farbe hat mein Fahrrad?", 0),
        ("Wie heißt meine Katze?", 1),
    ],
    "fr": [
        ("Où habite ma sœur ?", 2),
        ("De quelle couleur est mon vélo ?", 0),
        ("Comment s'appelle mon chat ?", 1),
    ],
    "es": [
        ("¿Dónde vive mi hermana?", 2),
        ("¿De qué color es mi bicicleta?", 0),
        ("¿Dónde está la contraseña?", 3),
    ],
    "it": [
        ("Dove abita mia sorella?", 2),
        ("Di che colore è la mia bicicletta?", 0),
        ("Come si chiama il gatto?", 1),
    ],
    "nl": [("Waar woont mijn zus?", 2), ("Welke kleur heeft mijn fiets?", 0), ("Hoe heet mijn kat?", 1)],
    "pt": [
        ("Onde mora a minha irmã?", 2),
        ("De que cor é a minha bicicleta?", 0),
        ("Como se chama o meu gato?", 1),
    ],
}


@pytest.fixture(params=list(_MEMORIES))
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def told(memory: Memory, language: str) -> Memory:
    for number, text in enumerate(_MEMORIES[language]):
        memory.store_memory(text, "", session=f"s{number}")
    return memory


def test_general_question_finds_no_memory_of_other_things(told: Memory, language: str) -> None:
    found = {question: told.recall(question).results for question in _GENERAL[language]}

    assert {
        question: [one.question for one in memories] for question, memories in found.items() if memories
    } == {}


def test_question_about_what_was_told_finds_it(told: Memory, language: str) -> None:
    for question, number in _OWN[language]:
        assert told.recall(question).results[0].question == _MEMORIES[language][number], question


@given(
    st.lists(
        st.sampled_from(
            [
                "wer",
                "die",
                "von",
                "est",
                "la",
                "que",
                "de",
                "como",
                "het",
                "mijn",
                "om",
                "e",
                "katz",
                "capital",
                "frankreich",
            ]
        )
    )
)
def test_keywords_keep_their_order_and_some_are_always_left(words: list[str]) -> None:
    left = without_stop_words(words)

    rest = iter(words)
    assert all(word in rest for word in left)
    assert bool(left) == bool(words)


def test_question_of_such_words_alone_keeps_them() -> None:
    assert without_stop_words(["wer", "bist", "du"]) == ["wer", "bist", "du"]


@pytest.mark.parametrize(
    "text",
    [
        "Who was in Die Hard?",
        "Did the man die in the war?",
        "Where did I park in Los Angeles?",
        "When does Das Boot start?",
        "Is the van at the door?",
        "Did I go over the plan with my son in Las Vegas?",
        "What does AI do for the US?",
        "When was van Gogh born?",
        "",
    ],
)
def test_english_text_is_left_alone(text: str) -> None:
    assert without_stop_words(keywords(text)) == keywords(text)


def test_one_stop_word_is_no_language() -> None:
    assert without_stop_words(["warum", "rex"]) == ["warum", "rex"]
    assert without_stop_words(["warum", "wer", "rex"]) == ["rex"]


@pytest.mark.parametrize(
    "text",
    ["who am I?", "yes", "hmm", "go on", "Tell me more, please!", "what is it?", "wer bin ich?", "et toi ?"],
)
def test_message_of_nothing_but_stop_words_and_fillers_finds_no_memory(tmp_path, text):
    with Memory(tmp_path / "memory.db", user_id="steve", relevance_threshold=0.0) as memory:
        memory.store_memory(
            "Who am I? And what is it?", "Yes, hmm, go on: wer bin ich, et toi. Tell me more."
        )
        memory.set_fact("name", "Steve")

        injection = memory.recall(text)

    assert injection.results == ()
    assert injection.tail == "\n\n[facts: name=Steve]"


def test_message_with_a_word_of_its_own_finds_it_among_stop_words(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        memory.store_memory("Who am I to the boat?", "You are its owner.")

        assert memory.recall("who am I to the boat?").results
