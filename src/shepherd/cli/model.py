"""`shepherd model`: download, list, show and remove models."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import Parser, add_action, add_actions, agreed, finish_actions, loaded_settings
from shepherd.cli.progress import downloads
from shepherd.commands.screen import Screen, counted, size
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.inference.models import ModelDescription, ModelRegistry, StoredModel

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
Download models, list, show and remove those on this machine.

Models come from the Hugging Face Hub, or the mirror that HF_ENDPOINT names, into the cache that other
programs use too (HF_HUB_CACHE). shepherd config set model NAME makes one the default."""

_PULL = """\
Download a GGUF model. Files that you already have aren't downloaded again, and an interrupted download
continues where it stopped. The model is checked before it counts as installed; its path goes to stdout.

  hf:user/repo:Q5_K_M      by quantisation, in upper or lower case
  hf:user/repo             the only model there, else Q4_K_M
  hf:user/repo/file.gguf   by file name; the name of one part of a split model downloads all parts"""


def build_parser() -> Parser:
    """Build the parser of `shepherd model`."""
    parser = Parser(prog="shepherd model", description=_DESCRIPTION)
    actions = add_actions(parser)
    pull = add_action(actions, "pull", "download a model from the hub", description=_PULL)
    pull.add_argument("name", metavar="NAME", help="model to download")
    add_action(actions, "list", "list the models on this machine")
    show = add_action(actions, "show", "show details of a model")
    show.add_argument(
        "name", metavar="NAME", help="name of the model, as list shows it, or the path of a GGUF file"
    )
    remove = add_action(actions, "rm", "delete a downloaded model")
    remove.add_argument("name", metavar="NAME", help="name of the model, as list shows it")
    remove.add_argument("-y", "--yes", action="store_true", help="don't ask for confirmation")
    finish_actions(actions)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run one action; returns its exit code."""
    from shepherd.inference.models import ModelRegistry

    configured = loaded_settings(arguments).config.model
    return _ACTIONS[arguments.action](ModelRegistry(), arguments, screen, configured)


def _pull(registry: ModelRegistry, arguments: Namespace, screen: Screen, configured: str) -> int:
    with downloads(screen) as report:
        model = registry.pull(arguments.name, report)
    default = registry.configured(configured)
    if screen.as_json:
        screen.json(_record(registry, model, default))
        return 0
    screen.note(f"{model.name} is here: {size(model.size_bytes)}")
    if model.path != default:
        screen.note(f"to chat with it: shepherd -m {model.name}")
        screen.note(f"to make it the default: shepherd config set model {model.name}")
    screen.print(str(model.path))
    return 0


def _list(registry: ModelRegistry, arguments: Namespace, screen: Screen, configured: str) -> int:
    default = registry.configured(configured)
    records = [_record(registry, model, default) for model in registry.models()]
    if screen.as_json:
        screen.json(records)
        return 0
    rows = [
        (r["name"], size(r["size_bytes"]), r["quant"], r["architecture"], _state(r), _place(r))
        for r in records
    ]
    screen.table(["model", "size", "quantisation", "architecture", "state", "where"], rows)
    if all(record["built_in"] for record in records):
        screen.note("no downloaded models; shepherd model pull hf:user/repo:quant downloads one")
    else:
        total = sum(record["size_bytes"] for record in records)
        screen.note(f"{counted(len(records), 'model')}, {size(total)}; downloads are in {registry.cache}")
    return 0


def _show(registry: ModelRegistry, arguments: Namespace, screen: Screen, configured: str) -> int:
    model = registry.stored(arguments.name)
    if not model.complete:
        raise UsageError(f"{model.name} is not complete", hint=f"shepherd model pull {model.name}")
    told = registry.describe(model.files)
    record = _record(registry, model, registry.configured(configured))
    if screen.as_json:
        screen.json({**record, **_plain(told)})
        return 0
    for field, value in _in_words(record, told):
        screen.print(f"{field:14} {value or 'not stated'}")
    return 0


def _rm(registry: ModelRegistry, arguments: Namespace, screen: Screen, configured: str) -> int:
    model = registry.stored(arguments.name)
    registry.require_removable(model)
    is_default = model.path == registry.configured(configured)
    if is_default:
        screen.warn(f"{model.name} is the configured model", "shepherd config set model NAME names another")
    if not agreed(f"delete {model.name}, {size(model.size_bytes)}?", screen, yes=arguments.yes):
        screen.note("nothing was deleted")
        return 1
    registry.remove(model)
    screen.result(
        {"removed": model.name, "size_bytes": model.size_bytes, "default": is_default},
        note=f"{model.name} is deleted",
    )
    return 0


_ACTIONS = {"pull": _pull, "list": _list, "show": _show, "rm": _rm}


def _record(registry: ModelRegistry, model: StoredModel, default: Path | None) -> dict[str, Any]:
    return {
        "name": model.name,
        "size_bytes": model.size_bytes,
        "quant": model.quant,
        "architecture": registry.architecture(model),
        "complete": model.complete,
        "built_in": model.built_in,
        "default": model.path == default,
        "path": str(model.path),
    }


def _plain(told: ModelDescription) -> dict[str, Any]:
    return {**asdict(told), "files": list(map(str, told.files)), "sha256": list(told.sha256)}


def _in_words(record: dict[str, Any], told: ModelDescription) -> list[tuple[str, str]]:
    return [
        ("name", record["name"]),
        ("title", told.title),
        ("architecture", told.architecture),
        ("parameters", f"{told.n_params:,}"),
        ("quantisation", told.quant),
        ("context", f"{told.n_ctx_train:,} tokens" if told.n_ctx_train else ""),
        ("chat template", "yes" if told.chat_template else "no"),
        ("licence", told.licence),
        ("size", size(told.size_bytes)),
        ("default", "yes" if record["default"] else "no"),
        *(("path", str(path)) for path in told.files),
        *(("SHA-256", sha256) for sha256 in told.sha256),
    ]


def _state(record: dict[str, Any]) -> str:
    if not record["complete"]:
        return "incomplete"
    if not record["architecture"]:
        return "damaged"
    return "default" if record["default"] else ""


def _place(record: dict[str, Any]) -> str:
    path, home = Path(record["path"]), Path.home()
    if record["built_in"]:
        return "built in"
    return f"~/{path.relative_to(home)}" if home in path.parents else str(path)
