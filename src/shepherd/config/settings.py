"""Settings: `Config` is the one table of them, every key with its type, default, range and one line of help.

Where their values come from is the business of shepherd.config.file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal

from shepherd.config.schema import Kind, Setting, listed, percentages, shortened
from shepherd.errors import ConfigError

__all__ = [
    "SETTINGS",
    "Config",
    "Setting",
    "default_user_id",
    "known_setting",
]


def _setting(
    default: Any,
    kind: Kind,
    help: str,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    choices: tuple[str, ...] = (),
    secret: bool = False,
    form: str = "",
    reads: Callable[[str], object] | None = None,
) -> Any:
    return field(
        default=default,
        metadata={
            "kind": kind,
            "help": help,
            "least": least,
            "most": most,
            "choices": choices,
            "secret": secret,
            "form": form,
            "reads": reads,
        },
    )


def _auto(kind: Kind, help: str, *, least: float = 0, most: float = 1) -> Any:
    return _setting("auto", kind, help, least=least, most=most, choices=("auto",))


# What a prompt is made of beside system part and message, and how answers may be formatted.
_PARTS = ("memory", "history", "focus", "knowledge", "entities")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n")
_FORMATS = ("bullets", "numbered lists", "code blocks", "links")


def _list_of(names: tuple[str, ...], help: str, *, default: str = "") -> Any:
    form = f"any of {', '.join(names)}, with commas"
    return _setting(default, "text", help, form=form, reads=partial(listed, names=names))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings with their values; the field definitions are the documentation's source too."""

    # The model and how it runs.
    model: str = _setting(
        "", "text", "model to chat with: a path, hf:user/repo:quant, or a name of shepherd model list"
    )
    provider: str = _setting(
        "", "text", "where the model runs: a name of shepherd provider list; empty is this process"
    )
    n_ctx: int = _setting(
        0, "whole number", "window in tokens; 0 takes the model's, up to 8192", least=0, most=1 << 24
    )
    gpu_layers: int = _setting(
        -1, "whole number", "layers to put on the GPU; -1 is all of them", least=-1, most=10_000
    )
    flash_attention: Literal["auto", "on", "off"] = _setting(
        "auto", "text", "flash attention", choices=("auto", "on", "off")
    )
    kv_type: Literal["f16", "q8_0", "f32"] = _setting(
        "f16", "text", "type of the KV cache", choices=("f16", "q8_0", "f32")
    )
    swa_full: bool = _setting(
        False, "switch", "layers with a sliding window keep everything: more memory, any rewind is free"
    )
    cache_ram_mb: int = _setting(
        512,
        "whole number",
        "RAM for conversations that gave up their place in the window, and for checkpoints; 0 keeps none",
        least=0,
        most=1 << 24,
    )
    session_cache: str = _setting(
        "",
        "text",
        "file that keeps the engine's cache, so that a restarted chat reads nothing again; empty is off",
    )
    kv_edit: Literal["exact", "shift", "hole"] = _setting(
        "exact",
        "text",
        "what leaves the window's middle: exact reads the rest again; shift and hole approximate that",
        choices=("exact", "shift", "hole"),
    )
    threads: int = _setting(0, "whole number", "CPU threads; 0 lets llama.cpp choose", least=0, most=512)
    model_trial: bool = _setting(
        True, "switch", "load a model file that is new here in a process of its own first, which it may crash"
    )
    system_prompt: str = _setting("", "text", "base instructions; empty takes the built-in ones")
    personality: str = _setting(
        "", "text", "helpful, conversational, expert in SOMETHING, or a description in your own words"
    )
    answer_style: str = _setting(
        "default",
        "text",
        "how answers are worded",
        choices=("default", "formal", "professional", "casual", "friendly"),
    )
    answer_verbosity: str = _setting(
        "default", "text", "how long answers are", choices=("default", "concise", "moderate", "detailed")
    )
    answer_level: str = _setting(
        "default",
        "text",
        "how technical answers are",
        choices=("default", "beginner", "intermediate", "expert"),
    )
    answer_formatting: str = _list_of(_FORMATS, "how answers may be formatted: what you like of it")
    answer_instructions: str = _setting(
        "", "text", "what else answers are to heed, in your own words; semicolons between"
    )
    system_max_tokens: int = _setting(
        0,
        "whole number",
        "longest system prompt: above it preferences go first, then background; 0 is an eighth of the window",
        least=0,
        most=1 << 24,
    )
    memory_tools: bool = _setting(
        False, "switch", "the model may look into the memory, and change it, by tools (--memtools)"
    )
    mcp_servers: str = _setting(
        "",
        "text",
        "servers of mcp.json whose tools the model may call, with commas; * is all of them (--mcp)",
    )
    tool_rounds: int = _setting(
        8, "whole number", "most times that the model may call tools before it answers", least=1, most=100
    )

    # How an answer is sampled.
    max_tokens: int = _setting(
        1024, "whole number", "longest answer in tokens; 0 is what the window leaves", least=0, most=1 << 24
    )
    # "auto": what the model's file recommends, else the default of shepherd.types.Sampling.
    temperature: float | str = _auto(
        "number", "0 always takes the likeliest token; auto is the model's own, else 0.7", most=5
    )
    top_k: int | str = _auto(
        "whole number",
        "sample from the k likeliest tokens; 0 is off; auto is the model's own, else 40",
        most=1 << 20,
    )
    top_p: float | str = _auto(
        "number",
        "sample from the likeliest tokens up to this sum; 1 is off; auto is the model's own, else 0.95",
    )
    min_p: float | str = _auto(
        "number",
        "drop tokens below this share of the likeliest one; 0 is off; auto is the model's own, else 0.05",
    )
    repeat_penalty: float | str = _auto(
        "number",
        "above 1 discourages repetition; 1 is off; auto is the model's own, else 1",
        least=0.1,
        most=10,
    )
    repeat_last_n: int | str = _auto(
        "whole number",
        "how many tokens back the penalty looks; auto is the model's own, else 64",
        most=1 << 20,
    )
    seed: int = _setting(
        -1,
        "whole number",
        "seed of the sampler; -1 draws a new one for each answer",
        least=-1,
        most=(1 << 32) - 1,
    )

    # What is remembered, and what of it the model sees.
    user_id: str = _setting("", "text", "whose memory it is; empty takes hostname:username")
    memory_database: str = _setting(
        "", "text", "path of the memory database, or postgresql://…; empty takes the usual place"
    )
    max_db_size: str = _setting("10G", "size", "the oldest unpinned memories go when the database is larger")
    recall_cache_mb: int = _setting(
        256,
        "whole number",
        "memory for the fast indexes of the users in use; 0 searches the database alone",
        least=0,
        most=1 << 20,
    )
    archive_turns: bool = _setting(True, "switch", "remember what was told, after each answer")
    rag_context_injection: bool | str = _setting(
        "auto",
        "switch",
        "append what is remembered to each message, where the provider's memory is on; false never does",
        choices=("auto",),
    )
    rag_relevance_threshold: float = _setting(
        0.3, "number", "least relevance of an appended memory", least=0, most=1
    )
    rag_max_results: int = _setting(
        3, "whole number", "most memories appended to a message", least=0, most=100
    )
    rag_recency_floor: float = _setting(
        0.9,
        "number",
        "what age leaves of a memory's score: 1 ignores age, 0 halves it in 30 days",
        least=0,
        most=1,
    )
    memory_vectors: str = _setting(
        "off",
        "text",
        "find memories by meaning as well: off, a GGUF made for embeddings, or an OpenAI-compatible server",
    )
    memory_vectors_model: str = _setting("", "text", "embedding model of that server")
    memory_vectors_api_key: str = _setting("", "text", "key for that server", secret=True)
    memory_vectors_weight: float = _setting(
        0.2, "number", "share of the vectors in the ranking, the rest is the words'", least=0, most=1
    )
    knowledge_reranker: str = _setting(
        "off",
        "text",
        "order passages for a prompt by a GGUF made for reranking, or off; reading 32 takes a while on a CPU",
    )
    injection_retention: Literal["auto", "strip", "keep"] = _setting(
        "auto",
        "text",
        "tails of earlier messages: keep, strip every turn, or keep until they crowd the window",
        choices=("auto", "strip", "keep"),
    )

    # How the window is shared.
    context_strategy: Literal["dynamic", "fixed", "prioritized"] = _setting(
        "dynamic",
        "text",
        "who gets the window: by the length of the talk, by context_shares, or by context_order",
        choices=("dynamic", "fixed", "prioritized"),
    )
    context_shares: str = _setting(
        "history=40,entities=15,knowledge=30,memory=10,focus=5",
        "text",
        "for fixed: percentages of what system prompt and message leave; they make 100",
        form=f"a share of each of {', '.join(_PARTS)}, such as memory=100; together 100",
        reads=partial(percentages, names=_PARTS),
    )
    context_order: str = _list_of(
        _PARTS, "for prioritized: who is served first", default="memory,history,focus,knowledge,entities"
    )
    history_verbatim_turns: int = _setting(
        4, "whole number", "newest turns that are never summed up", least=1, most=1000
    )
    history_summary: bool | str = _setting(
        "auto",
        "switch",
        "sum up turns that leave the window; auto is on with a model here that did not come with Shepherd",
        choices=("auto",),
    )
    history_summary_tokens: int = _setting(
        200, "whole number", "longest summary of the turns that leave together", least=16, most=4096
    )
    context_entities: bool | str = _setting(
        "auto",
        "switch",
        "append what is known of people and things that a message speaks of; auto is on, but not with the"
        " model that comes with Shepherd",
        choices=("auto",),
    )

    entity_extraction: bool = _setting(
        False,
        "switch",
        "the model here reads each message for people and things, after its answer; needs context_entities",
    )

    trace_turns: bool = _setting(
        True, "switch", "keep of the last 200 turns of a session what the model was shown and why"
    )
    trace_prompts: bool = _setting(
        False, "switch", "keep the whole prompt of each of them, not only its length and hash"
    )

    # What a user keeps on purpose.
    knowledge_injection: bool = _setting(
        True, "switch", "append passages of your documents that fit a message, and what you have open"
    )
    knowledge_max_chunks: int = _setting(
        3, "whole number", "most passages appended to a message", least=0, most=100
    )
    knowledge_relevance_threshold: float = _setting(
        0.3, "number", "least relevance of an appended passage", least=0, most=1
    )
    knowledge_recency_weight: float = _setting(
        0.0, "number", "how much newer documents are preferred", least=0, most=1
    )
    knowledge_entity_weight: float = _setting(
        0.5, "number", "how much passages that name what the talk is about are preferred", least=0, most=1
    )
    knowledge_tools: bool | str = _setting(
        "auto",
        "switch",
        "the model may look into the knowledge, and change it, by tools; auto with auto_context_enabled",
        choices=("auto",),
    )
    auto_context_enabled: bool = _setting(
        False, "switch", "tell the model at the start of a session which nodes have the most connections"
    )
    auto_context_limit: int = _setting(10, "whole number", "how many of them", least=1, most=1000)
    role: Literal["orchestrator", "executor", "planner"] = _setting(
        "orchestrator",
        "text",
        "task of the model: its instructions and tools; an orchestrator has background and workflows",
        choices=("orchestrator", "executor", "planner"),
    )
    knowledge_max_mb: int = _setting(
        32, "whole number", "largest document that is imported, in MiB", least=1, most=1024
    )
    knowledge_allowed_hosts: str = _setting(
        "", "text", "hosts of this machine's network that may be fetched from, separated by commas"
    )

    # What is learned from what was said, in the background.
    memory_extraction: bool | str = _setting(
        "auto",
        "switch",
        "learn facts and memories from what is said; auto is on with the model that comes with Shepherd",
        choices=("auto",),
    )
    memory_extraction_model: str = _setting(
        "", "text", "model that extracts: one on this machine, or the endpoint's; empty takes the chat's"
    )
    memory_extraction_endpoint: str = _setting(
        "", "text", "OpenAI-compatible server that extracts; empty does it in this process"
    )
    memory_extraction_api_key: str = _setting("", "text", "key for that server", secret=True)
    memory_extraction_max_tokens: int = _setting(
        512, "whole number", "longest answer of an extraction in tokens", least=16, most=1 << 20
    )
    memory_extraction_temperature: float = _setting(
        0.1,
        "number",
        "temperature of an extraction; the model that comes with Shepherd takes 0",
        least=0,
        most=5,
    )
    memory_extraction_min_turns: int = _setting(
        2, "whole number", "extract after so many messages", least=1, most=1000
    )
    memory_extraction_idle_timeout: float = _setting(
        180, "number", "extract after so many seconds without a message; 0 is off", least=0, most=86_400
    )
    memory_extraction_max_turns: int = _setting(
        20, "whole number", "most messages in one extraction", least=1, most=1000
    )
    memory_extraction_queue_limit: int = _setting(
        0,
        "whole number",
        "the oldest waiting extraction goes beyond so many; 0 keeps all",
        least=0,
        most=1 << 20,
    )
    memory_extraction_retry_interval: float = _setting(
        5,
        "number",
        "seconds until a failed extraction is tried again; grows to five minutes",
        least=0.1,
        most=300,
    )
    memory_extraction_secrets: bool = _setting(
        False, "switch", "also store what looks like a password, key, token or card number"
    )

    # The server: where it is, what it offers.
    server_host: str = _setting(
        "127.0.0.1", "text", "address that the server listens on; beyond this machine it needs API keys"
    )
    server_port: int = _setting(
        8000, "whole number", "port that the server listens on; 0 takes a free one", least=0, most=65535
    )
    server_slots: int = _setting(
        4,
        "whole number",
        "answers that the server makes at once; more wait their turn",
        least=1,
        most=64,
    )
    server_windows: int = _setting(
        0,
        "whole number",
        "windows that the conversations of these answers share; 0 is one for each, if memory allows",
        least=0,
        most=64,
    )
    server_embeddings: str = _setting(
        "",
        "text",
        "GGUF for /v1/embeddings; empty takes the one of memory_vectors, off has none",
    )
    server_shutdown: float = _setting(
        5, "number", "seconds that answers have to end when the server does", least=0, most=3600
    )

    # Who may ask a server, and how much.
    server_hosts: str = _setting(
        "", "text", "names by which the server is called, with commas; addresses and localhost always work"
    )
    server_origins: str = _setting(
        "", "text", "web pages that may call the server from a browser, as https://name:port, with commas"
    )
    server_max_body_mb: int = _setting(
        16, "whole number", "largest request to the server", least=1, most=4096
    )
    server_body_timeout: float = _setting(
        30, "number", "seconds within which a request must have arrived whole", least=0.1, most=3600
    )
    server_max_requests: int = _setting(
        256,
        "whole number",
        "requests that the server works on at once; more are told to wait",
        least=1,
        most=65536,
    )
    server_max_requests_per_key: int = _setting(
        64, "whole number", "the same for each API key", least=1, most=65536
    )

    # Taking part in a conversation that a server has (--backend cli).
    api_base: str = _setting(
        "http://127.0.0.1:8000", "text", "where shepherd serve --session listens, for --backend cli"
    )
    api_key: str = _setting("", "text", "key for that server", secret=True)

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings that have a value, by name; those on `auto` are left to the model."""
        values = {name: getattr(self, name) for name in _SAMPLING}
        chosen = {name: value for name, value in values.items() if not isinstance(value, str)}
        return {**chosen, **({"seed": self.seed} if self.seed >= 0 else {})}

    @property
    def injection_enabled(self) -> bool:
        """Whether recall is on; `auto` means on: a provider whose memory is off is given none at all."""
        return self.rag_context_injection is not False

    @property
    def has_knowledge_tools(self) -> bool:
        """Whether the model has tools over the knowledge."""
        return self.knowledge_tools is True or (self.knowledge_tools == "auto" and self.auto_context_enabled)

    @property
    def effective_user_id(self) -> str:
        """`user_id`, else hostname:username. Names rows of the database; no model or provider sees it."""
        return self.user_id or default_user_id()


SETTINGS: dict[str, Setting] = {
    f.name: Setting(key=f.name, default=f.default, **f.metadata) for f in fields(Config)
}


def known_setting(key: str) -> Setting:
    """The setting of that name; ConfigError with the nearest names when there is none."""
    if key in SETTINGS:
        return SETTINGS[key]
    near = get_close_matches(key, SETTINGS, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "shepherd config show lists all of them"
    raise ConfigError(f"there is no setting {shortened(key)}", hint=hint)


def default_user_id() -> str:
    """hostname:username of this process."""
    import getpass
    import socket

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry in /etc/passwd
        name = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return f"{socket.gethostname()}:{name}"
