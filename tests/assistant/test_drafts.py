"""Answers are drafted from earlier ones to the same user, and from nobody else's; the settings decide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.factory import open_engine
from shepherd.inference import Engine


def test_an_answer_is_kept_for_its_user_alone(
    new_assistant: Callable[..., Assistant], endless_engine: Engine
) -> None:
    list(new_assistant(engine=endless_engine, max_tokens=20).ask("hello"))

    kept = endless_engine._earlier.of("steve")
    assert kept is not None
    assert len(kept) == 21  # with a mark of its end
    assert endless_engine._earlier.of("ann") is None


def test_what_nobody_known_was_answered_is_not_kept(
    new_assistant: Callable[..., Assistant], endless_engine: Engine
) -> None:
    list(new_assistant(engine=endless_engine, user_id="unknown", max_tokens=20).ask("hello"))

    assert endless_engine._earlier.of("unknown") is None


@pytest.mark.parametrize("draft", ["auto", "off"])
def test_the_setting_reaches_the_engine(draft: str, plain_model: Path) -> None:
    with open_engine(Config(draft=draft, n_ctx=256), plain_model) as engine:  # type: ignore[arg-type]
        assert engine.settings.draft == draft
