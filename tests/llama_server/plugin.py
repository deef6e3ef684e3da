"""Pytest's plugin for llama.cpp's server tests: the launcher, and what they expect of one model's words.

The tests themselves are unchanged. A server that is stopped goes on for the next test that starts one with
the same options: each start takes a second. Numbers of tokens that the tests expect are counted anew with
llama.cpp's own tokenizer, since the tiny models have other vocabularies.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import OrderedDict
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from requests.structures import CaseInsensitiveDict

# A key as shepherd makes them: others are refused before they are looked up.
KEY = "shepherd_" + "5" * 64
# Servers that run at once, and names of what is about the process of one of them.
MOST_SERVERS = 4
OF_PROCESS = frozenset({"process", "ready", "server_port", "_log", "last_key"})
# They count what is in the cache of a server that has just started.
STARTED_ANEW = frozenset({"test_completion", "test_completion_stream", "test_return_progress"})

sys.path.insert(0, str(Path.cwd()))
sys.modules.setdefault("wget", ModuleType("wget"))  # only for models of the hub

import utils  # noqa: E402  (llama.cpp's)

running: OrderedDict[str, tuple[int, subprocess.Popen[bytes]]] = OrderedDict()
start_anew, request_plainly = utils.ServerProcess.start, utils.ServerProcess.make_request
present: dict[str, str] = {}  # the name of the test that runs


def said_something(regex: str, text: str) -> bool:
    """Stand for a search of words that one model says: another says others."""
    return bool(text)


def free_port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def request(server: Any, *arguments: Any, **options: Any) -> Any:
    """Ask as the tests do; names of headers are the same in any case."""
    answer = request_plainly(server, *arguments, **options)
    answer.headers = CaseInsensitiveDict(answer.headers)
    return answer


def start(server: Any, timeout_seconds: int = 120) -> None:
    """Start a server, or take one with the same options."""
    if server.api_key:
        server.api_key = KEY
    key = repr(sorted((name, value) for name, value in vars(server).items() if name not in OF_PROCESS))
    key += repr(sorted((name, value) for name, value in os.environ.items() if name.startswith("LLAMA_ARG")))
    last = getattr(server, "last_key", key)
    port, process = running.pop(key, (0, None))
    if last != key and last in running:  # started with other options in the same test: at the same port
        port, other = running.pop(last)
        end(other)
        process = None
    if process is not None and present["test"] in STARTED_ANEW:
        end(process)
    if process is None or process.poll() is not None:
        while len(running) >= MOST_SERVERS:
            end(running.popitem(last=False)[1][1])
        server.server_port = port = port or free_port()
        start_anew(server, timeout_seconds)
        process = server.process
    server.server_port, server.process = port, process
    server.last_key = key
    running[key] = (port, process)
    utils.server_instances.add(server)


def stop(server: Any) -> None:
    """Let go of a server."""
    utils.server_instances.discard(server)
    server.process = None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server."""
    process.terminate()
    process.wait(120)


utils.ServerProcess.start, utils.ServerProcess.stop = start, stop
utils.ServerProcess.make_request = request
utils.match_regex = said_something
utils.ServerPreset.load_all = staticmethod(lambda: None)


# ---- numbers of tokens


tokenizers: list[Any] = []


@cache
def tokenizer(kind: str) -> Any:
    """llama.cpp's own tokenizer of a tiny model."""
    from llama_cpp import Llama

    from tests.llama_server.launcher import build

    path = Path(os.environ["LLAMA_TESTS_FOLDER"], f"tokenizer-{kind}.gguf")
    build(kind, path, "")
    tokenizers.append(Llama(str(path), vocab_only=True, verbose=False))
    return tokenizers[-1]


def n_tokens(text: str, kind: str = "plain", *, special: bool = False, framed: bool = True) -> int:
    """Count the tokens of a text, with what the model puts around it if `framed`."""
    return len(tokenizer(kind).tokenize(text.encode(), add_bos=framed, special=special))


def n_tokens_of_chat(arguments: dict[str, Any]) -> int:
    """Count the tokens of the prompt of a system and a user's message."""
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    from tests import models
    from tests.llama_server.launcher import TEMPLATES

    named = arguments.get("chat_template") or "chatml"
    source = TEMPLATES.get(named, named) or models.CHATML
    user = arguments["user_prompt"]
    if not isinstance(user, str):
        user = "\n".join(part["text"] for part in user)
    messages = [{"role": "system", "content": arguments["system_prompt"]}, {"role": "user", "content": user}]
    prompt = Jinja2ChatFormatter(source, eos_token="</s>", bos_token="<s>")(messages=messages).prompt
    return n_tokens(prompt, special=True, framed=not prompt.startswith("<s>"))


def n_tokens_of_pairs(arguments: dict[str, Any]) -> int:
    """Count the tokens of a question with each of two documents: BERT puts three marks around them."""
    texts = [arguments["query"]] * 2 + [arguments["doc1"], arguments["doc2"]]
    return sum(n_tokens(text, "reranker", framed=False) for text in texts) + 2 * 3


EXPECTED = {
    "test_completion": ("n_prompt", lambda arguments: n_tokens(arguments["prompt"])),
    "test_completion_stream": ("n_prompt", lambda arguments: n_tokens(arguments["prompt"])),
    "test_chat_completion": ("n_prompt", n_tokens_of_chat),
    "test_chat_completion_stream": ("n_prompt", n_tokens_of_chat),
    "test_embedding_usage_single": ("n_tokens", lambda arguments: n_tokens(arguments["content"], "bert")),
    "test_rerank_usage": ("n_tokens", n_tokens_of_pairs),
}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> None:
    """Put the number of tokens that the tiny model has into the test's arguments."""
    present["test"] = test = pyfuncitem.originalname
    if test in EXPECTED:
        name, count = EXPECTED[test]
        pyfuncitem.funcargs[name] = count(pyfuncitem.funcargs)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Give the tests of keys a key of shepherd's form."""
    for module in {item.module for item in items}:
        if hasattr(module, "TEST_API_KEY"):
            module.TEST_API_KEY = KEY


def pytest_sessionfinish() -> None:
    """End all servers."""
    for _, process in running.values():
        end(process)
    for one in tokenizers:
        one.close()
