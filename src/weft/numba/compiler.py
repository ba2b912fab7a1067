"""Puts the hooks into everything that Numba compiles in this process.

Nothing of the program changes: a function with parallel loops gets line numbers and calls of the runtime, Numba's
scheduler and allocator are the runtime's own. What is patched here is not a public interface of Numba, so this module
names each part it relies on; `install` says which Numba it does not fit.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm
import numba
import numpy
from numba.core import cgutils, codegen, cpu, dispatcher, lowering
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python as nrt
from numba.core.runtime import rtsys
from numba.np import arrayobj
from numba.np.ufunc import parallel
from numba.parfors import parfor_lowering

from weft.dataparallel.source_map import SourceMap
from weft.native.headers.numba import MAX_ARGUMENTS
from weft.numba import loops
from weft.numba.in_process import Runtime
from weft.numba.instrument import BOUNDS, KERNEL, Chain, Module, strip_lines
from weft.numba.left_out import UncheckedCode
from weft.numba.own import OwnElements, find_own_elements

LIBRARIES: Final = tuple(str(Path(module.__file__).parent) for module in (numba, numpy) if module.__file__)
HIDDEN: Final = tuple(
    str(Path(numba.__file__).parent / name)
    for name in ("typed", "cpython/setobj.py", "cpython/randomimpl.py", "np/random")
)
"""Numba's containers, whose memory comes past its own allocator, and random numbers, whose state is each thread's."""
MADE: Final = "<string>"
"""The file of the code that Numba writes around a loop's body."""
SCHEDULED: Final = "get_parallel_chunksize"
"""What tells a loop's body of its schedule, by a part of the names that its calls leave."""
RECURSIVE: Final = codegen.RuntimeLinker.PREFIX
"""The beginning of the names of variables that hold the address of a function which calls itself."""


class Compiler:
    """What is known of everything that was compiled."""

    def __init__(self, texts: SourceMap, runtime: Runtime) -> None:
        self.texts = texts
        self.runtime = runtime
        self.kernels: dict[object, list[loops.Kernel]] = {}
        """Parallel loops by the code object of the function that they stand in."""
        self.ranks: dict[int, int] = {}
        """Dimensions of each array of a loop, by its number."""
        self.unchecked = UncheckedCode()
        self._lines: list[tuple[str, int, str]] = [("", 0, "")]
        self._numbers: dict[tuple[str, int, str], int] = {}
        self._places: dict[Chain, int | None] = {}
        self._here: list[tuple[str, int, str]] = []
        self._loop: list[Any] = []
        self._instrumented: set[int] = set()
        self._made: dict[int, tuple[Module, Any]] = {}
        self._keep: list[object] = []
        self._base: Any = None
        self._libraries: dict[str, Any] = {}
        """By the names of compiled functions: the libraries that define them."""
        self._unbound: dict[int, set[str]] = {}
        """By a loop's library: functions that it calls through a variable and that are not in its module."""

    # --- lines ------------------------------------------------------------------------------------------------------

    def encode_line(self, line: int) -> int:
        """Return the number to write into LLVM's line information in place of a line. The number stands for the file,
        line and function that are being compiled now.
        """
        at = self._here[-1] if self._here else ("", line, "")
        if at not in self._numbers:
            self._numbers[at] = len(self._lines)
            self._lines.append(at)
        return self._numbers[at]

    def find_place_id(self, line_chain: Chain) -> int | None:
        """Return the id in the source map for the source line of an access; None if the access is in code that Numba
        generated, or in modules of HIDDEN. `line_chain`: the numbers that LLVM's line information has for the access,
        from the innermost inlined function outwards.
        """
        if line_chain not in self._places:
            self._places[line_chain] = self._add_place([self._lines[number] for number in line_chain])
        return self._places[line_chain]

    def find_container_place_id(self, chain: Chain) -> int | None:
        """Return the id in the source map for a call of a function of Numba's containers (list, dict): the innermost
        source line outside Numba and NumPy. None if that call is in code that Numba generated.
        """
        lines = [self._lines[number] for number in chain]
        return self._add_place([line for line in lines if not line[0].startswith(LIBRARIES)])

    def _add_place(self, lines: list[tuple[str, int, str]]) -> int | None:
        """Add the innermost of some lines (file, line, function) that is in the program to the source map, and return
        its id. None if the lines are in code that Numba generated, or in modules of HIDDEN.
        """
        if lines and (lines[-1][0] == MADE or any(file.startswith(HIDDEN) for file, _, _ in lines)):
            return None
        own = [line for line in lines if line[0] != MADE and not line[0].startswith(LIBRARIES)]
        file, line, function = own[0] if own else ("", 0, "")
        return self.texts.add_place(file, line, 0, function)

    # --- modules ----------------------------------------------------------------------------------------------------

    def instrument_library(self, library: Any) -> None:
        """Insert calls of the runtime into the LLVM module of a library that Numba compiled, and remove the encoded
        line numbers from the module. A module without line information stays as it is.
        """
        text = str(library._final_module)
        if "!DILocation" not in text:
            return
        for function in library._final_module.functions:
            if not function.is_declaration:
                self._libraries.setdefault(function.name, library)
        shared = library._final_module
        kernel = KERNEL in library.name
        if kernel or id(library) in self._instrumented:
            guards = ctypes.create_string_buffer(b"\1" * MAX_ARGUMENTS + b"\0")
            known = (self.runtime.find_iteration_addresses(), ctypes.addressof(guards)) if kernel else ()
            module = Module(text, self.find_place_id, kernel, *known)
            module.find_container_place_id = self.find_container_place_id
            text = module.instrument()
            shared = _parse_module(text, shared.name)
            self._made[id(library)] = (module, guards)
            self._keep.append(library)
        for function in shared.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # what Numba makes of it for linking, with the lines still in it
        library._shared_module = shared
        library._final_module = _parse_module(strip_lines(text), library._final_module.name)

    def bind_recursive_calls(self, library: Any) -> None:
        """Let the recursive functions that a parallel loop calls call themselves directly, so that the loop's module
        gets a copy of them with calls of the runtime. Numba calls them through a variable that its linker fills later.
        A function that is not compiled yet is noted as unchecked code when the loop's call is generated.
        """
        if KERNEL not in library.name:
            return
        module = library._final_module
        names = {one.name for one in module.global_variables if one.name.startswith(RECURSIVE)}
        if not names:
            return
        called = {name: name.removeprefix(RECURSIVE) for name in names}
        self._unbound[id(library)] = {one for one in called.values() if one not in self._libraries}
        bound = {name: one for name, one in called.items() if one in self._libraries}
        present = {one.name for one in module.functions}
        addresses = [f'@"weft.{one}" = internal constant ptr @"{one}"' for one in bound.values()]
        declarations = [f'declare i32 @"{one}"()' for one in bound.values() if one not in present]
        linked = _parse_module("\n".join((str(module), *addresses, *declarations)), module.name)
        for one in bound.values():
            linked.link_in(self._libraries[one]._get_module_for_linking(), preserve=True)
        text = str(linked)
        for name, one in bound.items():
            text = re.sub(rf'^@"{re.escape(name)}" = external .*\n', "", text, flags=re.MULTILINE)
            text = text.replace(f'@"{name}"', f'@"weft.{one}"')
        library._final_module = _parse_module(text, module.name)

    # --- loops ------------------------------------------------------------------------------------------------------

    def lower_loop(self, lower: Callable[[object, object], object], lowerer: Any, parfor: object) -> object:
        """Generate code for a parallel loop with Numba's own function `lower`, and return its result. While it runs,
        `_loop` has an entry for the loop, with the arrays of which each iteration uses only elements of its own.
        """
        self._instrumented.add(id(lowerer.library))
        self._keep.append(lowerer.library)
        owned: dict[str, OwnElements] = {}
        with suppress(LookupError, AttributeError):  # Numba's own code is not always as it is known
            owned = find_own_elements(parfor, lowerer.fndesc.typemap)
        self._loop.append((lowerer, parfor, owned))
        if loops.is_user_loop(parfor):
            with suppress(LookupError, AttributeError):  # a note is not worth the program's compilation
                self.unchecked.note_called_functions(lowerer, parfor)
        try:
            return lower(lowerer, parfor)
        finally:
            self._loop.pop()

    def lower_kernel_call(self, call: Callable[..., object], *arguments: Any) -> object:
        """Generate the call of a parallel loop's kernel with Numba's own function `call`, and return its result. Code
        that tells the runtime which loop begins and ends is generated before and after it. `arguments`: those of
        Numba's function.
        """
        lowerer, compiled, signature, _, names, kinds, _, reductions = arguments[:8]
        listed = [loops.find_argument_name(name, lowerer.func_ir) for name in names[1:]]
        if loops.is_user_loop(self._loop[-1][1]):
            self.unchecked.note_unchecked_arguments(self._loop[-1][1], listed, kinds)
            self.unchecked.note_recursive_functions(self._loop[-1][1], self._unbound.get(id(compiled.library), ()))
        names = list(names)  # the call takes the schedule out of it
        kernel = loops.describe_loop(
            lowerer, self._loop[-1][1], signature, names, kinds, reductions, arguments[12], self.texts
        )
        self.kernels.setdefault(lowerer.func_ir.func_id.func.__code__, []).append(kernel)
        self._keep.append(kernel)
        self.ranks |= kernel.ranks
        builder = lowerer.builder
        void, pointer = cgutils.ir.VoidType(), cgutils.voidptr_t
        enter = cgutils.get_or_insert_function(
            builder.module, cgutils.ir.FunctionType(void, [pointer]), "weft_numba_enter_loop"
        )
        leave = cgutils.get_or_insert_function(
            builder.module, cgutils.ir.FunctionType(void, []), "weft_numba_leave_loop"
        )
        address = cgutils.ir.Constant(cgutils.intp_t, kernel.loop.address).inttoptr(pointer)
        builder.call(enter, [address])
        result = call(*arguments)
        builder.call(leave, [])
        if id(compiled.library) in self._made:
            module, guards = self._made[id(compiled.library)]
            if module.arguments == len(names):  # else some argument has no values, and the numbers do not agree
                kernel.loop.set_guards(ctypes.addressof(guards), module.stored)
                kernel.loop.set_places(sorted(module.sites))
                if not module.bounds:
                    numbers = {name: number for number, name in enumerate(names[1:], 1)}
                    owned = {numbers[name]: uses for name, uses in self._loop[-1][2].items() if name in numbers}
                    kernel.loop.set_owned_arguments(owned, numbers)
            if module.asks_for_thread:
                kernel.loop.note_asks_for_thread()
            kernel.loop.scheduled |= SCHEDULED in module.text
            module.text = ""  # nobody needs it any more
        return result

    # --- bounds -----------------------------------------------------------------------------------------------------

    def note_item_pointer(
        self,
        original: Callable[..., object],
        context: object,
        builder: object,
        data: object,
        *rest: object,
        **named: object,
    ) -> object:
        """Generate code that computes an element's address with Numba's own function, and return its result. While it
        runs, `data` is remembered as the beginning of the array, for the checks of bounds.
        """
        self._base, was = data, self._base
        try:
            return original(context, builder, data, *rest, **named)
        finally:
            self._base = was

    def note_indexing(
        self,
        original: Callable[..., Any],
        context: object,
        builder: object,
        kind: object,
        array: Any,
        *rest: object,
        **named: Any,
    ) -> object:
        """Generate the access to an element or slice with Numba's own function, and return its result. While it runs,
        the indexed array is remembered for the checks of bounds.
        """
        self._base, was = array.data, self._base
        try:
            return original(context, builder, kind, array, *rest, **named)
        finally:
            self._base = was

    def insert_bounds_check(self, context: Any, builder: Any, index: Any, extent: object, axis: object = None) -> None:
        """Generate code that checks an index. If the index is negative or not below `extent`, the code reports it to
        the runtime and raises IndexError. `axis`: the index's dimension, counted from 0.
        """
        i32, i64, pointer = cgutils.int32_t, cgutils.intp_t, cgutils.voidptr_t
        kind = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [pointer, i32, i64, i64, i32])
        tell = cgutils.get_or_insert_function(builder.module, kind, BOUNDS)
        above = builder.icmp_signed(">=", index, extent)
        below = builder.icmp_signed("<", index, index.type(0))
        base = cgutils.get_null_value(pointer) if self._base is None else builder.bitcast(self._base, pointer)
        with cgutils.if_unlikely(builder, builder.or_(above, below)):
            builder.call(tell, [base, i32(axis if isinstance(axis, int) else 0), index, extent, i32(0)])
            context.call_conv.return_user_exc(builder, IndexError, ("index is out of bounds",))


def _parse_module(llvm_text: str, module_name: str) -> Any:
    """Return the verified LLVM module of a text, with a new name."""
    module = llvm.parse_assembly(llvm_text)
    module.name = module_name
    module.verify()
    return module


def install_hooks(source_map: SourceMap, runtime: Runtime) -> Compiler:
    """Patch Numba in this process so that all functions are compiled with the checks, and return the record of what is
    compiled. It must be called before the program's first function is compiled.
    """
    compiler = Compiler(source_map, runtime)
    compiler.unchecked.install()
    # Wide loads over strided elements would read what the program does not.
    llvm.set_option("weft", "-enable-interleaved-mem-accesses=false")
    _patch_lines(compiler)
    _patch_modules(compiler)
    _patch_loops(compiler)
    _patch_bounds(compiler)
    dispatcher.Dispatcher.enable_caching = lambda self: None  # machine code from elsewhere has no hooks
    symbols = runtime.find_symbols(nrt.c_helpers)
    _start_runtime(symbols)
    parallel._launch_threads()
    for name, address in symbols.items():
        llvm.add_symbol(name, address)
    return compiler


def _start_runtime(replacements: dict[str, int]) -> None:
    """Start Numba's runtime (NRT) with Weft's functions in place of its own. This must happen at its start, when NRT
    compiles its code for freeing memory. `replacements`: name (`NRT_...`) -> address.
    """
    known = dict(nrt.c_helpers)
    nrt.c_helpers.update({name: replacements[f"NRT_{name}"] for name in known if f"NRT_{name}" in replacements})
    try:
        rtsys.initialize(cpu_target.target_context)
    finally:
        nrt.c_helpers.update(known)


def _patch_lines(compiler: Compiler) -> None:
    """Make Numba emit line information in which a number stands for the file, line and function."""
    finalize, lower = cpu.CPUTargetOptions.finalize, lowering.Lower.lower_inst

    def finalize_with_lines(self: object, flags: Any, options: object) -> None:
        """Set Numba's options for compilation so that line information is generated, but no information
        on variables.
        """
        finalize(self, flags, options)
        flags.debuginfo, flags.dbg_directives_only, flags.dbg_extend_lifetimes = True, True, False

    def lower_inst(self: Any, inst: Any) -> None:
        """Generate code for one instruction of Numba's intermediate code; meanwhile its file, line and function are
        noted.
        """
        of = compiler._loop[-1][0] if compiler._loop and KERNEL in self.func_ir.func_id.func_name else self
        compiler._here.append((self.loc.filename, self.loc.line, of.func_ir.func_id.func_name))
        try:
            lower(self, inst)
        finally:
            compiler._here.pop()

    class Lines(cpu.CPUContext.DIBuilder):  # type: ignore[misc]
        """Numbers in place of lines: a module of Numba's has one file only. What variables are called is left out."""

        def mark_variable(self, *_: object, **__: object) -> None:
            """Nothing asks for a variable: its type would take as long as half of the lines."""

        def _di_subroutine_type(self, *_: object) -> object:
            return self.module.add_debug_info("DISubroutineType", {"types": self.module.add_metadata([])})

        def _di_location(self, line: int) -> object:
            return super()._di_location(compiler.encode_line(line))

    cpu.CPUTargetOptions.finalize = finalize_with_lines
    lowering.Lower.lower_inst = lower_inst
    cpu.CPUContext.DIBuilder = Lines
    # Its warnings are about the lines that a debugger shows.
    lowering.BaseLower._compute_def_location = lambda self: self.func_ir.loc


def _patch_modules(compiler: Compiler) -> None:
    """Make Numba insert the runtime's calls into each module after it has optimised it."""
    optimize = codegen.CPUCodeLibrary._optimize_final_module

    def optimized(self: object) -> None:
        compiler.bind_recursive_calls(self)
        optimize(self)
        compiler.instrument_library(self)

    codegen.CPUCodeLibrary._optimize_final_module = optimized


def _patch_loops(compiler: Compiler) -> None:
    """Make Numba call the compiler's lower_loop and lower_kernel_call in place of its functions for parallel loops."""
    lower, call = parfor_lowering._lower_parfor_parallel_std, parfor_lowering.call_parallel_gufunc
    parfor_lowering._lower_parfor_parallel_std = lambda lowerer, parfor: compiler.lower_loop(lower, lowerer, parfor)
    parfor_lowering.call_parallel_gufunc = lambda *given: compiler.lower_kernel_call(call, *given)


def _patch_bounds(compiler: Compiler) -> None:
    """Make Numba note the array of each index that it computes, and check the index's bounds."""
    original = cgutils.get_item_pointer2
    cgutils.do_boundscheck = compiler.insert_bounds_check
    cgutils.get_item_pointer2 = lambda *given, **named: compiler.note_item_pointer(original, *given, **named)
    indexing = arrayobj.basic_indexing
    arrayobj.basic_indexing = lambda *given, **named: compiler.note_indexing(indexing, *given, **named)


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", numba.__version__)[:2])
