"""The runtime as a library for Python, with what Numba's loops need of it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from weft.dataparallel import runtime


def build_numba_library() -> Path:
    """Build the runtime as a shared library for Python on first use, with what Numba's loops need; return its path."""
    return runtime.build_shared_library((files("weft.numba") / "native").iterdir())
