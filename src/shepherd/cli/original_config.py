"""Migration of the original Shepherd's config.json, which has the same path and other types.

Its providers become entries of our table, its MCP servers go to mcp.json, its settings to ours of the same
meaning. The file is copied beside itself first, and what became of each key is returned as text.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from shepherd.config import SETTINGS
from shepherd.config.file import ConfigFile, parse_document
from shepherd.errors import ConfigError, ShepherdError, UsageError
from shepherd.installation import install_extra
from shepherd.paths import back_up, mcp_file, write_atomically

__all__ = ["is_original", "migrate_original_config"]

# Keys that its save() always writes and that are none of ours.
_SIGNS = frozenset({"streaming", "warmup", "calibration", "truncate_limit", "auto_provider"})
# Keys without a counterpart, with the reason or the replacement.
_DROPPED = {
    "rag_context_injection": "recall is on where the memory of a provider is on",
    "memory_extraction": "facts are learned where the memory of a provider is on",
    "thinking": "shepherd provider set NAME thinking TOKENS",
    "apikey_store": "shepherd apikey create makes a key for the server",
    "server_tools": "the tools of a model are chosen with memory_tools, knowledge_tools and mcp_servers",
    "use_tools": "the tools of a model are chosen with memory_tools, knowledge_tools and mcp_servers",
    "smcp_servers": "there are no servers with credentials of their own; mcp.json takes variables in env",
    "schedulers": "there is no scheduler; cron can run shepherd -e",
    "web_search_provider": "an MCP server can search the web",
    "web_search_api_key": "an MCP server can search the web",
    "web_search_instance_url": "an MCP server can search the web",
    **dict.fromkeys(("warmup", "calibration", "streaming", "auto_provider", "models_file"), ""),
    **dict.fromkeys(("truncate_limit", "reasoning", "show_tool_calls", "tui", "tui_history"), ""),
}
# Fields by which older files described their one model.
_LEGACY = ("backend", "model_path", "path", "context_size", "key", "api_key", "api_base", "model")
_KINDS = {"cli": "shepherd", "grok": "openai"}
# Least size that both programs take.
_LEAST_DB_BYTES = 1 << 20
_GROK = "https://api.x.ai/v1"
# Fields of a provider that its service needs and that we do not support.
_UNSUPPORTED = ("client_id", "token_url", "deployment_name")
_FIELDS = frozenset(
    ("name", "type", "model", "model_path", "memory", "context_size", "max_tokens", "api_key", "base_url")
)


def is_original(document: dict[str, Any]) -> bool:
    """Return True for a configuration that the original wrote."""
    lists = ("providers", "mcp_servers", "smcp_servers", "schedulers")
    size = document.get("max_db_size")
    return (
        any(isinstance(document.get(key), list) for key in lists)
        or (isinstance(size, (int, float)) and not isinstance(size, bool))
        or not _SIGNS.isdisjoint(document)
    )


def migrate_original_config(file: ConfigFile) -> list[str]:
    """Replace a configuration of the original by ours; return a line for each thing that became of it.

    Nothing happens to any other file, or without one. API keys go to the system's keyring if there is one,
    else they stay in the file. Raises ConfigError where the file cannot be read or written.
    """
    if not is_original(_read(file)):
        return []
    with file.changing() as document:
        if not is_original(document):  # another process was first
            return []
        kept = back_up(file.path)
        lines = [
            f"{file.path}: an older Shepherd's configuration, brought up to date; kept as it was: {kept}"
        ]
        new: dict[str, Any] = {}
        _move_settings(document, new, lines)
        _move_providers(document, new, lines)
        _move_mcp_servers(document, new, lines)
        document.clear()
        document.update(new)
    return lines


def _read(file: ConfigFile) -> dict[str, Any]:
    try:
        return file.read()
    except ConfigError:
        return {}  # the command reports it, or repairs it


def _move_settings(document: dict[str, Any], new: dict[str, Any], lines: list[str]) -> None:
    taken, dropped = [], []
    for key, value in document.items():
        if key in ("providers", "mcp_servers") or (key in _LEGACY and "backend" in document):
            continue
        if key in _DROPPED:
            dropped.append(f"{key} ({_DROPPED[key]})" if _DROPPED[key] else key)
            continue
        name = "system_prompt" if key == "system" else key
        is_number = name == "max_db_size" and isinstance(value, (int, float))
        wanted = str(int(max(value, _LEAST_DB_BYTES))) if is_number else value
        if name not in SETTINGS:
            new[name] = value
            continue
        try:
            new[name] = SETTINGS[name].check(wanted)
            taken.append(name)
        except ValueError:
            dropped.append(f"{key} (expected {SETTINGS[name].expected})")
    if new.get("memory_extraction_endpoint") and new.get("memory_extraction_model"):
        new["memory_extraction"] = True
    if taken:
        lines.append(f"settings taken over: {', '.join(taken)}")
    if dropped:
        lines.append(f"not taken over: {'; '.join(dropped)}")


# ---- providers


def _move_providers(document: dict[str, Any], new: dict[str, Any], lines: list[str]) -> None:
    from shepherd.providers.settings import KINDS

    listed = document.get("providers", [])
    if isinstance(listed, dict):  # already ours
        new["providers"] = listed
        return
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if "backend" in document:
        legacy = {key: document[key] for key in _LEGACY if key in document}
        legacy["base_url"] = legacy.pop("api_base", "")
        legacy["api_key"] = legacy.pop("api_key", "") or legacy.pop("key", "")
        legacy["model_path"] = legacy.get("model_path") or legacy.get("path", "")
        entries.append({**legacy, "name": document["backend"], "type": document["backend"]})
    providers: dict[str, Any] = {}
    for entry in sorted(entries, key=_priority):
        name = _free_name(str(entry.get("name") or entry.get("type") or "provider"), entry, providers)
        try:
            providers[name], notes = _provider(name, entry)
        except ShepherdError as error:
            reason = str(error).removeprefix(f"provider {name}: ")
            lines.append(f"provider {name} not taken over: {reason}")
            continue
        rest = sorted(entry.keys() - _FIELDS - {"priority", "display_name", "ssl_verify", *_LEGACY})
        notes += [f"without {', '.join(rest)}"] if rest else []
        lines.append(f"provider {name} taken over{'; ' if notes else ''}{'; '.join(notes)}")
    if providers:
        new["providers"] = providers
        if usable := [
            name for name, entry in providers.items() if _is_installed(KINDS[entry["kind"]].client)
        ]:
            new["provider"] = usable[0]
            lines.append(
                f"provider {usable[0]} answers, the first by priority; shepherd provider use changes it"
            )


def _priority(entry: dict[str, Any]) -> float:
    priority = entry.get("priority", 100)
    return float(priority) if isinstance(priority, (int, float)) else 100.0


def _free_name(written: str, entry: dict[str, Any], taken: dict[str, Any]) -> str:
    from shepherd.providers.settings import LOCAL

    cleaned = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in written)
    name = base = cleaned.lstrip("._-")[:36] or "provider"
    number = 1
    # `local` is the model in this process.
    while name in taken or (name == LOCAL and entry.get("type") != "llamacpp"):
        number += 1
        name = f"{base}-{number}"
    return name


def _provider(name: str, entry: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return our entry of a provider, and notes about it; ShepherdError for one that cannot work."""
    from shepherd.providers.settings import KINDS, ProviderSettings

    type_ = str(entry.get("type", ""))
    kind = _KINDS.get(type_, type_)
    unsupported = [field for field in _UNSUPPORTED if entry.get(field)]
    if kind not in KINDS or unsupported:
        raise ConfigError(f"{unsupported[0] if unsupported else ascii(type_)} is not supported")
    new: dict[str, Any] = {"kind": kind, "model": str(entry.get("model", ""))}
    if kind == "llamacpp":
        new["model"] = _model_file(new["model"], str(entry.get("model_path") or "~/models"))
    elif url := _address(type_, str(entry.get("base_url", ""))):
        new["base_url"] = url
    if entry.get("memory") is True:
        new["memory"] = True
    for theirs, ours in (("context_size", "window"), ("max_tokens", "max_tokens")):
        if isinstance(entry.get(theirs), int) and entry[theirs] > 0:
            new[ours] = entry[theirs]
    notes = ["its server must run this version (shepherd serve)"] if type_ == "cli" else []
    if not _is_installed(KINDS[kind].client):
        notes.append(f"it needs a package: {install_extra(KINDS[kind].extra)}")
    ProviderSettings.from_entry(name, new)
    if key := str(entry.get("api_key", "")):
        notes.append(_store_key(name, new, key))
    return {field: value for field, value in new.items() if value != ""}, notes


def _store_key(name: str, entry: dict[str, Any], key: str) -> str:
    from shepherd.providers.keys import find_key, store_in_keyring
    from shepherd.providers.settings import ProviderSettings

    if key.startswith("${") and key.endswith("}"):
        entry["key_env"] = key[2:-1]
        return f"its API key is read from {key[2:-1]}"
    try:
        store_in_keyring(name, key)
    except UsageError:
        kept = False
    else:  # some backends accept a key and forget it
        kept = find_key(ProviderSettings(name, "shepherd"), {}).value == key
    if kept:
        return "its API key is in the system's keyring now"
    entry["api_key"] = key
    return "its API key stays in this file"


def _is_installed(client: str) -> bool:
    return not client or find_spec(client) is not None


def _model_file(model: str, folder: str) -> str:
    if not model or PurePosixPath(model).is_absolute() or model.startswith("~"):
        return model
    return str(PurePosixPath(folder) / model)


def _address(type_: str, url: str) -> str:
    """Return our form of an address: the original's could name the endpoint, or leave out /v1."""
    if not url:
        return _GROK if type_ == "grok" else ""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/api/chat", "/messages"):
        path = path.removesuffix(ending)
    if type_ == "anthropic":
        path = path.removesuffix("/v1")
    elif type_ == "gemini":
        return "" if parts.hostname == "generativelanguage.googleapis.com" else url
    elif not path:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


# ---- MCP servers


def _move_mcp_servers(document: dict[str, Any], new: dict[str, Any], lines: list[str]) -> None:
    listed = document.get("mcp_servers", "")
    if not isinstance(listed, list):
        if listed:
            new["mcp_servers"] = listed
        return
    path = mcp_file()
    servers = {
        _server_name(entry): entry for entry in listed if isinstance(entry, dict) and entry.get("command")
    }
    if not servers:
        return
    known = parse_document(path.read_bytes(), path) if path.exists() else {}
    if not isinstance(known, dict):
        raise ConfigError(f"{path}: expected an object", hint="correct it in an editor")
    ours = known.setdefault("mcpServers", {})
    for name, entry in servers.items():
        server = {"command": str(entry["command"]), "args": [str(word) for word in entry.get("args") or ()]}
        env = entry.get("env")
        ours.setdefault(name, {**server, **({"env": env} if isinstance(env, dict) and env else {})})
    write_atomically(path, (json.dumps(known, indent=2, ensure_ascii=False) + "\n").encode())
    names = ",".join(servers)
    if _is_installed("mcp"):
        new["mcp_servers"] = names
        lines.append(f"MCP servers {names} are in {path} now")
    else:
        how = f"{install_extra('mcp')}, then shepherd config set mcp_servers {names}"
        lines.append(f"MCP servers {names} are in {path} now; to use them: {how}")


def _server_name(entry: dict[str, Any]) -> str:
    name = str(entry.get("name") or "server")
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
