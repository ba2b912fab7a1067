"""Records which asyncio task makes each MPI call, in a rank of `weft run --tasks` (tasks/native/steps.c).

C code is called at each step; this module is called at the birth of a task only, for its site.
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

from .births import FastBirths, SampleTask

SITE, PYCODE = 10, 11
"""Definitions of native/format.h."""


class StepRecording:
    """Recording of the steps of all tasks of this process. OSError or AttributeError if this asyncio is not as
    expected.
    """

    def __init__(self, library: str) -> None:
        self._births = FastBirths(lambda task, parent: None, library, lambda thing: None, lambda callbacks: False)
        self._code: Any = ctypes.PyDLL(library)
        self._code.weft_begin_steps.restype = ctypes.py_object
        self._code.weft_steps_heard.restype = ctypes.c_uint64
        self._sites: dict[tuple[CodeType, int], int] = {}
        self._codes: dict[CodeType, int] = {}
        self._names: dict[str, int] = {}
        sample, common = self._births.sample, (self._site_number, self._names, asyncio.Task.get_name)
        if (3, 12) <= sys.version_info < (3, 14):
            self._install_c_hooks(*common, asyncio.tasks._current_tasks)  # type: ignore[attr-defined]
            sample.step()
            if self._code.weft_steps_heard() != 1:
                raise OSError("this Python's asyncio keeps its running tasks in a place that Weft does not know")
        else:
            with pretend_loop_runs(sample):
                sample.step()
            [(wakeup, _)] = sample.waiter._callbacks
            own: Any = asyncio.tasks._PyTask  # type: ignore[attr-defined]
            run = self._install_c_hooks(
                *common, None, events.Handle._run, type(sample.step), wakeup, own._Task__step, own._Task__wakeup
            )
            if run is None:
                raise OSError("there is nothing to write to")
            events.Handle._run = run  # type: ignore[method-assign]
        sample.close()

    def _install_c_hooks(self, *asyncio_objects: Any) -> Any:
        """Pass objects of asyncio to the C part, which begins to record. Return the C part's replacement of
        `Handle._run`, None if it needs none.
        """
        self._given = asyncio_objects  # C does not own them
        return self._code.weft_begin_steps((ctypes.py_object * len(asyncio_objects))(*asyncio_objects))

    def _site_number(self, code: CodeType, lasti: int) -> int:
        """Return the number that the record has for an instruction that created a task. At its first use, the
        definition of the number is written to the record. `lasti`: the offset of the instruction in `code`.
        """
        if (code, lasti) not in self._sites:
            if code not in self._codes:
                self._codes[code] = len(self._codes) + 1
                parts = (
                    encode_unsigned(self._codes[code]), encode_text(code.co_filename), encode_text(code.co_qualname),
                    encode_unsigned(code.co_firstlineno), encode_bytes(code.co_linetable),
                )  # fmt: skip
                self._write_definition(PYCODE, *parts)
            self._sites[code, lasti] = len(self._sites) + 1
            self._write_definition(
                SITE, *map(encode_unsigned, (self._sites[code, lasti], 0, 0, self._codes[code], lasti, 0))
            )
        return self._sites[code, lasti]

    def _write_definition(self, kind: int, *parts: bytes) -> None:
        """Write a definition to the rank's record. `kind`: its number in native/format.h."""
        payload = b"".join(parts)
        self._code.weft_steps_define(kind, payload, ctypes.c_size_t(len(payload)))


@contextmanager
def pretend_loop_runs(sample: SampleTask) -> Iterator[None]:
    """Let asyncio believe, inside a `with` block, that the loop of `sample` runs in this thread. From Python 3.14 on, a
    step of a task needs that.
    """
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(sample)  # type: ignore[arg-type]
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


_recordings: list[StepRecording] = []
"""C holds on to what it was given for as long as the process lives."""


def record_steps(library: str) -> None:
    """Record the steps of all asyncio tasks from now on. OSError or AttributeError if this version of asyncio is not as
    expected.
    """
    _recordings.append(StepRecording(library))


def encode_unsigned(value: int) -> bytes:
    """Return a number as a varint with 7 bits in each byte, the form in which records have numbers."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_bytes(data: bytes) -> bytes:
    """Return bytes with their length in front."""
    return encode_unsigned(len(data)) + data


def encode_text(value: str) -> bytes:
    """Return a text in UTF-8 with its length in front."""
    return encode_bytes(value.encode("utf-8", "backslashreplace"))
