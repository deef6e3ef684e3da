"""Extraction request: its prompt, its message, and the grammar of the answer.

The small model of `tools/mini_model` is trained on exactly EXTRACTION_PROMPT: changing it means training the
model again. Full models get INSTRUCTIONS, which say more. The grammar has the blanks of json.dumps. This file
imports nothing of the package, because the small model is measured with it where the
package is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "ANSWER_GRAMMAR",
    "EXTRACTION_PROMPT",
    "INSTRUCTIONS",
    "LONGEST_KEY",
    "LONGEST_QUESTION",
    "LONGEST_VALUE",
    "bounded_grammar",
    "extraction_request",
]

EXTRACTION_PROMPT = (
    "Extract lasting facts about the user as JSON: "
    '{"facts": {"key": "value"}, "context": [{"q": "question", "a": "answer"}]}. '
    "Facts are short values under snake_case keys; context is anything else worth remembering. "
    "Small talk and questions give nothing: both empty."
)

INSTRUCTIONS = """\
Extract lasting facts about the user from what the user typed to an assistant. Answer with JSON alone:
{"facts": {"key": "value"}, "context": [{"q": "question", "a": "answer"}]}

facts: short values under snake_case keys in English, such as name, location, employer, job, birthday, \
allergy, favorite_color or sister_name. Copy each value word for word from the user's message.
context: what else is worth knowing about the user in a year: a question, and its answer in the user's words.

Take only what the user states in so many words, in the first person, as true now. Leave out:
- the assistant: its name, what it is, what it can do, what it said or did
- other people, unless the key says how they are related to the user (sister_name)
- questions, wishes, plans, guesses, conditions, negations, and what is over
- what does not last: moods, today's errands, the state of a task, a program or a machine
- what is only discussed or worked on: news, places, products, files, code, logs, quotations, stories, \
roles, and texts to translate, correct or summarize
- passwords, PINs, keys, and numbers of cards and accounts
- conclusions: infer nothing, guess nothing, complete nothing
Most messages give nothing: {"facts": {}, "context": []}

Examples:
User: hey, I'm Ines, and since March I've been living in Ghent
{"facts": {"name": "Ines", "location": "Ghent"}, "context": []}
User: My sister is called Rosa. I bake sourdough every Sunday.
{"facts": {"sister_name": "Rosa"}, "context": [{"q": "What does the user bake?", "a": "sourdough"}]}
User: Are you called Shepherd? You are quick today.
{"facts": {}, "context": []}
User: My boss lives in Oslo, and I'd love to move there one day.
{"facts": {}, "context": []}
User: I'm tired. The build on the server in Frankfurt failed again, fix this: name = "Peter"
{"facts": {}, "context": []}
User: Translate into French: My name is Otto and I am allergic to nuts.
{"facts": {}, "context": []}"""

# In characters. They keep a model that repeats itself from filling the whole answer.
LONGEST_KEY = 64
LONGEST_QUESTION = 200
LONGEST_VALUE = 1000

ANSWER_GRAMMAR = rf"""
root     ::= "{{\"facts\": {{" facts? "}}, \"context\": [" items? "]}}"
facts    ::= fact (", " fact){{0,31}}
items    ::= item (", " item){{0,31}}
fact     ::= "\"" char{{1,{LONGEST_KEY}}} "\": " value
item     ::= "{{\"q\": \"" char{{1,{LONGEST_QUESTION}}} "\", \"a\": " value "}}"
value    ::= "\"" char{{1,{LONGEST_VALUE}}} "\""
char     ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})
"""

# `bounded_grammar` counts pieces of at most so many bytes. The opening of a key, a value or an answer takes
# one, with its first character; that of a question takes three.
_PIECE = 8
_QUESTION = 3
_FRAME = 32  # bytes of an answer without anything in it, and its end
_MOST_PIECES = 120
_PIECES = r"""
plain    ::= [\x20-\x21\x23-\x5B\x5D-\x7E]
wide     ::= [^\x00-\x7F] | "\\" ["\\/bfnrt]
first    ::= plain | wide
eight    ::= plain{8}
upto7    ::= plain{0,7}
upto4    ::= plain{0,4}
upto7of5 ::= plain{5,7}
"""


def extraction_request(lines: Iterable[str]) -> str:
    """Return the user's message of an extraction call: one `User: …` line for each text the user typed."""
    return "\n".join(f"User: {line}" for line in lines)


def bounded_grammar(most_tokens: int) -> str:
    """Return the grammar of answers that end within so many tokens; a token is at least a byte.

    For a model that may repeat itself without end: where ANSWER_GRAMMAR leaves an answer that was cut off and
    is no JSON, this one still has its end to say.
    """
    pieces = min((most_tokens - _FRAME) // _PIECE, _MOST_PIECES)
    rules = [rf'root ::= "{{\"facts\": {{" ({_one_of(_fact(pieces), _facts_end(pieces))})', _PIECES]
    for left in range(pieces):
        rules += [
            *_text("key", left, rf'"\": \"" first value-{left - 1}', 1),
            *_text("value", left, rf'"\"" ({_one_of(_after(_fact(left)), _facts_end(left))})', 0),
            *_text("question", left, rf'"\", \"a\": \"" first answer-{left - 1}', 1),
            *_text("answer", left, rf'"\"}}" ({_one_of(_after(_item(left)), _items_end())})', 0),
        ]
    return "\n".join(rules)


def _text(kind: str, left: int, end: str, needed: int) -> list[str]:
    """Return the rule for the rest of a string, with `left` pieces for all that follows."""
    if left < needed:
        return []
    ways = [f"upto7 {end}"]
    if left - 1 >= needed:
        ways += [f"upto4 wide {kind}-{left - 1}", f"eight {kind}-{left - 1}"]
    if left - 2 >= needed:
        ways.append(f"upto7of5 wide {kind}-{left - 2}")
    return [f"{kind}-{left} ::= {' | '.join(ways)}"]


def _fact(left: int) -> str:
    """Return a fact up to its key's first character; "" when too few pieces are left to end it."""
    return rf'"\"" first key-{left - 1}' if left >= 2 else ""


def _item(left: int) -> str:
    """Return the same of a question and its answer."""
    return rf'"{{\"q\": \"" first question-{left - _QUESTION}' if left > _QUESTION else ""


def _facts_end(left: int) -> str:
    """Return the end of the facts, and what may follow it."""
    return rf'"}}, \"context\": [" ({_one_of(_item(left), _items_end())})'


def _items_end() -> str:
    return '"]}"'


def _after(thing: str) -> str:
    """Return the thing, behind another one."""
    return thing and f'", " {thing}'


def _one_of(*ways: str) -> str:
    return " | ".join(way for way in ways if way)
