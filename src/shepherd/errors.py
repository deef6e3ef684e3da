"""All errors that Shepherd raises on purpose, by cause.

    ShepherdError                  exit 1   message: what happened, where; hint: what to do
    ├── UsageError                 exit 2   the caller's mistake
    │   ├── ConfigError                     config.json: bad syntax, key or value
    │   └── ContextOverflowError            the prompt does not fit the model's window
    ├── StoreError                 exit 1   the memory database
    │   ├── StoreLockedError                another process has locked it for too long
    │   ├── StoreFullError                  no space left on its disk, or by max_db_size
    │   ├── StoreReadOnlyError              its file or folder cannot be written
    │   ├── StoreMissingError               there is none yet, and it was opened to read
    │   ├── StoreKeyError                   it is encrypted, and its key is missing or wrong
    │   ├── StoreCorruptError               its pages do not make sense
    │   └── ForeignDatabaseError            another program's, or a newer Shepherd's
    ├── ModelError                 exit 1   the model file or the engine
    │   ├── ModelFormatError                not a GGUF, or cut short
    │   ├── ModelLoadError                  llama.cpp refused it, or memory ran out
    │   ├── TemplateError                   its chat template cannot be rendered
    │   ├── NoTokenError                    logit_bias forbids every token that could come next
    │   └── ProviderError                   a remote model, or its server
    │       ├── ProviderKeyError            the API key is missing, wrong, or may not do this
    │       ├── ProviderRefusedError        it refused this request
    │       └── ProviderUnavailableError    unreachable, overloaded or broken; try again later
    ├── DocumentError              exit 1   a file or page of others that cannot be read
    │   ├── EmptyDocumentError              it has no text
    │   └── NotTextError                    it isn't text
    └── InternalError              exit 1   our own bug; please report it

User text and secrets do not go into messages.
"""

from __future__ import annotations

__all__ = [
    "NEW_CONVERSATION",
    "ConfigError",
    "ConflictError",
    "ContextOverflowError",
    "DocumentError",
    "EmptyDocumentError",
    "ForeignDatabaseError",
    "InternalError",
    "ModelError",
    "ModelFormatError",
    "ModelLoadError",
    "NoTokenError",
    "NotTextError",
    "ProviderError",
    "ProviderKeyError",
    "ProviderRefusedError",
    "ProviderUnavailableError",
    "ShepherdError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreKeyError",
    "StoreLockedError",
    "StoreMissingError",
    "StoreReadOnlyError",
    "TemplateError",
    "UsageError",
    "reason_of",
]

# Advice of many hints; frontends with slash commands add the command for it.
NEW_CONVERSATION = "start a new conversation"


class ShepherdError(Exception):
    """An expected failure: `str(error)` says what failed and where, `hint` what to do."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are unpickled by a call with their arguments, which are not those of every subclass.
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[ShepherdError], arguments: tuple[object, ...]) -> ShepherdError:
    return kind.__new__(kind, *arguments)


class UsageError(ShepherdError):
    """The caller made a mistake: an invalid argument, key or value."""

    exit_code = 2


class ConflictError(UsageError):
    """What was to be changed, or added to, was changed or deleted by somebody else meanwhile."""


class SecretError(UsageError):
    """Text that looks like a password, a key or another secret was to be stored."""


class ConfigError(UsageError):
    """config.json cannot be read as configuration; the message has the path, and line and column."""


class ContextOverflowError(UsageError):
    """The prompt is longer than the model's window; attributes have both lengths."""

    def __init__(self, message: str, *, prompt_tokens: int, window_tokens: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.prompt_tokens = prompt_tokens
        self.window_tokens = window_tokens


class StoreError(ShepherdError):
    """The memory database failed; nothing acknowledged is lost."""


class StoreLockedError(StoreError):
    """Another process held the database for longer than the busy timeout."""


class StoreFullError(StoreError):
    """The disk has no space left, or max_db_size leaves none; the transaction was rolled back."""


class StoreReadOnlyError(StoreError):
    """The database, or the folder that holds it, cannot be written."""


class StoreMissingError(StoreError):
    """There is no database, and it was opened to read."""


class StoreKeyError(StoreError):
    """The database is encrypted, and its key is missing or wrong; nothing is lost."""


class StoreCorruptError(StoreError):
    """The database file is damaged."""


class ForeignDatabaseError(StoreError):
    """The file belongs to another program or to a newer Shepherd; it was left untouched."""


class ModelError(ShepherdError):
    """The model file or the engine failed."""


class ModelFormatError(ModelError):
    """The file is not a GGUF, or it ends too early."""


class ModelLoadError(ModelError):
    """llama.cpp could not load the model or make a context for it."""


class TemplateError(ModelError):
    """The chat template of the model cannot be rendered."""


class NoTokenError(ModelError):
    """The logit_bias of a request forbids every token that could come next."""


class ProviderError(ModelError):
    """A remote model could not answer; the message names the provider, never the text or the key."""


class ProviderKeyError(ProviderError):
    """The provider does not accept the API key, or there is none."""


class ProviderRefusedError(ProviderError):
    """The provider rejects this request. `said` is its message, which may quote the user."""

    def __init__(self, message: str, *, hint: str = "", said: str = "") -> None:
        super().__init__(message, hint=hint)
        self.said = said


class ProviderUnavailableError(ProviderError):
    """The provider is unreachable or busy; `retry_after_s` is the wait it asked for, or 0.

    `is_absent` says that nothing listens at its address, or that the address does not exist.
    """

    def __init__(
        self, message: str, *, hint: str = "", retry_after_s: float = 0.0, is_absent: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s
        self.is_absent = is_absent


class DocumentError(ShepherdError):
    """A document cannot be fetched or read: damaged, locked, too large, of an unknown kind, or not there."""


class EmptyDocumentError(DocumentError):
    """A document has no text, such as a note that was never written."""


class NotTextError(DocumentError):
    """A file is neither text nor of a kind whose text can be read, such as a picture that is damaged."""


class InternalError(ShepherdError):
    """A bug of Shepherd."""


def reason_of(error: OSError) -> str:
    """Return why a file cannot be read, with the words of all other messages for one that is missing."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return error.strerror or type(error).__name__
