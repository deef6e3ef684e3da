#!/usr/bin/env python3
"""Build llama-server from the source package of the installed llama-cpp-python: a peer for the benches.

    python tools/llama_server.py build/llama-server [llama_cpp_python-0.3.36.tar.gz]

Without the package pip fetches it. Only the server is compiled, 90 files and 5 minutes of one core; the
model's work is done by the very libraries that llama-cpp-python installed, so that a bench compares servers
and not compilers. No web interface, no TLS. At the lowest priority and on one core unless --jobs says more;
it goes on where it was interrupted. Prints the path of the program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import distribution, version
from pathlib import Path

# Most of the package, and nothing is built of them. .git names a repository that is not there.
_LEFT_OUT = frozenset(("models", "docs", "tests", "media", "examples", "benches", ".git"))
# What the server is made of, with llama.cpp's own libraries taken as they are.
_PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(llama-server C CXX)
set(PROJECT_SOURCE_DIR ${CMAKE_CURRENT_SOURCE_DIR}/source)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(BUILD_SHARED_LIBS OFF)
set(LLAMA_BUILD_COMMON ON)
set(LLAMA_BUILD_UI OFF)
set(LLAMA_USE_PREBUILT_UI OFF)
set(LLAMA_OPENSSL OFF)
set(LLAMA_TOOLS_INSTALL OFF)
# Without it common does not compile its launcher of processes, and the server's router needs that.
set(LLAMA_SUBPROCESS ON)
set(LLAMA_BUILD_NUMBER 0)
# Its own turns on warnings and names files of ggml by paths of its own project.
function(llama_add_compile_flags)
endfunction()
include(source/cmake/license.cmake)
find_package(Threads REQUIRED)
foreach(name llama mtmd ggml ggml-base ggml-cpu)
    find_library(LIBRARY_${name} ${name} PATHS ${LIBRARIES} NO_DEFAULT_PATH REQUIRED)
    add_library(${name} SHARED IMPORTED GLOBAL)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION ${LIBRARY_${name}})
endforeach()
set(INCLUDES source/include source/ggml/include source/tools/mtmd source/vendor)
list(TRANSFORM INCLUDES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
set_target_properties(llama PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${INCLUDES}"
    INTERFACE_LINK_LIBRARIES "ggml;ggml-base;ggml-cpu")
set_target_properties(mtmd PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${INCLUDES}"
    INTERFACE_LINK_LIBRARIES llama)
set(CMAKE_BUILD_RPATH ${LIBRARIES})
if(UNIX AND NOT APPLE)
    add_link_options(-Wl,--allow-shlib-undefined)  # CUDA's own libraries are found when it starts
endif()
add_subdirectory(source/vendor)
add_subdirectory(source/common)
add_subdirectory(source/tools/ui)
add_subdirectory(source/tools/server)
"""


def fetch() -> Path:
    """The source package of the version that is installed."""
    folder = tempfile.mkdtemp()
    wanted = f"llama-cpp-python=={version('llama-cpp-python')}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]
    subprocess.run([*command, "--dest", folder, wanted], check=True)
    return next(Path(folder).iterdir())


def unpack(package: Path, prefix: Path) -> None:
    """llama.cpp's source out of the package; unpacked once."""
    prefix.mkdir(parents=True, exist_ok=True)
    with tarfile.open(package) as archive:
        for member in archive:
            inner = member.name.partition("/vendor/llama.cpp/")[2]
            if not inner or not member.isfile() or inner.partition("/")[0] in _LEFT_OUT:
                continue
            member.name = inner
            if hasattr(tarfile, "data_filter"):
                archive.extract(member, prefix / "source", filter="data")
            else:
                archive.extract(member, prefix / "source")
    (prefix / "unpacked").touch()


def build(prefix: Path, libraries: Path, jobs: int) -> Path:
    """Build upon the libraries of that folder; `prefix` has llama.cpp's source in `source`. The program."""
    (prefix / "CMakeLists.txt").write_text(_PROJECT)
    configure = ["cmake", "-S", str(prefix), "-B", str(prefix / "build"), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([*configure, f"-DLIBRARIES={libraries}"], check=True, stdout=sys.stderr)
    make = ["cmake", "--build", str(prefix / "build"), "--target", "llama-server"]
    subprocess.run([*make, "--parallel", str(jobs)], check=True, stdout=sys.stderr)
    return prefix / "build" / "bin" / "llama-server"


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
    libraries = Path(str(distribution("llama-cpp-python").locate_file("llama_cpp"))) / "lib"
    print(build(prefix, libraries, options.jobs))


if __name__ == "__main__":
    main()
