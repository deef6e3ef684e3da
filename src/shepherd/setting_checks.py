"""Checks of settings that name models, providers, servers and folders: whether they exist."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from shepherd.config import Config
from shepherd.errors import ModelError, StoreMissingError, UsageError
from shepherd.http_endpoint import api_url, connection_error
from shepherd.inference.names import HUB_PREFIX
from shepherd.memory_factory import open_memory
from shepherd.model_files import MODEL_SETTINGS, existing_file
from shepherd.paths import from_home, mcp_file

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@]+/?", re.IGNORECASE)

__all__ = ["NAMING_SETTINGS", "check_setting", "try_server"]

# All settings that check_setting can check.
NAMING_SETTINGS = (
    *MODEL_SETTINGS,
    *("provider", "memory_database", "memory_extraction_endpoint", "mcp_servers", "server_origins"),
)


def check_setting(config: Config, key: str) -> None:
    """Raise a ShepherdError if a setting names a model, provider, server or folder that is not there.

    Downloads nothing, and opens no connection.
    """
    value = getattr(config, key).strip()
    if key == "provider":
        from shepherd.providers import ProviderTable

        ProviderTable().get(value)
    elif key == "mcp_servers" and value:
        from shepherd.tools import chosen_servers, read_servers

        chosen_servers(read_servers(mcp_file()), value)
    elif key == "server_origins":
        _check_origins(value)
    elif key == "memory_database" and value:
        _check_database(value)
    elif key == "memory_vectors" and "://" in value:
        from shepherd.inference.embedding_endpoint import embeddings_url

        embeddings_url(value)
    elif key == "memory_extraction_endpoint" and value:
        api_url(key, value, "")
    elif key == "memory_extraction_model" and config.memory_extraction_endpoint:
        return  # the name of a model on that server
    elif key in MODEL_SETTINGS and value not in ("", "off") and not value.startswith(HUB_PREFIX):
        path = existing_file(value, key)
        if key == "draft_model":
            _check_draft_model(config, path)


def _check_draft_model(config: Config, path: Path) -> None:
    """Raise ModelLoadError if the draft model has another vocabulary than the model, if that is here."""
    from shepherd.inference.draft_model import check_pair
    from shepherd.inference.models import ModelRegistry

    model = ModelRegistry().configured(config.model)
    if model is not None and model.exists():
        check_pair(path, model)


def _check_origins(named: str) -> None:
    """Raise UsageError if something in the list can't be the origin of a page, so that it never matches."""
    for origin in filter(None, (one.strip() for one in named.split(","))):
        if origin.lower() != "localhost" and not _ORIGIN.fullmatch(origin):
            raise UsageError(
                f"server_origins: {origin[:80]!a} is not the origin of a page",
                hint="write it as https://name or https://name:port, without a path",
            )


def _check_database(named: str) -> None:
    if "://" in named:
        if not named.startswith(("postgresql://", "postgres://")):
            raise UsageError("memory_database: only postgresql://… and paths are supported")
        return
    path = from_home(named, "memory_database").absolute()
    if path.is_dir():
        raise UsageError(f"memory_database: {path} is a folder", hint="name a file in it, such as memory.db")
    if not path.parent.exists():
        raise UsageError(
            f"memory_database: there is no folder {path.parent} yet",
            hint="it is created when something is remembered",
        )


def try_server(config: Config, key: str) -> None:
    """Connect to the server that a setting names, if it names one, and ask for nothing.

    Raises StoreError if the server of the memory cannot be reached, and ModelError for other servers.
    """
    value = getattr(config, key).strip()
    if key in ("memory_vectors", "memory_extraction_endpoint") and "://" in value:
        if (error := connection_error(value)) is not None:
            raise ModelError(
                f"{key}: can't connect to {urlsplit(value).netloc.rpartition('@')[2]}:"
                f" {getattr(error, 'strerror', '') or error}",
                hint="start that server, or correct the address",
            )
    elif key == "memory_database" and "://" in value:
        without_models = replace(config, memory_vectors="", knowledge_reranker="")
        with suppress(StoreMissingError):
            open_memory(without_models, read_only=True).close()
