"""The models that a server offers: those that its settings name, and how much memory they take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.errors import ModelError, UsageError
from shepherd.inference import EngineSettings, read_header
from shepherd.inference.load_check import model_bytes, total_bytes
from shepherd.inference.model import DEFAULT_WINDOW
from shepherd.inference.models import (
    BUILT_IN,
    ModelRegistry,
    StoredModel,
    is_built_in,
    parameters_in,
    quant_in,
)
from shepherd.inference.names import HUB_PREFIX
from shepherd.providers import ProviderSettings, ProviderTable

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.inference import Engine
    from shepherd.inference.hub import Report

__all__ = [
    "About",
    "Offer",
    "about_engine",
    "aliases_of",
    "budget_of",
    "name_of",
    "offer_of",
    "offered",
    "providers_of",
    "windows_in",
]

# Stands for all models on this machine.
INSTALLED = "installed"
# Stands for all providers that are configured.
ALL = "all"
# Of the machine's memory, when no setting says how much.
_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class About:
    """Properties of a model, from its header. `size_bytes` is the size of its files."""

    architecture: str
    quant: str
    n_params: int
    n_ctx_train: int
    chat_template: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Offer:
    """A file that is offered under a name; `also` are other names for it."""

    name: str
    path: Path
    about: About
    also: tuple[str, ...] = ()


def name_of(path: Path) -> str:
    """Return the name that clients use for the model of a file."""
    return BUILT_IN if is_built_in(path) else path.stem


def about_engine(engine: Engine) -> About:
    """Return what a loaded model is."""
    info = engine.info
    quant = info.description.rpartition(" ")[2]
    return About(
        info.architecture, quant, info.n_params, info.n_ctx_train, info.chat_template, info.size_bytes
    )


def offer_of(model: StoredModel) -> Offer:
    """Return a model of this machine as it is offered. Raises ModelError for a damaged file."""
    header = read_header(model.path)
    template = header.metadata.get("tokenizer.chat_template")
    trained = header.metadata.get(f"{header.architecture}.context_length")
    about = About(
        header.architecture,
        quant_in(header, model.path),
        parameters_in(header),
        trained if isinstance(trained, int) else 0,
        template if isinstance(template, str) else "",
        model.size_bytes,
    )
    if not model.name.startswith(HUB_PREFIX):
        return Offer(name_of(model.path), model.path, about)
    plain = model.name.removeprefix(HUB_PREFIX)
    repo = plain.partition(":")[0]
    names = [f"{hub}{one}" for one in (plain, repo) for hub in ("hf.co/", "huggingface.co/", HUB_PREFIX)]
    return Offer(model.name, model.path, about, (*names, model.path.stem))


def offered(config: Config, report: Report) -> list[Offer]:
    """Return the models that `server_models` names; a missing one of the hub is downloaded.

    Raises UsageError for one that is not there, and ModelError for a damaged file.
    """
    registry, found = ModelRegistry(), []
    for name in _names_in(config.server_models):
        if name == INSTALLED:
            found += _installed(registry)
            continue
        try:
            path = registry.resolve(name, report)
            if not path.exists():
                raise UsageError(
                    f"{path}: there is no such file", hint="shepherd model list shows what is here"
                )
        except UsageError as error:
            raise UsageError(f"server_models: {error}", hint=error.hint) from None
        stored = registry.find(name) if name.startswith(HUB_PREFIX) else None
        found.append(offer_of(stored or registry.at(path)))
    return list({offer.name: offer for offer in reversed(found)}.values())[::-1]


def _installed(registry: ModelRegistry) -> list[Offer]:
    """Return the models of this machine that can chat; damaged ones are left out."""
    found = []
    for model in registry.models():
        if not model.complete:
            continue
        try:
            offer = offer_of(model)
        except ModelError:
            continue
        if offer.about.chat_template:
            found.append(offer)
    return found


def providers_of(config: Config, default: ProviderSettings) -> list[ProviderSettings]:
    """Return the providers that `server_providers` names, without the default one.

    Raises UsageError for one that is not configured or whose entry is invalid.
    """
    table, found = ProviderTable(), []
    for name in _names_in(config.server_providers):
        try:
            found += [table.get(one) for one in (table.names() if name == ALL else [name])]
        except UsageError as error:
            raise UsageError(f"server_providers: {error}", hint=error.hint) from None
    others = {provider.name: provider for provider in found if provider.name != default.name}
    return list(others.values())


def aliases_of(config: Config) -> dict[str, str]:
    """Return the models that `server_model_aliases` gives to names. UsageError if it is malformed."""
    aliases = {}
    for pair in _names_in(config.server_model_aliases):
        name, equals, model = (part.strip() for part in pair.partition("="))
        if not equals or not name or not model:
            raise UsageError(
                f"server_model_aliases: {pair[:80]!a} is not a pair of names",
                hint="expected gpt-4o=default, …",
            )
        aliases[name] = model
    return aliases


def budget_of(config: Config) -> int:
    """Return the bytes for models that are loaded together; 0, no limit, if the system tells no size."""
    if config.server_models_mb:
        return config.server_models_mb << 20
    return int(_SHARE * (total_bytes() or 0))


def windows_in(budget_bytes: int, path: Path, settings: EngineSettings) -> tuple[int, int]:
    """Return how many windows fit into a budget beside the model, one at least, and the bytes of both."""
    for windows in range(settings.windows, 0, -1):
        needed = model_bytes(path, replace(settings, windows=windows), DEFAULT_WINDOW)
        if needed <= budget_bytes or not budget_bytes:
            return windows, needed
    return 1, needed


def _names_in(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip())]
