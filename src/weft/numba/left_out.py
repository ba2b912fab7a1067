"""What of a Python program's parallel work is not looked at: noted while Numba makes it, told at the end."""

from __future__ import annotations

import re
import site
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from numba.core import ir, types
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc import parallel

from weft.base.words import plural
from weft.dataparallel.check_coverage import format_places
from weft.numba import loops, source

CONTAINERS: Final = (types.ListType, types.DictType, types.List, types.Set)
FOREIGN: Final = (types.CPointer, types.RawPointer, types.PyObject)
CALLED: Final = (types.ExternalFunctionPointer, types.ExternalFunction, types.FunctionType)


@dataclass(slots=True)
class UncheckedCode:
    """What Numba compiles and Weft does not check, with the places of each."""

    functions: list[Any] = field(default_factory=list)
    """Parallel functions that hold a prange, called or not."""
    ufuncs: list[object] = field(default_factory=list)
    in_loops: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """By what it is: the loops that use it."""

    def install(self) -> None:
        """Patch Numba so that each parallel function and ufunc that the program makes from now on is noted here."""
        begin = Dispatcher.__init__

        def made(dispatcher: Any, *given: Any, **named: object) -> None:
            """Initialise a compiled function as Numba does, and note it if it is parallel."""
            begin(dispatcher, *given, **named)
            if dispatcher.targetoptions.get("parallel"):
                self.functions.append(dispatcher)

        Dispatcher.__init__ = made
        for builder in (parallel.ParallelUFuncBuilder, parallel.ParallelGUFuncBuilder):
            builder.__init__ = self._wrap_initialiser(builder.__init__)

    def _wrap_initialiser(self, initialise: Callable[..., None]) -> Callable[..., None]:
        """Return the initialiser of Numba's ufunc builders, extended so that it also notes the ufunc here."""

        def made(builder: Any, function: Any, *given: object, **named: object) -> None:
            initialise(builder, function, *given, **named)
            self.ufuncs.append(function)

        return made

    def note_unchecked_arguments(self, parfor: Any, names: Iterable[str], argument_types: Iterable[Any]) -> None:
        """Note those arguments of a parallel loop whose elements are not checked: containers of Numba's library, and
        pointers to foreign memory.
        """
        for name, kind in zip(names, argument_types, strict=False):
            if isinstance(kind, CONTAINERS):
                called = f"the elements of `{name}`" if name else "the elements of a list, set or dictionary"
                self._in(parfor, f"{called} (a container of Numba's library)")
            elif isinstance(kind, FOREIGN):
                self._in(parfor, f"the memory that `{name}` points to")

    def note_called_functions(self, lowerer: Any, parfor: Any) -> None:
        """Note the compiled functions (such as ctypes ones) that a parallel loop calls. This must be called before
        Numba takes the loop apart.
        """
        known = lowerer.fndesc.typemap
        for block in parfor.loop_body.values():
            assigned = [one for one in block.find_insts(ir.Assign) if isinstance(one.value, ir.Global | ir.FreeVar)]
            names = {one.target.name: one.value.name for one in assigned}
            for one in block.find_exprs(op="call"):
                if isinstance(known.get(one.func.name), CALLED):
                    name = (
                        names.get(one.func.name)
                        or loops.find_argument_name(one.func.name, lowerer.func_ir)
                        or "a function"
                    )
                    self._in(parfor, f"what the compiled function `{name}` reads and writes")

    def note_recursive_functions(self, parfor: Any, mangled_names: Iterable[str]) -> None:
        """Note the functions that a parallel loop calls and that call the function of the loop in turn."""
        for name in mangled_names:
            self._in(parfor, f"what the recursive function `{find_function_name(name)}` reads and writes")

    def _in(self, parfor: Any, what: str) -> None:
        self.in_loops.setdefault(what, set()).add((parfor.loc.filename, parfor.loc.line))

    def describe(self, checked_code: Iterable[Any]) -> Iterator[str]:
        """Yield a phrase for each thing that was not checked; `checked_code`: the code objects whose loops the runtime
        knows.
        """
        known = set(checked_code)
        for code, one in {one.py_func.__code__: one for one in self.functions if not one.overloads}.items():
            if code not in known and is_user_file(code.co_filename) and source.calls_prange(one.py_func):
                place = format_places([(code.co_filename, code.co_firstlineno)])
                yield f"the parallel function `{code.co_name}` ({place}), which was never called"
        ufuncs = [f.__code__ for f in self.ufuncs if hasattr(f, "__code__") and is_user_file(f.__code__.co_filename)]
        if ufuncs:
            places = sorted({(code.co_filename, code.co_firstlineno) for code in ufuncs})
            yield f"{plural(len(places), 'parallel ufunc')} ({format_places(places)})"
        for what, held in self.in_loops.items():
            yield f"{what} ({format_places(sorted(held))})"


def find_function_name(mangled_name: str) -> str:
    """Return the last part of the qualified name that Numba mangled: `rec` of `_ZN8__main__3recB2v1...`."""
    rest, part = mangled_name.removeprefix("_ZN"), mangled_name
    while found := re.match(r"\d+", rest):
        length = int(found[0])
        part, rest = rest[found.end() : found.end() + length], rest[found.end() + length :]
    return part


def is_user_file(file: str) -> bool:
    """Return whether a file exists and is the user's: it belongs neither to Python nor to an installed package."""
    held = (sys.prefix, sys.base_prefix + "/lib", *site.getsitepackages())
    return Path(file).is_file() and not file.startswith(held)
