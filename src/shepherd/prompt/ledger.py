"""Ledger of what was appended to the messages of stateless clients, so that it is restored byte for byte.

Such a client sends its whole conversation with every request, without tails; the model saw them, and its KV
cache holds those bytes. The ledger stores each tail under a hash of the conversation up to its message. It
also stores where the oldest turns left the window, so that they leave at the same place again, the stored
session and time of each message, and with the first message the nodes of its system part.

A conversation that was edited, cut or branched has other hashes from there on: the common part gets its tails
back. The notes are bounded and can be lost without harm.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shepherd.errors import ShepherdError
from shepherd.lru_cache import CachedFunction
from shepherd.prompt.summary import NO_SUMMARY, Summary
from shepherd.types import Injection, Message

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["Ledger", "Restored", "ShownKnowledge", "conversation_hashes"]


_log = logging.getLogger(__name__)

# Number of user messages to look up, from the end; more do not fit any window.
_LOOKED_UP = 2048
_DIGEST_BYTES = 16
# Parsed notes to cache: each request of a conversation needs its own again. A tail may be very long.
_READ, _READ_BYTES = 4096, 4 << 20
# Bytes of a cached note beside its texts.
_NOTE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class ShownKnowledge:
    """Background nodes shown with a message: id, title and number of edges of each.

    With the first message of a conversation, those of the system part, with its workflows; `blocks` says
    whether that explains blocks.
    """

    hubs: tuple[tuple[int, str, int], ...] = ()
    blocks: bool = False
    workflows: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """A client's conversation as the model saw it: all messages, with their tails.

    Messages before index `n_left`, except system messages, had left the window and are replaced by `summary`.
    `known` are the hashes of earlier messages that have notes. `session` is where the earlier messages are
    stored, "" for a new conversation. `shown` has the nodes for each earlier user message that has a note, in
    order.
    """

    messages: list[Message]
    n_left: int
    known: frozenset[str]
    session: str = ""
    shown: dict[int, ShownKnowledge] = field(default_factory=dict)
    summary: Summary = NO_SUMMARY


class Ledger:
    """Notes of one user. Thread-safe; a memory that fails costs the notes, not the request."""

    def __init__(self, memory: Memory, user_id: str) -> None:
        self._notes = memory.ledger
        self._user_id = user_id

    def restore(self, messages: Sequence[Message], hashes: Sequence[str] = ()) -> Restored:
        """Return `messages` with their tails, except the newest one, which is unchanged.

        The given messages are not changed. `hashes` are theirs, if the caller has them. Costs one hash over
        all texts and one query.
        """
        hashes = hashes or conversation_hashes(messages)
        # The newest message is answered anew; its own note is of no use.
        earlier = zip(hashes[:-1], messages[:-1], strict=True)
        asked = [key for key, message in earlier if message.role == "user"]
        notes = self._find(asked[-_LOOKED_UP:])
        restored, n_left, session, summary = list(messages), 0, "", NO_SUMMARY
        shown: dict[int, ShownKnowledge] = {}
        for i, message in enumerate(messages[:-1]):
            if text := notes.get(hashes[i]):
                note = _note(text)
                restored[i] = _with_tail(message, note)
                if note.is_first:
                    n_left, summary = i, note.summary
                session = note.session or session
                shown[i] = note.shown
        return Restored(restored, n_left, frozenset(notes), session, shown, summary)

    def record(
        self,
        messages: Sequence[Message],
        restored: Restored,
        *,
        n_left: int = 0,
        stripped: Collection[int] = (),
        session: str = "",
        shown: ShownKnowledge | None = None,
        summary: Summary = NO_SUMMARY,
    ) -> None:
        """Store what the model is about to see of this conversation, which `restored` describes.

        That is the newest message's tail, time, `session` and `shown` nodes; the `session` of the question
        before a result of a tool, if nothing of the conversation was stored before; the index `n_left` of the
        first message still in the window, 0 if none was evicted since; the `summary` that replaces the
        evicted ones; and the indices of messages whose tails were `stripped`.
        """
        hashes = conversation_hashes(messages)
        firsts = {n_left} if n_left else set()
        written, removed = {}, []
        # Only messages of the user have notes.
        asked = [i for i, message in enumerate(messages) if message.role == "user"][-1:]
        begun = asked if session and not restored.session else []
        for i in {len(messages) - 1, *begun, *firsts, *stripped}:
            message = messages[i]
            if message.role != "user":
                continue
            tail = "" if i in stripped else _tail(message)
            is_first = i in firsts or i == restored.n_left > 0
            noted = (shown if i == len(messages) - 1 else restored.shown.get(i)) or ShownKnowledge()
            parts = message.injected.parts if tail and message.injected is not None else ()
            left = summary.public if is_first else NO_SUMMARY
            if note := _Note(tail, is_first, session, message.created_at, parts, noted, left).written():
                written[hashes[i]] = note
            elif i == len(messages) - 1 or hashes[i] in restored.known:
                removed.append(hashes[i])
        if written or removed:
            self._put(written, removed, restored.known)

    def _find(self, hashes: Sequence[str]) -> dict[str, str]:
        if not hashes:
            return {}
        try:
            return self._notes.find(hashes, self._user_id)
        except ShepherdError as error:
            _log.info("ledger: %s", error)
            return {}

    def _put(self, notes: dict[str, str], removed: Sequence[str], used: Collection[str]) -> None:
        try:
            self._notes.put(notes, self._user_id, removed=removed, used=used)
        except ShepherdError as error:
            _log.info("ledger: %s", error)


def conversation_hashes(messages: Sequence[Message]) -> list[str]:
    """Return for each message a hash of the conversation up to it: roles, texts and calls, without tails."""
    chain = hashlib.blake2b(digest_size=_DIGEST_BYTES, person=b"shepherd-ledger")
    hashes = []
    for message in messages:
        fields = [message.role, message.content, message.tool_call_id]
        for call in message.tool_calls:
            fields += [call.id, call.name, call.arguments]
        fields += [picture.digest.hex() for picture in message.pictures]
        # The lengths make the encoding unambiguous.
        pieces: list[bytes] = []
        for text in (str(len(fields)), *fields):
            data = text.encode("utf-8", "surrogatepass")
            pieces += (len(data).to_bytes(8, "little"), data)
        chain.update(b"".join(pieces))
        hashes.append(chain.hexdigest())
    return hashes


@dataclass(frozen=True, slots=True)
class _Note:
    """Stored note of one message; `at` is in unix seconds, 0 if unknown."""

    tail: str
    is_first: bool
    session: str
    at: int
    parts: tuple[str, ...] = ()
    shown: ShownKnowledge = ShownKnowledge()
    summary: Summary = NO_SUMMARY

    def written(self) -> str:
        """Return the note as ASCII JSON, which preserves any text; empty when there is nothing to store."""
        parts: dict[str, object] = {
            "tail": self.tail,
            "first": self.is_first,
            "in": self.session,
            "parts": self.parts,
            "hubs": self.shown.hubs,
            "blocks": self.shown.blocks,
            "workflows": self.shown.workflows,
            "summary": self.summary.pieces,
            "summed": self.summary.n_turns,
        }
        said = {key: part for key, part in parts.items() if part}
        if said and self.at:
            said["at"] = self.at
        return json.dumps(said, separators=(",", ":")) if said else ""

    @classmethod
    def read(cls, text: str) -> _Note:
        parts = json.loads(text)
        return cls(
            str(parts.get("tail", "")),
            bool(parts.get("first", False)),
            str(parts.get("in", "")),
            int(parts.get("at", 0)),
            tuple(map(str, parts.get("parts", ()))),
            ShownKnowledge(
                tuple((int(id), str(title), int(n)) for id, title, n in parts.get("hubs", ())),
                bool(parts.get("blocks", False)),
                tuple((int(id), str(title), str(text)) for id, title, text in parts.get("workflows", ())),
            ),
            Summary(tuple(map(str, parts.get("summary", ()))), int(parts.get("summed", 0))),
        )


def _bytes_of_note(key: tuple[Hashable, ...], note: _Note) -> int:
    # The text is ASCII, and the parsed note has its parts once more.
    return _NOTE_BYTES + len(str(key[0])) + 4 * len(note.tail)


_note = CachedFunction(_Note.read, max_entries=_READ, max_bytes=_READ_BYTES, size_of=_bytes_of_note)


def _tail(message: Message) -> str:
    text = _text_before_tail(message)
    return message.sent[len(text) :] if message.sent.startswith(text) else ""


def _text_before_tail(message: Message) -> str:
    """Return the text that clients send again, which has the places of pictures but not its documents."""
    return message.content if message.pictures else message.raw


def _with_tail(message: Message, note: _Note) -> Message:
    restored = message.copy()
    restored.sent = _text_before_tail(message) + note.tail
    if note.parts:
        restored.injected = Injection(note.tail, parts=note.parts)
    restored.created_at = message.created_at or note.at
    return restored
