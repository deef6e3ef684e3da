"""The sides of test_turns.py that are Python, each in a process of its own.

    python -m bench.engine_worker SIDE OPTIONS

It says {} when it is ready, then answers each JSON line that it is given. `shepherd` and `llama` are used as
libraries. `server` is llama-cpp-python's server, served by uvicorn as its own command does, with one more
route, which tells how many tokens llama.cpp has decoded.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Options = dict[str, Any]
_OWNER = "0" * 32
# [role, text] or [role, text, ids of an answer]
Spoken = list[list[Any]]


class Shepherd:
    """The engine, and the ledger for clients that send their messages bare."""

    def __init__(self, options: Options) -> None:
        from shepherd.inference import Engine, EngineSettings
        from shepherd.types import Sampling

        if options.get("disk"):
            os.environ["XDG_CACHE_HOME"] = options["disk"]
        self._owner = _OWNER if options.get("disk") else ""

        self._engine = Engine(
            options["model"],
            settings=EngineSettings(
                n_ctx=options["n_ctx"],
                n_threads=options["n_threads"],
                n_batch=options["n_batch"],
                n_ubatch=options["n_batch"],
                slots=options["slots"],
                cache_disk_bytes=1 << 40 if options.get("disk") else 0,
                flash_attention="off",
                kv_edit=options.get("kv_edit", "exact"),
                draft=options.get("draft", "off"),
                draft_model=options.get("draft_model", ""),
            ),
        )
        self._memory: Any = None
        if options.get("memory"):
            from shepherd import Memory
            from shepherd.prompt.ledger import Ledger

            self._memory = Memory(options["memory"], user_id=options["user"])
            self._user = options["user"]
            self._ledger = Ledger(self._memory, self._user)
        self._greedy = Sampling(temperature=0.0)

    def turn(self, messages: Spoken, n: int, schema: dict[str, Any] | None = None) -> dict[str, Any]:
        """One answer."""
        from shepherd.inference import schema_to_grammar

        grammar = schema_to_grammar(schema) if schema else ""
        return self._answer([_message(*spoken) for spoken in messages], n, time.perf_counter(), grammar)

    def bare(self, messages: Spoken, n: int) -> dict[str, Any]:
        """One answer to a client that never saw the tails: what a server does with such a request."""
        started = time.perf_counter()
        sent = [_message(*spoken) for spoken in messages]
        restored = self._ledger.restore(sent)
        newest = restored.messages[-1]
        newest.sent = newest.raw + self._memory.recall(newest.raw, self._user).tail
        self._ledger.record(restored.messages, restored)
        return self._answer(restored.messages, n, started)

    def together(self, requests: list[Spoken], n: int) -> list[dict[str, Any]]:
        """So many answers at once, each read by a thread of its own."""
        return _at_once([lambda messages=messages: self.turn(messages, n) for messages in requests])

    def save(self, path: str) -> None:
        """Wait until the conversation is on disk."""
        while self._engine.kept().n_written == 0:
            time.sleep(0.001)

    def load(self, path: str) -> None:
        """Nothing to do: the turn reads it."""

    def _answer(self, messages: list[Any], n: int, started: float, grammar: str = "") -> dict[str, Any]:
        first = 0.0
        with self._engine.generate(
            messages, sampling=self._greedy, max_tokens=n, grammar=grammar, owner=self._owner
        ) as answer:
            for _ in answer:
                first = first or time.perf_counter()
        ended = time.perf_counter()
        stats, counters = answer.stats, answer._stream.counters()
        return {
            "text": answer.text,
            "ids": list(answer.token_ids),
            "prompt": stats.prompt_tokens,
            "decoded": stats.decoded_tokens,
            "first_s": first - started,
            "said_s": ended - first,
            "inner_first_s": stats.prefill_ms / 1e3,
            "inner_said_s": stats.decode_ms / 1e3,
            "model_s": counters["model_ns"] / 1e9,
            "drafted": stats.drafted_tokens,
            "accepted": stats.accepted_tokens,
        }


class Peer:
    """llama_cpp.Llama, as its users have it."""

    def __init__(self, options: Options) -> None:
        from llama_cpp import Llama, LlamaRAMCache

        self._llama = Llama(
            options["model"],
            n_ctx=options["n_ctx"],
            n_threads=options["n_threads"],
            n_threads_batch=options["n_threads"],
            n_batch=options["n_batch"],
            n_ubatch=options["n_batch"],
            flash_attn=False,
            verbose=False,
        )
        _warm(self._llama)
        if options["slots"] > 1:
            # The one way it has to hold more than one conversation.
            self._llama.set_cache(LlamaRAMCache(capacity_bytes=options["cache_bytes"]))

    def turn(self, messages: Spoken, n: int) -> dict[str, Any]:
        """One answer, streamed."""
        counted, started, first, text = decoded_by(self._llama), time.perf_counter(), 0.0, ""
        chunks = self._llama.create_chat_completion(
            [{"role": role, "content": content} for role, content, *_ in messages],
            temperature=0.0,
            max_tokens=n,
            stream=True,
        )
        for chunk in chunks:
            piece = chunk["choices"][0]["delta"].get("content") or ""
            first = first or (time.perf_counter() if piece else 0.0)
            text += piece
        ended = time.perf_counter()
        decoded = decoded_by(self._llama) - counted - len(text) + 1
        return {
            "text": text,
            "prompt": self._llama.n_tokens - len(text) + 1,
            "decoded": decoded,
            "first_s": first - started,
            "said_s": ended - first,
        }

    def together(self, requests: list[Spoken], n: int) -> list[dict[str, Any]]:
        """One after the other: it has one conversation at a time."""
        started, answers = time.perf_counter(), []
        for messages in requests:
            waited = time.perf_counter() - started
            answer = self.turn(messages, n)
            answers.append({**answer, "first_s": waited + answer["first_s"]})
        return answers

    def save(self, path: str) -> None:
        """Its state, by pickle."""
        Path(path).write_bytes(pickle.dumps(self._llama.save_state()))

    def load(self, path: str) -> None:
        """Take it over."""
        self._llama.load_state(pickle.loads(Path(path).read_bytes()))


def _warm(llama: Any) -> None:
    # llama.cpp says one where it has counted none, of prompts and of single tokens.
    for _ in zip(range(3), llama.generate([40, 41], temp=0.0), strict=False):
        pass
    llama.reset()


def decoded_by(llama: Any) -> int:
    """All tokens that llama.cpp has decoded for it."""
    import llama_cpp

    perf = llama_cpp.llama_perf_context(llama.ctx)
    return int(perf.n_p_eval + perf.n_eval)


def serve(options: Options) -> None:
    """llama-cpp-python's server, until it is ended."""
    import os

    try:
        import uvicorn
        from llama_cpp.server import app as served
        from llama_cpp.server.settings import ModelSettings, ServerSettings
    except ImportError as error:
        sys.exit(f"{error}: pip install 'shepherd-llm[bench]'")

    if "disk" in options:
        os.chdir(options["disk"])  # it writes to .cache/llama_cache, wherever that is
    model = ModelSettings(
        model=options["model"],
        n_ctx=options["n_ctx"],
        n_threads=options["n_threads"],
        n_threads_batch=options["n_threads"],
        n_batch=options["n_batch"],
        n_ubatch=options["n_batch"],
        flash_attn=False,
        # On by default, and then it computes and keeps the logits of every token of a prompt.
        logits_all=False,
        # The one way it has to hold more than one conversation, or one for the next process.
        cache=options["slots"] > 1 or "disk" in options,
        cache_type="disk" if "disk" in options else "ram",
        cache_size=options["cache_bytes"],
        verbose=False,
    )
    app = served.create_app(
        server_settings=ServerSettings(host="127.0.0.1", port=options["port"]), model_settings=[model]
    )
    _warm(served._llama_proxy())

    @app.get("/decoded")
    def decoded() -> dict[str, int]:
        llama = served._llama_proxy()
        return {"decoded": decoded_by(llama), "held": llama.n_tokens}

    uvicorn.run(app, host="127.0.0.1", port=options["port"], log_level="error", access_log=False)


def _message(role: str, text: str, ids: list[int] | None = None) -> Any:
    from shepherd.types import Message

    return Message(role, text, token_ids=tuple(ids or ()))  # type: ignore[arg-type]


def _at_once(calls: list[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = [{}] * len(calls)

    def run(i: int) -> None:
        answers[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def main() -> None:
    """One side, until its input ends."""
    side, options = sys.argv[1], json.loads(sys.argv[2])
    if side == "server":
        serve(options)
        return
    contestant: Any = Shepherd(options) if side == "shepherd" else Peer(options)
    print("{}", flush=True)
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        print(json.dumps(getattr(contestant, operation)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
