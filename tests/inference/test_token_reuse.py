"""Which prefixes are found again, and where an earlier answer begins and ends, each rule by itself."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd.inference import EngineSettings
from shepherd.inference.model import LoadedModel
from shepherd.inference.template import CHATML, ChatTemplate, Part, Place, Slot, TemplateLayout
from shepherd.inference.token_reuse import AnswerReuse, PrefixCache, PromptPrefix, keys_of
from shepherd.inference.tokenization import Mark, Vocabulary
from shepherd.inference.tools import ToolPrompt
from shepherd.types import Message, ToolCall
from tests import models

# ---- prefixes


def conversation(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def prefix(*texts: str, calls: dict[str, str] | None = None) -> PromptPrefix:
    keys = keys_of(conversation(*texts))
    return PromptPrefix(keys, [], "", array("i"), Mark(0, (), (), None, False, False, 0), calls or {})


def found(cache: PrefixCache, *texts: str) -> PromptPrefix | None:
    return cache.find(conversation(*texts))


def test_the_longest_prefix_that_is_shorter_than_the_conversation_is_found() -> None:
    cache = PrefixCache()
    one, two, other = prefix("a"), prefix("a", "b"), prefix("a", "x")
    for each in (two, one, other):
        cache.keep(each)

    assert found(cache, "a", "b", "c") is two
    assert found(cache, "a", "b") is one
    assert found(cache, "a", "x", "c") is other
    assert found(cache, "a") is None
    assert found(cache, "b", "b", "c") is None
    cache.clear()
    assert found(cache, "a", "b", "c") is None


def test_a_prefix_takes_the_place_of_the_one_it_goes_on_from() -> None:
    cache = PrefixCache()
    one, two = prefix("a"), prefix("a", "b")
    cache.keep(one)
    cache.keep(two, instead_of=one)

    assert found(cache, "a", "b", "c") is two
    assert found(cache, "a", "x") is None


def test_32_prefixes_are_kept_and_the_oldest_leaves() -> None:
    cache = PrefixCache()
    for i in range(33):
        cache.keep(prefix(str(i)))

    assert found(cache, "0", "more") is None
    assert all(found(cache, str(i), "more") for i in range(1, 33))


@pytest.mark.parametrize(
    ("messages", "is_clear"),
    [
        ([Message("user", "hi")], True),
        ([Message("assistant", "", tool_calls=(ToolCall("c1", "look", "{}"),))], True),
        ([Message("assistant", "", tool_calls=(ToolCall("c1", "write", "{}"),))], False),
        ([Message("assistant", "", tool_calls=(ToolCall("c9", "write", "{}"),))], True),
        ([Message("tool", "42", tool_call_id="c1")], False),
        ([Message("tool", "42", tool_call_id="c9")], True),
        (
            [
                Message("assistant", "", tool_calls=(ToolCall("c1", "look", "{}"),)),
                Message("tool", "42", tool_call_id="c1"),
            ],
            True,
        ),
        ([Message("user", "42", tool_call_id="c1")], True),
    ],
)
def test_a_call_or_result_that_names_an_earlier_one_is_not_clear(
    messages: list[Message], is_clear: bool
) -> None:
    assert prefix("a", calls={"c1": "look"}).is_clear(messages) is is_clear


@pytest.mark.parametrize(
    "changed",
    [
        {"role": "system"}, {"sent": "x"}, {"raw": "x"}, {"thought": "x"}, {"token_ids": (1,)},
        {"tool_calls": (ToolCall("c1", "look", "{}"),)}, {"tool_call_id": "c1"},
    ],
)  # fmt: skip
def test_a_message_whose_prompt_would_differ_has_another_key(changed: dict[str, Any]) -> None:
    message = Message("user", "hi")
    [before] = keys_of([message])
    [name] = changed
    setattr(message, name, changed[name])

    assert keys_of([message]) != [before]
    assert keys_of([Message("user", "hi", created_at=7)]) == [before]


# ---- answers


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vocabulary]:
    path: Path = tmp_path_factory.mktemp("vocabulary") / "model.gguf"
    models.llama(path, controls=["<|end|>", "<|start|>", "<|channel|>", "<|call|>"])
    model = LoadedModel(path, EngineSettings(n_ctx=256, n_threads=1))
    yield model.vocabulary
    model.close()


THINKING = CHATML.replace("message['content']", "(message.thinking or '') + message['content']")
HARMONY = "<|channel|>" + CHATML


def reuse(vocabulary: Vocabulary, source: str = CHATML) -> AnswerReuse:
    template = ChatTemplate(source, bos="<s>", eos="<|im_end|>")
    return AnswerReuse(vocabulary, template, ToolPrompt(template), lambda shape, tools: None)


def ids(vocabulary: Vocabulary, text: str) -> tuple[int, ...]:
    return tuple(vocabulary.tokenize(text, special=True))


def test_ids_are_those_of_a_text_only_if_they_say_just_that(vocabulary: Vocabulary) -> None:
    answers = reuse(vocabulary)
    said = ids(vocabulary, "hello you")

    assert answers._detokenizes_to(said, "hello you")
    assert not answers._detokenizes_to(said, "hello yo")
    assert not answers._detokenizes_to((*said, vocabulary.n_tokens), "hello you")
    assert not answers._detokenizes_to((*said, -1), "hello you")
    assert answers._detokenizes_to((), "")


def test_ids_are_parsed_back_to_the_answer_and_its_calls(vocabulary: Vocabulary) -> None:
    answers = reuse(vocabulary)
    call = ToolCall("c1", "look", '{"at": "it"}')
    text = 'So:<tool_call>\n{"name": "look", "arguments": {"at": "it"}}\n</tool_call>'
    said = ids(vocabulary, text)

    assert answers._parses_back_to(said, "So:", (call,), "")
    assert not answers._parses_back_to(said, "So", (call,), "")
    assert not answers._parses_back_to(said, "So:", (ToolCall("c1", "look", '{"at": "x"}'),), "")
    assert not answers._parses_back_to(said, "So:", (call, call), "")
    assert not answers._parses_back_to((*said, vocabulary.n_tokens), "So:", (call,), "")
    assert not answers._parses_back_to((-1,), "", (), "")
    assert answers._parses_back_to(ids(vocabulary, "hi"), "hi", (), "")


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("hello<|im_end|> more<|im_end|>", 0, 5),
        ("hello<|im_end|> more<|im_end|>", 5, 5),
        ("hello<|im_end|> more<|im_end|>", 6, 20),
        ("<|im_start|>hello<|im_end|>", 0, 17),
        ("hello<|im_start|>", 0, None),
        ("", 0, None),
    ],
)
def test_a_turn_ends_at_the_next_token_that_ends_one(
    vocabulary: Vocabulary, text: str, start: int, end: int | None
) -> None:
    assert reuse(vocabulary)._end_of_turn(text, start) == end


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("hm<|end|><|start|>assistant<|channel|>final", None),
        ("hm<|end|><|start|>assistant yes<|end|><|start|>user", 31),
        ("hm<|call|>", 2),
        ("hm<|return|>", 2),
        ("hm<|im_end|>", None),
    ],
)
def test_messages_of_one_turn_in_harmonys_format_are_not_its_end(
    vocabulary: Vocabulary, text: str, end: int | None
) -> None:
    assert reuse(vocabulary, HARMONY)._end_of_turn(text, 0) == end


def test_an_answer_is_shown_whole_if_its_text_and_its_thought_are(vocabulary: Vocabulary) -> None:
    slots = {"text": Slot(1, False), "thought": Slot(1, True)}
    cases = [
        # template, its slots, text, thought, shown
        (CHATML, ("text",), "yes", "", True),
        (CHATML, (), "yes", "", False),
        (CHATML, (), "  ", "", True),
        (CHATML, ("text",), "yes", "hm", True),  # it says nothing of thoughts: they stay in the text
        (THINKING, ("text",), "yes", "hm", False),
        (THINKING, ("text", "thought"), "yes", "hm", True),
        (THINKING, ("text",), "yes", "  ", True),
        (THINKING, ("thought",), "yes", "hm", False),
    ]
    for source, names, text, thought, is_shown in cases:
        layout = TemplateLayout(("",) * (len(names) + 1), tuple(slots[name] for name in names), -1)
        answer = Message("assistant", text, thought=thought)
        part = Part("assistant", text, (1,), thought=thought, answer=answer)

        assert reuse(vocabulary, source)._shows_all(layout, part, answer, 1) is is_shown, (names, text)


@pytest.mark.parametrize(
    ("begin", "content", "text", "more", "end"),
    [
        (Place(0, 3), "yes", "yes", "", Place(1, 0)),
        (Place(0, 3), "  yes".strip(), "yes", "", Place(1, 0)),
        (Place(0, 3), "no", "yes", "", None),
        (Place(0, 3), "yes", "yes!", "", None),
        (Place(0, 3), "yes", "yes", "{}", None),
        (Place(0, 1), "yes", "yes", "", None),  # the template writes something before the text
        (Place(1, 0), "yes", "yes", "", None),
    ],
)
def test_a_plain_answer_ends_behind_its_text(
    vocabulary: Vocabulary, begin: Place, content: str, text: str, more: str, end: Place | None
) -> None:
    answer = Message("assistant", "yes", token_ids=ids(vocabulary, "yes"))
    part = Part("assistant", text, (1,), more=more, answer=answer)
    layout = TemplateLayout(("ask \n", "end"), (Slot(1, False),), -1)

    assert reuse(vocabulary)._plain_end(layout, [content], part, 1, begin) == end
    other = TemplateLayout(("ask \n", "end"), (Slot(1, True),), -1)
    assert reuse(vocabulary)._plain_end(other, [content], part, 1, begin) is None
