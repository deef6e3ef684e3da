"""Entities by a model of our own making: always in the shape that was asked for, only what the text says."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.entities import USER, EntityRegistry, Extracted, extract_entities
from shepherd.entities.extractor import EntityReader, parse_entities
from shepherd.errors import ModelError
from shepherd.inference import Engine
from tests import models
from tests.inference.engines import exact_settings

TEXT = "Meine Schwester Anna arbeitet bei Initech in Wien."
FOUND = {
    "entities": [
        {
            "name": "Anna",
            "type": "person",
            "attributes": {"location": "Wien", "title": "queen"},
            "relations": [{"relation": "sister of", "target": "user"}],
        },
        {
            "name": "Initech",
            "type": "organization",
            "attributes": {},
            "relations": [{"relation": "owned by", "target": "Mallory"}],
        },
        {"name": "Mallory", "type": "person", "attributes": {}, "relations": []},
    ]
}


def pieces(text: str, length: int = 37) -> list[str]:
    """A text in pieces that differ, as a script needs them."""
    cut = [text[start : start + length] for start in range(0, len(text), length)]
    assert len(set(cut)) == len(cut)
    return cut


@pytest.fixture(scope="module")
def finder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says FOUND to everything."""
    path = tmp_path_factory.mktemp("finder") / "finder.gguf"
    models.scripted(path, pieces(json.dumps(FOUND)))
    return path


def test_what_the_model_says_is_taken_as_far_as_the_text_says_it(finder):
    with Engine(finder, settings=exact_settings(n_ctx=2048)) as engine:
        found = extract_entities(engine, TEXT)

    assert found == (
        Extracted("Anna", "person", (("location", "Wien"),), (("sister of", "user"),)),
        Extracted("Initech", "organization"),
    )


def test_a_model_that_babbles_gives_nothing_that_the_text_does_not_say(plain_model):
    with Engine(plain_model, settings=exact_settings(n_ctx=2048)) as engine:
        found = extract_entities(engine, TEXT, max_tokens=64)

    assert all(one.name.casefold() in TEXT.casefold() for one in found)


def test_what_was_found_is_learned():
    registry = EntityRegistry()
    registry.register(TEXT)
    registry.learn(parse_entities(json.dumps(FOUND), TEXT))
    registry.end_turn()

    anna = registry.find("Anna")
    assert anna is not None
    assert (anna.type, [(one.label, one.target) for one in anna.relations]) == (
        "person",
        [("sister of", USER)],
    )
    assert [(one.name, one.value, one.confidence) for one in anna.attributes] == [("location", "Wien", 0.8)]
    assert registry.find("Initech") is not None
    assert registry.find("Mallory") is None
    assert registry.roll_back()
    assert len(registry) == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    ["entities", "name", "type", "attributes", "relations", "relation", "target"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_comes_as_an_answer_costs_no_turn(answer):
    assert isinstance(parse_entities(json.dumps(answer), TEXT), tuple)
    assert isinstance(parse_entities(json.dumps({"entities": [answer, *FOUND["entities"]]}), TEXT), tuple)


@pytest.mark.parametrize("answer", ["", "no json", "[]", '{"entities": 3}', '{"entities": [{"name": "Anna"'])
def test_an_answer_that_is_none_gives_nothing(answer):
    assert parse_entities(answer, TEXT) == ()


def test_a_reader_opens_its_model_once_and_none_after_its_end(finder):
    opened: list[Engine] = []

    def open_model() -> Engine:
        opened.append(Engine(finder, settings=exact_settings(n_ctx=2048)))
        return opened[-1]

    reader = EntityReader(open_model)
    found = []
    for _ in range(2):
        reader.begin(TEXT)
        assert reader.wait(60)
        found.append([one.name for one in reader.take()])
    reader.close()
    reader.begin(TEXT)
    reader.close()

    assert found == [["Anna", "Initech"]] * 2
    assert len(opened) == 1
    assert reader.take() == []


@pytest.mark.parametrize("error", [ModelError("no such file"), RuntimeError("a bug")])
def test_a_model_that_cannot_be_opened_costs_the_entities_alone(error):
    def fail() -> Engine:
        raise error

    reader = EntityReader(fail)
    reader.begin(TEXT)

    assert reader.wait(30)
    assert reader.take() == []
    reader.close()


def test_of_the_messages_that_come_while_one_is_read_only_the_latest_is_read():
    asked, opening, go = [], threading.Event(), threading.Event()

    def open_model() -> Engine:
        asked.append(True)
        opening.set()
        assert go.wait(30)
        raise ModelError("no such file")

    reader = EntityReader(open_model)
    reader.begin("one")
    assert opening.wait(30)
    for text in ("two", "three", "four"):
        reader.begin(text)
    go.set()

    assert reader.wait(30)
    assert len(asked) == 2
    reader.close()
