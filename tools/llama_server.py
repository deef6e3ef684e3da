#!/usr/bin/env python3
"""Build llama-server from the source package of the installed llama-cpp-python: a peer for the benches.

    python tools/llama_server.py build/llama-server [llama_cpp_python-0.3.36.tar.gz]

Without the package pip fetches it. The same llama.cpp on both sides, and no web interface. 178 files are
compiled, at the lowest priority and on one core unless --jobs says more; it goes on where it was interrupted.
Prints the path of the program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

# Most of the package, and nothing is built of them. .git names a repository that is not there.
_LEFT_OUT = frozenset(("models", "docs", "tests", "media", "examples", "benches", ".git"))
_ON = ("CMAKE_BUILD_WITH_INSTALL_RPATH", "LLAMA_BUILD_COMMON", "LLAMA_BUILD_TOOLS", "LLAMA_BUILD_SERVER")
_OFF = (
    "BUILD_SHARED_LIBS", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_APP", "LLAMA_BUILD_UI",
    "LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "LLAMA_TOOLS_INSTALL",
)  # fmt: skip


def fetch() -> Path:
    """The source package of the version that is installed."""
    folder = tempfile.mkdtemp()
    wanted = f"llama-cpp-python=={version('llama-cpp-python')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    subprocess.run([*command, "--dest", folder, wanted], check=True)
    return next(Path(folder).iterdir())


def unpack(package: Path, prefix: Path) -> Path:
    """llama.cpp's source out of the package; unpacked once."""
    source = prefix / "source"
    if not (prefix / "unpacked").exists():
        prefix.mkdir(parents=True, exist_ok=True)
        with tarfile.open(package) as archive:
            for member in archive:
                inner = member.name.partition("/vendor/llama.cpp/")[2]
                if not inner or not member.isfile() or inner.partition("/")[0] in _LEFT_OUT:
                    continue
                member.name = inner
                if hasattr(tarfile, "data_filter"):
                    archive.extract(member, source, filter="data")
                else:
                    archive.extract(member, source)
        (prefix / "unpacked").touch()
    return source


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prefix", type=Path)
    parser.add_argument("package", type=Path, nargs="?")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if hasattr(os, "nice"):
        os.nice(19)
    prefix: Path = options.prefix.resolve()
    if not (prefix / "unpacked").exists():
        unpack(options.package or fetch(), prefix)
    build = prefix / "build"
    switches = [f"-D{name}=ON" for name in _ON] + [f"-D{name}=OFF" for name in _OFF]
    configure = ["cmake", "-S", str(prefix / "source"), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([*configure, *switches], check=True, stdout=sys.stderr)
    make = ["cmake", "--build", str(build), "--target", "llama-server", "--parallel", str(options.jobs)]
    subprocess.run(make, check=True, stdout=sys.stderr)
    print(build / "bin" / "llama-server")


if __name__ == "__main__":
    main()
