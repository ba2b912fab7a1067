"""Python without its collection of cycles, for a while. The debugger's side uses this too."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unswept() -> Iterator[None]:
    """Where objects are made by the hundred thousand and none is garbage, it would look through all again and again."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
