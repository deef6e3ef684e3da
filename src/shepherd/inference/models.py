"""The models on this machine: the built-in one, and those in huggingface_hub's cache.

There is no list of our own that could go stale: a model is installed when its file is in the cache.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from shepherd.errors import ModelError, ModelFormatError, UsageError
from shepherd.inference.cache import Repository, repositories
from shepherd.inference.gguf import GGUFHeader, read_header
from shepherd.inference.hub import Hub, HubFile, Listing, Report
from shepherd.inference.names import (
    BUILT_IN_FILE,
    FILE_TYPES,
    HUB_PREFIX,
    HubName,
    Variant,
    choose,
    is_projector,
    matching,
    parse_hub_name,
    projector_of,
    quant_of,
    shortest_names,
    stem_of,
    variants,
)
from shepherd.paths import from_home

__all__ = [
    "BUILT_IN",
    "SUGGESTED",
    "ModelDescription",
    "ModelRegistry",
    "StoredModel",
    "is_built_in",
    "parameters_in",
    "quant_in",
    "resolve",
]

BUILT_IN = "shepherd-mini"
# A full model that most machines can run; what the built-in one sends its users to.
SUGGESTED = "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_READ_BYTES = 1 << 20
_SET_ONE = (
    "shepherd -m model.gguf or -m hf:user/repo:quant names one for this run, "
    "shepherd config set model NAME for good"
)
_NAMES = "shepherd model list shows what is here; a path or hf:user/repo:quant names another"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model on this machine, under the name that -m and the setting `model` take.

    `path` is the file that an engine loads; a split model has more `files`. One that was not fetched to the
    end is not `complete`. `stem` is its file name in the repository `repo`, without part number and .gguf.
    """

    name: str
    path: Path
    files: tuple[Path, ...]
    size_bytes: int
    quant: str
    repo: str = ""
    stem: str = ""
    complete: bool = True

    @property
    def built_in(self) -> bool:
        """Return whether it came with the package."""
        return self.name == BUILT_IN


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """Description of a model by its header. Missing fields are empty or 0; `sha256` has one per file."""

    title: str
    architecture: str
    quant: str
    n_ctx_train: int
    n_params: int
    chat_template: bool
    licence: str
    size_bytes: int
    files: tuple[Path, ...]
    sha256: tuple[str, ...]


class ModelRegistry:
    """Finds, describes, fetches and removes models. `cache`: HF_HUB_CACHE unless another folder is given."""

    def __init__(
        self, *, cache: Path | None = None, hub: Hub | None = None, built_in: Path = BUILT_IN_FILE
    ) -> None:
        self._cache = cache
        self._hub = hub
        self._built_in = built_in

    @property
    def cache(self) -> Path:
        """Return the folder that downloads go to."""
        if self._cache is None:
            from huggingface_hub.constants import HF_HUB_CACHE

            self._cache = Path(HF_HUB_CACHE)
        return self._cache

    def models(self) -> list[StoredModel]:
        """List all models: the built-in one first, then by name, incomplete ones too."""
        found = [model for repo in repositories(self.cache) for model in self._stored_in(repo).values()]
        return [*self._built_in_models(), *sorted(found, key=lambda model: model.name)]

    def find(self, name: str) -> StoredModel | None:
        """Return the complete model that `name` means, None when there is none here; asks no hub.

        `name` is what `models()` calls it, any other `hf:` name that fits, or the name of its file.
        Raises UsageError when it is malformed or fits several.
        """
        if name.startswith(HUB_PREFIX):
            return self._find_from_hub(parse_hub_name(name))
        wanted = name.lower().removesuffix(".gguf")
        found = [m for m in self.models() if m.complete and wanted in (m.name, m.path.stem.lower())]
        if len(found) > 1:
            raise UsageError(
                f"{name!a} matches several models",
                hint="there are " + ", ".join(model.name for model in found),
            )
        return found[0] if found else None

    def configured(self, spec: str) -> Path | None:
        """Return the file that the setting `model` stands for; None when there is none here."""
        try:
            return self._local(spec)
        except UsageError:
            return None

    def at(self, path: Path) -> StoredModel:
        """Return the model in the GGUF at `path`, with its other parts when it is one of several."""
        beside = {file.name: file for file in path.parent.iterdir()}
        variant = next((v for v in variants(beside) if path.name in v.files), Variant((path.name,)))
        files = tuple(path.parent / name for name in variant.files)
        return StoredModel(
            name=str(path),
            path=files[0],
            files=files,
            size_bytes=sum(file.stat().st_size for file in files),
            quant=variant.quant,
            complete=variant.is_complete,
        )

    def stored(self, name: str) -> StoredModel:
        """Like `find`; the path of a file and the name of an incomplete model fit, too. Else UsageError."""
        if (path := from_home(name, "model")).is_file():
            return self.at(path)
        exact = next((model for model in self.models() if model.name == name), None)
        model = exact or self.find(name)
        if model is None:
            raise UsageError(
                f"there is no model {name!a} on this machine",
                hint="shepherd model list shows the models on this machine",
            )
        return model

    def resolve(self, spec: str, report: Report = lambda event: None) -> Path:
        """Return the file to load for -m or the setting `model`; downloads a missing `hf:` model.

        "" is the built-in model. What looks like a path, or is a file, stays that path.
        """
        if (path := self._local(spec)) is not None:
            return path
        if spec.startswith(HUB_PREFIX):
            return self.pull(spec, report).path
        if spec:
            raise UsageError(f"there is no model {spec!a}", hint=_NAMES)
        raise UsageError("no model is set", hint=_SET_ONE)

    def pull(self, spec: str, report: Report = lambda event: None) -> StoredModel:
        """Fetch what `hf:…` names, as far as it is not here; the model as it is now on this machine.

        Its projector, if the repository has one, comes first: a model that is there is complete.
        It counts as installed when size, SHA-256 and GGUF header were found right. After an interruption, at
        whatever moment, the next call goes on.
        Raises UsageError for a name that fits nothing or too much, else ModelError.
        """
        name = parse_hub_name(spec)
        hub = self._hub or Hub()
        listing = hub.listing(name.repo, report)
        chosen = choose(name, variants(listing.files))
        files = [listing.files[path] for path in _with_projector(chosen, listing)]
        hub.require_checksums(listing, files)
        repo = self._spelled(listing.repo)
        repository = Repository(self.cache, repo)
        repository.require_space(listing, files)
        for file in files:
            with repository.locked(file, report):
                if not repository.has(listing, file):
                    hub.download(listing, file, repository.download_path(file), report)
                _require_model(repository, listing, file)
                repository.install(listing, file)
        repository.set_newest(listing.commit)
        model = self._find_from_hub(HubName(repo, file=chosen.files[0]))
        assert model is not None
        return model

    def require_removable(self, model: StoredModel) -> None:
        """UsageError when `remove` would refuse."""
        if model.built_in:
            raise UsageError(f"{model.name} is built in", hint="uninstalling Shepherd removes it")
        if not model.repo:
            raise UsageError(
                f"{model.name} is a file of yours, not a download",
                hint="shepherd model list shows the models on this machine",
            )

    def remove(self, model: StoredModel) -> None:
        """Delete a downloaded model, or what there is of it; never a file outside the cache."""
        self.require_removable(model)
        Repository(self.cache, model.repo).remove(model.stem)

    def describe(self, files: tuple[Path, ...]) -> ModelDescription:
        """Describe a model by its header, given its file or all its parts in order.

        Raises ModelError for what is no GGUF. A file outside the cache is read once, for its SHA-256.
        """
        headers = [read_header(path) for path in files]
        first = headers[0]
        return ModelDescription(
            title=str(first.metadata.get("general.name", "")),
            architecture=first.architecture,
            quant=quant_in(first, files[0]),
            n_ctx_train=_whole(first.metadata.get(f"{first.architecture}.context_length")),
            n_params=sum(map(parameters_in, headers)),
            chat_template="tokenizer.chat_template" in first.metadata,
            licence=str(first.metadata.get("general.license", "")),
            size_bytes=sum(header.file_bytes for header in headers),
            files=files,
            sha256=tuple(map(_sha256, files)),
        )

    def architecture(self, model: StoredModel) -> str:
        """Return a model's architecture; "" when its file is damaged or incomplete."""
        try:
            return read_header(model.path).architecture if model.complete else ""
        except ModelError:
            return ""

    def _local(self, spec: str) -> Path | None:
        """`resolve` without asking a hub."""
        if not spec and self._built_in.is_file():  # without a look at what else there is
            return self._built_in
        path = from_home(spec, "model")
        is_path = path.is_file() or path.name != spec or path.suffix.lower() == ".gguf"
        if spec and is_path and not spec.startswith(HUB_PREFIX):
            # The name of a file that was downloaded, perhaps, as `model list` and the hub show it.
            model = self.find(spec) if path.name == spec and not path.is_file() else None
            return model.path if model else path
        model = self.find(spec or BUILT_IN)
        return model.path if model else None

    def _built_in_models(self) -> list[StoredModel]:
        if not self._built_in.is_file():
            return []
        path = self._built_in
        return [StoredModel(BUILT_IN, path, (path,), path.stat().st_size, quant_of(path.name))]

    def _stored_in(self, repo: str) -> dict[Variant, StoredModel]:
        holdings = Repository(self.cache, repo).holdings()
        names = shortest_names(repo, [holding.variant for holding in holdings])
        return {
            holding.variant: StoredModel(
                name=str(name),
                path=holding.paths[0],
                files=holding.paths,
                size_bytes=sum(path.stat().st_size for path in holding.paths),
                quant=holding.variant.quant,
                repo=repo,
                stem=stem_of(holding.variant.files[0]),
                complete=holding.complete,
            )
            for name, holding in zip(names, holdings, strict=True)
        }

    def _spelled(self, repo: str) -> str:
        """Return the name of a repository as the cache spells it, if it is there."""
        return next((here for here in repositories(self.cache) if here.casefold() == repo.casefold()), repo)

    def _find_from_hub(self, name: HubName) -> StoredModel | None:
        stored = self._stored_in(self._spelled(name.repo))
        complete = {variant: model for variant, model in stored.items() if model.complete}
        if not matching(name, list(complete)):
            return None
        return complete[choose(name, list(complete))]


def resolve(spec: str, report: Report = lambda event: None) -> Path:
    """Return the file to load for a path, a model's name or `hf:user/repo:quant`; see ModelRegistry."""
    return ModelRegistry().resolve(spec, report)


def is_built_in(path: Path) -> bool:
    """Return whether this is the file of the model that comes with the package."""
    try:
        return path.samefile(BUILT_IN_FILE)
    except OSError:
        return False


def _with_projector(chosen: Variant, listing: Listing) -> list[str]:
    """Return the model's files, and before them its projector, if there is one."""
    folder, slash, name = chosen.files[0].rpartition("/")
    beside = [path.removeprefix(folder + slash) for path in listing.files if path.startswith(folder + slash)]
    projector = projector_of(name, [file for file in beside if "/" not in file])
    return [*([folder + slash + projector] if projector else []), *chosen.files]


def _require_model(repository: Repository, listing: Listing, file: HubFile) -> None:
    """Delete a download that is no GGUF, whatever its checksum; what another program has put there stays."""
    path = repository.contents(listing, file)
    try:
        read_header(path, is_projector=is_projector(file.path))
    except ModelFormatError as error:
        deleted = path == repository.download_path(file)
        if deleted:
            path.unlink()
        what = str(error).replace(f"model '{path}'", f"{HUB_PREFIX}{listing.repo}/{file.path}")
        raise ModelFormatError(what + "; the download was deleted" * deleted, hint=error.hint) from error


def quant_in(header: GGUFHeader, path: Path) -> str:
    """Return the quantisation that the header tells, or else the file's name."""
    named = FILE_TYPES.get(_whole(header.metadata.get("general.file_type"), missing=-1), "")
    return named or quant_of(path.name)


def _whole(value: object, missing: int = 0) -> int:
    return value if isinstance(value, int) else missing


def parameters_in(header: GGUFHeader) -> int:
    """Return the number of weights in a file."""
    return sum(math.prod(tensor.shape) for tensor in header.tensors)


def _sha256(path: Path) -> str:
    # In the cache a file is a link to its contents, which are named after their checksum.
    if path.is_symlink() and _SHA256.fullmatch(name := os.path.basename(os.readlink(path))):
        return name
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
