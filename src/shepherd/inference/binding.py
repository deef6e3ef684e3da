"""llama-cpp-python's llama.cpp: loaded on first use, checked, and quiet.

Its ctypes declarations make models, contexts and samplers (those structs change with almost every release);
the loop in shepherd._native.engine takes plain function addresses from the same library.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import re
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable
from functools import cache, lru_cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

from shepherd import subprocess_sandbox
from shepherd._native import engine as native
from shepherd.errors import ModelLoadError
from shepherd.inference import selftest
from shepherd.installation import pip_install

__all__ = [
    "devices",
    "drain_log",
    "gpu_layers",
    "keep_log",
    "last_error",
    "llama",
    "llama_module",
    "load_weights",
    "trained_window",
    "version",
]

# The range whose structs and behaviour the tests have seen.
TESTED_FROM, TESTED_BELOW = (0, 3, 36), (0, 4, 0)

_log = logging.getLogger("shepherd.llama")
_WARNING, _ERROR = 3, 4  # ggml_log_level
_errors: deque[str] = deque(maxlen=16)
_drain_lock = threading.Lock()
_import_lock = threading.Lock()


@lru_cache(maxsize=1)
def llama() -> Any:
    """Return the module of ctypes declarations, its library bound to our loop. Cost: 0.05 s the first time.

    Raises ModelLoadError when llama-cpp-python is missing or its llama_batch is another one.
    """
    try:
        declarations = llama_module("llama_cpp")
    except (ImportError, RuntimeError, OSError) as error:
        raise ModelLoadError(
            f"llama-cpp-python cannot be loaded: {error}", hint=pip_install("'llama-cpp-python>=0.3.36,<0.4'")
        ) from error
    _check_version(version(), Path(declarations._lib._name))
    try:
        native.bind(
            declarations._lib,
            declarations.llama_batch,
            declarations.llama_token_data,
            declarations.llama_token_data_array,
        )
    except (ImportError, AttributeError) as error:
        raise ModelLoadError(
            f"llama-cpp-python {version()} is incompatible with this build: {error}",
            hint=pip_install("'llama-cpp-python>=0.3.36,<0.4'"),
        ) from error
    keep_log()
    declarations.llama_backend_init()
    return declarations


@cache
def llama_module(name: str) -> Any:
    """One module of the package llama_cpp, alone; ImportError when there is none.

    The package itself imports numpy, jinja2 and its own chat formats, none of which is needed here: that was
    half of the time to the first prompt. So the module is loaded below an empty package that is gone
    afterwards: who imports llama_cpp later gets all of it, as if nobody had been here.
    """
    with _import_lock:
        spec = None if "llama_cpp" in sys.modules else find_spec("llama_cpp")
        if spec is None:  # imported already, or missing
            return importlib.import_module(f"llama_cpp.{name}")
        sys.modules["llama_cpp"] = module_from_spec(spec)
        try:
            return importlib.import_module(f"llama_cpp.{name}")
        finally:
            # list(): other threads import meanwhile.
            for loaded in [key for key in list(sys.modules) if key.partition(".")[0] == "llama_cpp"]:
                del sys.modules[loaded]


@lru_cache(maxsize=1)
def version() -> str:
    """Return the version of llama-cpp-python, without loading it; empty when it is not installed."""
    if (package := sys.modules.get("llama_cpp")) is not None:
        return str(package.__version__)
    # The package's own line: asking importlib.metadata takes ten times as long.
    spec = find_spec("llama_cpp")
    text = Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
    found = re.search(r"""^__version__\s*=\s*["']([^"']+)["']""", text, re.MULTILINE)
    return found[1] if found else ""


def _check_version(version: str, library: Path) -> None:
    """Outside the tested range: warns, and tests this build once. ModelLoadError when it fails."""
    parts = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if TESTED_FROM <= parts < TESTED_BELOW or subprocess_sandbox.is_child():
        return
    warnings.warn(
        f"llama-cpp-python {version} is outside the tested range, 0.3.36 to below 0.4",
        RuntimeWarning,
        stacklevel=3,
    )
    selftest.require(version, library)


def keep_log() -> None:
    """Redirect llama.cpp's log from stderr to us. Called again before each model.

    Whoever imports the package llama_cpp later takes it over for a logger of its own.
    """
    native.keep_log(2 if _log.isEnabledFor(logging.DEBUG) else _WARNING)


def drain_log() -> None:
    """Pass on what llama.cpp said since the last call to the logger `shepherd.llama`, at debug level."""
    with _drain_lock:
        for record in native.take_log().decode("utf-8", "replace").split("\x1e"):
            level, line = record[:1], record[1:].strip()
            if not line:
                continue
            if level.isdigit() and int(level) >= _ERROR:
                _errors.append(line)
            _log.debug("%s", line)


def last_error() -> str:
    """llama.cpp's last error line that says more than that it failed, and forgets it; empty without one."""
    drain_log()
    lines = list(_errors)
    _errors.clear()
    telling = [
        line for line in lines if not line.endswith(("failed to load model", "failed to load model\n"))
    ]
    line = (telling or lines or [""])[-1]
    # "llama_model_load: error loading model: ..." -> what comes after the function's name
    return re.sub(r"^[a-z_0-9]+: ", "", line)


def load_weights(
    path: str,
    *,
    what: str = "model",
    hint: str = "",
    progress: Callable[[float], object] | None = None,
    **parameters: object,
) -> Any:
    """Load a model's file. `parameters` are fields of llama_model_params.

    `progress` is called with the share that is loaded, 0 to 1. Raises ModelLoadError with llama.cpp's reason;
    `hint` is added to the advice to upgrade.
    """
    c = llama()
    fields = c.llama_model_default_params()
    if progress is not None:

        def report(share: float, _: object) -> bool:
            progress(share)
            return True  # False would end the loading

        fields.progress_callback = c.llama_progress_callback(report)
    for name, value in parameters.items():
        setattr(fields, name, value)
    model = c.llama_model_load_from_file(path.encode("utf-8", "surrogateescape"), fields)
    reason = last_error()
    if not model:
        raise ModelLoadError(
            f"{what} '{path}' cannot be loaded: {reason or 'llama.cpp gave no reason'}",
            hint="if the architecture is unknown, upgrade llama-cpp-python" + (f"; {hint}" if hint else ""),
        )
    return model


def trained_window(c: Any, model: Any) -> int:
    """Return the window that a model was trained with, 0 where its file gives no usable number."""
    # llama.cpp has it as 32 bits with a sign: a header of 2^31 is negative, and as a size 4 GB of cells.
    return max(0, int(c.llama_model_n_ctx_train(model)))


def gpu_layers(wanted: int) -> int:
    """Return the layers to put on a GPU, where there is one; -1 means all."""
    if not llama().llama_supports_gpu_offload():
        return 0
    # One more than any model has: its output layer counts too.
    return 1 << 16 if wanted < 0 else wanted


def devices() -> list[tuple[str, str]]:
    """`(kind, description)` of each device ggml can compute on, kind "cpu", "gpu", "igpu" or "accel"."""
    library = llama()._lib
    try:
        count = _function(library, "ggml_backend_dev_count", ctypes.c_size_t)
        get = _function(library, "ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
        kind = _function(library, "ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)
        describe = _function(library, "ggml_backend_dev_description", ctypes.c_char_p, ctypes.c_void_p)
    except AttributeError:
        # Windows looks up names in one DLL only, and these are ggml's.
        return []
    names = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accel"}
    found = [get(i) for i in range(count())]
    return [(names.get(kind(d), "other"), (describe(d) or b"").decode("utf-8", "replace")) for d in found]


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    # A fresh prototype: setting argtypes on the library's own attribute would change it for everybody.
    prototype = ctypes.CFUNCTYPE(result, *arguments)
    function: Callable[..., Any] = prototype((name, library))
    return function
