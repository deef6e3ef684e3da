"""Factory for the parts of a conversation, by the settings: engine, extraction worker, summarizer.

Every frontend starts here, or in shepherd.chat_session, so that a setting means the same in all of them; the
memory is opened by shepherd.memory_factory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shepherd.config import Config
from shepherd.config.file import load
from shepherd.errors import ConfigError, ShepherdError, UsageError
from shepherd.extraction import (
    EndpointExtractor,
    ExtractionWorker,
    Extractor,
    LocalExtractor,
    WorkerSettings,
)
from shepherd.extraction.local import WINDOW_TOKENS
from shepherd.http_endpoint import api_url
from shepherd.inference import Engine, EngineSettings, PriorityLock, load_check
from shepherd.inference.models import BUILT_IN, is_built_in
from shepherd.memory import Memory
from shepherd.model_files import existing_file, model_path
from shepherd.paths import from_home
from shepherd.prompt import Summarizer
from shepherd.providers import LOCAL
from shepherd.types import ANONYMOUS_USERS, Learning

if TYPE_CHECKING:
    from shepherd.providers import ChatModel

__all__ = [
    "engine_settings",
    "extraction_model",
    "learning_of",
    "open_engine",
    "open_named_engine",
    "own_summarizer",
    "running_worker",
    "summarizer_of",
    "sums_up",
]

# Time to learn from the last messages when a conversation ends.
_FLUSH_S = 1.5
# Window of the model that summarizes: what leaves an 8k window at once fits, in at most two parts.
_SUMMARY_WINDOW_TOKENS = 4096


def learning_of(
    config: Config,
    chat_model: Path | None,
    *,
    uses_memory: bool = True,
    is_writable: bool = True,
    for_everyone: bool = False,
) -> Learning:
    """Return whether facts are learned from messages, and with which model; connects to no endpoint.

    `auto` is on wherever the memory is, as `true` is: with the endpoint or the model that the settings name,
    else with the local chat model, else (for a remote one) with the bundled model. `uses_memory` is whether
    the provider uses the memory, and `is_writable` whether something can be stored in it. A missing model or
    an invalid endpoint address turns off learning only. Whether the endpoint answers isn't checked.
    """
    if not uses_memory:
        return Learning(reason="the memory is not used here")
    if not is_writable:
        return Learning(reason="the memory is read-only")
    if config.memory_extraction is False:
        return Learning(reason="memory_extraction is false")
    if not for_everyone and config.effective_user_id in ANONYMOUS_USERS:
        return Learning(reason="it is not known who you are; user_id or --user names you")
    try:
        return _learning_model(config, chat_model)
    except ShepherdError as error:
        return Learning(reason=str(error), remedy=error.hint)


def _learning_model(config: Config, chat_model: Path | None) -> Learning:
    if config.memory_extraction_endpoint:
        url = api_url("memory_extraction_endpoint", config.memory_extraction_endpoint, "")
        named = config.memory_extraction_model or "its default model"
        return Learning(True, named, urlsplit(url).hostname or url, "")
    own, where = _extraction_file(config, chat_model)
    if is_built_in(own):
        return Learning(True, BUILT_IN, "bundled", "")
    return Learning(True, own.stem, where, "")


def extraction_model(config: Config, chat_model: Path | None) -> Path | None:
    """Return the file of the model that learns, perhaps the chat's; None if an endpoint does, or nothing."""
    if config.memory_extraction is False or config.memory_extraction_endpoint:
        return None
    with suppress(ShepherdError):  # learning_of reports it
        return _extraction_file(config, chat_model)[0]
    return None


def _extraction_file(config: Config, chat_model: Path | None) -> tuple[Path, str]:
    """Return the file of the model that learns on this machine, and whether it is "chat" or "local"."""
    if chat_model is not None and not config.memory_extraction_model:
        return chat_model, "chat"
    return existing_file(config.memory_extraction_model, "memory_extraction_model"), "local"


def sums_up(config: Config, chat_model: Path | None) -> bool:
    """Return whether turns that leave the window are summarized; `auto`: by a local, not bundled model.

    The bundled model is too small for it, and a remote one may cost money.
    """
    wanted = config.history_summary
    return chat_model is not None and not is_built_in(chat_model) if wanted == "auto" else wanted is True


@contextmanager
def summarizer_of(
    config: Config,
    open_model: Callable[[int], ChatModel],
    chat_model: ChatModel,
    *,
    queues: bool = False,
) -> Iterator[Summarizer]:
    """Give a summarizer; `open_model` gets a window in tokens, and opens its model on first use."""
    window = min(chat_model.window_tokens, _SUMMARY_WINDOW_TOKENS)
    summarizer = Summarizer(
        lambda: open_model(window), max_tokens=config.history_summary_tokens, queues=queues
    )
    try:
        yield summarizer
    finally:
        summarizer.close()


@contextmanager
def own_summarizer(config: Config, path: Path) -> Iterator[Summarizer | None]:
    """Give a summarizer that loads the model at `path` when needed, None where the settings want none."""
    if not sums_up(config, path):
        yield None
        return
    summarizer = Summarizer(
        lambda: open_engine(replace(config, n_ctx=_SUMMARY_WINDOW_TOKENS), path),
        max_tokens=config.history_summary_tokens,
    )
    try:
        yield summarizer
    finally:
        summarizer.close()


@contextmanager
def running_worker(
    memory: Memory,
    config: Config,
    path: Path | None,
    engine: Engine | None,
    *,
    for_everyone: bool = False,
    open_sibling: Callable[[int], Engine] | None = None,
    yields_to: Engine | PriorityLock | None = None,
) -> Iterator[ExtractionWorker]:
    """Give a running extraction worker; at the end it has a moment for the last messages.

    What it does not reach stays queued. With `for_everyone`, as in servers, it reads the messages of all
    users after each answer. A chat's model that is not always loaded is opened with `open_sibling`, which
    gets the largest window; the worker yields to `yields_to` then.
    """
    extractor = _extractor(config, path, engine, open_sibling, yields_to or engine)
    settings = WorkerSettings(
        # The bundled model, which quotes, is so fast that the user can see at once what it learned.
        min_turns=1 if for_everyone or extractor.facts_only else config.memory_extraction_min_turns,
        max_turns=config.memory_extraction_max_turns,
        idle_timeout_s=config.memory_extraction_idle_timeout,
        queue_limit=config.memory_extraction_queue_limit,
        secrets=config.memory_extraction_secrets,
    )
    worker = ExtractionWorker(
        memory,
        extractor,
        None if for_everyone else memory.user_id,
        settings=settings,
        retry_interval_s=lambda: _retry_interval_s(config),
    )
    worker.start()
    try:
        yield worker
        # A server has to stop soon, and will run again: its jobs wait in the database.
        if not for_everyone:
            worker.flush(_FLUSH_S)
    finally:
        worker.close()


def _extractor(
    config: Config,
    path: Path | None,
    engine: Engine | None,
    open_sibling: Callable[[int], Engine] | None,
    yields_to: Engine | PriorityLock | None,
) -> Extractor:
    if config.memory_extraction_endpoint:
        return EndpointExtractor(
            config.memory_extraction_endpoint,
            model=config.memory_extraction_model,
            api_key=config.memory_extraction_api_key,
            max_tokens=config.memory_extraction_max_tokens,
            temperature=config.memory_extraction_temperature,
        )
    own = extraction_model(config, path)
    assert own is not None
    built_in = is_built_in(own)

    def open_own() -> Engine:
        if open_sibling is not None and own == path:
            return open_sibling(WINDOW_TOKENS)
        if engine is not None and own == path:
            return engine.sibling(n_ctx=min(engine.window_tokens, WINDOW_TOKENS))
        return open_engine(replace(config, n_ctx=0), own, yields_to=yields_to)

    return LocalExtractor(
        open_own,
        max_tokens=config.memory_extraction_max_tokens,
        temperature=0.0 if built_in else config.memory_extraction_temperature,
        facts_only=built_in,
        apart=built_in,  # a small model makes fewer mistakes with one sentence at a time
    )


def _retry_interval_s(config: Config) -> float:
    """Return the present setting, which a user who waits for a server can shorten without a restart."""
    try:
        return load().config.memory_extraction_retry_interval
    except ConfigError:
        return config.memory_extraction_retry_interval


def open_engine(
    config: Config,
    path: Path,
    *,
    yields_to: Engine | PriorityLock | None = None,
    priority_lock: PriorityLock | None = None,
    loading: Callable[[str], None] = lambda text: None,
    slots: int = 1,
    windows: int = 1,
    keeps: bool = False,
    projector: str = "none",
    draft_model: str = "",
) -> Engine:
    """Load the model at `path`, after a trial if it is not bundled and never was loaded here.

    It generates `slots` answers at once, whose conversations share so many `windows`. If it `keeps` them,
    another process continues those that are stored in a memory (setting cache_disk_gb). `projector` is as the
    setting mmproj, and `draft_model` as the setting of that name; only models that answer messages need them.
    """
    drafts = draft_model if config.draft != "off" else ""
    for file in (path, *([existing_file(drafts, "draft_model")] if drafts else [])):
        load_check.require(file, is_trusted=is_built_in(file) or not config.model_trial, loading=loading)
    name, shown = path.stem, -1

    def report(share: float) -> None:
        nonlocal shown
        if (percent := int(100 * share)) != shown:
            shown = percent
            loading(f"loading {name}, {percent} %")

    loading(f"loading {name} …")
    try:
        settings = replace(
            engine_settings(config),
            slots=slots,
            windows=windows,
            mmproj=_file_of(projector),
            draft_model=str(file) if drafts else "",
        )
        if not keeps:
            settings = replace(settings, cache_disk_bytes=0)
        return Engine(
            path,
            settings=settings,
            yields_to=yields_to,
            priority_lock=priority_lock,
            is_trusted=True,
            tries_projector=config.model_trial,
            progress=report,
        )
    finally:
        loading("")


def open_named_engine(config: Config, model: str) -> Engine:
    """Load the model that a program names, or for "" that of the settings; UsageError if there is none here.

    The files in mmproj and draft_model belong to the model of the settings, not to another one.
    """
    if not model and config.provider not in ("", LOCAL):
        raise UsageError(
            f"the setting provider is {config.provider!a}, and an Assistant opens no provider",
            hint="shepherd.Session does, or pass the open model of shepherd.providers.open_remote",
        )
    projector, draft_model = config.mmproj, config.draft_model
    if model not in ("", config.model):
        projector, draft_model = "none" if projector == "none" else "", ""
    path = model_path(replace(config, model=model or config.model))
    return open_engine(config, path, projector=projector, draft_model=draft_model)


def _file_of(projector: str) -> str:
    return str(from_home(projector, "mmproj")) if projector not in ("", "none") else projector


def engine_settings(config: Config) -> EngineSettings:
    """Return the settings of an engine with one slot, which reads no pictures."""
    return EngineSettings(
        n_ctx=config.n_ctx,
        n_gpu_layers=config.gpu_layers,
        flash_attention=config.flash_attention,
        kv_type=config.kv_type,
        swa_full=config.swa_full,
        cache_ram_bytes=config.cache_ram_mb << 20,
        cache_disk_bytes=int(config.cache_disk_gb * 1e9),
        kv_edit=config.kv_edit,
        draft=config.draft,
        thinking=config.thinking,
        n_threads=config.threads,
        mmproj="none",
    )
