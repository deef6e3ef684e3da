"""Follow the documents whose commands install or compile, whole, as somebody new does; a step of .ci/run.

    tools/test -s tests/docs/installation.py         not among the tests of tools/test

In a copy of the repository, with a home of its own and an environment that has the wheel of `tools/wheel` and
nothing else. Downloads come from the index, or from pip's cache; llama.cpp is compiled if it never was here.
Each line is printed with its seconds, and whether it ended with an error, as it has to where the machine
lacks what it needs (needs.py).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.inference.models import resolve
from tests.docs.commands import DOCUMENTS, ROOT, commands_of, inline_extras
from tests.docs.reader import Reader
from tests.docs.tables import BENCHES, INSTALLING, NEEDS, WITHOUT_A_WHEEL, steps_of
from tests.hub import LoopbackHub

_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "wheelhouse", "__pycache__", ".*_cache", ".hypothesis", ".benchmarks"
)
_WHEEL = "tools/wheel"
_OF_THE_BENCHES = ROOT / "bench" / "README.md"
_WITH_A_GPU_S = 3 * 3600  # llama.cpp's kernels are compiled, and a model of 20 GB is written and measured
_done: set[str] = set()  # what was installed is not installed again, whichever document says so, too
_OWN = dict(os.environ)  # as it was before the tests got a cache of their own
_FOLLOWED = sorted(
    (
        document
        for document in DOCUMENTS
        if document != _OF_THE_BENCHES and any(one.text in INSTALLING for one in commands_of(document))
    ),
    # README comes first: its `tools/run` finds no environment yet. The others find what it has left.
    key=lambda path: (path.name != "README.md", path),
)
_EXTRAS = sorted(set().union(*map(inline_extras, DOCUMENTS)))


@pytest.fixture(scope="module")
def new_reader(
    tmp_path_factory: pytest.TempPathFactory, files: Path, hub: LoopbackHub
) -> Iterator[Callable[[], Reader]]:
    """Somebody with a home of his own, in the one copy of the repository and with the one environment."""
    folder = tmp_path_factory.mktemp("checkout")
    checkout, environment = folder / "shepherd", folder / "environment"
    shutil.copytree(ROOT, checkout, ignore=_LEFT_OUT)
    for name in ("model.gguf", "your-model.gguf"):
        shutil.copy(resolve(""), checkout / name)
    venv.create(environment, with_pip=True, symlinks=True)
    given = {
        **_settings_of_pip(),
        "HF_ENDPOINT": hub.endpoint,
        "EDITOR": "sed -i $a#edited",  # by the stream editor: a comment at the end
    }
    readers: list[Reader] = []

    def new() -> Reader:
        home = tmp_path_factory.mktemp("reader")
        readers.append(Reader(home, files, environment / "bin", given, checkout=checkout))
        return readers[-1]

    first = new()
    print()
    _follow(first, _WHEEL)
    # By its name, which says for which systems it is: nothing of this name is looked for in the index.
    _follow(first, f"pip install {next(checkout.glob('wheelhouse/*.whl'))}")
    yield new
    for one in readers:
        one.close()
    print()
    for command in WITHOUT_A_WHEEL:
        print(f"  no wheel for this Python, not run:  {command}")


def _settings_of_pip() -> dict[str, str]:
    # Of the real home: what was downloaded and compiled once, and the index of the machine's owner.
    caching = {"PIP_NO_CACHE_DIR": ""}  # or llama.cpp would be compiled for each environment
    # Most of what is installed is never imported: 40 % of pip's time. It reads this as "no" to compiling.
    sparing = {"PIP_NO_COMPILE": "0"}
    command = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.run(
        command, check=True, capture_output=True, text=True, env=_OWN | caching
    ).stdout.strip()
    places = (Path.home() / name for name in (".config/pip/pip.conf", ".pip/pip.conf"))
    own = [str(place) for place in places if place.exists()]
    named = os.environ.get("PIP_CONFIG_FILE", *own[:1])
    return {**caching, **sparing, "PIP_CACHE_DIR": cache, **({"PIP_CONFIG_FILE": named} if named else {})}


def _follow(reader: Reader, line: str) -> str:
    begun, need = time.monotonic(), NEEDS.get(line)
    end, said = "", ""
    if need is None:
        said = reader.follow(line)
    elif need.is_there():
        said = reader.follow(line, within_s=_WITH_A_GPU_S)
    else:
        reader.is_refused(line, need.said)
        end = f"   (no {need.what} here: it ended with its error)"
    print(f"{time.monotonic() - begun:6.1f} s  {line}{end}", flush=True)
    if line in INSTALLING:
        _done.add(line)
    return said


@pytest.mark.parametrize("document", _FOLLOWED, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_is_followed_from_top_to_bottom_with_all_that_it_installs(document, new_reader, addressed):
    reader = new_reader()
    print()
    for line in steps_of(commands_of(document), installing=True):
        if line not in _done:
            _follow(reader, addressed(line))
    reader.close()


@pytest.mark.parametrize("extra", _EXTRAS)
def test_extra_that_the_text_names_can_be_installed(extra, new_reader):
    print()
    _follow(new_reader(), f"pip install 'shepherd-llm[{extra}]'")


def test_every_bench_works_with_all_its_peers(new_reader, addressed):
    reader, said = new_reader(), {}
    print()
    for line in steps_of(commands_of(_OF_THE_BENCHES), installing=True):
        if line not in _done:
            said[line] = _follow(reader, addressed(line))
    benches = {path.name for path in ROOT.glob("bench/test_*.py")}
    assert set(re.findall(r"^bench/(test_\w+\.py) ", said[BENCHES], re.MULTILINE)) == benches
    assert re.search(r"^=+ \d+ passed in ", said[BENCHES], re.MULTILINE), said[BENCHES][-2000:]
