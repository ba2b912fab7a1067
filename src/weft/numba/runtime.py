"""The runtime as a library for Python, with what Numba's loops need of it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from weft.dataparallel import runtime


def library() -> Path:
    """The shared library, built on first use."""
    return runtime.build_shared_library((files("weft.numba") / "native").iterdir())
