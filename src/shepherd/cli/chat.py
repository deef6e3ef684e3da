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
    add_memory_options,
    add_setting_option,
    given_settings,
    loaded_settings,
)
from shepherd.commands.explain import arguments_in_full
from shepherd.commands.gc_policy import Garbage
from shepherd.commands.screen import Screen, counted, printable
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.chat_session import Session
    from shepherd.config import Config

__all__ = [
    "about_the_built_in_model",
    "add_conversation_options",
    "add_model_options",
    "build_parser",
    "execute",
    "provider_and_model",
    "who_answers",
]

_DESCRIPTION = """\
Talk with a model that remembers, on this machine or elsewhere (shepherd provider).

Text on stdin is the message, or is appended to the text of -e. An answer goes to stdout as it is
generated, everything else to stderr. At the prompt, /help lists the commands, Alt-Enter or a \\ at the
end of a line begins a new line, Ctrl-C stops the answer, Ctrl-D quits."""

_EPILOG = """\
With --json each line of stdin is {"prompt": "…"} (with "memory": false for one private turn), and each
line of stdout is an object whose "event" is ready, recalled, delta, thought, tool_call, tool_result,
warning, error or finished.

exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted"""


def build_parser() -> Parser:
    """The options of `shepherd chat`."""
    parser = Parser(prog="shepherd chat", description=_DESCRIPTION, epilog=_EPILOG)
    add_model_options(parser)
    parser.add_argument("-e", "--prompt", metavar="TEXT", help="answer this one message and end")
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last conversation"
    )
    parser.add_argument(
        "--show-context", action="store_true", help="show on stderr what the model really sees"
    )
    add_common_options(parser, json_help="JSON lines in and out, nothing else on stdout")

    elsewhere = parser.add_argument_group("a conversation that a server has")
    elsewhere.add_argument(
        "--backend", choices=["cli"], help="cli: take part in the conversation of a shepherd serve --session"
    )
    add_setting_option(elsewhere, "--api-base", "api_base", "URL")

    add_conversation_options(parser)
    return parser


def add_model_options(parser: Parser) -> None:
    """Who answers."""
    add_setting_option(parser, "--model", "model", "NAME", short="-m")
    add_setting_option(parser, "--provider", "provider", "NAME", short="-p")


def add_conversation_options(parser: Parser) -> None:
    """What a conversation remembers, and how it is answered; the same at every prompt."""
    memory = parser.add_argument_group("memory")
    memory.add_argument("--nomemory", action="store_true", help="neither read nor write memory")
    memory.add_argument(
        "--norag", action="store_true", help="append nothing from memory; what is told is still kept"
    )
    memory.add_argument(
        "--memtools",
        action="store_true",
        help="let the model look into the memory, and change it, by tools (shepherd tools)",
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

    engine = parser.add_argument_group("the engine")
    for option, key in (("--ctx", "n_ctx"), ("--gpu-layers", "gpu_layers"), ("--threads", "threads")):
        add_setting_option(engine, option, key, "N")
    add_setting_option(engine, "--session-cache", "session_cache", "PATH")


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run it; the message is read before the model is loaded, so that a mistake costs no waiting."""
    with Garbage() as garbage:
        if arguments.json:
            from shepherd.cli.jsonlines import stdout_alone

            with stdout_alone(screen):
                return _chat(arguments, screen, garbage)
        return _chat(arguments, screen, garbage)


def _chat(arguments: Namespace, screen: Screen, garbage: Garbage) -> int:
    config, model = who_answers(arguments)
    message = None if arguments.json and arguments.prompt is None else _message(arguments.prompt)

    if arguments.backend:
        from shepherd.cli.shared import take_part

        garbage.keep()
        return take_part(config, message, screen, as_json=arguments.json, memory=not arguments.nomemory)

    from shepherd.chat_session import Session
    from shepherd.providers import ProviderTable

    provider = ProviderTable().get(config.provider)
    if provider.is_local:
        model = _local_model(
            replace(config, model=model or provider.model or config.model), arguments, screen
        )
    is_conversation = message is None and not arguments.json
    with Session(
        config,
        model=model,
        memory=not arguments.nomemory,
        warn=screen.warn,
        loading=screen.transient,
        confirm=partial(_may_call, screen) if is_conversation else None,
        is_limited="max_tokens" in given_settings(arguments),
    ) as session:
        assistant = session.assistant
        resumed = assistant.resume() if arguments.resume else 0
        if arguments.resume and not resumed:
            screen.warn("there is no conversation to continue; this is a new one")
        garbage.keep()
        if arguments.json:
            from shepherd.cli.jsonlines import answer_lines

            return answer_lines(assistant, screen, [message] if message is not None else None)
        if message is not None:
            return _answer_once(assistant, message, screen, show_context=arguments.show_context)
        return _converse(session, screen, resumed, show_context=arguments.show_context)


def who_answers(arguments: Namespace) -> tuple[Config, str]:
    """The settings, and the model of -m, which is the provider's."""
    config, model = provider_and_model(loaded_settings(arguments).config, given_settings(arguments))
    if arguments.memtools:
        config = replace(config, memory_tools=True)
    if arguments.norag:
        config = replace(config, rag_context_injection=False)
    return config, model


def provider_and_model(config: Config, given: dict[str, Any]) -> tuple[Config, str]:
    """The settings with the provider that answers, and the model of -m, "" without one. `given`: by options.

    A model that can only be a file for this process is not meant for a provider elsewhere, unless -p says so.
    """
    model = given.get("model", "")
    if "provider" not in given and (model.startswith("hf:") or model.endswith(".gguf")):
        config = replace(config, provider="")
    return config, model


def _local_model(config: Config, arguments: Namespace, screen: Screen) -> str:
    """The path of the model that answers here, fetched if need be."""
    from shepherd.cli.progress import downloads
    from shepherd.factory import model_path
    from shepherd.inference.models import is_built_in

    with downloads(screen) as report:
        path = model_path(config, report)
    if is_built_in(path) and not arguments.json:
        screen.note(about_the_built_in_model())
    return str(path)


def about_the_built_in_model() -> str:
    """One line on what answers when no other model was chosen, and how to choose one."""
    from shepherd.inference.models import SUGGESTED

    return (
        "The small built-in model answers: it remembers what you tell it, and can do little else. "
        f"A full one: shepherd -m {SUGGESTED}"
    )


def _may_call(screen: Screen, name: str, arguments: dict[str, Any]) -> bool:
    """Whether this call is allowed; all that it would be made with is shown before the question."""
    shown = arguments_in_full(arguments)
    return screen.agrees(printable(f"{shown}\n{name} may change something. Allow it?").lstrip("\n"))


def _answer_once(assistant: Assistant, message: str, screen: Screen, *, show_context: bool) -> int:
    from shepherd.cli.main import INTERRUPTED
    from shepherd.cli.turn import show_turn

    finished = show_turn(assistant, message, screen, show_context=show_context)
    return INTERRUPTED if finished.stats.finish_reason == "cancelled" else 0


def _converse(session: Session, screen: Screen, resumed: int, *, show_context: bool) -> int:
    from shepherd.cli.conversation import Conversation

    return Conversation(session.assistant, screen, session=session, show_context=show_context).run(resumed)


def _message(prompt: str | None) -> str | None:
    """The one message of this run, from -e and stdin; None when a person sits at the keyboard."""
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
    """All of stdin when it is a pipe or a file, without its last line end; None when it is a terminal."""
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
