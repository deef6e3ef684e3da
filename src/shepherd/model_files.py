"""The files of the models that settings name, downloaded if need be."""

from __future__ import annotations

import os
from pathlib import Path

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.inference.hub import Report
from shepherd.inference.models import ModelRegistry, resolve
from shepherd.inference.names import HUB_PREFIX, hub_name_meant
from shepherd.paths import from_any_folder

__all__ = ["MODEL_SETTINGS", "existing_file", "model_from_any_folder", "model_path"]

# Settings whose values name models, with the hint for a wrong name.
MODEL_SETTINGS = {
    "model": "name a GGUF file with -m or the setting 'model'",
    "memory_vectors": "name a GGUF file or a server in memory_vectors, or set it to off",
    "knowledge_reranker": "name a GGUF file in knowledge_reranker, or set it to off",
    "memory_extraction_model": "name a GGUF file in memory_extraction_model, or unset it",
    "server_embeddings": "name a GGUF made for embeddings in server_embeddings",
    "draft_model": "name a GGUF file in draft_model, or unset it",
}


def model_path(config: Config, report: Report = lambda event: None) -> Path:
    """Return the file of the configured model; one named hf:… is downloaded if it is not here.

    Raises UsageError if there is no such file.
    """
    return existing_file(config.model, "model", report)


def existing_file(model: str, setting: str, report: Report = lambda event: None) -> Path:
    """Return the file of a model that a setting names, downloaded if need be; UsageError if there is none."""
    try:
        path = resolve(model, report)
    except UsageError as error:
        if setting == "model":
            error.hint = f"{error.hint}; {MODEL_SETTINGS[setting]}"
            raise
        raise UsageError(f"{setting}: {error}", hint=error.hint) from None
    if path.is_dir():
        raise UsageError(f"{path}: this is a folder, not a model", hint=MODEL_SETTINGS[setting])
    if not path.exists():
        meant = hub_name_meant(model)
        hint = f"did you mean {meant}?" if meant else MODEL_SETTINGS[setting]
        raise UsageError(f"{model if meant else path}: there is no such file", hint=hint)
    return path


def model_from_any_folder(name: str, *, is_elsewhere: bool = False) -> str:
    """Return what names a model; the path of a file becomes absolute, whether the file exists or not.

    The bare name of a file that was downloaded stays as it is, unless such a file is in this folder. Models
    that run elsewhere (`is_elsewhere`) have no files here.
    """
    if is_elsewhere or "://" in name or name.startswith(HUB_PREFIX):
        return name
    if Path(name).is_file() or name.startswith((f".{os.sep}", f"..{os.sep}")):
        return from_any_folder(name)
    if not name.lower().endswith(".gguf") or (os.sep not in name and _was_downloaded(name)):
        return name
    return from_any_folder(name)


def _was_downloaded(name: str) -> bool:
    try:
        return ModelRegistry().find(name) is not None
    except UsageError:  # it fits several
        return True
