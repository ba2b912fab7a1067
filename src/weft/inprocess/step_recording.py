"""Writes down which asyncio task makes each call of MPI: in a rank of `weft run --tasks` (tasks/native/steps.c).

Nothing here is called at a step: C is. A task's site is asked for at its birth.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from .births import FastBirths, Sample

SITE, PYCODE = 10, 11
"""Definitions of native/format.h."""


class Steps:
    """The steps of all tasks of this process. OSError or AttributeError where this asyncio is not as we know it."""

    def __init__(self, library: str) -> None:
        self._births = FastBirths(lambda task, parent: None, library, lambda thing: None, lambda callbacks: False)
        self._code: Any = ctypes.PyDLL(library)
        self._code.weft_steps.restype = ctypes.py_object
        self._code.weft_steps_heard.restype = ctypes.c_uint64
        self._sites: dict[tuple[CodeType, int], int] = {}
        self._codes: dict[CodeType, int] = {}
        self._names: dict[str, int] = {}
        sample, common = self._births.sample, (self._site, self._names, asyncio.Task.get_name)
        if (3, 12) <= sys.version_info < (3, 14):
            self._begin(*common, asyncio.tasks._current_tasks)  # type: ignore[attr-defined]
            sample.step()
            if self._code.weft_steps_heard() != 1:
                raise OSError("asyncio does not keep its running tasks where it used to")
        else:
            with running(sample):
                sample.step()
            [(wakeup, _)] = sample.waiter._callbacks
            own: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
            run = self._begin(
                *common, None, events.Handle._run, type(sample.step), wakeup, own._Task__step, own._Task__wakeup
            )
            if run is None:
                raise OSError("there is nothing to write to")
            events.Handle._run = run  # type: ignore[method-assign]
        sample.close()

    def _begin(self, *given: Any) -> Any:
        self._given = given  # C does not own them
        return self._code.weft_steps((ctypes.py_object * len(given))(*given))

    def _site(self, code: CodeType, lasti: int) -> int:
        """The number of the instruction that made a task."""
        if (code, lasti) not in self._sites:
            if code not in self._codes:
                self._codes[code] = len(self._codes) + 1
                self._define(PYCODE, unsigned(self._codes[code]), text(code.co_filename), text(code.co_qualname),
                             unsigned(code.co_firstlineno), packed(code.co_linetable))  # fmt: skip
            self._sites[code, lasti] = len(self._sites) + 1
            self._define(SITE, *map(unsigned, (self._sites[code, lasti], 0, 0, self._codes[code], lasti, 0)))
        return self._sites[code, lasti]

    def _define(self, kind: int, *parts: bytes) -> None:
        payload = b"".join(parts)
        self._code.weft_steps_define(kind, payload, ctypes.c_size_t(len(payload)))


@contextmanager
def running(sample: Sample) -> Iterator[None]:
    """As if its loop ran here: a task makes no step elsewhere, from 3.14 on."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(sample)  # type: ignore[arg-type]
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


_kept: list[Steps] = []
"""C holds on to what it was given for as long as the process lives."""


def record(library: str) -> None:
    """Hear of all steps from now on. OSError or AttributeError where this asyncio is not as we know it."""
    _kept.append(Steps(library))


def unsigned(value: int) -> bytes:
    """A number as definitions hold it."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def packed(data: bytes) -> bytes:
    """Bytes with their length before them."""
    return unsigned(len(data)) + data


def text(value: str) -> bytes:
    """A text as definitions hold it."""
    return packed(value.encode("utf-8", "backslashreplace"))
