#!/usr/bin/env python3
"""Make a virtual environment with Shepherd in it: what tools/run, tools/test and .ci/run share.

    tools/environment.py [--venv FOLDER] [--extras test] [--installed]

It looks first whether the machine can compile at all, and says (or, as root on Debian and its kin, installs)
what is missing. The second time it only compares a stamp, so it costs nothing unless the packaging or a
native source changed. Everything is said on stderr. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Iterable, Sequence  # noqa: UP035  an old Python must get as far as its message

__all__ = [
    "FACES",
    "ROOT",
    "SetupError",
    "add_options",
    "compiler_flags",
    "cuda_compiler",
    "flags_by_variable",
    "missing_for_cuda",
    "missing_packages",
    "named_extras",
    "prepare",
    "source_key",
    "wished_packages",
]

ROOT = Path(__file__).resolve().parent.parent
OLDEST_PYTHON = (3, 10)
# Extras that tools/run installs with the rest: small wheels, without which commands that help and documents
# name would end with a remark about installing.
FACES = ("server", "tui", "mcp", "encryption", "openai", "anthropic")
STAMP = "shepherd-stamp.json"
LOG = "shepherd-install.log"
HEARTBEAT_S = 15
_STARTED = time.monotonic()  # one clock for all steps
# Without a window it needs half of the time. As Debian, other systems, and Google call the others.
BROWSERS = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)
STEP = re.compile(rb" *(Building (?:wheel|editable) for \S+|Installing collected packages)\b")
# What CMake takes for yes.
CUDA_ASKED = re.compile(r"-DGGML_CUDA(?::BOOL)?=(?:ON|1|TRUE|YES|Y)\b", re.IGNORECASE)
# Says for which GPUs, so that none has to be here: their numbers, or all that llama.cpp knows.
CUDA_NAMED = re.compile(
    r"-DCMAKE_CUDA_ARCHITECTURES(?::STRING)?=(?!native)|-DGGML_NATIVE(?::BOOL)?=OFF", re.IGNORECASE
)
# Of a PC, a Jetson, Windows' Linux.
GPU_DEVICES = (Path("/dev/nvidia0"), Path("/dev/nvhost-gpu"), Path("/dev/dxg"))
CUDA_FOLDERS = ("/usr/local/cuda/bin", "/opt/cuda/bin")
CUDA_REMEDY = """what can be done (docs/how-to/gpu.md):
  install NVIDIA's driver and CUDA toolkit; CUDACXX names its nvcc if that is elsewhere
  add -DCMAKE_CUDA_ARCHITECTURES=90 to CMAKE_ARGS to build for the GPU of another machine
  leave CMAKE_ARGS out to compute on the CPU"""
# Without AMX: see `compiler_flags`. GCC 11 was the first that knew these options.
WITHOUT_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
GCC_WITH_FAULTY_AMX = range(11, 14)
COMPILED = re.compile(rb" *(\[ *(?:\d+/\d+|\d+%)\]) ")  # Ninja's and make's way to count


class SetupError(Exception):
    """The environment cannot be made; the message says what to do."""


def prepare(venv: Path, *, extras: Sequence[str] = (), installed: bool = False) -> Path:
    """The `bin` folder of an up-to-date environment in `venv`.

    The package goes in editable, so a changed .py needs nothing; `installed` puts in a built wheel instead,
    as a user gets it. CMAKE_ARGS in the environment (a build for a GPU, say) hold until other ones are given.
    """
    if sys.version_info < OLDEST_PYTHON:
        here, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST_PYTHON))
        raise SetupError(f"this is Python {here} ({sys.executable}); Shepherd needs {oldest} or newer")
    binaries = venv / "bin"
    key = f"{source_key(installed=installed)} {'installed' if installed else 'editable'}"
    stamp = _read_stamp(venv)
    cmake_args = os.environ.get("CMAKE_ARGS") or stamp["cmake_args"]
    wanted = {"key": key, "cmake_args": cmake_args, "extras": sorted({*extras, *stamp["extras"]})}
    if stamp == wanted and (binaries / "shepherd").exists():
        return binaries
    if cmake_args != stamp["cmake_args"] and (lacking := missing_for_cuda(cmake_args)):
        raise SetupError(f"{lacking}\nCMAKE_ARGS has {cmake_args}; {CUDA_REMEDY}")
    _provide_packages(wanted["extras"])
    if not _runs(binaries / "python"):
        _say(f"creating {_short(venv)}")
        _create_venv(venv)
        stamp = _read_stamp(venv)
        _say("installing; llama.cpp is compiled for this machine now (about 5 minutes on 2 cores)")
    if cmake_args != stamp["cmake_args"]:
        _install_llama(venv)
        _write_stamp(venv, {**stamp, "key": "", "cmake_args": cmake_args})
    _install(venv, wanted["extras"], installed)
    _write_stamp(venv, wanted)
    return binaries


def named_extras(given: Sequence[str]) -> list[str]:
    """Return the extras that arguments name, separated by blanks or commas; raises SetupError for others."""
    extras = [extra for names in given for extra in names.replace(",", " ").split()]
    # Only the names: this Python may have no parser of TOML.
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    behind = text.partition("[project.optional-dependencies]\n")[2]
    table = re.split(r"^\[", behind, maxsplit=1, flags=re.MULTILINE)
    known = re.findall(r"^([\w-]+) = \[", table[0], re.MULTILINE)
    if unknown := [extra for extra in extras if extra not in known]:
        raise SetupError(f"there is no extra {unknown[0]!a}; there are: {', '.join(known)}")
    return extras


def source_key(*, installed: bool) -> str:
    """A hash over everything that asks for a new installation when it changes."""
    key = hashlib.sha256()
    settings = ("CC", "CFLAGS", "SHEPHERD_SQLITE_DIR")
    key.update(repr([sys.version, *(os.environ.get(name, "") for name in settings)]).encode())
    for pattern in ("pyproject.toml", "CMakeLists.txt", "cmake/*", "tools/get_sqlite.py", "src/_native/*"):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                key.update(path.name.encode() + b"\0" + path.read_bytes())
    for path in sorted(ROOT.glob("src/shepherd/**/*")):
        if path.is_file() and path.suffix != ".pyc":
            key.update(str(path.relative_to(ROOT)).encode() + b"\0")
            key.update(path.read_bytes() if installed else b"")
    return key.hexdigest()


def missing_packages(extras: Sequence[str] = ()) -> dict[str, str]:
    """Return the packages that a build with these extras still needs, as Debian package -> reason."""
    missing = {}
    compilers = (("CC", ("cc", "gcc", "clang")), ("CXX", ("c++", "g++", "clang++")))
    wanted = [tuple(os.environ.get(variable, "").split()[:1]) or names for variable, names in compilers]
    absent = [" or ".join(names) for names in wanted if not any(map(shutil.which, names))]
    if absent:
        missing["build-essential"] = f"no C and C++ compiler ({' and '.join(absent)} not found)"
    fetched = (ROOT / "_sqlite").exists() or os.environ.get("SHEPHERD_SQLITE_DIR")
    if not fetched and not shutil.which("make") and not shutil.which("npm"):
        missing["make"] = "neither make nor npm; one of them brings SQLite where sqlite.org does not"
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        missing["python3-dev"] = f"Python.h is not in {include}"
    if not any(importlib.util.find_spec(name) for name in ("ensurepip", "virtualenv")):
        missing["python3-venv"] = "this Python has neither the venv module's ensurepip nor virtualenv"
    if "postgres" in extras and not shutil.which("pg_config"):
        missing["libpq-dev"] = "psycopg is compiled for the extra postgres, and pg_config was not found"
    return missing


def wished_packages(extras: Sequence[str] = ()) -> dict[str, str]:
    """Return the packages that some tests still need, as Debian package -> reason; others run without."""
    named = os.environ.get("SHEPHERD_TEST_CHROMIUM") or any(map(shutil.which, BROWSERS))
    downloaded = any(Path.home().glob(".cache/ms-playwright/chromium*"))
    if "test" not in extras or named or downloaded:
        return {}
    return {BROWSERS[0]: "no Chromium, without which the tests of the memory page do not run"}


def missing_for_cuda(definitions: str) -> str:
    """Say what is missing here to build llama.cpp with these definitions for CUDA; "" if nothing is."""
    if not CUDA_ASKED.search(definitions):
        return ""
    if cuda_compiler() is None:
        if named := os.environ.get("CUDACXX"):
            return f"no CUDA compiler: CUDACXX names {named}, which does not exist"
        return f"no CUDA compiler: nvcc is neither on the PATH nor in {' or '.join(CUDA_FOLDERS)}"
    if not CUDA_NAMED.search(definitions) and not _has_gpu():
        return f"no GPU to build for with CUDA: there is no {GPU_DEVICES[0]}, and nvidia-smi shows none"
    return ""


def cuda_compiler() -> str | None:
    """Return the path of nvcc: from CUDACXX, the PATH, or the folders of NVIDIA's installer."""
    if named := os.environ.get("CUDACXX"):
        return shutil.which(named)
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(CUDA_FOLDERS))


def compiler_flags(macros: str) -> str:
    """Flags that this compiler needs to compile llama.cpp correctly; `macros` is its output for -dM.

    GCC 11 to 13 drop the stores that set up the tile configuration of Intel's AMX, since `_tile_loadconfig`
    tells them that it reads 8 of the 64 bytes. On a processor with AMX every matrix product then ends with a
    segmentation fault.
    """
    defined = dict(re.findall(r"^#define (\w+) (.*)$", macros, re.MULTILINE))
    is_gcc = "__GNUC__" in defined and "__clang__" not in defined
    if is_gcc and "__x86_64__" in defined and int(defined["__GNUC__"]) in GCC_WITH_FAULTY_AMX:
        return WITHOUT_AMX
    return ""


def flags_by_variable() -> dict[str, str]:
    """CFLAGS and CXXFLAGS as they are set, with what `compiler_flags` adds."""
    flags = {}
    for variable, compiler, names in (("CFLAGS", "CC", ("cc", "gcc")), ("CXXFLAGS", "CXX", ("c++", "g++"))):
        command = shlex.split(os.environ.get(compiler, "")) or [next(filter(shutil.which, names), names[0])]
        try:
            shown = subprocess.run(
                [*command, "-dM", "-E", "-x", "c", os.devnull], capture_output=True, text=True, check=False
            )
        except OSError:
            continue
        if added := compiler_flags(shown.stdout):
            flags[variable] = f"{os.environ.get(variable, '')} {added}".strip()
    return flags


def _has_gpu() -> bool:
    if any(place.exists() for place in GPU_DEVICES):
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    shown = subprocess.run([program, "-L"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return shown.returncode == 0 and b"GPU" in shown.stdout


def _provide_packages(extras: Sequence[str]) -> None:
    wished = wished_packages(extras)
    for package, reason in wished.items():
        _say(f"missing: {reason} (apt-get install {package}; playwright install chromium)")
    apt = shutil.which("apt-get")
    if wished and apt and os.geteuid() == 0:
        _apt_install(apt, wished)
        if wished_packages(extras):  # an older Debian
            _apt_install(apt, [BROWSERS[1]])
    missing = missing_packages(extras)
    if not missing:
        return
    for reason in missing.values():
        _say(f"missing: {reason}")
    # apt's headers and ensurepip serve Debian's own Python, not one that was built beside it.
    serves = sys.base_prefix == "/usr" or set(missing) <= {"build-essential", "make", "libpq-dev"}
    command = f"apt-get install --yes {' '.join(missing)}"
    if apt and serves and os.geteuid() == 0:
        _apt_install(apt, missing)
        importlib.invalidate_caches()
        missing = missing_packages(extras)
        if not missing:
            return
    if not serves:
        remedy = f"install the development files of {sys.executable}, or start this with another Python"
    elif apt:
        remedy = f"run this, then start again:\n  sudo {command}"
    else:
        remedy = "install a C and a C++ compiler, Python's headers and its venv module, then start again"
    raise SetupError(remedy)


def _apt_install(apt: str, packages: Iterable[str]) -> None:
    _say(f"apt-get install --yes {' '.join(packages)}")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-qq", "--yes", "--no-install-recommends", *packages]):
        subprocess.run([apt, *step], env=quiet, stdout=sys.stderr, stdin=subprocess.DEVNULL, check=False)


def _create_venv(venv: Path) -> None:
    module = "venv" if importlib.util.find_spec("ensurepip") else "virtualenv"
    done = subprocess.run(
        [sys.executable, "-m", module, "--clear", str(venv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SetupError(f"{_short(venv)} cannot be created:\n{done.stdout.strip()}")


def _install(venv: Path, extras: Sequence[str], installed: bool) -> None:
    if installed:
        _pip(venv, [str(ROOT) + (f"[{','.join(extras)}]" if extras else "")])
        return
    # Not isolated, or every change of a kernel would compile SQLite again (45 s instead of 5): what the build
    # needs goes in first, with the dependencies.
    _pip(venv, ["cmake>=3.20", "ninja>=1.10", *_requirements(venv, extras)])
    _pip(venv, ["--no-build-isolation", "--no-deps", "--editable", str(ROOT)])


def _install_llama(venv: Path) -> None:
    # pip's cache does not know what a wheel was built with, so it is asked for a fresh build.
    llama = [name for name in _requirements(venv, ()) if name.startswith("llama-cpp-python")]
    if nvcc := cuda_compiler():
        os.environ["CUDACXX"] = nvcc  # CMake looks on the PATH alone
    _pip(venv, ["--no-deps", "--no-cache-dir", "--force-reinstall", "--no-binary=llama-cpp-python", *llama])


def _requirements(venv: Path, extras: Sequence[str]) -> list[str]:
    # tomllib came with Python 3.11; every pip before that carries the same parser.
    code = """if True:
        import json, sys
        try:
            import tomllib
        except ImportError:
            from pip._vendor import tomli as tomllib
        with open(sys.argv[1], "rb") as file:
            table = tomllib.load(file)
        project = table["project"]
        wanted = [table["build-system"]["requires"], project["dependencies"]]
        wanted += [project["optional-dependencies"][extra] for extra in sys.argv[2:]]
        print(json.dumps(sum(wanted, [])))
    """
    command = [str(venv / "bin" / "python"), "-c", code, str(ROOT / "pyproject.toml"), *extras]
    found: list[str] = json.loads(subprocess.check_output(command))
    return found


def _pip(venv: Path, arguments: Sequence[str]) -> None:
    # pip's own output goes to a log; what is shown is the step it is at, and how far a compilation got.
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "--verbose", "--no-input", *arguments]
    shown = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**os.environ, **flags_by_variable()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process, open(venv / LOG, "wb") as log:
        try:
            for line in process.stdout or ():
                log.write(line)
                seen = STEP.match(line)
                told = seen[1].decode() if seen else ""
                if seen is None and time.monotonic() - shown > HEARTBEAT_S and (seen := COMPILED.match(line)):
                    told = f"compiling, {seen[1].decode().strip('[] ').replace('/', ' of ')}"
                if told:
                    shown = time.monotonic()
                    _say(f"  {shown - _STARTED:4.0f} s  {told}")
        except KeyboardInterrupt as stop:
            process.terminate()
            raise SetupError("interrupted; start again to go on") from stop
    if process.returncode:
        last = (venv / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-40:]
        raise SetupError("\n".join([*last, f"pip failed; all of its output is in {_short(venv / LOG)}"]))


def _read_stamp(venv: Path) -> dict[str, Any]:
    stamp: dict[str, Any] = {"key": "", "cmake_args": "", "extras": []}
    with contextlib.suppress(OSError, ValueError):  # none yet, or cut short: install again
        stamp.update(json.loads((venv / STAMP).read_text(encoding="utf-8")))
    return stamp


def _write_stamp(venv: Path, stamp: dict[str, Any]) -> None:
    (venv / STAMP).write_text(json.dumps(stamp), encoding="utf-8")


def _runs(python: Path) -> bool:
    try:
        return subprocess.run([str(python), "-c", ""], check=False).returncode == 0
    except OSError:
        return False


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that the tools share."""
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="where (default: .venv)")
    parser.add_argument("--installed", action="store_true", help="install a built wheel, not editable")


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description="Make a virtual environment with Shepherd in it.")
    add_options(parser)
    parser.add_argument(
        "--extras", nargs="*", default=[], help="extras of the package, such as test, or server,tui"
    )
    options = parser.parse_args()
    try:
        extras = named_extras(options.extras)
        print(prepare(options.venv.absolute(), extras=extras, installed=options.installed))
    except SetupError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
