"""The boundary of a blind memory: what its server gets, and what comes back, statement by statement.

Everything above works with plain texts, everything below sees none: Connection hands each statement with its
parameters to BlindColumns, and the rows of the result. A text that cannot be placed is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shepherd.encryption import blinding
from shepherd.encryption.blinding import PREFIX, BlindError, UserCipher
from shepherd.encryption.user_keys import Ciphers, TransactionKeys
from shepherd.errors import StoreCorruptError, UsageError
from shepherd.memory.postgres.blind_columns import COLUMNS, PLAIN, Kind
from shepherd.memory.postgres.blind_statements import LITERALS, Plan, plan_of
from shepherd.memory.postgres.user_keys import Exchange, Lookup
from shepherd.memory.postgres.wire import Bound
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["BlindColumns"]

_Row = tuple[Any, ...]


class BlindColumns:
    """Hides the texts and words of one database. `shown`: its address, for messages.

    Without `binds_rows` (the first format), the server can move texts between rows of a user. All methods
    raise UnknownKeyError for a user's key that has to be looked up first.
    """

    def __init__(self, ciphers: Ciphers, shown: str, *, binds_rows: bool = True) -> None:
        self._ciphers = ciphers
        self._shown = shown
        self._binds_rows = binds_rows

    @property
    def keys(self) -> TransactionKeys | None:
        """The users' keys, None in a memory whose users have none."""
        return self._ciphers if isinstance(self._ciphers, TransactionKeys) else None

    def for_transaction(self) -> BlindColumns:
        """Return the columns as one transaction uses them."""
        keys = self.keys
        if keys is None:
            return self
        return BlindColumns(TransactionKeys(keys.kept), self._shown, binds_rows=self._binds_rows)

    def lookup(self, exchange: Exchange, same_key: Sequence[Bound], *, makes_keys: bool) -> Lookup:
        """Return what finds the users' keys of a transaction."""
        assert self.keys is not None
        return Lookup(self.keys, self._shown, exchange, same_key, makes_keys=makes_keys)

    # ---- to the server

    def hidden(
        self, statement: str, rows: Sequence[Sequence[Any]], user_id: str
    ) -> tuple[str, Sequence[Sequence[Any]], Plan | None]:
        """Return a statement and its rows of parameters as they are sent, and how to read the result.

        `user_id`: whose transaction it is, "" if unknown. A statement that names a user is that one's.
        Raises UsageError for what a blind memory does not store.
        """
        plan = plan_of(statement)
        if plan is None:
            return statement, rows, None
        if plan.refused:
            raise self._refusal(plan.refused)
        return plan.statement, [self._row(plan, row, user_id) for row in rows], plan

    def copied(self, table: str, columns: str, rows: Sequence[Sequence[Any]], user_id: str) -> list[_Row]:
        """Return rows of a table, which are copied without a statement, as they are sent."""
        names = [name.strip() for name in columns.split(",")]
        kinds = [COLUMNS[table][name] for name in names]
        copied = []
        for row in rows:
            owner = row[names.index("user_id")] if "user_id" in names else user_id
            values = [
                self._value(kind, value, owner, [row[names.index(name)] for name in kind.rows])
                for kind, value in zip(kinds, row, strict=True)
            ]
            copied.append(_without_order(kinds, values))
        return copied

    def words(self, words: Sequence[str]) -> list[str]:
        """Return words with their user's number as they are stored."""
        return self._words(words, "")

    def size_of(self, table: str, column: str, n_bytes: int) -> int:
        """Return the bytes that a text of so many takes in a column."""
        kind = COLUMNS[table][column]
        return blinding.size_of(n_bytes, is_random=kind.form == "random")

    def _refusal(self, what: str) -> UsageError:
        return UsageError(
            f"{self._shown}: a blind memory keeps no {what}",
            hint="memory_blind is on: use another memory for them, without that setting",
        )

    def _row(self, plan: Plan, row: Sequence[Any], user_id: str) -> Sequence[Any]:
        owner = self._owner(plan, row, user_id)
        kinds = [parameter.kind for parameter in plan.parameters]
        if len(kinds) != len(row):
            raise ValueError(f"{len(kinds)} places for {len(row)} parameters: {plan.statement}")
        sent = []
        for one, value in zip(plan.parameters, row, strict=True):
            if one.kind is None and _has_text(value):
                raise ValueError(f"a text without a column: {plan.statement}")
            of_row = [row[place] for place in one.rows]
            sent.append(value if one.kind is None else self._value(one.kind, value, owner, of_row))
        # Scores are added up in the order of the words that are looked for.
        return _without_order(kinds, sent) if plan.stores else sent

    def _owner(self, plan: Plan, row: Sequence[Any], user_id: str) -> str:
        named = [value for value, one in zip(row, plan.parameters, strict=False) if one.is_user]
        # A change of the owner would need other ciphertexts.
        return str(named[0]) if named else user_id

    def _value(self, kind: Kind, value: Any, owner: str, row: blinding.Row) -> Any:
        if kind is PLAIN or value is None:
            return value
        if kind.form == "refused":
            # Also of a search: its words would tell the server what is asked.
            raise self._refusal(kind.name)
        if kind.form == "words":
            return self._words(value, owner)
        if not value:
            # No text, no bytes, no label.
            return value
        cipher = self._cipher_of(kind, owner, row)
        self._ciphers.note_used(cipher)
        if kind.form == "number":
            return cipher.number(value)
        if kind.form == "bytes":
            return cipher.data(value, *self._place(kind, row))
        if isinstance(value, str) and value.startswith("{") and kind.name == "hash of a memory":
            # An array, as a text of hexadecimal digits: see postgres/terms.py.
            hidden = [self._text(kind, one, cipher, row) for one in value[1:-1].split(",")]
            return "{" + ",".join(hidden) + "}"
        return self._text(kind, value, cipher, row)

    def _words(self, words: Sequence[str], owner: str) -> list[str]:
        if not words:
            return []
        # t17_word, of user 17.
        cipher = (
            self._ciphers.of_user(owner)
            if owner and self._ciphers.are_kept
            else self._ciphers.of_number(int(words[0][1:].partition("_")[0]))
        )
        self._ciphers.note_used(cipher)
        return cipher.words(words)

    def _cipher_of(self, kind: Kind, owner: str, row: blinding.Row) -> UserCipher:
        if not self._ciphers.are_kept and (kind.form == "number" or not kind.of_user):
            return self._ciphers.of_nobody()
        if owner:
            return self._ciphers.of_user(owner)
        if kind.of_memory and self._ciphers.are_kept:
            return self._ciphers.of_number(_number_in(row))
        raise ValueError(f"a text of nobody: {kind.name}")

    def _text(self, kind: Kind, text: str, cipher: UserCipher, row: blinding.Row) -> str:
        return cipher.text(text, *self._place(kind, row), is_random=kind.form == "random")

    def _place(self, kind: Kind, row: blinding.Row) -> tuple[str, blinding.Row | None]:
        """Return the kind and the row that are authenticated along with a text."""
        return (kind.name, row) if self._binds_rows else (kind.before or kind.name, None)

    # ---- from the server

    def shown(self, plan: Plan, rows: Sequence[_Row], parameters: Sequence[Any], user_id: str) -> list[_Row]:
        """Return the rows of a result with plain texts, in the order that was asked for.

        Raises BlindError for a text of another user, or one that was not made by Shepherd.
        """
        owner = self._owner(plan, parameters, user_id)
        found = [self._row_shown(plan, row, owner) for row in rows]
        return sorted(found, key=_by(plan.order)) if plan.order else found

    def changed(self) -> StoreCorruptError:
        """Return the error for what `shown` raises BlindError for."""
        return StoreCorruptError(
            f"{self._shown}: a stored text was changed, or moved there from another user, row or column",
            hint="if the memory's key was changed in the meantime, restart Shepherd with the new key;"
            " otherwise the database was changed by something other than Shepherd: restore a backup of"
            " the server",
        )

    def _row_shown(self, plan: Plan, row: _Row, owner: str) -> _Row:
        plain = list(row)
        # Decrypt the columns that identify a row first: they aren't bound to a row themselves.
        later = []
        for place, one in enumerate(plan.results):
            if one.rows:
                later.append((place, one))
            else:
                plain[place] = self._plain(one.kind, row[place], owner, ())
        for place, one in later:
            plain[place] = self._plain(one.kind, row[place], owner, [plain[named] for named in one.rows])
        return tuple(plain[plan.n_added :])

    def _plain(self, kind: Kind | None, value: Any, owner: str, row: blinding.Row) -> Any:
        if value is None or (kind is not None and not kind.is_hidden):
            return value
        if kind is None:
            # An expression over columns that the server can read, or their size.
            if isinstance(value, str) and value.startswith(PREFIX):
                raise BlindError
            return value
        if kind.form == "words" or not value or value in LITERALS:
            return value
        if kind.form == "number":
            return self._cipher_of(kind, owner, row).number_of(value)
        if kind.form != "bytes" and not value.startswith(PREFIX):
            raise BlindError
        cipher = self._cipher_of_stored(kind, value, owner)
        if kind.form == "bytes":
            return cipher.data_of(value, *self._place(kind, row))
        return cipher.text_of(value, *self._place(kind, row), is_random=kind.form == "random")

    def _cipher_of_stored(self, kind: Kind, value: str | bytes, owner: str) -> UserCipher:
        if not self._ciphers.are_kept and not kind.of_user:
            return self._ciphers.of_nobody()
        return self._ciphers.of_user(owner) if owner else self._ciphers.of_tag(blinding.tag_of(value))


def _number_in(row: blinding.Row) -> int:
    """Return the number of the user whose memory has this id."""
    [memory_id] = row
    return int(memory_id or 0) >> SEQUENCE_BITS


def _has_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, (list, tuple)) and any(map(_has_text, value)))


def _without_order(kinds: Sequence[Kind | None], row: list[Any]) -> _Row:
    """Sort the words of a row, which tell the order of a text otherwise, and the counts with their words."""
    lists = [
        place for place, kind in enumerate(kinds) if kind is not None and kind.form == "words" and row[place]
    ]
    if not lists:
        return tuple(row)
    row[lists[0]] = sorted(row[lists[0]])
    for place in lists[1:]:
        pairs = sorted(zip(row[place], row[place + 1], strict=True))
        row[place], row[place + 1] = [word for word, _ in pairs], [n for _, n in pairs]
    return tuple(row)


def _by(places: Sequence[int]) -> Callable[[_Row], tuple[Any, ...]]:
    def key(row: _Row) -> tuple[Any, ...]:
        return tuple((row[place] is None, "" if row[place] is None else row[place]) for place in places)

    return key
