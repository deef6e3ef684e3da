"""A conversation whose provider can change. Each provider has its own rules of memory.

A session opens what a provider needs when it is chosen, and closes it when another one is. The memory is
opened by the first provider that can use it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.factory import learning_of, open_engine, running_worker, summarizer_of, sums_up
from shepherd.inference import Engine
from shepherd.inference.hub import Report
from shepherd.memory import Memory
from shepherd.memory_factory import is_memory_encrypted, open_memory_or_warn
from shepherd.model_files import model_path
from shepherd.paths import mcp_file
from shepherd.providers import ChatModel, ProviderSettings, ProviderTable
from shepherd.tools import AssistantTool, Confirm, chosen_servers, opened_servers, read_servers
from shepherd.turn.components import ModelAccess

__all__ = ["Session"]

# Window of the model that looks for entities in messages: the beginning of a long message, and a list.
_READER_WINDOW = 2048
OpensMemory = Callable[[Config, Callable[[str, str], None]], tuple[Memory | None, bool]]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A provider, access to its model, and the stack that closes it."""

    provider: ProviderSettings
    access: ModelAccess
    stack: ExitStack


class Session:
    """An assistant and the provider it uses. A context manager; use it from one thread.

    `model` overrides the provider's. Mistakes are found in the order of their cost. A database that is busy,
    full or read-only leads to a warning and a session without memory; one that is invalid raises StoreError.
    `loading` is called with what takes time, and with "" when that is over; `report` is called for downloads.
    `confirm` is asked before a tool of another program may change something; without it that is refused. With
    `is_limited` the setting `max_tokens` was given for this session, and wins over the provider's.
    `closing` is called with what takes time when a provider or the session is closed, and then with "".
    `opens_memory` replaces the policy for a memory that cannot be opened. `at_end` is called with the memory
    and its user when the worker has ended and before the memory is closed, but not in private.
    """

    def __init__(
        self,
        config: Config,
        *,
        model: str = "",
        memory: bool = True,
        warn: Callable[[str, str], None],
        loading: Callable[[str], None] = lambda text: None,
        closing: Callable[[str], None] = lambda text: None,
        report: Report = lambda event: None,
        confirm: Confirm | None = None,
        is_limited: bool = False,
        opens_memory: OpensMemory = open_memory_or_warn,
        at_end: Callable[[Memory, str], object] | None = None,
    ) -> None:
        self.config = config
        self.is_limited = is_limited
        self.table = ProviderTable()
        self._with_memory, self._opens_memory = memory, opens_memory
        self._warn, self._loading, self._report, self._at_end = warn, loading, report, at_end
        self._closing = closing
        self._memory: tuple[Memory | None, bool] | None = None
        self._assistant: Assistant | None = None
        self._servers = ExitStack()
        self._opened = self._open(self._named(self.table.configured(config.provider), model))
        own = self._opened.access.memory
        self._assistant = Assistant(
            self._opened.access,
            user_id=own.user_id if own is not None else "",
            config=replace(config, max_tokens=self._max_tokens(self._opened.provider)),
            tools=self._tools_of_servers(confirm),
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def assistant(self) -> Assistant:
        """The conversation."""
        assert self._assistant is not None
        return self._assistant

    @property
    def provider(self) -> ProviderSettings:
        """The provider that answers."""
        return self._opened.provider

    @property
    def access(self) -> ModelAccess:
        """The model, and what it may do with the memory."""
        return self._opened.access

    def switch(self, name: str, model: str = "") -> ProviderSettings:
        """Continue with another provider; when it cannot be opened, raises and keeps the present one."""
        opened = self._open(self._named(self.table.get(name), model))
        try:
            self.assistant.switch(opened.access)
        except BaseException:
            opened.stack.close()
            raise
        before, self._opened = self._opened, opened
        before.stack.close()
        max_tokens = self._max_tokens(opened.provider)
        self.assistant.config = replace(self.assistant.config, max_tokens=max_tokens)
        return opened.provider

    def close(self) -> None:
        """Close everything. Can be called twice, also where the first call was interrupted."""
        (memory, _), self._memory = self._memory or (None, False), None
        try:
            self._servers.close()
            self._opened.stack.close()
            if memory and self._at_end and self._assistant is not None and not self._assistant.private:
                self._at_end(memory, self._assistant.user_id)
        finally:
            if memory is not None:
                memory.close()

    def _tools_of_servers(self, confirm: Confirm | None) -> list[AssistantTool]:
        """Start the chosen servers of mcp.json, which run until the session ends; returns their tools."""
        if not self.config.mcp_servers:
            return []
        try:
            specs = chosen_servers(read_servers(mcp_file()), self.config.mcp_servers)
            opened = opened_servers(
                specs, confirm=confirm, warn=self._warn, keeps_logs=not is_memory_encrypted(self.config)
            )
            return self._servers.enter_context(opened)
        except BaseException:
            self._opened.stack.close()
            raise

    @staticmethod
    def _named(provider: ProviderSettings, model: str) -> ProviderSettings:
        return replace(provider, model=model) if model else provider

    def _max_tokens(self, provider: ProviderSettings) -> int:
        """Token limit of an answer: an explicit request wins, then the provider's limit, then the setting."""
        return self.config.max_tokens if self.is_limited else provider.max_tokens or self.config.max_tokens

    def _open(self, provider: ProviderSettings) -> _Opened:
        config, path = self.config, None
        engine: Engine | None = None
        with ExitStack() as stack:
            # What is called last when it closes.
            stack.callback(self._closing, "")
            # In the order of what a mistake costs: the file's name or the key, the database, the loading.
            if provider.is_local:
                projector, draft_model = config.mmproj, config.draft_model
                if provider.model not in (
                    "",
                    config.model,
                ):  # the files that are named belong to the other model
                    projector, draft_model = "none" if projector == "none" else "", ""
                config = replace(config, model=provider.model or config.model)
                path = model_path(config, self._report)
                memory, is_writable = self._memory_for(provider)
                engine = open_engine(
                    config,
                    path,
                    loading=self._loading,
                    keeps=is_writable,
                    projector=projector,
                    draft_model=draft_model,
                )
                model: ChatModel = engine
                stack.callback(engine.close)
                if engine.kept() is not None:
                    stack.callback(self._closing, "saving the conversation …")
            else:
                from shepherd.providers import open_remote

                model = remote = open_remote(
                    provider, sends=set(config.sampling), asks_memory=self._asks_memory
                )
                stack.callback(remote.close)
                memory, is_writable = self._memory_for(provider)

            def open_another(n_ctx: int) -> ChatModel:
                if engine is not None:
                    return engine.sibling(n_ctx=n_ctx)
                # A client of its own, since the conversation's may be busy with an answer.
                return open_remote(provider, sends=set())

            worker = summarizer = reader = None
            learning = learning_of(
                config,
                path,
                uses_memory=provider.uses_memory and memory is not None,
                is_writable=is_writable,
            )
            if learning.remedy:
                self._warn(f"nothing is learned: {learning.reason}", learning.remedy)
            if learning.is_on and memory is not None:
                worker = stack.enter_context(running_worker(memory, config, path, engine))
                stack.callback(self._closing, "learning from your last messages; Ctrl-C skips it …")
            if sums_up(config, path) and provider.kind != "shepherd":
                summarizer = stack.enter_context(summarizer_of(config, open_another, model))
            if engine is not None and config.entity_extraction:
                from shepherd.entities import EntityReader

                open_reader = partial(engine.sibling, n_ctx=_READER_WINDOW)
                reader = stack.enter_context(closing(EntityReader(open_reader)))
            access = ModelAccess(
                model,
                memory,
                writes_memory=is_writable,
                extraction=worker,
                learning=learning,
                summarizer=summarizer,
                reader=reader,
                shows_private=provider.is_local,
                forgetful=not provider.uses_memory,
            )
            return _Opened(provider, access, stack.pop_all())

    def _memory_for(self, provider: ProviderSettings) -> tuple[Memory | None, bool]:
        """Open the memory on first use; it then stays open, since /memory and /undo work on it."""
        if self._memory is None and self._with_memory and provider.uses_memory:
            self._memory = self._opens_memory(self.config, self._warn)
            opened = self._memory[0]
            if opened is not None:
                opened.wake_vectors()
                if self._assistant is not None:  # the providers before had no memory
                    self._assistant.user_id = opened.user_id
        return self._memory or (None, False)

    def _asks_memory(self) -> bool:
        """Return whether another Shepherd may use its memory: it cannot tell what is attached from words."""
        assistant = self._assistant
        return self._with_memory and (assistant is None or not (assistant.private or assistant.is_composed))
