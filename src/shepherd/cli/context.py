"""`shepherd context build`: the prompt of one question, for pipes, tests and other programs."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from shepherd.cli.parsing import (
    COUNT,
    Parser,
    add_action,
    add_actions,
    add_model_option,
    finish_actions,
    loaded_settings,
)
from shepherd.commands.screen import Screen, counted
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.memory import Memory
    from shepherd.prompt import OneShot

__all__ = ["build_parser", "execute"]


def build_parser() -> Parser:
    """Build the parser of `shepherd context`."""
    parser = Parser(
        prog="shepherd context",
        description="Show what a model would see. Tokens are counted by the tokenizer of the model.",
    )
    actions = add_actions(parser)
    build = add_action(actions, "build", "print one prompt: [SYSTEM] [CONTEXT] [KNOWLEDGE] [USER]")
    build.add_argument("question", nargs="*", metavar="QUESTION", help="question (default: stdin)")
    build.add_argument(
        "--max-tokens", type=COUNT, metavar="N", help="maximum length of the prompt in tokens (default: 4096)"
    )
    build.add_argument(
        "--continue", dest="resume", action="store_true", help="include the turns of the last conversation"
    )
    build.add_argument("--times", action="store_true", help="show the time of each turn as [HH:MM]")
    add_model_option(build, "model that the prompt is for")
    finish_actions(actions, with_memory=True)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.memory_factory import open_memory_to_read

    question = " ".join(arguments.question) if arguments.question else _from_stdin()
    if not question.strip():
        raise UsageError("there is no question", hint='shepherd context build "a question"')
    config = loaded_settings(arguments).config
    with open_memory_to_read(config) as memory:
        made = _build(question, config, memory, arguments)
    for warning in made.plan.warnings:
        screen.warn(warning)
    screen.result(made.as_dict(), made.text, note=_summary(made))
    return 0


def _build(question: str, config: Config, memory: Memory, arguments: Namespace) -> OneShot:
    from shepherd.factory import own_summarizer
    from shepherd.inference.tokenization import open_tokenizer
    from shepherd.model_files import model_path
    from shepherd.prompt.one_shot import DEFAULT_TOKENS
    from shepherd.prompt.window_budget import TokenCounts
    from shepherd.turn.components import LAST_SESSION, build_context

    path = model_path(config)
    user = memory.user_id
    with open_tokenizer(path) as vocabulary, own_summarizer(config, path) as summarizer:
        return build_context(
            question,
            memory,
            config,
            user,
            session_id=LAST_SESSION if arguments.resume else "",
            max_tokens=DEFAULT_TOKENS if arguments.max_tokens is None else arguments.max_tokens,
            count=TokenCounts(lambda text: len(vocabulary.tokenize(text))),
            times=arguments.times,
            summarize=None if summarizer is None else summarizer.summarize,
        )


def _from_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _summary(made: OneShot) -> str:
    used = [f"{category} {tokens:,}" for category, tokens in made.plan.budget.items() if tokens]
    left = sum(part.reason == "no room" for part in made.plan.left_out)
    rest = f"; {counted(left, 'part')} had no room" if left else ""
    return f"{counted(made.tokens, 'token')} of {made.max_tokens:,}: {', '.join(used)}{rest}"
