"""Export and import of traces as text, in two forms; importing an export restores it byte for byte.

The first form has a path and its value on each line, and can fill a PathMap:

    /context/a1b2/000003/budget/total<TAB>4096
    /context/a1b2/000003/model<TAB>"mini"

The value is JSON, which preserves its kind and every character. Paths have no control characters: the first
tab ends them, a line feed ends the line.

The second form has an expression of MeTTa for each path, with its segments as the elements:

    (context "a1b2" 000003 budget total 4096)
    (context "a1b2" 000003 tail facts "a/b" "c d")

so that a pattern matches as `*` does: `(match &self (context $s $t budget total $n) ($t $n))`. A session is
always a string; other segments are symbols or numbers where MeTTa reads them as such, and strings elsewhere.
The file begins with the signatures of the predicates. Reading it does not need MeTTa.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import islice
from typing import BinaryIO, Literal

from shepherd.errors import UsageError
from shepherd.trace.paths import ROOT, Value, checked_path, decode_segment, encode_segment
from shepherd.trace.records import plain
from shepherd.trace.traces import Traces

__all__ = ["FORMATS", "PREDICATES", "Format", "Predicate", "atom_of", "export", "import_file"]

Format = Literal["paths", "metta"]
FORMATS: tuple[Format, ...] = ("paths", "metta")
_AT_ONCE = 8192

_SYMBOL = re.compile("[a-z][a-z0-9_]*", re.ASCII)
_PLACE = re.compile(r"\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
# A string, or everything up to the next blank or the end of the expression.
_ELEMENT = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()"]+')
_SEPARATED = re.compile(rf"(?:{_ELEMENT.pattern})(?: (?:{_ELEMENT.pattern}))*")
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPED = {text[1]: char for char, text in _ESCAPED.items()}
# Only the line feed ends a line in MeTTa, but other tools split lines at the rest.
_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f\x85\u2028\u2029]')
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]{1,6})\}|(.))", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of context injection: its name, and its type as MeTTa writes it."""

    name: str
    type: str
    group: str

    @property
    def signature(self) -> str:
        """The type declaration as an atom."""
        return f"(: {self.name} {self.type})"


# Groups of predicates, which shepherd.metta implements.
_GROUPS = {
    "context": """
        inject-context (-> String DialogueState KnowledgeBase Int InjectedContext)
        allocate-token-budget (-> String DialogueState Int TokenBudget)
        format-dialogue-history (-> DialogueState Int FormattedHistory)
        format-entity-context (-> DialogueState (List ResolvedEntity) Int (List EntityContext))
        retrieve-rag-chunks (-> String (List ResolvedEntity) Int (List KnowledgeChunk))
        build-system-prompt (-> UserPreferences AgentPersonality Int String)""",
    "budget": """
        total-tokens (-> ContextContent Int)
        handle-overflow (-> ContextContent TokenBudget ContextContent)
        compress-content (-> ContextContent Int ContextContent)
        compression-level (-> Float CompressionLevel)""",
    "history": """
        summarize-turns (-> (List Turn) Int String)
        format-recent-turns (-> (List Turn) (List FormattedTurn))
        assemble-history (-> (Maybe String) (List FormattedTurn) String)""",
    "entities": """
        select-entity-attributes (-> Entity Int (List (Pair String String)))
        get-entity-relationships (-> Entity DialogueState (List EntityRelationship))
        format-entity (-> Entity Float (List (Pair String String)) EntityContext)""",
    "rag": """
        embed-query (-> String (List Float))
        search-vector-index (-> (List Float) Int (List SearchResult))
        apply-rag-boosts (-> (List SearchResult) (List ResolvedEntity) (List SearchResult))
        rerank-chunks (-> String (List SearchResult) (List SearchResult))
        format-chunk (-> Chunk DocumentSource String)""",
    "system": """
        format-personality (-> AgentPersonality String)
        format-preferences (-> UserPreferences String)
        truncate-system-prompt (-> (List String) Int String)""",
    "compression": """
        simplify-formatting (-> FormattedHistory FormattedHistory)
        aggressive-summarize (-> FormattedHistory FormattedHistory)
        reduce-entity-detail (-> (List EntityContext) (List EntityContext))
        select-top-chunks (-> (List KnowledgeChunk) Int (List KnowledgeChunk))""",
}
PREDICATES = tuple(
    Predicate(name, type_, group)
    for group, lines in _GROUPS.items()
    for name, _, type_ in (line.strip().partition(" ") for line in lines.strip().splitlines())
)


def export(traces: Traces, path: str = ROOT, *, form: Format = "paths") -> Iterator[str]:
    """Yield the lines of everything at and below a path, in the order of the paths."""
    write = _line_of
    if form == "metta":
        write = atom_of
        yield _header()
    for entry in traces.entries(path):
        yield write(*entry)


def import_file(
    traces: Traces, file: BufferedReader, progress: Callable[[int], None] = lambda n: None
) -> int:
    """Import the output of `export` into the traces of a user; returns the number of paths.

    The first byte tells the form. Present values are replaced. UsageError names a bad line; the lines before
    it may be stored already, since one transaction holds thousands of paths. Importing them again changes
    nothing.
    """
    entries = _read_lines(file) if file.peek(1)[:1] == b"/" else _read_atoms(file)
    n = 0
    while page := list(islice(entries, _AT_ONCE)):
        n += traces.merge(page)
        progress(n)
    return n


# ---- lines


def _line_of(path: str, value: Value) -> str:
    """Return the line of one path, with its end."""
    return f"{path}\t{json.dumps(value, ensure_ascii=False)}\n"


def _read_lines(file: BinaryIO) -> Iterator[tuple[str, Value]]:
    """Yield the paths and values of lines. UsageError names a bad line; empty lines are skipped."""
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            path, tab, text = line.decode().rstrip("\n").partition("\t")
            if not tab:
                raise ValueError("there is no tab in it")
            yield checked_path(path), _json_value(text)
        except (ValueError, UsageError, RecursionError) as error:
            # The messages of UnicodeDecodeError and JSONDecodeError repeat the text.
            what = str(error) if type(error) in (ValueError, UsageError) else "not UTF-8, or not JSON"
            if isinstance(error, RecursionError):
                what = "nested too deeply"
            raise UsageError(
                f"line {number}: {what}", hint="a line is a path, a tab and a value in JSON"
            ) from None


def _json_value(text: str) -> Value:
    value = json.loads(text)
    if not isinstance(value, (str, int, float)) or plain(value) != value:
        raise ValueError("the value has to be text, a number of up to 64 bits, true or false")
    return plain(value)


# ---- atoms


def _header() -> str:
    """Return the header of an export: the signatures of the predicates, by group."""
    lines = ["; Traces of turns: (context SESSION TURN … VALUE), and what computes them."]
    group = ""
    for predicate in PREDICATES:
        if predicate.group != group:
            group = predicate.group
            lines += ["", f"; {group}"]
        lines.append(predicate.signature)
    return "\n".join([*lines, "", "; turns", ""])


def atom_of(path: str, value: Value) -> str:
    """Return the atom of one path, with the end of its line."""
    _, root, session, *rest = path.split("/")
    elements = [root, _string(decode_segment(session)), *map(_element, rest), _literal(value)]
    return f"({' '.join(elements)})\n"


def _read_atoms(file: BinaryIO) -> Iterator[tuple[str, Value]]:
    """Yield the paths and values of atoms as `atom_of` writes them, one a line.

    Comments and signatures are skipped. UsageError names the line that is no atom of ours.
    """
    for number, line in enumerate(file, 1):
        if line.strip() and not line.startswith((b";", b"(: ")):
            yield _atom_entry(number, line)


def _atom_entry(number: int, line: bytes) -> tuple[str, Value]:
    try:
        text = line.decode().rstrip("\n")
        inside = text[1:-1]
        if not (text.startswith("(") and text.endswith(")") and _SEPARATED.fullmatch(inside)):
            raise ValueError("not an expression of symbols, numbers and strings")
        *segments, last = _ELEMENT.findall(inside)
        path = "".join(f"/{_segment(segment)}" for segment in segments)
        return checked_path(path), _literal_value(last)
    except (ValueError, UsageError) as error:
        what = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise UsageError(
            f"line {number}: {what}", hint="an atom is (context SESSION TURN … VALUE), alone on its line"
        ) from None


def _element(segment: str) -> str:
    if _SYMBOL.fullmatch(segment) or _PLACE.fullmatch(segment):
        return segment
    return _string(decode_segment(segment))


def _segment(element: str) -> str:
    return encode_segment(_text(element) if element.startswith('"') else element)


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return _string(value)
    return repr(value)  # True, 4096, 0.83: MeTTa writes them as Python does


def _literal_value(element: str) -> Value:
    if element.startswith('"'):
        return _text(element)
    if element in ("True", "False"):
        return element == "True"
    number = _NUMBER.fullmatch(element)
    if number is None:
        raise ValueError("the last element has to be a string, a number, True or False")
    value = float(element) if number[1] or number[2] else int(element)
    if plain(value) != value:
        raise ValueError("the number does not fit 64 bits")
    return value


def _string(text: str) -> str:
    return f'"{_SPECIAL.sub(lambda match: _escape(match[0]), text)}"'


def _escape(char: str) -> str:
    return _ESCAPED.get(char) or f"\\u{{{ord(char):x}}}"


def _text(literal: str) -> str:
    return _ESCAPE.sub(_unescaped, literal[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] not in _UNESCAPED:
        raise ValueError("an invalid escape")
    return _UNESCAPED[match[2]]
