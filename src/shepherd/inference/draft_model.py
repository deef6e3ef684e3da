"""A second, smaller model that drafts the next tokens of answers, which the model itself then checks.

It must have the same vocabulary, since its tokens are the model's. Its context has a sequence for each slot
of the engine and never outlives it.
"""

from __future__ import annotations

import os
from dataclasses import replace

from shepherd._native import engine as native
from shepherd.errors import ModelLoadError
from shepherd.inference.load_check import require
from shepherd.inference.model import EngineSettings, LoadedModel
from shepherd.inference.tokenization import Vocabulary, open_tokenizer

__all__ = ["check_pair", "native_draft_model", "open_draft_model"]

# Models of one family may have a few more unused tokens at the end.
_MOST_PADDING = 128
# Tokens that it reads between two steps of the model.
_CHUNK = 128
_CUTTABLE = ("plain", "sliding")
_HINT = "take a smaller model of the same family, or run without one: shepherd config unset draft_model"


def open_draft_model(model: LoadedModel, settings: EngineSettings, *, is_trusted: bool) -> LoadedModel:
    """Load the draft model that the settings name, for a model with these settings.

    Raises ModelLoadError, which names both files, if it can't draft for that model.
    """
    path = settings.draft_model
    if model.info.cache_kind not in _CUTTABLE:
        raise _unfit(path, model.path, "the cache of that model can't be rewound, so it has no drafts")
    require(path, is_trusted=is_trusted)
    drafting = LoadedModel(path, settings_for(settings, model.window_tokens), tries_projector=False)
    try:
        if drafting.info.cache_kind not in _CUTTABLE:
            raise _unfit(path, model.path, "its own cache can't be rewound")
        _check(path, drafting.vocabulary, model.path, model.vocabulary)
    except BaseException:
        drafting.close()
        raise
    return drafting


def settings_for(settings: EngineSettings, window: int) -> EngineSettings:
    """Return the settings of the draft model's own context, for a model with that window."""
    return replace(
        settings,
        draft_model="",
        draft="off",
        mmproj="none",
        n_ctx=window,
        n_ubatch=min(settings.n_ubatch, _CHUNK),
        n_batch=min(settings.n_batch, _CHUNK),
        swa_full=True,  # else a draft that was wrong could not be taken back
        cache_ram_bytes=0,
        cache_disk_bytes=0,
    )


def native_draft_model(model: LoadedModel) -> native.DraftModel:
    """Return it as the native engine takes it."""
    trained = model.info.n_ctx_train or model.window_tokens
    return native.DraftModel(
        model.context_address,
        model.memory_address,
        model.vocabulary.address,
        kind=model.native_kind(),
        n_window=min(model.window_tokens, trained),
        n_swa=model.info.n_swa,
        n_chunk=model.settings.n_ubatch,
    )


def check_pair(draft_path: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Raise ModelLoadError unless the first model has the vocabulary of the second; reads no weights."""
    with open_tokenizer(draft_path) as drafting, open_tokenizer(path) as vocabulary:
        _check(os.fspath(draft_path), drafting, os.fspath(path), vocabulary)


def _check(draft_path: str, drafting: Vocabulary, path: str, vocabulary: Vocabulary) -> None:
    different = native.first_difference(drafting.address, vocabulary.address)
    if different >= 0:
        one, two = (each.piece(different)[:40] for each in (drafting, vocabulary))
        raise _unfit(
            draft_path,
            path,
            f"their vocabularies differ: token {different} is {one!r} here and {two!r} there",
        )
    if abs(drafting.n_tokens - vocabulary.n_tokens) > _MOST_PADDING:
        raise _unfit(
            draft_path,
            path,
            f"their vocabularies differ: {drafting.n_tokens:,} tokens here and {vocabulary.n_tokens:,} there",
        )


def _unfit(draft_path: str, path: str, reason: str) -> ModelLoadError:
    return ModelLoadError(f"model '{draft_path}' can't draft for '{path}': {reason}", hint=_HINT)
