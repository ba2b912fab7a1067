"""Shares work in C among the machine's cores; little work stays in the calling thread."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

MUCH: Final = 50_000
"""The number of rows or events from which on threads are worth their start, and the import of concurrent.futures (15
ms).
"""

_THREADS: Final = "OPENBLAS_NUM_THREADS"
_single_threaded: list[bool] = []
_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def import_numpy_single_threaded() -> None:
    """Import NumPy so that its OpenBLAS starts no threads. It would start one for each core; they spin for 40 ms, and
    nothing here needs them.

    The environment is left as it was, since the user's program gets it, too.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        importlib.import_module("numpy")
    finally:
        del os.environ[_THREADS]


def worker_count(work: int, most: int) -> int:
    """Return how many threads to use for `work` rows or events: one if that is little, else one for each core, but at
    most `most`."""
    return 1 if work < MUCH or _single_threaded else max(1, min(os.cpu_count() or 1, most))


def use_one_thread() -> None:
    """Use one thread from now on, as other processes have the other cores."""
    _single_threaded.append(True)


def run_in_threads(count: int, call: Callable[[_Given], _Made], given: Iterable[_Given]) -> list[_Made]:
    """Call `call` with each item of `given`, in `count` threads. Return the results in the order of the items."""
    if count == 1:
        return [call(one) for one in given]
    # Small runs have one thread.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, given))
