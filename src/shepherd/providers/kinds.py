"""The kinds of providers: where their servers are, which key opens them, which client speaks with them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KINDS", "Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table.

    `key_variables`: where others put the key; read only for the kind's own address, so that the key of one
    company is not sent to the server of another. `window_tokens` is assumed until it is set or learned.
    `options`: what of RemoteModel.generate it can be asked for; "json" is any JSON object, "schema" one by a
    schema.
    """

    name: str
    help: str
    base_url: str = ""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False
    client: str = ""
    extra: str = ""
    window_tokens: int = 0
    is_local: bool = False
    options: frozenset[str] = frozenset()


_ALL = frozenset({"stop", "json", "schema", "must_call"})

# Gemini and Ollama speak OpenAI's protocol themselves. Their own clients would bring a second and a third
# way to do the same: google-genai alone is larger than Shepherd, and what it adds (files, cache objects) is
# not used here.
KINDS = {
    kind.name: kind
    for kind in (
        Kind("llamacpp", "a GGUF model in this process", is_local=True),
        Kind(
            "openai",
            "OpenAI, or any server that speaks its protocol (vLLM, llama-server, Grok …)",
            base_url="https://api.openai.com/v1",
            key_variables=("OPENAI_API_KEY",),
            needs_key=True,
            client="openai",
            extra="openai",
            window_tokens=128_000,
            options=_ALL,
        ),
        Kind(
            "anthropic",
            "Anthropic's Claude",
            base_url="https://api.anthropic.com",
            key_variables=("ANTHROPIC_API_KEY",),
            needs_key=True,
            client="anthropic",
            extra="anthropic",
            window_tokens=200_000,
            options=_ALL - {"json"},  # its schemas name every property
        ),
        Kind(
            "gemini",
            "Google's Gemini, through its OpenAI-compatible address",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            needs_key=True,
            client="openai",
            extra="gemini",
            window_tokens=1_000_000,
            options=_ALL,
        ),
        Kind(
            "ollama",
            "an Ollama server, by default the one on this machine",
            base_url="http://127.0.0.1:11434/v1",
            key_variables=("OLLAMA_API_KEY",),
            client="openai",
            extra="ollama",
            # What Ollama itself takes unless told otherwise; it cuts longer prompts without a word.
            window_tokens=4_096,
            options=_ALL - {"must_call"},  # it takes the field, and does not follow it
        ),
        Kind(
            "shepherd",
            "another Shepherd, which looks after the memory itself",
            base_url="http://127.0.0.1:8000/v1",
            key_variables=("SHEPHERD_API_KEY",),
            client="openai",
            extra="openai",
            window_tokens=8_192,
            options=_ALL,
        ),
    )
}
