"""Loads the shared object of native kernels with ctypes."""

from __future__ import annotations

import ctypes
from functools import cache

from weft.errors import WeftError
from weft.native.headers import REMEDY
from weft.native.headers.made_for import STATE
from weft.native.shared import NATIVE

__all__ = ["NATIVE", "load_library"]


@cache
def load_library() -> ctypes.CDLL:
    """Return the shared object with the record writer and the kernels.

    Raises WeftError when it was not built, or was built from another state of the headers than weft.native.headers.
    """
    built = sorted(NATIVE.glob("_kernel*.so"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not built:
        raise WeftError(f"Weft's native kernels are not built: {REMEDY}")
    kernel = ctypes.CDLL(str(built[0]), use_errno=True)
    try:
        state = kernel.weft_kernel_headers
    except AttributeError:
        raise WeftError(_stale(built[0].name)) from None
    state.restype = ctypes.c_uint32
    if state() != STATE:
        raise WeftError(_stale(built[0].name))
    return kernel


def _stale(name: str) -> str:
    return f"{name} was built from other headers than those of this Weft: {REMEDY}"
