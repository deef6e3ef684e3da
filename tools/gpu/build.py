#!/usr/bin/env python3
"""Build llama.cpp with its CUDA backend out of a kit of tools/gpu/pack.py, without a network.

    python tools/gpu/build.py gpu-kit.tar.xz build/gpu
    PYTHONPATH=build/gpu/python python -m shepherd doctor

Needs nvcc, a C++ compiler, cmake 3.19 and ninja or make, and a GPU unless `--architectures` names one. Puts
the package llama_cpp with its libraries into PREFIX/python, and builds llama-server upon the same libraries,
for the benches. May be interrupted: the next call goes on where it stopped. `--cpu` leaves CUDA out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import llama_server
from environment import cuda_compiler, flags_by_variable, missing_for_cuda

_REMEDY = """what can be done (docs/how-to/gpu.md):
  install NVIDIA's driver and CUDA toolkit; CUDACXX names its nvcc if that is elsewhere
  ARCHITECTURES=90 before tools/gpu/run builds for the GPU of another machine
  CPU=1 before it leaves CUDA out, for a trial"""
_OFF = ("TESTS", "TOOLS", "EXAMPLES", "SERVER", "COMMON", "APP", "UI")
# llama.cpp and its library for pictures, as llama-cpp-python builds them.
_PROJECT = """\
cmake_minimum_required(VERSION 3.19)
project(llama-libraries C CXX)
add_subdirectory(vendor/llama.cpp)
get_directory_property(LLAMA_VERSION_BASE DIRECTORY vendor/llama.cpp DEFINITION LLAMA_VERSION_BASE)
get_directory_property(LLAMA_VERSION_MAJOR DIRECTORY vendor/llama.cpp DEFINITION LLAMA_VERSION_MAJOR)
add_subdirectory(vendor/llama.cpp/tools/mtmd)
"""
_LIBRARIES = ("libllama", "libggml", "libmtmd")


def unpack(kit: Path, prefix: Path) -> Path:
    """The source's folder; unpacked once, since cmake builds anew what looks newer."""
    stamp = prefix / "unpacked"
    name = f"{kit.resolve()} {kit.stat().st_size}"
    if not stamp.exists() or stamp.read_text() != name:
        prefix.mkdir(parents=True, exist_ok=True)
        with tarfile.open(kit) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(prefix, filter="data")
            else:
                archive.extractall(prefix)
        stamp.write_text(name)
    return prefix / "source"


def configure(source: Path, build: Path, *, cuda: bool, architectures: str) -> list[str]:
    """The cmake command that configures the build."""
    command = ["cmake", "-S", str(source), "-B", str(build)]
    command += ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DLLAMA_OPENSSL=OFF"]
    # A compiler that has the C++ library only as an archive puts a copy into each library. If the copies were
    # visible, a process that has loaded another one before (numpy's) would mix them, and crash on loading.
    if sys.platform == "linux":
        command += ["-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,libstdc++.a"]
    # Each library finds the others beside it.
    command += ["-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON", "-DCMAKE_INSTALL_RPATH=$ORIGIN"]
    command += [f"-DLLAMA_BUILD_{part}=OFF" for part in _OFF]
    command += ["-DGGML_NATIVE=ON", f"-DGGML_CUDA={'ON' if cuda else 'OFF'}"]
    if cuda:
        command += [f"-DCMAKE_CUDA_ARCHITECTURES={architectures}"]
    if shutil.which("ninja"):
        command += ["-G", "Ninja"]
    return command


def install(source: Path, build: Path, python: Path) -> list[Path]:
    """Lay the Python package and its libraries out as a wheel would; the libraries."""
    shutil.rmtree(python, ignore_errors=True)
    shutil.copytree(source / "llama_cpp", python / "llama_cpp")
    folder = python / "llama_cpp" / "lib"
    folder.mkdir(exist_ok=True)
    found = [path for path in build.rglob("*.so*") if path.name.startswith(_LIBRARIES)]
    for path in found:
        shutil.copy(path, folder / path.name)  # links become files
    return sorted(folder.iterdir())


def check(python: Path) -> str:
    """Return the built library's description of itself, from a separate process."""
    script = (
        "import llama_cpp; llama_cpp.llama_backend_init();"
        "print(llama_cpp.__version__, llama_cpp.llama_print_system_info().decode(),"
        " 'gpu offload:', llama_cpp.llama_supports_gpu_offload())"
    )
    environment = {**os.environ, "PYTHONPATH": str(python)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip()


def run(command: list[str]) -> None:
    """Run a command and show its output as it arrives."""
    environment = {**os.environ, **flags_by_variable()}
    if nvcc := cuda_compiler():
        environment["CUDACXX"] = nvcc  # CMake looks on the PATH alone
    if subprocess.run(command, env=environment, check=False).returncode:
        sys.exit(f"failed, for what stands above: {' '.join(command)}")


def main() -> None:
    """Parse the command line, build, install, check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kit", type=Path)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--cpu", action="store_true", help="without CUDA")
    parser.add_argument("--architectures", default="native", help="of the GPUs, as cmake names them: 90")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    asked = f"-DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES={options.architectures}"
    if not options.cpu and (lacking := missing_for_cuda(asked)):
        sys.exit(f"{lacking}\n{_REMEDY}")
    source = unpack(options.kit, options.prefix)
    (source / "CMakeLists.txt").write_text(_PROJECT)
    build = options.prefix / ("build-cpu" if options.cpu else "build-cuda")
    run(configure(source, build, cuda=not options.cpu, architectures=options.architectures))
    run(["cmake", "--build", str(build), "--parallel", str(options.jobs), "--target", "llama", "mtmd"])
    python = options.prefix / "python"
    libraries = install(source, build, python)
    print(f"{python}: {', '.join(path.name for path in libraries)}")
    print(check(python))
    server = options.prefix / "llama-server"
    server.mkdir(exist_ok=True)
    if not (server / "source").exists():
        (server / "source").symlink_to(source.resolve() / "vendor" / "llama.cpp")
    print(llama_server.build(server.resolve(), libraries[0].resolve().parent, options.jobs))


if __name__ == "__main__":
    main()
