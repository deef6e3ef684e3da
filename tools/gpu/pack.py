#!/usr/bin/env python3
"""Pack what a GPU machine without a network needs: llama.cpp's source, cut down, and wheels.

    python tools/gpu/pack.py gpu-kit.tar.xz --wheels 3.12

Run where there is a network. The source is that of the llama-cpp-python that Shepherd is tested with; of its
77 MB those files are packed that the CUDA and CPU backends, the library for pictures and llama-server are
made of, about 5 MB. `--wheels` adds what
building and running Shepherd takes on Linux x86-64 with that Python. tools/gpu/build.py unpacks it.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

VERSION = "0.3.36"
# Inside the source package, after its first folder.
LLAMA = "vendor/llama.cpp"
_PARTS = ("cmake", "include", "src", "ggml", "vendor", "common", "tools/mtmd", "tools/server")
_FOLDERS = ("llama_cpp", *(f"{LLAMA}/{name}" for name in _PARTS))
_NAMES = (
    *("CMakeLists.txt", "LICENSE", "scripts/build-info.sh", "scripts/ui-assets.cmake"),
    *(f"tools/ui/{name}" for name in ("CMakeLists.txt", "sources.cmake", "ui.cpp.in", "ui.h.in")),
)
_FILES = ("LICENSE.md", *(f"{LLAMA}/{name}" for name in _NAMES))
_LEFT_OUT = (f"{LLAMA}/tools/server/tests/", f"{LLAMA}/tools/server/bench/")
_BACKENDS = ("ggml-cpu", "ggml-cuda")
_BACKEND = re.compile(rf"{re.escape(LLAMA)}/ggml/src/(ggml-[a-z0-9]+)/")
_WHEELS = (
    "numpy", "jinja2", "pyroaring", "cachetools", "huggingface-hub", "httpx", "prompt-toolkit", "rich",
    "argcomplete", "pypdf", "ijson", "diskcache", "gguf", "scikit-build-core", "cython", "cmake", "ninja",
    "pytest", "hypothesis", "psutil", "typing-extensions",
)  # fmt: skip


def is_needed(path: str) -> bool:
    """Whether a file of the source package is packed; `path` without its first folder."""
    if path in _FILES:
        return True
    if not any(path.startswith(folder + "/") for folder in _FOLDERS) or path.startswith(_LEFT_OUT):
        return False
    backend = _BACKEND.match(path)
    return backend is None or backend[1] in _BACKENDS


def pack(source: Path, wheels: list[Path], out: Path) -> int:
    """Write the kit; how many files of the source it has."""
    n = 0
    # Wheels are compressed already: preset 6 would save one MB of 67, and take 41 s instead of 9.
    with tarfile.open(source) as archive, tarfile.open(out, "w:xz", preset=0) as kit:
        for member in archive:
            path = str(PurePosixPath(*PurePosixPath(member.name).parts[1:]))
            if not member.isfile() or not is_needed(path):
                continue
            data = archive.extractfile(member)
            assert data is not None
            info = tarfile.TarInfo(f"source/{path}")
            info.size, info.mode = member.size, member.mode
            kit.addfile(info, io.BytesIO(data.read()))
            n += 1
        for wheel in wheels:
            kit.add(wheel, f"wheels/{wheel.name}")
    return n


def download(folder: Path, *arguments: str) -> list[Path]:
    """Download packages into `folder` with pip, and return its files."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *arguments]
    subprocess.run(command, check=True)
    return sorted(folder.iterdir())


def main() -> None:
    """Parse the command line and write the kit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--source", type=Path, help="llama-cpp-python's source package, when it is here already"
    )
    parser.add_argument("--wheels", metavar="VERSION", help="also pack wheels for this version of Python")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        wheels: list[Path] = []
        if options.wheels:
            target = ["--only-binary=:all:", "--python-version", options.wheels]
            target += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 27, 28)]
            wheels = download(scratch / "wheels", *target, "--platform=manylinux2014_x86_64", *_WHEELS)
        source = options.source
        if source is None:
            wanted = ["--no-deps", "--no-binary=:all:", f"llama-cpp-python=={VERSION}"]
            [source] = download(scratch / "source", *wanted)
        n = pack(source, wheels, options.out)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, {n} source files, {len(wheels)} wheels")


if __name__ == "__main__":
    main()
