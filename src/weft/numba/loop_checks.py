"""Stands between Python and the functions that Numba compiled: each call of a parallel one is checked.

A call goes three ways. First its sequential variant runs on copies of the arguments, silently and with every index
checked. Then the function itself runs, one iteration at a time, its accesses watched by the runtime; where an index
was outside, a variant of it that stops such an iteration. At last the results are compared: what the accesses do not
show (a value that iterations hand on in a scalar) shows there.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import numpy as np
from numba import _dispatcher, _helperlib
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.cpython.randomimpl import rnd_state_t

from weft.numba import source
from weft.numba.compare import (
    SEQUENCES,
    Copies,
    Difference,
    NotCopyableError,
    Variants,
    find_callees,
    find_difference,
)
from weft.numba.compiler import Compiler
from weft.numba.in_process import Runtime, describe_value
from weft.numba.source import Suspect
from weft.numba.unset_reads import EarlyReads

ALWAYS: Final = 2
"""Calls with arguments of one outline that are all compared; after them the 4th, 8th, 16th, ..."""

SEQUENTIAL: Final[dict[str, Any]] = {"parallel": False, "boundscheck": True, "error_model": "numpy"}

RANDOM: Final = (_helperlib.rnd_get_np_state_ptr, _helperlib.rnd_get_py_state_ptr)


@dataclass(slots=True)
class Mismatch:
    """What comparing results found, as the report will say it."""

    kind: str
    certainty: str
    file: str
    line: int
    function: str
    loop: int
    name: str
    message: str
    evidence: dict[str, object]
    count: int = 1


def _to_nobody() -> None:
    """Do nothing; in place of a function that writes what is known so far."""


@dataclass
class LoopChecks:
    """The checks of one process."""

    compiler: Compiler
    runtime: Runtime
    mismatches: dict[tuple[str, str, int, str], Mismatch] = field(default_factory=dict)
    checked: dict[tuple[str, str], int] = field(default_factory=dict)
    """Calls by (file, function)."""
    _parallel: dict[int, tuple[bool, Sequence[Any]]] = field(default_factory=dict)
    """By function: whether a call comes to a parallel loop of the user's; it, and the functions that it calls."""
    _calls: dict[tuple[object, ...], int] = field(default_factory=dict)
    _uncopied: set[tuple[object, ...]] = field(default_factory=set)
    _busy: bool = False
    _sequential: Variants = field(default_factory=lambda: Variants(**SEQUENTIAL))
    """The sequential variants as they are, for functions in `_unreadable`."""
    _unreadable: set[int] = field(default_factory=set)
    """Functions whose changed text Numba does not compile."""
    _bounded: Variants = field(default_factory=lambda: Variants(boundscheck=True))

    tell: Callable[[], None] = _to_nobody
    """Writes what is known so far: called when there is more of it."""
    _compiling: int = 0

    def __post_init__(self) -> None:
        self._early = EarlyReads(self.runtime.address("weft_numba_count"))
        self._counting = Variants(self._early.rewrite, **SEQUENTIAL)

    def install(self) -> None:
        """Patch Numba so that calls of its compiled functions from Python go through this object's checks."""
        call = _dispatcher.Dispatcher.__call__
        compile = Dispatcher.compile
        Dispatcher.compile = lambda function, *args: self.compile_function(compile, function, args)
        Dispatcher.__call__ = lambda function, *args, **kwargs: self.check_call(call, function, args, kwargs)
        self.runtime.check_accesses(True)

    def check_call(
        self, call: Callable[..., object], function: Any, args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """Return the result of a call from Python; if the function has a parallel loop, the call is checked."""
        if self._busy or not self.is_parallel(function):
            return call(function, *args, **kwargs)
        self._busy = True
        try:
            return self._run_checked(call, function, args, kwargs)
        finally:
            self._busy = False

    def compile_function(self, numba_compile: Callable[..., object], function: object, args: tuple[object, ...]) -> Any:
        """Compile a function with Numba, and return the result. After the outermost compilation, write the source map,
        in which new parallel loops may be.
        """
        self._compiling += 1
        try:
            return numba_compile(function, *args)
        finally:
            self._compiling -= 1
            if self._compiling == 0 and self.compiler.kernels:
                self.tell()

    def is_parallel(self, function: object) -> bool:
        """Return whether a function, or one that it calls, has a parallel loop of the user's."""
        if id(function) not in self._parallel:
            called = find_callees(function)
            found = any(one.targetoptions.get("parallel") and source.calls_prange(one.py_func) for one in called)
            self._parallel[id(function)] = (found, called)
        return self._parallel[id(function)][0]

    def _run_checked(
        self, call: Callable[..., object], function: Any, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Run a call with its loops checked, and return its result. The results of some calls are also compared with
        those of a sequential run.
        """
        code = function.py_func.__code__
        self.checked[code.co_filename, code.co_qualname] = self.checked.get((code.co_filename, code.co_qualname), 0) + 1
        key = _make_call_key(function, args, kwargs)
        due = self._is_comparison_due(key)
        expected = self._run_sequentially(call, function, args, kwargs, key) if due else None
        unset = self._report_unset_reads() if expected is not None else False
        outside = self.runtime.count_indices_outside()
        chosen = self._bounded.get_variant(function) if outside or (due and expected is None) else function
        faults = self.runtime.count_access_faults()
        self.runtime.magnitude()
        self.runtime.report_bounds(True)
        self.runtime.follow_new_memory(True)
        try:
            with suppress_warnings(chosen is not function):
                result = call(chosen, *args, **kwargs)
        finally:
            self.runtime.follow_new_memory(False)
            self.runtime.report_bounds(False)
            outside += self.runtime.count_indices_outside()
        if expected is not None and not outside and not isinstance(expected.value, BaseException):
            is_explained = unset or self.runtime.count_access_faults() > faults
            self._compare_with_sequential(function, args, kwargs, result, expected, is_explained=is_explained)
        return result

    def _is_comparison_due(self, call_key: tuple[object, ...]) -> bool:
        """Count a call, and return whether to compare its results with those of a sequential run. Of the calls with the
        same key, the first two are compared, then the 4th, 8th, 16th and so on; all if their arguments could not be
        copied once.
        """
        calls = self._calls[call_key] = self._calls.get(call_key, 0) + 1
        return calls <= ALWAYS or calls & (calls - 1) == 0 or call_key in self._uncopied

    def _run_sequentially(
        self,
        call: Callable[..., object],
        function: Any,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        call_key: tuple[object, ...],
    ) -> Expected | None:
        """Run a call sequentially on copies of its arguments, and return its result (or exception) and the arguments
        afterwards. Return None if the arguments cannot be copied.
        """
        copies = Copies()
        try:
            given = copies.copy(args)
            named = {name: copies.copy(value) for name, value in kwargs.items()}
        except NotCopyableError:
            self._uncopied.add(call_key)
            return None
        self._early.clear()
        variants = self._sequential if id(function) in self._unreadable else self._counting
        self.runtime.check_accesses(False)
        try:
            variant = variants.get_variant(function)
            with suppress_warnings(self._calls[call_key] == 1), preserve_random_state(), suppress_output():
                value = call(variant, *given, **named)
        except Exception as error:
            if isinstance(error, NumbaError) and variants is self._counting:
                self._unreadable.add(id(function))
                self._early.forget(one.py_func for one in self._called(function))
                return self._run_sequentially(call, function, args, kwargs, call_key)
            value = error
        finally:
            self.runtime.check_accesses(True)
        return Expected(value, given, named)

    def _report_unset_reads(self) -> bool:
        """Report the variables that an iteration of the sequential run read before they had a value; return whether
        there are any.
        """
        found = self._early.find_unset()
        for one in found:
            text = (
                f"`{one.name}` {_describe_loop(one.function, one.loop)}: an iteration reads it at line {one.line} "
                f"before it has a value; line {one.store} did not run" + (" in this iteration" if one.is_own else "")
            )
            suspect = Suspect("uninitialised-read", one.name, one.line, one.loop, text)
            self._add_mismatch(one.function, suspect, text, {}, "certain", one.unset)
        return bool(found)

    def _compare_with_sequential(
        self,
        function: Any,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        result: object,
        expected: Expected,
        *,
        is_explained: bool,
    ) -> None:
        """Compare a call's result and arguments with those of the sequential run, and report the first difference.
        `is_explained`: what the call read without a value, or where iterations met, may be the cause of a difference.
        """
        if any(kernel.loop.depends_on_threads for kernel in self._kernels(function)):
            return  # what depends on the number of threads need not be equal
        parts = self.runtime.magnitude()
        names = function.py_func.__code__.co_varnames
        pairs = [("its result", result, expected.value)]
        pairs += [
            (names[at] if at < len(names) else f"argument {at}", one, other)
            for at, (one, other) in enumerate(zip(args, expected.args, strict=True))
        ]
        pairs += [(name, kwargs[name], expected.kwargs[name]) for name in kwargs]
        for where, one, other in pairs:
            found = find_difference(where, one, other, parts)
            if found is not None:
                self._report_difference(function, found, is_explained=is_explained)
                return

    def _called(self, function: object) -> Sequence[Any]:
        return self._parallel[id(function)][1]

    def _kernels(self, function: object) -> list[Any]:
        found = [self.compiler.kernels.get(one.py_func.__code__, ()) for one in self._called(function)]
        return [kernel for kernels in found for kernel in kernels if kernel.loop.checked]

    def _report_difference(self, function: Any, difference: Difference, *, is_explained: bool) -> None:
        """Report which variable of a parallel loop explains a difference, or that none does. `is_explained`: another
        finding may explain it; a difference that no variable explains is then not reported.
        """
        suspects: list[tuple[FunctionType, Suspect]] = []
        for one in self._called(function):
            held = [kernel for kernel in self.compiler.kernels.get(one.py_func.__code__, ()) if kernel.loop.checked]
            reductions = {kernel.line: kernel.reductions for kernel in held}
            suspects += (
                [(one.py_func, suspect) for suspect in source.find_suspect_variables(one.py_func, reductions)]
                if held
                else []
            )
        suspects = [(one, suspect) for one, suspect in suspects if not self._early.is_refuted(one, suspect)]
        if not suspects and is_explained:
            return  # garbage in, garbage out: that has been said
        where = difference.where + (f"[{', '.join(map(str, difference.index))}]" if difference.index else "")
        got, expected = describe_value(difference.got), describe_value(difference.expected)
        apart = f"{where} is {got} in parallel and {expected} if the function runs sequentially"
        is_only = len(suspects) == 1 and not is_explained
        evidence = {"where": where, "got": got, "expected": expected}
        for one, suspect in suspects:
            text = f"`{suspect.name}` {_describe_loop(one, suspect.loop)}: {suspect.reason}; {apart}"
            if len(suspects) > 1:
                text += "; other variables may be the cause, too"
            self._add_mismatch(one, suspect, text, evidence, "certain" if is_only else "possible")
        if suspects:
            return
        kernels, user = self._kernels(function), function.py_func
        reduced = [kernel for kernel in kernels if kernel.reductions]
        kernel = (reduced or kernels)[0]
        name = ", ".join(kernel.reductions)
        kind = "wrong-reduction" if reduced else "divergence"
        text = f"the parallel function {user.__name__} {_at(user, kernel.line)} gives another result than in "
        text += f"a sequential run: {apart}; Weft found no race or reduction that explains it"
        if reduced:
            text = f"the reduction of `{name}` {_describe_loop(user, kernel.line)} gives a wrong result: {apart}"
        self._add_mismatch(
            function.py_func, Suspect(kind, name, kernel.line, kernel.line, ""), text, evidence, "possible"
        )

    def _add_mismatch(  # noqa: PLR0917 - what a finding has
        self,
        function: FunctionType,
        suspect: Suspect,
        message: str,
        evidence: Mapping[str, object],
        certainty: str,
        count: int = 1,
    ) -> None:
        """Add a fault that a suspect variable explains to the findings, and write the findings. If the same variable
        is known at the same line, only count it again.
        """
        code = function.__code__
        key = (suspect.kind, code.co_filename, suspect.line, suspect.name)
        if key in self.mismatches:
            self.mismatches[key].count += count
            return
        self.mismatches[key] = Mismatch(
            suspect.kind,
            certainty,
            code.co_filename,
            suspect.line,
            code.co_name,
            suspect.loop,
            suspect.name,
            message,
            dict(evidence),
            count,
        )
        self.tell()


def _at(function: FunctionType, line: int) -> str:
    """Return a line of a compiled function's file: `(n.py:6)`."""
    return f"({Path(function.__code__.co_filename).name}:{line})"


def _describe_loop(function: FunctionType, line: int) -> str:
    """Return words for a parallel loop: `in the prange loop at n.py:6 (function f)`."""
    return f"in the prange loop at {_at(function, line)[1:-1]} (function {function.__name__})"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a sequential run left: its result (or what it raised), and its arguments."""

    value: Any
    args: Sequence[object]
    kwargs: Mapping[str, object]


def _make_call_key(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, ...]:
    """Return a key of a call, from the function and the types and shapes of its arguments. Of the calls with the same
    key, only some are compared with a sequential run.
    """
    return (id(function), *(_summarize_argument(one) for one in (*args, *kwargs.values())))


def _summarize_argument(value: object) -> object:
    """Return the part of a call's key that stands for one argument: its type; for an array, the element type, shape and
    strides; for a tuple or list, those of its items.
    """
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.strides)
    if isinstance(value, SEQUENCES):
        return (type(value), *(_summarize_argument(one) for one in value))
    return type(value)


@contextmanager
def suppress_warnings(is_compiled_again: bool) -> Iterator[None]:
    """Suppress Python's warnings in this context if a function is compiled again: its first compilation has given the
    same warnings.
    """
    if not is_compiled_again:
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the state of Numba's random number generators at the end of this context."""
    size = _state_bytes()
    kept = [(pointer, ctypes.string_at(pointer, size)) for pointer in (of() for of in RANDOM)]
    try:
        yield
    finally:
        for pointer, state in kept:
            ctypes.memmove(pointer, state, size)


@cache
def _state_bytes() -> int:
    """Return the size of a generator of Numba's random numbers."""
    return int(cpu_target.target_context.get_abi_sizeof(rnd_state_t))


@contextmanager
def suppress_output() -> Iterator[None]:
    """Suppress all standard output in this context, Python's and C's."""
    sys.stdout.flush()
    python, kept = sys.stdout, os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 1)
        sys.stdout = io.StringIO()
        yield
    finally:
        sys.stdout = python
        os.dup2(kept, 1)
        os.close(kept)
        os.close(null)
