"""What tools/gpu makes: a kit that builds, and models in the shape of real ones that llama.cpp loads."""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

from shepherd.inference import Engine, EngineSettings, read_header
from shepherd.types import Sampling

TOOLS = Path(__file__).parents[2] / "tools" / "gpu"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"gpu_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shapes() -> ModuleType:
    return tool("shapes")


@pytest.mark.parametrize(
    ("name", "billions", "gigabytes"), [("8b", 8.03, 4.69), ("35b-a3b", 34.66, 19.71), ("0.5b", 0.63, 0.62)]
)
def test_real_shapes_have_the_real_number_of_parameters(
    shapes: ModuleType, tmp_path: Path, name: str, billions: float, gigabytes: float
) -> None:
    path = tmp_path / "hollow.gguf"
    shapes.write(shapes.SHAPES[name], path, hollow=True)

    header = read_header(path)

    assert sum(math.prod(tensor.shape) for tensor in header.tensors) / 1e9 == pytest.approx(
        billions, abs=0.01
    )
    assert path.stat().st_size / 1e9 == pytest.approx(gigabytes, abs=0.01)


@pytest.mark.parametrize(("name", "kind"), [("tiny-dense", "plain"), ("tiny-moe", "hybrid")])
def test_small_shapes_are_models_that_answer(
    shapes: ModuleType, tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / "small.gguf"
    shapes.write(shapes.SHAPES[name], path)

    with Engine(path, settings=EngineSettings(n_threads=1)) as engine:
        assert engine.info.cache_kind == kind
        greedy = Sampling(temperature=0.0)
        with engine.complete(range(40, 80), sampling=greedy, max_tokens=8) as answer:
            for _ in answer:
                pass
        assert answer.stats.decoded_tokens == 40
        assert len(answer.token_ids) == 8


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_random_blocks_have_the_size_that_was_asked_for(shapes: ModuleType, kind: str) -> None:
    values = dequantize(shapes.tile(Type[kind], 0.5)[:4096], Type[kind])

    assert np.std(values) == pytest.approx(0.5, rel=0.1)
    assert abs(np.mean(values)) < 0.06


def test_kit_has_what_the_backends_and_the_server_are_made_of(tmp_path: Path) -> None:
    pack = tool("pack")
    names = {
        "llama_cpp/__init__.py": True,
        "vendor/llama.cpp/CMakeLists.txt": True,
        "vendor/llama.cpp/src/llama.cpp": True,
        "vendor/llama.cpp/ggml/src/ggml.c": True,
        "vendor/llama.cpp/ggml/src/ggml-cuda/ggml-cuda.cu": True,
        "vendor/llama.cpp/ggml/src/ggml-cpu/ggml-cpu.c": True,
        "vendor/llama.cpp/ggml/src/ggml-vulkan/ggml-vulkan.cpp": False,
        "vendor/llama.cpp/common/common.cpp": True,
        "vendor/llama.cpp/tools/mtmd/models/llava.cpp": True,
        "vendor/llama.cpp/tools/server/server.cpp": True,
        "vendor/llama.cpp/tools/server/tests/unit/test_basic.py": False,
        "vendor/llama.cpp/tools/ui/CMakeLists.txt": True,
        "vendor/llama.cpp/tools/ui/src/app.html": False,
        "vendor/llama.cpp/scripts/ui-assets.cmake": True,
        "vendor/llama.cpp/models/big.gguf": False,
        "docs/index.md": False,
    }
    source, kit = tmp_path / "source.tar.gz", tmp_path / "kit.tar.xz"
    with tarfile.open(source, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(f"llama_cpp_python-1.0/{name}")
            info.size = len(name)
            archive.addfile(info, io.BytesIO(name.encode()))
    wheel = tmp_path / "x-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")

    n = pack.pack(source, [wheel], kit)

    with tarfile.open(kit) as archive:
        packed = set(archive.getnames())
    wanted = {f"source/{name}" for name, needed in names.items() if needed}
    assert packed == {*wanted, "wheels/x-1.0-py3-none-any.whl"}
    assert n == len(wanted)


def test_kit_is_unpacked_once(tmp_path: Path) -> None:
    build = tool("build")
    kit, prefix = tmp_path / "kit.tar.xz", tmp_path / "gpu"
    with tarfile.open(kit, "w:xz") as archive:
        info = tarfile.TarInfo("source/file")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"new"))

    source = build.unpack(kit, prefix)
    (source / "file").write_text("built since")
    build.unpack(kit, prefix)

    assert (source / "file").read_text() == "built since"


def test_cuda_is_configured_unless_it_is_left_out(tmp_path: Path) -> None:
    build = tool("build")

    with_cuda = build.configure(tmp_path, tmp_path, cuda=True, architectures="90")
    without = build.configure(tmp_path, tmp_path, cuda=False, architectures="90")

    assert {"-DGGML_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90"} <= set(with_cuda)
    assert "-DGGML_CUDA=OFF" in without


def test_bench_compares_both_sides_and_keeps_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    small = ["--rounds", "1", "--threads", "1", "--prompt", "64", "--answer", "8", "--turn", "8"]
    small += ["--conversations", "2"]

    done = subprocess.run(
        [sys.executable, TOOLS / "bench.py", "tiny-dense", "--models", tmp_path, "--out", out, *small],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    [result] = figures["results"]
    assert result["same_answer"]
    [ours] = result["runs"]["shepherd"]
    assert ours["turn_decoded_tokens"] == 9  # the last token of the answer, and eight new ones
    assert (result["restart"]["n"], result["restart"]["n_decoded"]) == (2, result["restart"]["n_new"])
    assert figures["machine"]["llama_cpp_python"]


def test_build_without_cuda_says_what_can_be_done(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOLS / "build.py"), "kit.tar.xz", str(tmp_path / "gpu")],
        env={**os.environ, "CUDACXX": "nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("no CUDA compiler: CUDACXX names nowhere, which does not exist\n")
    assert "CPU=1 before it leaves CUDA out" in done.stderr
    assert not (tmp_path / "gpu").exists()
