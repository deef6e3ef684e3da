"""`shepherd serve`: the APIs of OpenAI and Anthropic, with memory, for other programs."""

from __future__ import annotations

import logging
from argparse import Namespace
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from shepherd.cli.chat import provider_and_model
from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_memory_options,
    add_setting_option,
    given_settings,
    loaded_settings,
)
from shepherd.commands.screen import Screen
from shepherd.errors import UsageError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from fastapi import FastAPI

    from shepherd.config import Config
    from shepherd.server.state import AppState

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
Serve a model with its memory to other programs: OpenAI's /v1/chat/completions, /v1/completions,
/v1/embeddings and /v1/models, Anthropic's /v1/messages, and /v1/memory, /v1/facts, /health, /metrics.

It listens on this machine alone. Elsewhere (--host) it asks for keys: shepherd apikey create."""

_EPILOG = """\
examples:
  shepherd serve                              then, with any client of OpenAI's:
      OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=none
  shepherd serve -m hf:user/repo:Q4_K_M --port 8080
  shepherd serve --host 0.0.0.0               for others, with keys
  shepherd serve --session                    one conversation; shepherd --backend cli takes part in it"""


def build_parser() -> Parser:
    """The options of `shepherd serve`."""
    parser = Parser(prog="shepherd serve", description=_DESCRIPTION, epilog=_EPILOG)
    add_setting_option(parser, "--host", "server_host", "ADDRESS")
    add_setting_option(parser, "--port", "server_port", "N")
    add_setting_option(parser, "--model", "model", "NAME", short="-m")
    add_setting_option(parser, "--provider", "provider", "NAME", short="-p")
    add_setting_option(parser, "--embeddings", "server_embeddings", "PATH")
    add_setting_option(parser, "--slots", "server_slots", "N")
    parser.add_argument(
        "--session", action="store_true", help="serve one conversation instead, in which several take part"
    )
    parser.add_argument("--nomemory", action="store_true", help="neither read nor write memory")
    parser.add_argument("--log", metavar="PATH", default="", help="log to this file instead of stderr")
    parser.add_argument("-q", "--quiet", action="store_true", help="log warnings and errors alone")
    add_memory_options(parser)
    engine = parser.add_argument_group("the engine")
    for option, key in (("--ctx", "n_ctx"), ("--gpu-layers", "gpu_layers"), ("--threads", "threads")):
        add_setting_option(engine, option, key, "N")
    add_setting_option(engine, "--session-cache", "session_cache", "PATH")
    add_common_options(parser, json_help="print where it listens as JSON")
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Serve until told to end."""
    try:
        import uvicorn  # noqa: F401  (and what comes with it)

        from shepherd.server import monitoring  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "shepherd":
            raise
        raise UsageError(
            f"the server needs {error.name}", hint="pip install 'shepherd-llm[server]'"
        ) from error
    config, model = provider_and_model(loaded_settings(arguments).config, given_settings(arguments))
    _serve(config, model, arguments, screen)
    return 0


def _serve(config: Config, model: str, arguments: Namespace, screen: Screen) -> None:
    from shepherd.server.app import create_app
    from shepherd.server.factory import opened_server
    from shepherd.server.process import bound
    from shepherd.server.session_server import create_session_app, opened_shared_session

    parts: dict[str, Any] = {
        "model": model,
        "memory": not arguments.nomemory,
        "warn": screen.warn,
        "loading": screen.transient,
    }
    with bound(config.server_host, config.server_port) as listening, ExitStack() as stack:
        if arguments.session:
            assistant, shared = stack.enter_context(opened_shared_session(config, **parts))
            app = create_session_app(assistant, shared)
            _run(app, listening, shared, arguments, screen, ending=app.state.conversation.close)
        else:
            state = stack.enter_context(opened_server(config, **parts))
            _run(create_app(state), listening, state, arguments, screen, overdue=state.cancel_all)


def _run(
    app: FastAPI,
    listening: socket.socket,
    state: AppState,
    arguments: Namespace,
    screen: Screen,
    *,
    ending: Callable[[], None] = lambda: None,
    overdue: Callable[[], None] = lambda: None,
) -> None:
    from shepherd.server import logs
    from shepherd.server.middleware import require_keys_for
    from shepherd.server.process import run

    config = state.config
    state.needs_key = require_keys_for(config.server_host, state.keys)
    if config.server_hosts and not state.needs_key:
        screen.warn(
            f"there is no API key, so everybody who reaches this server as {config.server_hosts} may read and"
            " change the memory",
            "shepherd apikey create makes one, in the database of this server: same user, same settings",
        )
    logs.log_to(arguments.log)
    if arguments.quiet:
        logging.getLogger("shepherd").setLevel(logging.WARNING)
    run(
        app,
        listening,
        shutdown_s=config.server_shutdown,
        ready=lambda: _say_where(config, listening, screen, arguments),
        ending=ending,
        overdue=overdue,
    )


def _say_where(config: Config, listening: socket.socket, screen: Screen, arguments: Namespace) -> None:
    host = f"[{config.server_host}]" if ":" in config.server_host else config.server_host
    url = f"http://{host}:{listening.getsockname()[1]}"
    if arguments.json:
        screen.json({"url": url})
    else:
        screen.print(f"listening on {url} (Ctrl-C ends it)")
    screen.flush()
