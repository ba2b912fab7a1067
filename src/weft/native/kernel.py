"""Loads the shared object of native kernels with ctypes."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

from weft.errors import WeftError

NATIVE = Path(__file__).parent


@cache
def library() -> ctypes.CDLL:
    """Return the shared object with the record writer and the kernels.

    Raises WeftError when it was not built, or was built from another format.h than the one installed.
    """
    built = sorted(NATIVE.glob("_kernel*.so"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not built:
        raise WeftError(
            "Weft's native kernels are not built: reinstall weft-debugger, or run `make kernel` in a checkout"
        )
    kernel = ctypes.CDLL(str(built[0]), use_errno=True)
    version = int(kernel.weft_kernel_format_version())
    if version != header_version():
        raise WeftError(f"{built[0].name} is older than format.h: run `make kernel` in the checkout")
    return kernel


def header_version() -> int:
    """Return the record's layout version as format.h states it, major << 16 | minor."""
    text = (NATIVE / "format.h").read_text()
    major, minor = (re.search(rf"WEFT_FORMAT_{part} (\d+)", text) for part in ("MAJOR", "MINOR"))
    if major is None or minor is None:
        raise WeftError("format.h states no version: the installation is damaged")
    return int(major[1]) << 16 | int(minor[1])
