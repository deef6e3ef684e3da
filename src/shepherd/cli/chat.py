"""`shepherd chat`: one answer, JSON lines, or a conversation at the prompt."""

from __future__ import annotations

import signal
import string
import sys
import time
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any

from shepherd.cli.composing import Composed, add_composing_options, composer_of, require_room
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
from shepherd.commands.keyboard import echoing
from shepherd.commands.screen import Screen, counted, printable
from shepherd.errors import ShepherdError, UsageError
from shepherd.escaping import storable
from shepherd.paths import demo_model_file, write_atomically
from shepherd.sentences import is_question

if TYPE_CHECKING:
    from shepherd.chat_session import Session
    from shepherd.config import Config
    from shepherd.memory import Memory

__all__ = [
    "about_the_built_in_model",
    "add_conversation_options",
    "build_parser",
    "conversation_settings",
    "conversation_to_continue",
    "execute",
    "is_first_today",
    "local_model",
    "names_a_title",
    "provider_and_model",
    "show_news_at_end",
]

_DESCRIPTION = """\
Chat with a model that remembers, on this machine or elsewhere (shepherd provider).

Text on stdin is the message. With -e, it is attached to the question, and nothing is learned from it.
Answers stream to stdout, everything else goes to stderr. At the prompt, /help lists the commands, @path
attaches a file, Alt-Enter or a \\ at the end of a line starts a new line, Ctrl-C stops the answer, Ctrl-D
quits. --continue without a name skips questions that were asked with -e, unless you use -e again."""

_EPILOG = """\
With --json each line of stdin is {"prompt": "…"} (with "memory": false for one private turn), and each
line of stdout is an object whose "event" is ready, recalled, delta, thought, tool_call, tool_result,
warning, error or finished.

exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted"""


class _Parser(Parser):
    """Parser that finds the question before, between or after the options."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options, with the question as `prompt`."""
        words = _without_questions_as_names(list(sys.argv[1:] if args is None else args))
        parsed, unknown = self.parse_known_intermixed_args(words, namespace)
        if unknown:
            if not any(word.startswith("-") for word in unknown):
                raise UsageError(
                    f"unrecognized arguments: {' '.join(unknown)}", hint='put a question in quotes: "…"'
                )
            # The value of an unknown option was taken for the question.
            unknown = [word for word in words if word in unknown or word == parsed.question]
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        parsed.is_behind_continue = False
        if parsed.question is not None:
            if parsed.prompt is not None:
                self.error("one question at a time: the text of -e, or one in quotes")
            parsed.prompt = parsed.question
            parsed.is_behind_continue = ("--continue=", parsed.question) in pairwise(words)
        return parsed


def _without_questions_as_names(words: list[str]) -> list[str]:
    """Return the arguments with a question after --continue told apart from the name of a conversation.

    A question in quotes has blanks. `--continue="A title"` names a conversation whose title has some;
    `--continue "A title"` does the same if -e gives the question.
    """
    has_text = any(word in ("-e", "--prompt") or word.startswith("--prompt=") for word in words)
    told: list[str] = []
    for word in words:
        if told[-1:] == ["--continue"] and " " in word.strip():
            told[-1:] = [f"--continue={word}"] if has_text else ["--continue=", word]
        else:
            told.append(word)
    return told


def build_parser() -> Parser:
    """Build the parser of `shepherd chat`."""
    parser = _Parser(prog="shepherd chat", description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("question", nargs="?", metavar="QUESTION", help="the same as -e QUESTION")
    add_model_options(parser)
    parser.add_argument("-e", "--prompt", metavar="TEXT", help="answer this message and exit")
    parser.add_argument(
        "--show-context", action="store_true", help="print the message as the model sees it to stderr"
    )
    parser.add_argument("--plain", action="store_true", help="print answers without rendering Markdown")
    add_common_options(parser, json_help="read and write JSON lines; nothing else goes to stdout")

    add_composing_options(parser)
    shared = parser.add_argument_group("a server's shared conversation")
    shared.add_argument(
        "--backend", choices=["cli"], help="join the conversation of shepherd serve --session"
    )
    add_setting_option(shared, "--api-base", "api_base", "URL")

    add_conversation_options(parser)
    return parser


def add_conversation_options(parser: Parser) -> None:
    """Add the options that are the same at every prompt."""
    parser.add_argument(
        "--continue",
        dest="resume",
        nargs="?",
        const="",
        metavar="NAME",
        help="continue a conversation: its id, or words of its title (default: the last one)",
    )
    memory = parser.add_argument_group("memory")
    memory.add_argument("--nomemory", action="store_true", help="don't read or write memory")
    memory.add_argument(
        "--norag",
        action="store_true",
        help="don't append memories and facts to messages, but still store what you say",
    )
    memory.add_argument(
        "--memtools",
        action="store_true",
        help="give the model tools to search and change the memory (shepherd tools)",
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
    templates, needs_message = _use_templates(arguments)
    config, model = conversation_settings(arguments)
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    if names_a_title(arguments, config, is_terminal=is_terminal):
        arguments.resume, arguments.prompt = arguments.prompt, None
    is_composed = bool(arguments.template or arguments.attach or arguments.fragment)
    composer = composer_of(arguments, config, screen, templates)
    is_read = "-" in [*arguments.attach, *arguments.fragment]  # stdin is attached
    parts: tuple[str, str] | None = None
    if arguments.prompt is not None or not arguments.json:
        parts = _message(
            arguments.prompt, is_read=is_read, in_template=bool(templates), is_needed=needs_message
        )
    is_conversation = parts is None and not arguments.json

    if arguments.backend:
        from shepherd.cli.shared_session import join_session

        if is_composed:
            raise UsageError("-a, -f and -t do not work with --backend", hint="leave them out")
        said, material = parts or (None, "")
        if material.strip():
            raise UsageError(
                "text on stdin beside -e does not work with --backend",
                hint="pipe the whole message, without -e",
            )
        gc_policy.freeze()
        with _keys_for_the_prompt(is_conversation):
            return join_session(config, said, screen, as_json=arguments.json, memory=not arguments.nomemory)

    message = None if parts is None else composer.compose(*parts)
    resumed_id = conversation_to_continue(arguments, config)
    from shepherd.chat_session import Session

    if is_conversation:
        from shepherd.cli.first_start import offer_full_model

        config, model = offer_full_model(config, model, screen)
    model, note = local_model(config, model, screen)
    if note and not arguments.json:
        _introduce_the_built_in_model(config, note, screen)
    # In a pipe nobody would see it: it waits for the next conversation.
    shows_news = is_conversation or (screen.err_is_terminal and not arguments.json)
    with (
        _keys_for_the_prompt(is_conversation),
        Session(
            config,
            model=model,
            memory=not arguments.nomemory,
            warn=screen.warn,
            loading=screen.transient,
            closing=screen.transient,
            confirm=partial(_confirm, screen) if is_conversation else None,
            is_limited="max_tokens" in given_settings(arguments),
            at_end=partial(show_news_at_end, screen) if shows_news else None,
        ) as session,
    ):
        assistant = session.assistant
        assistant.is_one_off = message is not None
        resumed = 0 if resumed_id is None else assistant.resume(resumed_id)
        if resumed_id == "" and not resumed:
            screen.warn("there is no conversation to continue; this is a new one")
        require_room(message or Composed("", attached=composer.pending), assistant)
        gc_policy.freeze()
        if arguments.json:
            from shepherd.cli.jsonlines import answer_lines

            return answer_lines(assistant, screen, None if message is None else [message], composer)

        from shepherd.cli import INTERRUPTED
        from shepherd.cli.conversation import Conversation, show_turn

        if message is None:
            conversation = Conversation(
                assistant,
                screen,
                session=session,
                composer=composer,
                show_context=arguments.show_context,
                plain=arguments.plain,
            )
            code = conversation.run(resumed)
            _close(session, screen)
            return code
        finished = show_turn(
            assistant,
            message.typed,
            screen,
            composed=message.composed,
            pictures=message.pictures,
            show_context=arguments.show_context,
            plain=arguments.plain,
        )
        _close(session, screen)
        return INTERRUPTED if finished.stats.finish_reason == "cancelled" else 0


def _keys_for_the_prompt(is_conversation: bool) -> AbstractContextManager[None]:
    """Let what is typed while the model loads or answers appear at the next prompt, and not in the answer."""
    return echoing(False) if is_conversation else nullcontext()


def _close(session: Session, screen: Screen) -> None:
    """Close the session. The first Ctrl-C skips what is not done yet; others have no effect meanwhile."""

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        session.close()
    except KeyboardInterrupt:
        screen.transient("")
        learns = session.assistant.extraction is not None
        screen.note("the rest will be learned at the next start" if learns else "interrupted")
    finally:
        signal.signal(signal.SIGINT, before)


def conversation_settings(arguments: Namespace) -> tuple[Config, str]:
    """Return the settings of a conversation, and the model of -m, which overrides the provider's."""
    config, model = provider_and_model(loaded_settings(arguments).config, given_settings(arguments))
    if arguments.memtools:
        config = replace(config, memory_tools=True)
    if arguments.norag:
        config = replace(config, rag_context_injection=False)
    return config, model


def names_a_title(arguments: Namespace, config: Config, *, is_terminal: bool) -> bool:
    """Return whether what looks like a question after --continue has words of a conversation's title.

    Without a terminal, nobody could continue the conversation.
    """
    text: str = arguments.prompt or ""
    is_possible = getattr(arguments, "is_behind_continue", False) and is_terminal and not is_question(text)
    if not is_possible or arguments.nomemory or arguments.json:
        return False
    from shepherd.commands.conversations import is_in_a_title
    from shepherd.memory_factory import open_memory_to_read

    try:
        with open_memory_to_read(config) as memory:
            return is_in_a_title(memory, text, memory.user_id)
    except ShepherdError:  # the question is answered, or fails, without it
        return False


def conversation_to_continue(arguments: Namespace, config: Config) -> str | None:
    """Return the id of the conversation that --continue names, "" for the last one, None without --continue.

    It is looked up before a model is loaded, so that a mistake costs no waiting. Raises ShepherdError.
    """
    name: str | None = arguments.resume
    if not name or arguments.nomemory:  # without memory, continuing is an error that needs no name
        return name
    from shepherd.commands.conversations import conversation_named
    from shepherd.memory_factory import open_memory_to_read

    hint = (
        "shepherd conversations list --all shows all conversations; to ask a question in the last one, use"
        ' shepherd --continue -e "…"'
    )
    with open_memory_to_read(config) as memory:
        return conversation_named(memory, name, memory.user_id, hint=hint).id


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
    from shepherd.inference.models import is_built_in
    from shepherd.model_files import model_path
    from shepherd.providers import ProviderTable

    provider = ProviderTable().configured(config.provider)
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


def _introduce_the_built_in_model(config: Config, note: str, screen: Screen) -> None:
    """Say once a day that the demo model answers, and always if it was given tools, which it doesn't call."""
    if config.mcp_servers or config.memory_tools:
        from shepherd.inference.models import SUGGESTED

        screen.warn("the bundled demo model calls no tools", f"a full model does: shepherd -m {SUGGESTED}")
    elif is_first_today():
        screen.note(note)


def is_first_today() -> bool:
    """Return whether the line about the bundled model was not shown today, and note that it was."""
    today = time.strftime("%Y-%m-%d")
    file = demo_model_file()
    try:
        if file.is_file() and file.read_text(encoding="utf-8", errors="replace") == today:
            return False
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(file, today.encode())
    except OSError:  # shown once too often
        return True
    return True


def _confirm(screen: Screen, name: str, arguments: dict[str, Any]) -> bool:
    """Ask whether a tool can be called, after showing all arguments of the call. Ctrl-C refuses it."""
    from shepherd.cli.conversation import raising_on_interrupt
    from shepherd.cli.editor import keep_typed_ahead

    keep_typed_ahead()
    shown = arguments_in_full(arguments)
    question = printable(f"{shown}\n{name} can change something. Allow it?").lstrip("\n")
    try:
        with raising_on_interrupt():
            return screen.agrees(question)
    except KeyboardInterrupt:
        screen.note()  # ends the line of the question
        return False


def _use_templates(arguments: Namespace) -> tuple[list[string.Template], bool]:
    """Set what the templates set and no option does; returns their texts, and whether they need a message."""
    if not arguments.template:
        if arguments.param:
            raise UsageError("--param needs a template", hint="-t NAME; shepherd template list names them")
        return [], True
    from shepherd.cli.template import filled, read_template

    templates = [read_template(name) for name in arguments.template]
    texts, systems = filled(templates, dict(arguments.param))
    settings = {"system_prompt": "\n\n".join(systems)}
    for template in templates:  # the last one wins
        settings |= {key: value for key in ("model", "provider") if (value := getattr(template, key))}
    for key, value in settings.items():
        if value and getattr(arguments, f"setting_{key}") is None:
            setattr(arguments, f"setting_{key}", value)
    return texts, all(template.takes_input for template in templates)


def _message(
    prompt: str | None, *, is_read: bool, in_template: bool, is_needed: bool
) -> tuple[str, str] | None:
    """Return the one message of this run, from -e and stdin; None for a conversation at a terminal.

    The second part of it is stdin where that is no message but what one is about: beside -e, or with a
    template. With `is_read` stdin was attached; without `is_needed` a template asks by
    itself.
    """
    piped = None if is_read else _piped_text()
    if prompt is None and piped is None and is_needed:
        if is_read or sys.stdin is None or not sys.stdin.isatty():
            raise _nothing_asked()
        return None
    is_message = not (prompt or in_template)  # nobody typed anything else
    typed, material = (piped or "", "") if is_message else (prompt or "", piped or "")
    if is_needed and not f"{typed}{material}".strip():
        raise _nothing_asked()
    return _as_text(typed), material


def _nothing_asked() -> UsageError:
    return UsageError("nothing was asked", hint='ask with -e "a question", or pipe a message to stdin')


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


def _as_text(message: str) -> str:
    """Return a message; bytes that the locale can't tell arrive as surrogates, and are UTF-8 or an error."""
    try:
        message.encode("utf-8")
    except UnicodeEncodeError as error:
        text = storable(message)
        if "\N{REPLACEMENT CHARACTER}" in text:
            raise UsageError(f"-e: character {error.start:,} is not valid text", hint="use UTF-8") from None
        return text
    return message
