"""Stands for llama-server in llama.cpp's tests: turns its options into those of `shepherd serve`.

Models of the hub are replaced by tiny ones that are built here. Options without a counterpart are dropped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Parts of the names of repositories, and the kind of model that is built instead; others are plain.
KINDS = ("infill", "reranker", "bert", "gemma3")
GAP_TOKENS = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
# Templates that llama.cpp knows by name, as their publishers describe them.
_LLAMA3 = (
    "{{ bos_token }}{% if bos_token %} {% endif %}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
_COMMAND_R = (
    "{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|><|' + "
    "{'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'}[m.role] + '_TOKEN|>' + m.content"
    " + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"
)
TEMPLATES = {"chatml": "", "llama3": _LLAMA3, "command-r": _COMMAND_R}
# The reranker whose order of the tests' texts is the one that they expect.
_RANKER_SEED = 23
# llama-server lets models think wherever their template can ask for it.
_THINKING = {"on": "on", "auto": "on", "off": "off"}


def parser() -> argparse.ArgumentParser:
    """The options that have a counterpart."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("port", "host", "temp", "seed", "ctx-size", "parallel", "n-predict", "alias", "api-key"):
        made.add_argument(f"--{name}")
    for name in ("hf-repo", "hf-file", "chat-template", "chat-template-file", "reasoning", "cors-origins"):
        made.add_argument(f"--{name}", default="")
    for name in ("embedding", "reranking", "kv-unified", "no-ui", "verbose"):
        made.add_argument(f"--{name}", action="store_true")
    return made


def template_of(options: argparse.Namespace) -> str:
    """The chat template, "" for that of the tiny models."""
    if options.chat_template_file:
        return Path(options.chat_template_file).read_text()
    named: str = options.chat_template
    return TEMPLATES.get(named, named)


def model_for(options: argparse.Namespace, folder: Path) -> Path:
    """The tiny model that stands for the one that is asked for, under the alias that is asked for."""
    named = f"{options.hf_repo}/{options.hf_file}".lower()
    kind = next((kind for kind in KINDS if kind in named), "plain")
    template = template_of(options)
    name = (options.alias or "model").split(",")[0]
    path = folder / kind / f"{hash_of(template)}" / f"{name}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        build(kind, path, template)
    return path


def hash_of(template: str) -> str:
    """A name for a template."""
    # Here, since most servers start with a model that is there.
    import hashlib

    return hashlib.sha256(template.encode()).hexdigest()[:16]


def build(kind: str, path: Path, template: str) -> None:
    """Write a tiny model."""
    import gguf

    from tests import models, vision_models

    own = {"template": template} if template else {}
    if kind == "infill":
        models.llama(path, controls=GAP_TOKENS, ascii_only=True, n_ctx=2048)
    elif kind == "reranker":
        models.bert(path, n_ctx=512, n_cls_out=1, pooling=gguf.PoolingType.RANK, seed=_RANKER_SEED)
    elif kind == "bert":
        models.bert(path, n_ctx=512)
    elif kind == "gemma3":
        vision_models.seeing(path.parent, n_ctx=2048).rename(path)
    else:
        models.llama(path, spm=True, ascii_only=True, n_ctx=8192, **own)


def settings_for(options: argparse.Namespace) -> dict[str, str]:
    """Settings of shepherd that mean the same."""
    slots = int(options.parallel or 4)
    windows = 1 if options.kv_unified else slots
    found = {
        "model_trial": "false",
        "system_prompt": ".",
        "server_slots": str(slots),
        "server_windows": str(windows),
        "server_page": str(not options.no_ui).lower(),
        "server_verbose": str(options.verbose).lower(),
        "server_origins": options.cors_origins,
        "thinking": _THINKING.get(options.reasoning, "auto"),
    }
    wanted = {"temperature": options.temp, "seed": options.seed, "max_tokens": options.n_predict}
    found |= {name: value for name, value in wanted.items() if value not in (None, "-1")}
    if options.ctx_size:
        found["n_ctx"] = str(int(options.ctx_size) // windows)
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
    arguments = ["--host", options.host or "127.0.0.1", "--port", options.port, "--nomemory"]
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
