"""Stands for llama-server in llama.cpp's tests: turns its options into those of `shepherd serve`.

Models of the hub are replaced by tiny ones that are built here. Options without a counterpart are dropped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Parts of the names of repositories, and the kind of model that is built instead; others are plain.
KINDS = ("infill", "reranker", "bert")
GAP_TOKENS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")


def parser() -> argparse.ArgumentParser:
    """The options that have a counterpart."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("port", "host", "temp", "seed", "ctx-size", "parallel", "n-predict", "alias", "api-key"):
        made.add_argument(f"--{name}")
    for name in ("hf-repo", "hf-file", "chat-template-file"):
        made.add_argument(f"--{name}", default="")
    for name in ("embedding", "reranking"):
        made.add_argument(f"--{name}", action="store_true")
    return made


def model_for(options: argparse.Namespace, folder: Path) -> Path:
    """The tiny model that stands for the one that is asked for, under the alias that is asked for."""
    named = f"{options.hf_repo}/{options.hf_file}".lower()
    kind = next((kind for kind in KINDS if kind in named), "plain")
    template = Path(options.chat_template_file).stem if options.chat_template_file else ""
    path = folder / kind / template / f"{(options.alias or 'model').split(',')[0]}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        build(kind, path, Path(options.chat_template_file).read_text() if template else "")
    return path


def build(kind: str, path: Path, template: str) -> None:
    """Write a tiny model."""
    # Here, since most servers start with a model that is there.
    import gguf

    from tests import models

    own = {"template": template} if template else {}
    if kind == "infill":
        models.llama(path, controls=GAP_TOKENS, ascii_only=True, n_ctx=2048)
    elif kind == "reranker":
        models.bert(path, n_ctx=512, n_cls_out=1, pooling=gguf.PoolingType.RANK)
    elif kind == "bert":
        models.bert(path, n_ctx=512)
    else:
        models.llama(path, spm=True, n_ctx=2048, **own)


def settings_for(options: argparse.Namespace) -> dict[str, str]:
    """Settings of shepherd that mean the same."""
    slots = int(options.parallel or 4)
    found = {
        "model_trial": "false",
        "system_prompt": ".",
        "server_slots": str(slots),
        "server_windows": str(slots),
    }
    wanted = {"temperature": options.temp, "seed": options.seed, "max_tokens": options.n_predict}
    found |= {name: value for name, value in wanted.items() if value not in (None, "-1")}
    if options.ctx_size:
        found["n_ctx"] = str(int(options.ctx_size) // slots)
    return found


def add_key(key: str, home: Path) -> None:
    """Put the key that a test has chosen into the database of this home."""
    from shepherd.memory import ApiKey, Memory
    from shepherd.memory.api_keys import _add, hash_of

    folder = home / ".local" / "share" / "shepherd"
    folder.mkdir(parents=True, exist_ok=True)
    with Memory(folder / "memory.db") as memory:
        record = ApiKey("1", "tests", ("chat", "memory", "metrics"), "", 1, 0)
        memory.keys._store.write("tests", lambda connection: _add(connection, hash_of(key), record))


def main() -> None:
    """Become the server."""
    options, _ = parser().parse_known_args()
    folder = Path(os.environ["LLAMA_TESTS_FOLDER"])
    home = folder / "homes" / str(os.getpid())
    home.mkdir(parents=True)
    host = (options.host or "127.0.0.1").split(",")[0]
    arguments = ["--host", host, "--port", options.port, "--nomemory"]
    model = model_for(options, folder)
    settings = settings_for(options)
    if options.embedding:
        arguments += ["--embeddings", str(model)]
    elif options.reranking:
        settings["knowledge_reranker"] = str(model)
    else:
        arguments += ["-m", str(model)]
    if options.api_key:
        add_key(options.api_key, home)
    variables = {f"SHEPHERD_{name.upper()}": value for name, value in settings.items()}
    os.execve(
        sys.executable,
        [sys.executable, "-m", "shepherd", "serve", *arguments],
        {**os.environ, "HOME": str(home), **variables},
    )


if __name__ == "__main__":
    main()
