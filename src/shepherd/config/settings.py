"""Table of all settings: `Config` has every key with its type, default, range and one line of help."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Literal

from shepherd.config.schema import Kind, Setting, listed, percentages, shortened
from shepherd.errors import ConfigError
from shepherd.types import SAMPLERS

__all__ = ["SETTINGS", "Config", "Setting", "default_user_id", "known_setting"]

_PARTS = ("memory", "history", "focus", "knowledge", "entities")
_SAMPLING = (
    *(
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "typical_p",
        "top_n_sigma",
        "xtc_probability",
        "xtc_threshold",
    ),
    *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    *("mirostat", "mirostat_tau", "mirostat_eta"),
    *("repeat_penalty", "repeat_last_n", "frequency_penalty", "presence_penalty"),
)
_FORMATS = ("bullets", "numbered lists", "code blocks", "links")
_TOKENS, _MIB = 1 << 24, 1 << 20  # the most that makes sense of each


def _setting(kind: Kind, default: Any, help: str, **rest: Any) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help, **rest})


def _integer(default: int, least: int, most: int, help: str) -> Any:
    return _setting("whole number", default, help, least=least, most=most)


def _number(default: float, least: float, most: float, help: str) -> Any:
    return _setting("number", default, help, least=least, most=most)


def _share(default: float, help: str) -> Any:
    return _number(default, 0, 1, help)


def _sampled(kind: Kind, least: float, most: float, help: str) -> Any:
    """Make a sampling setting; `auto` takes what the model's file recommends, else Sampling's default."""
    return _setting(kind, "auto", help, least=least, most=most, choices=("auto",))


def _choice(help: str, *choices: str) -> Any:
    """Make a setting with these values, of which the first is the default."""
    return _setting("text", choices[0], help, choices=choices)


def _list_of(names: tuple[str, ...], default: str, help: str) -> Any:
    form = f"a comma-separated list of {', '.join(names)}"
    return _setting("text", default, help, form=form, reads=partial(listed, names=names))


_text = partial(_setting, "text")
_switch = partial(_setting, "switch")
_auto_switch = partial(_setting, "switch", "auto", choices=("auto",))


@dataclass(frozen=True, slots=True)
class Config:
    """Values of all settings; docs/reference/configuration.md is generated from the definitions.

    Raises ConfigError for an invalid value.
    """

    # The model and how it runs.
    model: str = _text(
        "", "model to chat with: a path, hf:user/repo:quant, or a name from shepherd model list"
    )
    provider: str = _text(
        "", "provider that runs the model: a name from shepherd provider list; empty: this machine"
    )
    mmproj: str = _text(
        "",
        "projector (mmproj) to read pictures with; empty: the one beside the model; none: no pictures",
    )
    n_ctx: int = _integer(0, 0, _TOKENS, "context window in tokens; 0: the model's, up to 8192")
    gpu_layers: int = _integer(-1, -1, 10_000, "layers to put on the GPU; -1: all")
    flash_attention: Literal["auto", "on", "off"] = _choice("flash attention", "auto", "on", "off")
    kv_type: Literal["f16", "q8_0", "f32"] = _choice("type of the KV cache", "f16", "q8_0", "f32")
    swa_full: bool = _switch(
        False,
        "keep all tokens of sliding-window layers in the cache: takes more memory, but after a change,"
        " earlier messages needn't be read again",
    )
    cache_ram_mb: int = _integer(
        512, 0, _TOKENS, "MiB of RAM for checkpoints and for conversations that left the KV cache; 0: none"
    )
    cache_disk_gb: float = _number(
        2, 0, _MIB,
        "GB on disk for conversations, so that a restarted chat or server processes nothing twice; 0: off",
    )  # fmt: skip
    kv_edit: Literal["exact", "shift", "hole"] = _choice(
        "how to remove tokens from the cache: exact processes the rest again, others approximate",
        *("exact", "shift", "hole"),
    )
    draft: Literal["auto", "off"] = _choice(
        "let the model check several likely next tokens of an answer at once; auto: where that is faster",
        *("auto", "off"),
    )
    draft_model: str = _text(
        "",
        "smaller model of the same family that drafts answers for the model to check; empty: none",
    )
    read_ahead: bool = _switch(
        True, "while you write, read what is still unread of the conversation before your message"
    )
    thinking: Literal["auto", "on", "off"] = _choice(
        "whether local models that can think do so before they answer; auto: as the model's template says",
        *("auto", "on", "off"),
    )
    threads: int = _integer(0, 0, 512, "CPU threads; 0: llama.cpp chooses")
    model_trial: bool = _switch(True, "load a new model file in a separate process first, in case it crashes")
    system_prompt: str = _text("", "system prompt; empty: the built-in one")
    personality: str = _text(
        "", "helpful, conversational, expert in SOMETHING, or a description in your own words"
    )
    answer_style: str = _choice(
        "wording of answers", "default", "formal", "professional", "casual", "friendly"
    )
    answer_verbosity: str = _choice("length of answers", "default", "concise", "moderate", "detailed")
    answer_level: str = _choice("technical level of answers", "default", "beginner", "intermediate", "expert")
    answer_formatting: str = _list_of(_FORMATS, "", "preferred formatting of answers")
    answer_instructions: str = _text("", "further instructions in your own words, separated by semicolons")
    system_max_tokens: int = _integer(
        0, 0, _TOKENS,
        "maximum length of the system prompt; preferences are dropped first; 0: an eighth of the window",
    )  # fmt: skip
    memory_tools: bool = _switch(False, "let the model search and change the memory with tools (--memtools)")
    mcp_servers: str = _text(
        "", "servers in mcp.json whose tools the model can call, comma-separated; *: all of them"
    )
    tool_rounds: int = _integer(8, 1, 100, "maximum number of rounds of tool calls before an answer")

    # How an answer is sampled.
    max_tokens: int = _integer(
        1024, 0, _TOKENS, "maximum length of an answer in tokens; 0: whatever fits in the window"
    )
    temperature: float | str = _sampled(
        "number",
        0,
        5,
        "randomness of answers; 0: always the likeliest token; auto: the model's own, else 0.7",
    )
    top_k: int | str = _sampled(
        "whole number",
        0,
        1 << 20,
        "sample from the k likeliest tokens; 0: off; auto: the model's own, else 40",
    )
    top_p: float | str = _sampled(
        "number",
        0,
        1,
        "sample from the likeliest tokens up to this probability; 1: off; auto: the model's own, else 0.95",
    )
    min_p: float | str = _sampled(
        "number", 0, 1,
        "drop tokens below this share of the likeliest one; 0: off; auto: the model's own, else 0.05",
    )  # fmt: skip
    repeat_penalty: float | str = _sampled(
        "number", 0.1, 10, "penalty for repetition; 1: off; auto: the model's own, else 1"
    )
    repeat_last_n: int | str = _sampled(
        "whole number",
        0,
        1 << 20,
        "number of latest tokens that the penalties apply to; auto: the model's own, else 64",
    )
    frequency_penalty: float | str = _sampled(
        "number", -2, 2, "penalty that grows with each repetition of a token; 0: off; auto: 0"
    )
    presence_penalty: float | str = _sampled(
        "number", -2, 2, "penalty for tokens that occurred already; 0: off; auto: 0"
    )
    typical_p: float | str = _sampled(
        "number", 0.01, 1, "sample from the tokens that are about as likely as expected; 1: off; auto: 1"
    )
    top_n_sigma: float | str = _sampled(
        "number",
        0,
        100,
        "drop tokens whose logit is more than this number of standard deviations below the highest; 0: off;"
        " auto: 0",
    )
    xtc_probability: float | str = _sampled(
        "number",
        0,
        1,
        "chance that all but the least likely of the tokens above xtc_threshold are dropped; 0: off; auto:"
        " the model's own, else 0",
    )
    xtc_threshold: float | str = _sampled(
        "number", 0, 1, "see xtc_probability; auto: the model's own, else 0.1"
    )
    dry_multiplier: float | str = _sampled(
        "number", 0, 100, "penalty for continuing a sequence that occurred before (DRY); 0: off; auto: 0"
    )
    dry_base: float | str = _sampled(
        "number", 1, 100, "DRY: growth of the penalty with each token of the sequence; auto: 1.75"
    )
    dry_allowed_length: int | str = _sampled(
        "whole number",
        0,
        1 << 20,
        "DRY: longest sequence that can be repeated without a penalty, in tokens; auto: 2",
    )
    dry_penalty_last_n: int | str = _sampled(
        "whole number",
        0,
        1 << 20,
        "DRY: number of latest tokens that are searched for sequences; auto: 4096",
    )
    mirostat: int | str = _sampled(
        "whole number",
        0,
        2,
        "keep the text equally surprising throughout: version 1 or 2; 0: off; auto: the model's own, else 0",
    )
    mirostat_tau: float | str = _sampled(
        "number", 0.01, 100, "how surprising mirostat keeps the text; auto: the model's own, else 5"
    )
    mirostat_eta: float | str = _sampled(
        "number", 0.001, 1, "speed at which mirostat corrects; auto: the model's own, else 0.1"
    )
    samplers: str = _list_of(
        SAMPLERS, "", "the samplers that run, in this order; empty: all of them, in llama.cpp's order"
    )
    seed: int = _integer(-1, -1, (1 << 32) - 1, "random seed; -1: a new one for each answer")

    # What is remembered, and what of it the model sees.
    user_id: str = _text(
        "", "user whose memory to use (default: HOSTNAME:USERNAME at the time of the first use)"
    )
    memory_database: str = _text(
        "", "path of the memory database, or postgresql://… (default: ~/.local/share/shepherd/memory.db)"
    )
    memory_key_command: str = _text(
        "", "command that prints the key or the passphrase of an encrypted memory; empty: none"
    )
    memory_key_file: str = _text(
        "", "file with the key or the passphrase of an encrypted memory; empty: none"
    )
    memory_blind: bool = _switch(
        False,
        "give a PostgreSQL server only encrypted texts and words (new memories only; no knowledge, traces or"
        " vectors). In a file: encrypt a new memory from the beginning, and refuse an unencrypted one",
    )
    max_db_size: str = _setting(
        "size",
        "10G",
        "maximum size of the stored data; beyond it, traces, then the oldest conversations, then the oldest"
        " unpinned memories are deleted",
    )
    recall_cache_mb: int = _integer(
        256, 0, _MIB, "MiB of RAM for the fast indexes of active users; 0: search the database alone"
    )
    archive_turns: bool = _switch(True, "store statements as memories after each answer")
    rag_context_injection: bool | str = _auto_switch(
        "append memories and facts to each message; auto: if the provider's memory is on"
    )
    rag_relevance_threshold: float = _share(0.3, "minimum relevance of an appended memory")
    rag_max_results: int = _integer(
        3,
        0,
        100,
        "maximum number of memories appended to a message; up to twice as many if you ask in what order"
        " things happened",
    )
    rag_recency_floor: float = _share(
        0.9, "how much of a memory's score remains with age: 1 ignores age, 0 halves it in 30 days"
    )
    memory_vectors: str = _text(
        "off",
        "also find memories by meaning: off, a GGUF made for embeddings, or an OpenAI-compatible server",
    )
    memory_vectors_model: str = _text("", "embedding model of the server in memory_vectors")
    memory_vectors_api_key: str = _text("", "API key for the server in memory_vectors", secret=True)
    memory_vectors_weight: float = _share(0.2, "share of vectors in the ranking; words have the rest")
    knowledge_reranker: str = _text(
        "off", "GGUF made for reranking, which orders passages, or off; slow on a CPU"
    )
    injection_retention: Literal["auto", "strip", "keep"] = _choice(
        "lines appended to earlier messages: keep, strip every turn; auto: keep until they crowd the window",
        *("auto", "strip", "keep"),
    )

    # How the window is shared.
    context_strategy: Literal["dynamic", "fixed", "prioritized"] = _choice(
        "how to share the window: by the conversation's length, by context_shares, or by context_order",
        *("dynamic", "fixed", "prioritized"),
    )
    context_tail: Literal["auto", "whole", "short"] = _choice(
        "what to append to a message: whole (all that fits), or short (the facts, memories and the "
        "passage that match best), for very small models; auto: short for the bundled one",
        *("auto", "whole", "short"),
    )
    context_shares: str = _text(
        "history=40,entities=15,knowledge=30,memory=10,focus=5",
        "for fixed: percentages of the window without system prompt and message; they add up to 100",
        form=f"shares of {', '.join(_PARTS)} that add up to 100, such as history=60,memory=40",
        reads=partial(percentages, names=_PARTS),
    )
    context_order: str = _list_of(
        _PARTS,
        "memory,history,focus,knowledge,entities",
        "for prioritized: order in which the parts get space",
    )
    history_verbatim_turns: int = _integer(4, 1, 1000, "number of newest turns that are never summarised")
    history_summary: bool | str = _auto_switch(
        "summarise turns that no longer fit; auto: with a local model other than the bundled one"
    )
    history_summary_tokens: int = _integer(200, 16, 4096, "maximum length of a summary in tokens")
    context_entities: bool | str = _auto_switch(
        "append what is known about people and things; auto: with models other than the bundled one"
    )
    entity_extraction: bool = _switch(
        False, "let the local model look for people and things after each answer; needs context_entities"
    )
    trace_turns: bool = _switch(
        True, "record what the model saw, and why, for the last 200 turns of a conversation"
    )
    trace_prompts: bool = _switch(False, "record whole prompts, not only their length and hash")

    # What a user keeps on purpose.
    knowledge_injection: bool = _switch(
        True, "append passages of your documents that match a message, and the nodes in focus"
    )
    knowledge_max_chunks: int = _integer(3, 0, 100, "maximum number of passages appended to a message")
    knowledge_relevance_threshold: float = _share(0.3, "minimum relevance of an appended passage")
    knowledge_recency_weight: float = _share(0.0, "preference for newer documents")
    knowledge_entity_weight: float = _share(
        0.5, "preference for passages that name people and things in the conversation"
    )
    knowledge_tools: bool | str = _auto_switch(
        "let the model search and change the knowledge with tools; auto: the same as auto_context_enabled"
    )
    auto_context_enabled: bool = _switch(
        False, "list the most-connected nodes at the start of a conversation"
    )
    auto_context_limit: int = _integer(10, 1, 1000, "number of nodes in that list")
    role: Literal["orchestrator", "executor", "planner"] = _choice(
        "task of the model: its instructions and tools; only an orchestrator sees the most-connected nodes "
        "and the workflows",
        *("orchestrator", "executor", "planner"),
    )
    knowledge_max_mb: int = _integer(32, 1, 1024, "maximum size of an imported or attached document in MiB")
    knowledge_allowed_hosts: str = _text(
        "", "hosts in your own network that documents can be fetched from, comma-separated"
    )

    # What is learned from what was said, in the background.
    memory_extraction: bool | str = _auto_switch(
        "learn facts and memories from what you say; auto: if the provider's memory is on"
    )
    memory_extraction_model: str = _text(
        "", "model that learns: one on this machine, or the endpoint's; empty: the chat's model"
    )
    memory_extraction_endpoint: str = _text(
        "", "OpenAI-compatible server whose model learns; empty: this machine"
    )
    memory_extraction_api_key: str = _text("", "API key for memory_extraction_endpoint", secret=True)
    memory_extraction_max_tokens: int = _integer(
        512, 16, 1 << 20, "maximum length of the learning model's answer in tokens"
    )
    memory_extraction_temperature: float = _number(
        0.1, 0, 5, "temperature of the model that learns; the bundled one always uses 0"
    )
    memory_extraction_min_turns: int = _integer(
        2, 1, 1000, "number of messages after which to learn; the bundled model learns after each"
    )
    memory_extraction_idle_timeout: float = _number(
        180, 0, 86_400, "seconds without a message after which to learn; 0: off"
    )
    memory_extraction_max_turns: int = _integer(
        20, 1, 1000, "maximum number of messages that are learned from at once"
    )
    memory_extraction_queue_limit: int = _integer(
        0,
        0,
        1 << 20,
        "maximum number of waiting learning jobs; beyond it, the oldest is dropped; 0: no limit",
    )
    memory_extraction_retry_interval: float = _number(
        5, 0.1, 300, "seconds before a failed learning job is tried again; increases to five minutes"
    )
    memory_extraction_secrets: bool = _switch(
        False, "store what looks like a password, key, token or card number"
    )

    # The server: where it is, what it offers.
    server_host: str = _text(
        "127.0.0.1",
        "address to listen on, or several, comma-separated; anything but this machine requires API keys",
    )
    server_port: int = _integer(8000, 0, 65535, "port to listen on; 0: any free port")
    server_ollama_port: int = _integer(
        0, 0, 65535, "second port, for programs that look for Ollama on its port, 11434; 0: none"
    )
    server_any_model: bool = _switch(
        True, "answer a request for any model if only one is served; false: refuse other names"
    )
    server_models: str = _text(
        "", "models that requests can choose too: GGUF files, hf:… or `installed` for all, comma-separated"
    )
    server_providers: str = _text(
        "",
        "providers whose models requests can choose too: names from `shepherd provider list`, or `all`,"
        " comma-separated",
    )
    server_models_mb: int = _integer(
        0, 0, 1 << 26, "MiB for models with their contexts that are loaded at once; 0: 80 % of the memory"
    )
    server_model_aliases: str = _text(
        "", "other names of models in requests, comma-separated: gpt-4o=default, small=NAME"
    )
    server_slots: int = _integer(4, 1, 64, "number of answers generated at once; further requests wait")
    server_windows: int = _integer(
        0, 0, 64, "number of context windows that these answers share; 0: one each, if memory allows"
    )
    server_page: bool = _switch(True, "serve the memory page for the browser at /")
    server_verbose: bool = _switch(
        False, "add the prompt that the model reads to answers of /v1/chat/completions, to debug clients"
    )
    server_embeddings: str = _text("", "GGUF for /v1/embeddings; empty: the one of memory_vectors; off: none")
    server_shutdown: float = _number(
        5,
        0,
        3600,
        "time limit for shutting down, in seconds, up to two of them for closing; less than 1 counts as 1",
    )

    # Who can use a server, and how much.
    server_hosts: str = _text(
        "", "host names of the server, comma-separated; IP addresses and localhost always work"
    )
    server_origins: str = _text(
        "",
        "web pages that can call the server from a browser, as https://name:port, comma-separated; localhost:"
        " all of this machine",
    )
    server_fetch_pictures: bool = _switch(
        False,
        "fetch pictures that requests name by an https:// or http:// address, from public servers and"
        " knowledge_allowed_hosts",
    )
    server_max_body_mb: int = _integer(16, 1, 4096, "maximum size of a request in MiB")
    server_body_timeout: float = _number(30, 0.1, 3600, "seconds within which a whole request must arrive")
    server_max_requests: int = _integer(
        256, 1, 65536, "maximum number of requests handled at once; further ones are told to wait"
    )
    server_max_requests_per_key: int = _integer(
        64, 1, 65536, "maximum number of requests handled at once for each API key"
    )

    # Joining the conversation of a server (--backend cli).
    api_base: str = _text(
        "http://127.0.0.1:8000", "address of the server to join with --backend cli (shepherd serve --session)"
    )
    api_key: str = _text("", "API key for the server at api_base", secret=True)

    def __post_init__(self) -> None:
        for key, setting in SETTINGS.items():
            value = getattr(self, key)
            if value is not setting.default:
                object.__setattr__(self, key, setting.checked(value))

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling settings that have a value, by name; those on `auto` are left to the model."""
        values = {name: getattr(self, name) for name in _SAMPLING}
        chosen = {name: value for name, value in values.items() if not isinstance(value, str)}
        if self.samplers:
            chosen["samplers"] = listed(self.samplers, SAMPLERS)
        return {**chosen, **({"seed": self.seed} if self.seed >= 0 else {})}

    @property
    def injection_enabled(self) -> bool:
        """Return whether recall is on; `auto` is on: a provider whose memory is off has none to recall."""
        return self.rag_context_injection is not False

    @property
    def has_knowledge_tools(self) -> bool:
        """Return whether the model has tools over the knowledge."""
        return self.knowledge_tools is True or (self.knowledge_tools == "auto" and self.auto_context_enabled)

    @property
    def effective_user_id(self) -> str:
        """`user_id`, else hostname:username. Names rows of the database; no model or provider sees it."""
        return self.user_id or default_user_id()


SETTINGS: dict[str, Setting] = {
    f.name: Setting(key=f.name, default=f.default, **f.metadata) for f in fields(Config)
}


def known_setting(key: str) -> Setting:
    """Return the setting of that name; raises ConfigError with the nearest names when there is none."""
    if key in SETTINGS:
        return SETTINGS[key]
    near = get_close_matches(key, SETTINGS, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else "shepherd config show lists all of them"
    raise ConfigError(f"there is no setting {shortened(key)}", hint=hint)


def default_user_id() -> str:
    """Return hostname:username of this process."""
    import getpass
    import socket

    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container without an entry in /etc/passwd
        name = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return f"{socket.gethostname()}:{name}"
