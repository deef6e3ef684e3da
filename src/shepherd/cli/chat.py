"""`shepherd chat`: one answer, JSON lines, or a conversation at the prompt."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_engine_options,
    add_memory_options,
    add_model_options,
    add_setting_option,
    given_settings,
    loaded_settings,
)
from shepherd.commands.explain import arguments_in_full, news_in_words
from shepherd.commands.gc_policy import GCPolicy
from shepherd.commands.screen import Screen, counted, printable
from shepherd.errors import ShepherdError, UsageError

if TYPE_CHECKING:
    from shepherd.config import Config
    from shepherd.memory import Memory

__all__ = [
    "about_the_built_in_model",
    "add_conversation_options",
    "build_parser",
    "conversation_settings",
    "execute",
    "local_model",
    "provider_and_model",
    "show_news_at_end",
]

_DESCRIPTION = """\
Chat with a model that remembers, on this machine or elsewhere (shepherd provider).

Text on stdin is the message, or is appended to the text of -e. Answers stream to stdout, everything else goes
to stderr. At the prompt, /help lists the commands, Alt-Enter or a \\ at the end of a line starts a new line,
Ctrl-C stops the answer, Ctrl-D quits."""

_EPILOG = """\
With --json each line of stdin is {"prompt": "…"} (with "memory": false for one private turn), and each
line of stdout is an object whose "event" is ready, recalled, delta, thought, tool_call, tool_result,
warning, error or finished.

exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted"""


def build_parser() -> Parser:
    """Build the parser of `shepherd chat`."""
    parser = Parser(prog="shepherd chat", description=_DESCRIPTION, epilog=_EPILOG)
    add_model_options(parser)
    parser.add_argument("-e", "--prompt", metavar="TEXT", help="answer this message and exit")
    parser.add_argument(
        "--show-context", action="store_true", help="show on stderr the message as the model sees it"
    )
    parser.add_argument("--plain", action="store_true", help="show answers as they are, not as Markdown")
    add_common_options(parser, json_help="JSON lines in and out, nothing else on stdout")

    shared = parser.add_argument_group("the shared conversation of a server")
    shared.add_argument(
        "--backend", choices=["cli"], help="cli: join the conversation of a shepherd serve --session"
    )
    add_setting_option(shared, "--api-base", "api_base", "URL")

    add_conversation_options(parser)
    return parser


def add_conversation_options(parser: Parser) -> None:
    """Add the options that are the same at every prompt."""
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="continue the last conversation"
    )
    memory = parser.add_argument_group("memory")
    memory.add_argument("--nomemory", action="store_true", help="neither read nor write memory")
    memory.add_argument(
        "--norag", action="store_true", help="append nothing from memory, but still store what you say"
    )
    memory.add_argument(
        "--memtools",
        action="store_true",
        help="let the model search and change the memory with tools (shepherd tools)",
    )
    add_memory_options(memory)

    tools = parser.add_argument_group("tools of other programs")
    add_setting_option(tools, "--mcp", "mcp_servers", "NAMES")

    sampling = parser.add_argument_group("the answer")
    add_setting_option(sampling, "--system", "system_prompt", "TEXT")
    for option, key in (
        ("--max-tokens", "max_tokens"),
        ("--temperature", "temperature"),
        ("--top-k", "top_k"),
        ("--top-p", "top_p"),
        ("--min-p", "min_p"),
        ("--repeat-penalty", "repeat_penalty"),
        ("--seed", "seed"),
    ):
        add_setting_option(sampling, option, key, "N")

    add_engine_options(parser)


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run it; the message is read before the model is loaded, so that a mistake costs no waiting."""
    with GCPolicy() as gc_policy:
        if arguments.json:
            from shepherd.cli.jsonlines import stdout_alone

            with stdout_alone(screen):
                return _chat(arguments, screen, gc_policy)
        return _chat(arguments, screen, gc_policy)


def _chat(arguments: Namespace, screen: Screen, gc_policy: GCPolicy) -> int:
    config, model = conversation_settings(arguments)
    message = None if arguments.json and arguments.prompt is None else _message(arguments.prompt)

    if arguments.backend:
        from shepherd.cli.shared_session import join_session

        gc_policy.freeze()
        return join_session(config, message, screen, as_json=arguments.json, memory=not arguments.nomemory)

    from shepherd.chat_session import Session

    is_conversation = message is None and not arguments.json
    if is_conversation:
        from shepherd.cli.first_start import offer_full_model

        config, model = offer_full_model(config, model, screen)
    model, note = local_model(config, model, screen)
    if note and not arguments.json:
        screen.note(note)
    # In a pipe nobody would see it: it waits for the next conversation.
    shows_news = is_conversation or (screen.err_is_terminal and not arguments.json)
    with Session(
        config,
        model=model,
        memory=not arguments.nomemory,
        warn=screen.warn,
        loading=screen.transient,
        confirm=partial(_confirm, screen) if is_conversation else None,
        is_limited="max_tokens" in given_settings(arguments),
        at_end=partial(show_news_at_end, screen) if shows_news else None,
    ) as session:
        assistant = session.assistant
        resumed = assistant.resume() if arguments.resume else 0
        if arguments.resume and not resumed:
            screen.warn("there is no conversation to continue; this is a new one")
        gc_policy.freeze()
        if arguments.json:
            from shepherd.cli.jsonlines import answer_lines

            return answer_lines(assistant, screen, [message] if message is not None else None)

        from shepherd.cli.conversation import Conversation, show_turn
        from shepherd.cli.main import INTERRUPTED

        if message is None:
            conversation = Conversation(
                assistant,
                screen,
                session=session,
                show_context=arguments.show_context,
                plain=arguments.plain,
            )
            return conversation.run(resumed)
        finished = show_turn(
            assistant, message, screen, show_context=arguments.show_context, plain=arguments.plain
        )
        return INTERRUPTED if finished.stats.finish_reason == "cancelled" else 0


def conversation_settings(arguments: Namespace) -> tuple[Config, str]:
    """Return the settings of a conversation, and the model of -m, which overrides the provider's."""
    config, model = provider_and_model(loaded_settings(arguments).config, given_settings(arguments))
    if arguments.memtools:
        config = replace(config, memory_tools=True)
    if arguments.norag:
        config = replace(config, rag_context_injection=False)
    return config, model


def provider_and_model(config: Config, given: dict[str, Any]) -> tuple[Config, str]:
    """Return the settings with the provider that answers, and the model of -m, "" without it.

    `given` are the options. A model that can only be a local file is not meant for a remote provider, unless
    -p names one.
    """
    model = given.get("model", "")
    if "provider" not in given and (model.startswith("hf:") or model.endswith(".gguf")):
        config = replace(config, provider="")
    return config, model


def local_model(config: Config, model: str, screen: Screen) -> tuple[str, str]:
    """Return the path of a local model, downloaded if need be, and a note on the bundled one.

    A remote provider's `model` is returned as it is.
    """
    from shepherd.cli.progress import downloads
    from shepherd.factory import model_path
    from shepherd.inference.models import is_built_in
    from shepherd.providers import ProviderTable

    provider = ProviderTable().get(config.provider)
    if not provider.is_local:
        return model, ""
    with downloads(screen) as report:
        path = model_path(replace(config, model=model or provider.model or config.model), report)
    return str(path), about_the_built_in_model() if is_built_in(path) else ""


def show_news_at_end(screen: Screen, memory: Memory, user_id: str) -> None:
    """Show what was learned at the end of a conversation."""
    try:
        lines = news_in_words(memory.take_news(user_id), in_chat=False)
    except ShepherdError:  # the next start shows it
        return
    for line in lines:
        screen.note(line)


def about_the_built_in_model() -> str:
    """Return one line about the bundled model, and how to choose another."""
    from shepherd.inference.models import SUGGESTED

    return (
        "The bundled demo model answers: it can remember and recall, and nothing more. "
        f"For a full one: shepherd -m {SUGGESTED}"
    )


def _confirm(screen: Screen, name: str, arguments: dict[str, Any]) -> bool:
    """Ask whether a tool can be called, after showing all arguments of the call."""
    shown = arguments_in_full(arguments)
    return screen.agrees(printable(f"{shown}\n{name} may change something. Allow it?").lstrip("\n"))


def _message(prompt: str | None) -> str | None:
    """Return the one message of this run, from -e and stdin; None for a conversation at a terminal."""
    piped = _piped_text()
    if prompt is None and piped is None:
        if sys.stdin is None or not sys.stdin.isatty():
            raise UsageError("nothing was asked", hint='-e "a question", or text on stdin')
        return None
    message = "\n\n".join(part for part in (prompt, piped) if part)
    if not message.strip():
        raise UsageError("nothing was asked", hint='-e "a question", or text on stdin')
    _require_text(message)
    return message


def _piped_text() -> str | None:
    """Return stdin without its last line end when it is a pipe or a file; None when it is a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return None
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"stdin: byte {error.start:,} of {counted(len(data), 'byte')} is not UTF-8",
            hint="convert it first: iconv -f latin1 -t utf-8",
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def _require_text(message: str) -> None:
    # An argument that is not UTF-8 arrives with surrogates in place of its bytes.
    try:
        message.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"-e: character {error.start:,} is not valid text", hint="use UTF-8") from None
