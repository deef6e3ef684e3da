"""What a build says when the machine lacks something: in words, with the command that installs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tools import environment

ROOT = Path(__file__).resolve().parents[2]


def on_path(name: str) -> str:
    # pip puts cmake and ninja beside python, which need not be on the PATH.
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found
    return found


def configure(folder: Path, *definitions: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [on_path("cmake"), "-S", str(ROOT), "-B", str(folder / "build"), "-G", "Ninja"]
    command += [f"-DCMAKE_MAKE_PROGRAM={on_path('ninja')}", f"-DPython_EXECUTABLE={sys.executable}"]
    command += [f"-D{definition}" for definition in definitions]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, cwd=folder
    )


def systems_sqlite(folder: Path, version: str) -> list[str]:
    (folder / "sqlite3.h").write_text(f"#define SQLITE_VERSION_NUMBER {version}\n")
    (folder / "libsqlite3.a").write_bytes(b"!<arch>\n")
    return [
        "SHEPHERD_SQLITE=system",
        f"SHEPHERD_SQLITE_INCLUDE={folder}",
        f"SHEPHERD_SQLITE_LIBRARY={folder / 'libsqlite3.a'}",
    ]


def test_missing_compiler_is_named_with_its_remedy(tmp_path: Path) -> None:
    done = configure(tmp_path, CC=str(tmp_path / "no-cc"))

    assert done.returncode != 0
    assert "No C compiler was found" in done.stderr
    assert "apt-get install build-essential" in done.stderr


def test_missing_headers_are_named_with_their_remedy(tmp_path: Path) -> None:
    # A Python as Debian's without python3-dev: it runs, and its include folder is not there.
    python = tmp_path / "python3"
    answer = f"case \"$*\" in *include*) echo '{tmp_path}/include';; *) exec '{sys.executable}' \"$@\";; esac"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)

    done = configure(tmp_path, f"Python_EXECUTABLE={python}")

    assert done.returncode != 0
    assert f"Python.h is missing (looked in {tmp_path}/include)" in " ".join(done.stderr.split())
    assert "apt-get install python3-dev" in done.stderr


def test_systems_sqlite_that_cannot_index_is_refused(tmp_path: Path) -> None:
    done = configure(tmp_path, *systems_sqlite(tmp_path, "3040001"))

    assert done.returncode != 0
    assert "The machine's SQLite is 3040001" in done.stderr
    assert "SHEPHERD_SQLITE_DIR" in done.stderr


def test_systems_sqlite_with_the_wal_defect_is_warned_about(tmp_path: Path) -> None:
    done = configure(tmp_path, *systems_sqlite(tmp_path, "3050004"))

    assert done.returncode == 0, done.stderr
    assert "can corrupt a memory database" in " ".join(done.stderr.split())


def test_no_file_is_compiled_with_fused_arithmetic(tmp_path: Path) -> None:
    done = configure(tmp_path, "CMAKE_EXPORT_COMPILE_COMMANDS=ON", *systems_sqlite(tmp_path, "3053000"))

    assert done.returncode == 0, done.stderr
    compiled = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    fused = [one["file"] for one in compiled if "-ffp-contract=off" not in one["command"]]
    assert {"rank.c", "rank.pyx.c", "hot_search.c"} <= {Path(one["file"]).name for one in compiled}
    assert fused == []


def test_folder_without_sqlite_is_refused(tmp_path: Path) -> None:
    done = configure(tmp_path, f"SHEPHERD_SQLITE_DIR={tmp_path}")

    assert done.returncode != 0
    assert f"no sqlite3.c and sqlite3.h in {tmp_path}" in " ".join(done.stderr.split())


def test_setup_stops_before_pip_when_the_machine_cannot_compile(tmp_path: Path) -> None:
    bare = {**os.environ, "PATH": str(tmp_path)}  # neither a compiler nor apt-get
    bare.pop("CC", None)
    bare.pop("CXX", None)

    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/environment.py"), "--venv", str(tmp_path / "venv")],
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "cc or gcc or clang and c++ or g++ or clang++ not found" in done.stderr
    assert not (tmp_path / "venv").exists()


def program(path: Path, says: str = "") -> None:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


@pytest.fixture
def without_cuda(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without NVIDIA's driver and toolkit; the folder is all of its PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.setattr(environment, "CUDA_FOLDERS", (str(tmp_path / "cuda"),))
    monkeypatch.setattr(environment, "GPU_DEVICES", (tmp_path / "nvidia0",))
    return tmp_path


@pytest.mark.parametrize("asked", ["-DGGML_CUDA=on", "-DA=1 -DGGML_CUDA:BOOL=1", "-DGGML_CUDA=ON;-DB=2"])
def test_cuda_without_its_compiler_is_refused(without_cuda: Path, asked: str) -> None:
    assert "nvcc is neither on the PATH nor in" in environment.missing_for_cuda(asked)


def test_cuda_without_a_gpu_is_refused_unless_one_is_named(without_cuda: Path) -> None:
    program(without_cuda / "nvcc")

    assert "no GPU to build for with CUDA" in environment.missing_for_cuda("-DGGML_CUDA=on")
    for named in ("-DCMAKE_CUDA_ARCHITECTURES=90", "-DGGML_NATIVE=OFF"):
        assert environment.missing_for_cuda(f"-DGGML_CUDA=on {named}") == ""

    program(without_cuda / "nvidia-smi", "GPU 0: NVIDIA H200")
    assert environment.missing_for_cuda("-DGGML_CUDA=on") == ""


def test_cuda_compiler_is_found_where_nvidia_puts_it(without_cuda: Path) -> None:
    (without_cuda / "cuda").mkdir()
    program(without_cuda / "cuda" / "nvcc")

    assert environment.cuda_compiler() == str(without_cuda / "cuda" / "nvcc")


@pytest.mark.parametrize("asked", ["", "-DGGML_CUDA=off", "-DGGML_CUDA_FA=on"])
def test_who_does_not_ask_for_cuda_needs_none(without_cuda: Path, asked: str) -> None:
    assert environment.missing_for_cuda(asked) == ""


def test_setup_with_cuda_stops_before_anything_is_made(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/environment.py"), "--venv", str(tmp_path / "venv")],
        env={**os.environ, "CMAKE_ARGS": "-DGGML_CUDA=on", "CUDACXX": "nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("no CUDA compiler: CUDACXX names nowhere, which does not exist\n")
    assert "leave CMAKE_ARGS out to compute on the CPU" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_missing_headers_ask_for_debians_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))

    assert environment.missing_packages() == {"python3-dev": f"Python.h is not in {tmp_path}/include"}


def test_a_browser_is_wished_for_by_the_tests_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SHEPHERD_TEST_CHROMIUM", raising=False)

    assert environment.wished_packages(["postgres"]) == {}
    assert list(environment.wished_packages(["test"])) == ["chromium-headless-shell"]

    browser = tmp_path / "google-chrome"
    browser.touch(mode=0o755)
    assert environment.wished_packages(["test"]) == {}


def test_changed_kernel_asks_for_a_new_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = tmp_path / "src/_native/text.pyx"
    module = tmp_path / "src/shepherd/types.py"
    for path in (kernel, module):
        path.parent.mkdir(parents=True)
        path.write_text("first")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    before = environment.source_key(installed=False), environment.source_key(installed=True)

    module.write_text("second")
    after_module = environment.source_key(installed=False), environment.source_key(installed=True)
    kernel.write_text("second")
    after_kernel = environment.source_key(installed=False)

    assert after_module[0] == before[0]  # an editable install reads the file itself
    assert after_module[1] != before[1]
    assert after_kernel != before[0]


GCC_12 = "#define __GNUC__ 12\n#define __x86_64__ 1\n"


def test_llama_cpp_is_compiled_without_amx_where_gcc_compiles_it_wrongly():
    assert environment.compiler_flags(GCC_12) == "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"


@pytest.mark.parametrize(
    "macros",
    [
        GCC_12.replace("12", "10"),  # does not know the options
        GCC_12.replace("12", "14"),
        GCC_12.replace("__x86_64__", "__aarch64__"),
        GCC_12 + "#define __clang__ 1\n",
        "",  # no compiler answered
    ],
)
def test_other_compilers_get_no_flags(macros):
    assert environment.compiler_flags(macros) == ""


def test_extras_are_named_as_for_pip_and_an_unknown_one_is_refused_in_a_line():
    refused = subprocess.run(
        [sys.executable, str(ROOT / "tools/environment.py"), "--extras", "tui,serverr"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert environment.named_extras(["tui,mcp", "server"]) == ["tui", "mcp", "server"]
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("there is no extra 'serverr'; there are: postgres, openai, ")
    assert refused.stderr.count("\n") == 1
