"""`shepherd doctor`: check everything that a conversation needs, and say how to fix what is missing."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shepherd import kept_files
from shepherd.cli.chat import provider_and_model
from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_memory_options,
    add_model_option,
    given_settings,
    valid_settings,
)
from shepherd.cli.progress import working
from shepherd.commands.screen import Screen, counted, near_miss, size
from shepherd.config import SETTINGS, Config
from shepherd.config.file import ConfigFile, Loaded, all_of, unknown_keys
from shepherd.encryption import set_asker
from shepherd.errors import ConfigError, ModelError, ShepherdError, StoreMissingError
from shepherd.installation import pip_install, reinstall

if TYPE_CHECKING:
    from shepherd.memory import MemoryStats
    from shepherd.providers import ProviderSettings

__all__ = ["CUDA_BUILD", "build_parser", "execute"]

# SQLite below this can corrupt a WAL database when two connections write and checkpoint at the same instant.
_SQLITE_SOUND = (3, 51, 3)

# Without pip's cache, which has the build without CUDA.
CUDA_BUILD = (
    'CMAKE_ARGS="-DGGML_CUDA=on" pip install --force-reinstall --no-deps --no-cache-dir'
    ' --no-binary llama-cpp-python "llama-cpp-python>=0.3.36,<0.4"'
)


@dataclass(frozen=True, slots=True)
class Finding:
    """State of one part: in order, worth knowing, or a problem."""

    name: str
    state: Literal["ok", "note", "problem"]
    detail: str
    hint: str = ""


def build_parser() -> Parser:
    """Build the parser of `shepherd doctor`."""
    parser = Parser(
        prog="shepherd doctor",
        description="Check the installation, the settings, the database, the model and the GPU.\n"
        "It changes nothing. The exit code is 1 if a problem prevents conversations.",
    )
    add_model_option(parser, "model to check")
    add_memory_options(parser)
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Print the findings; returns 1 when there is a problem."""
    from shepherd.memory_factory import unlock_memory

    findings = [_versions()]
    try:
        loaded = valid_settings(arguments)
    except ConfigError as error:
        detail = f"{error}; the checks below use the defaults instead"
        findings.append(Finding("settings", "problem", detail, error.hint))
        config = replace(Config(), **given_settings(arguments))
    else:
        findings.append(_settings(loaded))
        config = loaded.config
    config, model = provider_and_model(config, given_settings(arguments))
    remote = _remote_providers()
    checks: dict[str, Callable[[Config], Finding]] = {
        "SQLite": _sqlite,
        "database": _database,
        "vectors": _vectors,
        "llama.cpp": _llama,
        "device": _device,
        "model": lambda config: _model(config, model),
        **({"draft model": lambda config: _draft_model(config, model)} if config.draft_model else {}),
        "conversations": _kept,
        "provider": _provider,
        **({"providers": lambda config: _providers(config, remote)} if remote else {}),
    }
    # Before there is anything else on the screen; a missing key is a finding of the database.
    with suppress(ShepherdError, OSError):
        unlock_memory(config)
    set_asker(None)
    with working(screen, "looking"):
        findings += [_guarded(name, check, config) for name, check in checks.items()]
        # The last one, since nothing is learned where the others have a problem.
        findings.append(_guarded("learning", lambda config: _learning(config, model, findings), config))
    if arguments.json:
        screen.json([asdict(finding) for finding in findings])
    else:
        _print(findings, screen)
    return 1 if any(finding.state == "problem" for finding in findings) else 0


def _print(findings: list[Finding], screen: Screen) -> None:
    width = max(len(finding.name) for finding in findings)
    style = {"ok": "green", "note": "yellow", "problem": "red"}
    for finding in findings:
        mark = screen.styled(f"{finding.state:7}", style[finding.state], out=True)
        screen.out.write(f"{mark}  {finding.name:{width}}  ")
        screen.print(finding.detail)
        if finding.hint:
            screen.print(f"{'':7}  {'':{width}}  {screen.runnable(finding.hint)}")


def _guarded(name: str, check: Callable[[Config], Finding], config: Config) -> Finding:
    """Run a check; its failure is a finding, too."""
    try:
        return check(config)
    except ShepherdError as error:
        return Finding(name, "problem", str(error), error.hint)
    except ImportError as error:
        return Finding(
            name,
            "problem",
            f"cannot be loaded: {error}",
            f"reinstall Shepherd: {reinstall()}",
        )


def _versions() -> Finding:
    from shepherd import __version__

    return Finding(
        "Shepherd",
        "ok",
        f"{__version__}, Python {platform.python_version()}, {sys.platform} {platform.machine()}",
    )


def _settings(loaded: Loaded) -> Finding:
    if loaded.problems:
        error = all_of(loaded)
        n = len(loaded.problems)
        whose = "its" if n == 1 else "their"
        detail = f"{error}; the checks below use {whose} last valid value or the default instead"
        return Finding("settings", "problem", detail, error.hint)
    if not loaded.path.exists():
        return Finding("settings", "ok", f"{loaded.path} (no such file, so the defaults apply)")
    unknown = unknown_keys(ConfigFile(loaded.path).read())
    if not unknown:
        return Finding("settings", "ok", str(loaded.path))
    hint = near_miss(unknown[0], SETTINGS) or "shepherd config show lists all settings"
    return Finding("settings", "note", f"{loaded.path}: unknown, and ignored: {', '.join(unknown)}", hint)


def _vectors(config: Config) -> Finding:
    from shepherd.setting_checks import check_setting, try_server

    try:
        for key in ("memory_vectors", "knowledge_reranker"):
            check_setting(config, key)
            try_server(config, key)
    except ShepherdError as error:
        return Finding("vectors", "note", f"{error}; only words are searched", error.hint)
    wanted = SETTINGS["memory_vectors"].shown(config.memory_vectors.strip())
    return Finding("vectors", "ok", "off" if wanted in ("", "off") else str(wanted))


def _sqlite(config: Config) -> Finding:
    from shepherd._native.store import HAS_CIPHERS, SQLITE_KIND, SQLITE_VERSION

    detail = f"{SQLITE_VERSION}, {SQLITE_KIND}, {'with' if HAS_CIPHERS else 'without'} encryption"
    if tuple(map(int, SQLITE_VERSION.split(".")[:3])) < _SQLITE_SOUND:
        return Finding(
            "SQLite",
            "note",
            f"{detail}: this version can corrupt a database that two connections write at once",
            f"build Shepherd with the bundled SQLite: SHEPHERD_SQLITE=bundled {pip_install('.')}",
        )
    return Finding("SQLite", "ok", detail)


def _database(config: Config) -> Finding:
    from shepherd.paths import default_database, from_home

    if "://" in config.memory_database:
        return _server(config)
    named = config.memory_database
    path = from_home(named, "memory_database") if named else default_database()
    found = _file(config, path)
    if path.is_absolute() or found.state == "problem":
        return found
    return Finding(
        "database",
        "note",
        f"{found.detail}; memory_database is a relative path, so each folder has its own memory",
        f"for one memory everywhere, run shepherd config set memory_database {shlex.quote(named)}"
        " in the folder of the database",
    )


def _file(config: Config, path: Path) -> Finding:
    """Check a memory in a file."""
    from shepherd.memory.database import key_of_file
    from shepherd.memory_factory import open_memory

    path = path.absolute()
    if not path.exists():
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            return Finding(
                "database",
                "problem",
                f"{path}: {folder} {'cannot be written' if folder.is_dir() else 'is not a folder'}",
                "--memory-db names another place",
            )
        return Finding("database", "ok", f"{path} (doesn't exist yet: made when something is remembered)")
    with open_memory(config, read_only=True) as memory:
        stats, user = memory.stats(), memory.user_id
    detail = f"{path}: {_contents(stats, user)}; {'encrypted' if stats.is_encrypted else 'not encrypted'}"
    if stats.hot_saved_bytes:
        detail += f"; fast indexes {size(stats.hot_saved_bytes)}"
    if (key := key_of_file(str(path))) is not None and not key.is_locked:
        detail += ", and its key can get into swap space: the system locks no more memory of this process"
        return Finding("database", "note", detail, "raise the limit (ulimit -l), or encrypt the swap space")
    if locked := _locked(path):
        return Finding("database", "note", f"{detail}; it cannot be written", f"chmod u+w {locked}")
    return Finding("database", "ok", detail)


def _locked(path: Path) -> Path | None:
    """Return what keeps a database from being written: its file, or its folder, which gets SQLite's log."""
    return next((place for place in (path, path.absolute().parent) if not os.access(place, os.W_OK)), None)


def _server(config: Config) -> Finding:
    """Check a memory in PostgreSQL."""
    from shepherd.memory_factory import open_memory

    try:
        memory = open_memory(config, read_only=True)
    except StoreMissingError as error:
        return Finding("database", "ok", f"{error} (made when something is remembered)")
    with memory:
        stats, user = memory.stats(), memory.user_id
    return Finding("database", "ok", f"{stats.path}: {_contents(stats, user)}")


def _contents(stats: MemoryStats, user: str) -> str:
    return f"{counted(stats.memories, 'memory', 'memories')}, {counted(stats.facts, 'fact')} of {user}"


def _llama(config: Config) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    from shepherd.inference.binding import llama

    llama()
    try:
        return Finding("llama.cpp", "ok", f"llama-cpp-python {version('llama-cpp-python')}")
    except PackageNotFoundError:
        return Finding("llama.cpp", "ok", "loaded")


def _device(config: Config) -> Finding:
    from shepherd.inference.binding import devices

    found = devices()
    gpus = [description for kind, description in found if kind in ("gpu", "igpu")]
    cpu = next((description for kind, description in found if kind == "cpu"), platform.machine())
    if gpus and config.gpu_layers != 0:
        return Finding("device", "ok", ", ".join(gpus))
    if gpus:
        return Finding(
            "device",
            "note",
            f"{cpu}; {gpus[0]} is not used: gpu_layers is 0",
            "shepherd config unset gpu_layers",
        )
    if shutil.which("nvidia-smi"):
        return Finding(
            "device",
            "note",
            f"{cpu}; the NVIDIA GPU is not used: this llama-cpp-python was built without CUDA",
            CUDA_BUILD.replace("pip install", pip_install("").rstrip()),
        )
    return Finding("device", "ok", f"{cpu}; no GPU was found")


def _kept(config: Config) -> Finding:
    """Return how many caches of conversations are on disk, and where. The conversations are in the memory."""
    found, folder = kept_files.usage(), kept_files.folder()
    if config.cache_disk_gb == 0 or config.cache_ram_mb == 0:
        off = "cache_disk_gb" if config.cache_disk_gb == 0 else "cache_ram_mb"
        left = f"; {size(found.size_bytes)} are left in {folder}" if found.n else ""
        return Finding("conversations", "note", f"none is prepared for reuse on disk: {off} is 0{left}")
    limit = size(int(config.cache_disk_gb * 1e9))
    kept = (
        f"{found.n:,} prepared for reuse on disk, {size(found.size_bytes)} of {limit}, in {folder}"
        " (a cache; your chats are in the memory)"
    )
    return Finding("conversations", "ok", kept)


def _draft_model(config: Config, given: str) -> Finding:
    """Check that the draft model is there and has the vocabulary of the model that answers."""
    from shepherd.inference.models import ModelRegistry
    from shepherd.inference.names import HUB_PREFIX, parse_hub_name
    from shepherd.setting_checks import check_setting

    config = replace(config, model=given or config.model)
    if config.draft == "off":
        return Finding("draft model", "note", "isn't used: draft is off", "shepherd config set draft auto")
    path = ModelRegistry().configured(config.draft_model)
    if path is None and config.draft_model.startswith(HUB_PREFIX):
        wanted = parse_hub_name(config.draft_model)
        return Finding(
            "draft model", "note", f"{wanted} is not on this machine yet", f"shepherd model pull {wanted}"
        )
    check_setting(config, "draft_model")
    return Finding("draft model", "ok", f"{path or config.draft_model}: drafts for the model")


def _provider(config: Config) -> Finding:
    from shepherd.providers import ProviderTable
    from shepherd.providers.keys import require_key
    from shepherd.providers.transport import require_client

    provider = ProviderTable().configured(config.provider)
    if provider.is_local:
        return Finding("provider", "ok", "this process")
    require_client(provider)
    source = require_key(provider).source
    with_key = f"key from {source}" if source else "without a key"
    memory = "memory on" if provider.uses_memory else "memory off"
    return Finding("provider", "ok", f"{provider.name}: {provider.address}, {with_key}, {memory}")


def _remote_providers() -> list[ProviderSettings]:
    from shepherd.providers import ProviderTable

    table, found = ProviderTable(), []
    with suppress(ShepherdError):  # the file is broken, a finding of the settings
        for name in table.names():
            with suppress(ShepherdError):  # what uses this entry says what is wrong with it
                found.append(table.get(name))
    return [provider for provider in found if not provider.is_local]


def _providers(config: Config, providers: Sequence[ProviderSettings]) -> Finding:
    """Check that the servers of all providers take a connection. Nothing is asked, since that could cost."""
    from shepherd.providers.reachability import unreachable_ones

    missing = unreachable_ones(providers)
    if not missing:
        names = ", ".join(provider.name for provider in providers)
        return Finding("providers", "ok", f"{names}: reachable; shepherd provider test NAME asks one")
    state: Literal["note", "problem"] = "problem" if config.provider in dict(missing) else "note"
    return Finding(
        "providers",
        state,
        "; ".join(str(failure) for _, failure in missing),
        "; ".join(dict.fromkeys(failure.hint for _, failure in missing)),
    )


def _learning(config: Config, given: str, findings: Iterable[Finding]) -> Finding:
    """Say whether something is learned from what is said, and with which model, after the other findings."""
    from shepherd.factory import learning_of
    from shepherd.inference.models import ModelRegistry
    from shepherd.inference.names import HUB_PREFIX
    from shepherd.model_files import model_path
    from shepherd.paths import default_database, from_home
    from shepherd.providers import ProviderTable
    from shepherd.setting_checks import try_server

    needed = ("database", "model", "provider")
    broken = [one.name for one in findings if one.name in needed and one.state == "problem"]
    if broken:
        return Finding("learning", "note", f"nothing can be learned: see {' and '.join(broken)}")
    database = config.memory_database
    file = from_home(database, "memory_database") if database else default_database()
    is_writable = "://" in database or not file.exists() or _locked(file) is None
    provider = ProviderTable().configured(config.provider)
    path, is_missing = None, False
    if provider.is_local:
        named = given or provider.model or config.model
        path = ModelRegistry().configured(named)
        if path is None:
            # One that is not here yet is not downloaded to find out.
            is_remote = named.startswith(HUB_PREFIX)
            path = Path(named.rpartition("/")[2]) if is_remote else model_path(replace(config, model=named))
            is_missing = is_remote
    learning = learning_of(config, path, uses_memory=provider.uses_memory, is_writable=is_writable)
    if learning.where == "chat" and is_missing:
        return Finding(
            "learning", "note", f"off until the model is on this machine; then {learning.in_words()}"
        )
    try:
        if learning.is_on:
            try_server(config, "memory_extraction_endpoint")
    except ModelError as error:
        waits = f"{error}; nothing is learned until the server answers"
        return Finding("learning", "note", waits, error.hint)
    is_sound = is_writable and not learning.remedy
    return Finding("learning", "ok" if is_sound else "note", learning.in_words(), learning.remedy)


def _model(config: Config, given: str) -> Finding:
    """Check the model that answers: that of -m, else the provider's, else the setting's."""
    from shepherd.inference import read_header
    from shepherd.inference.models import ModelRegistry
    from shepherd.inference.names import HUB_PREFIX, parse_hub_name
    from shepherd.model_files import model_path
    from shepherd.providers import ProviderTable

    if config.provider or not given:
        provider = ProviderTable().configured(config.provider)
        if not provider.is_local:
            named = given or provider.model or "the model"
            detail = f"{named} of {provider.name} runs elsewhere, and was not tried"
            return Finding("model", "note", detail, f"shepherd provider test {provider.name}")
        config = replace(config, model=given or provider.model or config.model)
    path = ModelRegistry().configured(config.model)
    if path is None and config.model.startswith(HUB_PREFIX):
        wanted = parse_hub_name(config.model)
        return Finding(
            "model", "note", f"{wanted} is not on this machine yet", f"shepherd model pull {wanted}"
        )
    path = path or model_path(config)
    header = read_header(path)
    name = header.metadata.get("general.name", path.stem)
    return Finding("model", "ok", f"{path}: {name}, {header.architecture}, {header.file_bytes / 1e6:,.1f} MB")
