"""What few machines have: which commands need it, and what such a command says where it is not there.

It is run as it stands on every machine. Where there is all that it needs, it comes to its end; elsewhere its
end is the error that a reader gets, and that has to say what is lacking.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CLUSTER", "CONTAINERS", "CUDA", "CUDA_KIT", "CUDA_PIP", "Need"]


@dataclass(frozen=True)
class Need:
    """What it is, whether this machine has it, and a regular expression for what is said where it has not."""

    what: str
    is_there: Callable[[], bool]
    said: str


def _says_yes(*command: str) -> bool:
    return shutil.which(command[0]) is not None and (
        subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def _has_cuda() -> bool:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    return nvcc is not None and _says_yes("nvidia-smi", "-L")


def _has_containers() -> bool:
    # Elsewhere cibuildwheel builds on the machine itself.
    return sys.platform != "linux" or _says_yes("docker", "info")


_CUDA = "CUDA compiler or GPU"
_LACKING = r"no CUDA compiler: |no GPU to build for with CUDA: "
CUDA = Need(_CUDA, _has_cuda, rf"({_LACKING})(?s:.*)\n  leave CMAKE_ARGS out to compute on the CPU")
CUDA_KIT = Need(_CUDA, _has_cuda, rf"({_LACKING})(?s:.*)\n  CPU=1 before it leaves CUDA out")
# CMake's own words, through pip: "CUDA Toolkit not found", or, of its architectures, "no GPU was detected".
CUDA_PIP = Need(_CUDA, _has_cuda, r"(?i)CMake Error(?s:.*)(CUDA|nvcc)")


def _has_cluster() -> bool:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        return True  # the first command installs them
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    return all(shutil.which(name, path=path) for name in ("etcd", "patroni", "haproxy", "pgbouncer"))


CLUSTER = Need(
    "etcd, Patroni, HAProxy and PgBouncer",
    _has_cluster,
    r"cluster: (not installed: |\S+: there is no cluster)",
)
CONTAINERS = Need("Docker that runs", _has_containers, r"cibuildwheel: error: .*(?i:docker)")
