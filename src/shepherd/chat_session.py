"""A conversation whose provider can change, with everything it needs.

Each provider has its own rules of memory. Its model is opened when it is chosen, and closed when another one
is; the memory is opened by the first provider that may use it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.factory import (
    extracts,
    model_path,
    open_engine,
    open_memory_or_warn,
    persistent_kv_cache,
    summarizer_of,
    sums_up,
    worked,
)
from shepherd.inference.hub import Report
from shepherd.memory import Memory
from shepherd.paths import from_home, mcp_file
from shepherd.providers import ProviderSettings, ProviderTable
from shepherd.tools import AssistantTool, Confirm, chosen_servers, opened_servers, read_servers
from shepherd.turn.components import ModelAccess

__all__ = ["Session"]

# Window of the model that extracts entities: the beginning of a long message, and a list.
_READER_WINDOW = 2048
OpensMemory = Callable[[Config, Callable[[str, str], None]], tuple[Memory | None, bool]]


@dataclass(frozen=True, slots=True)
class _Opened:
    """A provider, its model and rights, and the stack that closes them."""

    provider: ProviderSettings
    access: ModelAccess
    stack: ExitStack


class Session:
    """One assistant and its current provider; for one thread, and closed by `with`.

    `model` overrides the provider's. Cheap checks come first. A database that is locked, full or read-only
    costs a warning and the memory, unless `opens_memory` is stricter; a wrong one raises StoreError.
    `loading` is called with a message before slow work, and with "" after it; `report` for downloads.
    `confirm` is asked before a tool of another program may change something; without it such tools are
    refused. `is_limited`: the setting `max_tokens` was given for this session, and overrides the provider's.
    """

    def __init__(
        self,
        config: Config,
        *,
        model: str = "",
        memory: bool = True,
        warn: Callable[[str, str], None],
        loading: Callable[[str], None] = lambda text: None,
        report: Report = lambda event: None,
        confirm: Confirm | None = None,
        is_limited: bool = False,
        opens_memory: OpensMemory = open_memory_or_warn,
    ) -> None:
        self.config = config
        self.is_limited = is_limited
        self.table = ProviderTable()
        self._with_memory, self._opens_memory = memory, opens_memory
        self._warn, self._loading, self._report = warn, loading, report
        self._memory: tuple[Memory | None, bool] | None = None
        self._assistant: Assistant | None = None
        self._servers = ExitStack()
        self._parts = self._open(self._chosen(config.provider, model))
        parts = self._parts
        self._assistant = Assistant(
            parts.access,
            config=replace(config, max_tokens=self._max_tokens(parts.provider)),
            tools=self._tools_of_servers(confirm),
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def assistant(self) -> Assistant:
        """Assistant of the conversation."""
        assert self._assistant is not None
        return self._assistant

    @property
    def provider(self) -> ProviderSettings:
        """Current provider."""
        return self._parts.provider

    @property
    def is_writable(self) -> bool:
        """True if the memory may be written."""
        return self._parts.access.writes_memory

    def switch(self, name: str, model: str = "") -> ProviderSettings:
        """Change the provider; on an error the old one stays."""
        parts = self._open(self._chosen(name, model))
        try:
            self.assistant.switch(parts.access)
        except BaseException:
            parts.stack.close()
            raise
        before, self._parts = self._parts, parts
        before.stack.close()
        max_tokens = self._max_tokens(parts.provider)
        self.assistant.config = replace(self.assistant.config, max_tokens=max_tokens)
        return parts.provider

    def close(self) -> None:
        """Close everything. May be called twice."""
        self._servers.close()
        self._parts.stack.close()
        if self._memory is not None and self._memory[0] is not None:
            self._memory[0].close()

    def _tools_of_servers(self, confirm: Confirm | None) -> list[AssistantTool]:
        """Return the tools of the chosen servers of mcp.json, which run until the session ends."""
        if not self.config.mcp_servers:
            return []
        try:
            specs = chosen_servers(read_servers(mcp_file()), self.config.mcp_servers)
            opened = opened_servers(specs, confirm=confirm, warn=self._warn)
            return self._servers.enter_context(opened)
        except BaseException:
            self._parts.stack.close()
            raise

    def _chosen(self, name: str, model: str) -> ProviderSettings:
        provider = self.table.get(name)
        return replace(provider, model=model) if model else provider

    def _max_tokens(self, provider: ProviderSettings) -> int:
        """Token limit of an answer: one given for the session wins, then the provider's, then the setting."""
        return self.config.max_tokens if self.is_limited else provider.max_tokens or self.config.max_tokens

    def _open(self, provider: ProviderSettings) -> _Opened:
        with ExitStack() as stack:
            open_parts = self._open_local if provider.is_local else self._open_remote
            return replace(open_parts(provider, stack), stack=stack.pop_all())

    def _open_local(self, provider: ProviderSettings, stack: ExitStack) -> _Opened:
        # Cheap checks first: the file's name, the database, loading the model.
        config = replace(self.config, model=provider.model or self.config.model)
        path = model_path(config, self._report)
        memory, is_writable = self._memory_for(provider)
        engine = open_engine(config, path, loading=self._loading)
        stack.callback(engine.close)
        if config.session_cache:
            file = from_home(config.session_cache, "session_cache")
            stack.enter_context(persistent_kv_cache(engine, file, self._warn))
        worker = None
        if self._learns(provider, memory, is_writable, path):
            assert memory is not None
            worker = stack.enter_context(worked(memory, config, path, engine))
        summarizer = None
        if sums_up(config, path):
            summarizer = stack.enter_context(summarizer_of(config, lambda n: engine.sibling(n_ctx=n), engine))
        reader = None
        if config.entity_extraction:
            from shepherd.entities import EntityReader

            reader = stack.enter_context(closing(EntityReader(lambda: engine.sibling(n_ctx=_READER_WINDOW))))
        access = ModelAccess(
            engine,
            memory,
            writes_memory=is_writable,
            extraction=worker,
            summarizer=summarizer,
            reader=reader,
            forgetful=not provider.uses_memory,
        )
        return _Opened(provider, access, stack)

    def _open_remote(self, provider: ProviderSettings, stack: ExitStack) -> _Opened:
        from shepherd.providers import open_remote

        model = open_remote(provider, sends=set(self.config.sampling), asks_memory=self._asks_memory)
        stack.callback(model.close)
        memory, is_writable = self._memory_for(provider)
        worker = None
        if self._learns(provider, memory, is_writable, None):
            assert memory is not None
            worker = stack.enter_context(worked(memory, self.config, None, None))
        summarizer = None
        if sums_up(self.config, None) and provider.kind != "shepherd":
            # A client of its own: the conversation's may be busy.
            summarizer = stack.enter_context(
                summarizer_of(self.config, lambda _: open_remote(provider, sends=set()), model)
            )
        access = ModelAccess(
            model,
            memory,
            writes_memory=is_writable,
            extraction=worker,
            summarizer=summarizer,
            shows_private=False,
            forgetful=not provider.uses_memory,
        )
        return _Opened(provider, access, stack)

    def _learns(
        self, provider: ProviderSettings, memory: Memory | None, is_writable: bool, path: Path | None
    ) -> bool:
        return provider.uses_memory and memory is not None and is_writable and extracts(self.config, path)

    def _memory_for(self, provider: ProviderSettings) -> tuple[Memory | None, bool]:
        """Return the memory, which stays open for /memory and /undo."""
        if self._memory is None and self._with_memory and provider.uses_memory:
            self._memory = self._opens_memory(self.config, self._warn)
            if self._memory[0] is not None:
                self._memory[0].wake_vectors()
        return self._memory or (None, False)

    def _asks_memory(self) -> bool:
        return self._with_memory and (self._assistant is None or not self._assistant.private)
