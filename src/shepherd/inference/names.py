"""Names of models: `hf:user/repo:quant`, the files behind such a name, and the parts of a split one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import shepherd
from shepherd.errors import UsageError

__all__ = [
    "BUILT_IN_FILE",
    "DEFAULT_QUANT",
    "FILE_TYPES",
    "HUB_PREFIX",
    "HubName",
    "Variant",
    "choose",
    "hub_name_meant",
    "is_safe_path",
    "matching",
    "parse_hub_name",
    "quant_of",
    "shortest_names",
    "stem_of",
    "variants",
]

HUB_PREFIX = "hf:"
BUILT_IN_FILE = Path(shepherd.__file__).parent / "models" / "shepherd-mini-q8_0.gguf"
# What publishers recommend for most machines: about 4.8 bits a weight.
DEFAULT_QUANT = "Q4_K_M"

# general.file_type: llama.cpp's enum llama_ftype.
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16", 36: "TQ1_0",
    37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0",
}  # fmt: skip

_FORMS = "hf:user/repo:quant, hf:user/repo or hf:user/repo/file.gguf"
_REPO_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")
# What people paste from their browser's address bar, or type without "hf:".
_MEANT = re.compile(
    r"(?:(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/|hf:/*)?(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*?)"
    r"(?P<quant>:[\w-]+)?(?:/(?:tree|blob|resolve)/.*|[/?#].*)?",
    re.IGNORECASE | re.ASCII,
)
_QUANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_QUANT_IN_FILE = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q[1-8](?:_(?:[0148]|NL|X{0,2}[SL]|[KM]))*|TQ[12]_0|(?:MX|NV)FP4(?:_MOE)?"
    r"|BF16|FP?16|FP?32))(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE | re.DOTALL)
# GGUF files that are no language models: image projectors and importance matrices.
_ACCESSORY = re.compile(r"(?:^|[._-])(?:mmproj|imatrix)(?:[._-]|$)", re.IGNORECASE)
_PROJECTOR = re.compile(r"(?:^|[._-])mmproj(?:[._-]|$)", re.IGNORECASE)
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class HubName:
    """`hf:user/repo`, with a quantisation as it was written, or a file, or neither."""

    repo: str
    quant: str = ""
    file: str = ""

    def __str__(self) -> str:
        end = f"/{self.file}" if self.file else f":{self.quant}" if self.quant else ""
        return f"{HUB_PREFIX}{self.repo}{end}"


@dataclass(frozen=True, slots=True)
class Variant:
    """One model among the files of a repository: a file, or all parts of a split one, in order."""

    files: tuple[str, ...]
    n_parts: int = 1

    @property
    def quant(self) -> str:
        """Return the quantisation that the file name tells, in capitals; "" when it tells none."""
        return quant_of(self.files[0])

    @property
    def is_complete(self) -> bool:
        """Return whether all parts are there."""
        return len(self.files) == self.n_parts


def parse_hub_name(text: str) -> HubName:
    """Return the parts of a name that starts with `hf:`; UsageError when it is malformed."""
    user, _, rest = text.removeprefix(HUB_PREFIX).partition("/")
    repo, slash, file = rest.partition("/")
    quant = ""
    if not text.startswith(HUB_PREFIX):
        raise _malformed(text)
    if not slash:
        repo, colon, quant = repo.partition(":")
        if colon and not _QUANT.fullmatch(quant):
            raise _malformed(text)
    elif not is_safe_path(file) or not file.lower().endswith(".gguf"):
        raise _malformed(text)
    for part in (user, repo):
        # The hub forbids '--' and '..'; its cache joins user and repo with '--'.
        if not _REPO_PART.fullmatch(part) or "--" in part or ".." in part:
            raise _malformed(text)
    return HubName(f"{user}/{repo}", quant, file)


def hub_name_meant(text: str) -> str:
    """Return the `hf:` name that an address of the hub, or a name without `hf:`, stands for; else ""."""
    match = None if text.lower().endswith(".gguf") else _MEANT.fullmatch(text)
    return f"{HUB_PREFIX}{match['repo']}{match['quant'] or ''}" if match else ""


def is_safe_path(path: str) -> bool:
    """Return whether a file name of a repository stays below the folder it is put in, on any system."""
    pieces = path.split("/")
    return (
        len(path) <= 1024
        and path.isprintable()
        and not any(piece in ("", ".", "..") for piece in pieces)
        and not any(character in path for character in '\\:*?"<>|')
    )


def quant_of(file: str) -> str:
    """Return the quantisation in a file name, in capitals: Q4_K_M for `m-q4_k_m.gguf`."""
    found: list[str] = _QUANT_IN_FILE.findall(file.rpartition("/")[2])
    return found[-1].upper().replace("FP16", "F16").replace("FP32", "F32") if found else ""


def stem_of(file: str) -> str:
    """Return the file name without `.gguf`, and without the number of a part."""
    match = _PART.fullmatch(file)
    return match[1] if match else file[:-5]


def variants(files: Iterable[str]) -> list[Variant]:
    """Return the models among these file names, sorted; accessories such as projectors are left out."""
    parts: dict[tuple[str, int], dict[int, str]] = {}
    whole = []
    for file in sorted(set(files)):
        if not file.lower().endswith(".gguf") or _ACCESSORY.search(file.rpartition("/")[2][:-5]):
            continue
        if (match := _PART.fullmatch(file)) and 1 <= int(match[2]) <= int(match[3]):
            parts.setdefault((match[1], int(match[3])), {})[int(match[2])] = file
        else:
            whole.append(Variant((file,)))
    split = [
        Variant(tuple(numbered[number] for number in sorted(numbered)), count)
        for (_, count), numbered in parts.items()
    ]
    return sorted(whole + split, key=lambda variant: variant.files)


def projector_of(model: str, files: Iterable[str]) -> str:
    """Return the projector of a model among the files of its folder, "" without one.

    It has the model's name, or is the only model's. Of several, one with 16 bits is preferred.
    """
    found = sorted(file for file in files if file.lower().endswith(".gguf"))
    projectors = [file for file in found if _PROJECTOR.search(file[:-5])]
    names = {_words_of(variant.files[0]) for variant in variants(found)}
    own = [file for file in projectors if _words_of(file) and _words_of(file) in _words_of(model)]
    return min(own or (projectors if len(names) == 1 else []), key=_preference, default="")


def is_projector(file: str) -> bool:
    """Return whether a file's name says that it is a projector."""
    name = file.rpartition("/")[2].lower()
    return name.endswith(".gguf") and _PROJECTOR.search(name[:-5]) is not None


def _words_of(file: str) -> str:
    """Return what of a file's name says which model it is: no quantisation, no `mmproj`."""
    stem = stem_of(file).lower().replace(quant_of(file).lower() or "\0", "")
    for other in ("mmproj", "model", "bf16", "f16", "fp16", "f32"):
        stem = stem.replace(other, "")
    return "".join(letter for letter in stem if letter.isalnum())


def _preference(file: str) -> tuple[int, str]:
    """Sixteen bits first: less loses details, and more is slower."""
    order = {"F16": 0, "BF16": 1, "Q8_0": 2, "F32": 3}
    return order.get(quant_of(file), 4), file


def choose(name: HubName, candidates: Sequence[Variant]) -> Variant:
    """Return the one model that `name` means. Raises UsageError with a list when it is none or several."""
    if not candidates:
        raise UsageError(
            f"{HUB_PREFIX}{name.repo} has no GGUF model",
            hint="publishers keep GGUF files in repositories of their own, often named …-GGUF",
        )
    found = matching(name, candidates)
    if len(found) != 1:
        what = "has no" if not found else "has more than one"
        wanted = name.file or f"model of quantisation {name.quant or DEFAULT_QUANT}"
        raise UsageError(f"{HUB_PREFIX}{name.repo} {what} {wanted}", hint=_listed(name, found or candidates))
    if not found[0].is_complete:
        raise UsageError(
            f"{HUB_PREFIX}{name.repo}: of {found[0].n_parts} parts of "
            f"{found[0].files[0]} only {len(found[0].files)} are there",
            hint="the publisher's upload is incomplete; choose another model",
        )
    return found[0]


def matching(name: HubName, candidates: Sequence[Variant]) -> list[Variant]:
    """Return the models that `name` can mean, in any case; without a quantisation the only one, or Q4_K_M."""
    if name.file:
        wanted = name.file.lower()
        return [v for v in candidates if wanted in (file.lower() for file in v.files)]
    if not name.quant and len(candidates) == 1:
        return list(candidates)
    quant = quant_of(f"{name.quant}.gguf") or name.quant.upper() if name.quant else DEFAULT_QUANT
    # Unsloth's "dynamic" files are called UD-Q4_K_XL; UD- may be left out where nothing else fits.
    return [v for v in candidates if v.quant == quant] or [v for v in candidates if v.quant == f"UD-{quant}"]


def shortest_names(repo: str, candidates: Sequence[Variant]) -> list[HubName]:
    """Names for these models of one repository: by quantisation where that is enough, else by file."""
    quants = [v.quant for v in candidates]
    return [
        HubName(repo, quant=v.quant)
        if v.quant and quants.count(v.quant) == 1
        else HubName(repo, file=v.files[0])
        for v in candidates
    ]


def _listed(name: HubName, candidates: Sequence[Variant]) -> str:
    names = shortest_names(name.repo, candidates)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"there {'is' if len(names) == 1 else 'are'} " + ", ".join(map(str, names[:_SHOWN])) + more


def _malformed(text: str) -> UsageError:
    meant = "" if text.startswith(HUB_PREFIX) else hub_name_meant(text)
    hint = f"did you mean {meant}?" if meant else f"expected {_FORMS}"
    return UsageError(f"{text[:100]!a} is not the name of a model on the hub", hint=hint)
