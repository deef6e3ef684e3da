"""`shepherd serve`: the APIs of OpenAI and Anthropic, with memory, for other programs."""

from __future__ import annotations

import logging
import shlex
import threading
from argparse import Namespace
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from shepherd.cli.chat import provider_and_model
from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_engine_options,
    add_memory_options,
    add_model_options,
    add_setting_option,
    given_settings,
    loaded_settings,
    optional_packages,
)
from shepherd.commands.screen import Screen, printable
from shepherd.installation import set_readers

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from fastapi import FastAPI

    from shepherd.config import Config
    from shepherd.server.process import Watchdog
    from shepherd.server.state import AppState

__all__ = ["ALL_ADDRESSES", "build_parser", "execute", "url_of"]

# Addresses on which a server listens everywhere, and those by which this machine reaches it then.
ALL_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}

_DESCRIPTION = """\
Serve a model with its memory to other programs: OpenAI's /v1/chat/completions, /v1/responses,
/v1/completions, /v1/embeddings and /v1/models, Anthropic's /v1/messages, Ollama's /api/chat and
/api/generate, and /v1/memory, /v1/facts, /health, /metrics.

By default only this machine can connect. With another --host it requires keys: shepherd apikey create."""

_EPILOG = """\
examples:
  shepherd serve                              then, with any client of OpenAI's:
      OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none
  shepherd serve --open                       chat and browse your memory in the browser
  shepherd serve -m hf:user/repo:Q4_K_M --port 8080
  shepherd serve --host 0.0.0.0               for others, with keys
  shepherd serve --session                    one conversation, which shepherd --backend cli joins"""


def build_parser() -> Parser:
    """Build the parser of `shepherd serve`."""
    parser = Parser(prog="shepherd serve", description=_DESCRIPTION, epilog=_EPILOG)
    add_setting_option(parser, "--host", "server_host", "ADDRESS")
    add_setting_option(parser, "--port", "server_port", "N")
    add_model_options(parser, "model to serve")
    add_setting_option(parser, "--models", "server_models", "NAMES")
    add_setting_option(parser, "--providers", "server_providers", "NAMES")
    add_setting_option(parser, "--embeddings", "server_embeddings", "PATH")
    add_setting_option(parser, "--slots", "server_slots", "N")
    parser.add_argument(
        "--session", action="store_true", help="serve one conversation instead, which several clients join"
    )
    parser.add_argument("--open", action="store_true", help="open the memory page in your browser")
    parser.add_argument("--nomemory", action="store_true", help="don't read or write memory")
    parser.add_argument("--log", metavar="PATH", default="", help="log to this file instead of stderr")
    parser.add_argument("-q", "--quiet", action="store_true", help="log only warnings and errors")
    add_memory_options(parser)
    add_engine_options(parser)
    add_common_options(parser, json_help="print the address as JSON")
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Serve until interrupted."""
    with optional_packages("server", "the server"):
        import uvicorn  # noqa: F401  (and what is installed with it)

        from shepherd.server import monitoring  # noqa: F401
    config, model = provider_and_model(loaded_settings(arguments).config, given_settings(arguments))
    from shepherd.server.middleware import hosts_of
    from shepherd.server.process import Phases, Watchdog, bound

    options: dict[str, Any] = {
        "model": model,
        "memory": not arguments.nomemory,
        "warn": screen.warn,
        "loading": screen.transient,
    }
    with (
        Watchdog(Phases.of(config.server_shutdown)) as watchdog,
        ExitStack() as stack,
    ):
        listening: list[socket.socket] = []
        for host in hosts_of(config):
            # With port 0, all addresses get the port that was free at the first one.
            port = listening[0].getsockname()[1] if listening else config.server_port
            listening.append(stack.enter_context(bound(host, port)))
        if config.server_ollama_port and not arguments.session:
            for host in hosts_of(config):
                second = bound(host, config.server_ollama_port, "server_ollama_port")
                listening.append(stack.enter_context(second))
        if arguments.session:
            from shepherd.server.session_server import create_session_app, opened_shared_session

            with opened_shared_session(config, **options) as (assistant, session):
                app = create_session_app(assistant, session)
                ending = app.state.conversation.close
                _run(app, listening, session, arguments, screen, watchdog, ending=ending)
        else:
            from shepherd.server.app import create_app
            from shepherd.server.factory import opened_server

            with opened_server(config, **options) as state:
                app = create_app(state)
                _run(app, listening, state, arguments, screen, watchdog, overdue=state.cancel_all)
    screen.flush()
    watchdog.end_process()
    return 0


def _warn_of_unreachable(config: Config, screen: Screen) -> None:
    """Warn of providers that requests can choose and whose servers take no connection."""
    from shepherd.providers import ProviderTable
    from shepherd.providers.reachability import unreachable_ones
    from shepherd.server.offers import providers_of

    default = ProviderTable().configured(config.provider)
    for _, failure in unreachable_ones([default, *providers_of(config, default)]):
        screen.warn(str(failure), failure.hint)


def _say_whose_memory(config: Config, user: str, screen: Screen) -> None:
    """Say that requests without a user have no memory, unless the settings name one."""
    if not config.user_id:
        yours = shlex.quote(printable(user))
        screen.note(
            "requests that name no user are answered without memory; to give them yours:"
            f" shepherd serve --user {yours}"
        )


def _run(
    app: FastAPI,
    listening: Sequence[socket.socket],
    state: AppState,
    arguments: Namespace,
    screen: Screen,
    watchdog: Watchdog,
    *,
    ending: Callable[[], None] = lambda: None,
    overdue: Callable[[], None] = lambda: None,
) -> None:
    from shepherd.server import logs
    from shepherd.server.middleware import hosts_of, require_keys_for
    from shepherd.server.process import Phases, address_in_network, run

    config = state.config
    state.needs_key = require_keys_for(config.server_host, state.keys)
    set_readers(strangers=state.is_open)
    if config.server_hosts and not state.needs_key:
        screen.warn(
            f"there is no API key, so everybody who reaches this server as {config.server_hosts} can read and"
            " change the memory",
            "shepherd apikey create makes one in this server's database, with the same user and settings",
        )
    if screen.err_is_terminal and not arguments.session and state.memory is not None and not state.needs_key:
        _say_whose_memory(config, state.memory.user_id, screen)
    logs.log_to(arguments.log)
    if arguments.quiet:
        logging.getLogger("shepherd").setLevel(logging.WARNING)
    if state.memory is not None:
        watchdog.close = state.memory.close
    first, port = hosts_of(config)[0], listening[0].getsockname()[1]
    url = url_of(first, port)
    # No program can connect to "all addresses".
    own = url_of(ALL_ADDRESSES.get(first, first), port)
    page = f"{own}/"

    def ready() -> None:
        screen.announce(url, f"listening on {url} (Ctrl-C ends it)")
        if screen.err_is_terminal and state.memory is not None and config.server_page:
            asks = " (it asks for a key)" if state.needs_key else ""
            apis = "" if arguments.session else f"; OpenAI's clients use {own}/v1"
            screen.note(f"the page is at {page}{asks}{apis}")
            if in_network := address_in_network(first):
                there = url_of(in_network, port)
                screen.note(f"on other devices in your network, the page is at {there}/")
                screen.note(
                    "to sign in there without typing a key, open the link that this command prints:"
                    f" shepherd apikey create --link {there}"
                )
        # They may take seconds, and may be there when the first request is.
        threading.Thread(target=_warn_of_unreachable, args=(config, screen), daemon=True).start()
        if arguments.open:
            # A browser in a terminal returns when it is left.
            threading.Thread(target=_open, args=(page, screen), daemon=True).start()

    run(
        app,
        listening,
        signalled=watchdog.start,
        phases=Phases.of(config.server_shutdown),
        ready=ready,
        ending=ending,
        overdue=overdue,
    )


def url_of(host: str, port: int) -> str:
    """Return the address of a server, without a slash at its end."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _open(url: str, screen: Screen) -> None:
    import webbrowser

    if not webbrowser.open(url):
        screen.warn(f"no browser was found: open {url} yourself")
