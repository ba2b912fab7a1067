"""Insert calls of the check's runtime into one module of LLVM text: before each access, with its place.

Text, because llvmlite can neither insert instructions into a parsed module nor run LLVM's ThreadSanitizer pass. Modules
are instrumented after Numba's optimisation, so that only the remaining accesses cost anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from weft.native.headers.numba import MAX_ARGUMENTS, PLACES

BOUNDS: Final = "weft_numba_note_outside_index"
KERNEL: Final = "__numba_parfor_gufunc"
"""A part of the names of functions that Numba makes of the bodies of parallel loops."""

DECLARATIONS: Final = {
    "weft_numba_read": "declare void @weft_numba_read(ptr, i64, i32)",
    "weft_numba_write": "declare void @weft_numba_write(ptr, i64, i32)",
    "weft_numba_read_given": "declare void @weft_numba_read_given(ptr, i64, i32)",
    "weft_numba_write_given": "declare void @weft_numba_write_given(ptr, i64, i32)",
    "weft_numba_read_masked": "declare void @weft_numba_read_masked(ptr, i64, i64, i32)",
    "weft_numba_write_masked": "declare void @weft_numba_write_masked(ptr, i64, i64, i32)",
    "weft_numba_read_lane": "declare void @weft_numba_read_lane(ptr, i64, i64, i32, i32)",
    "weft_numba_write_lane": "declare void @weft_numba_write_lane(ptr, i64, i64, i32, i32)",
}

_NAME: Final = r'(?:[\w.$-]+|"[^"]*")'
_VALUE: Final = rf"%{_NAME}"
_TYPE: Final = r"(?:<\d+ x [\w.]+>|[\w.]+)"
_LOAD: Final = re.compile(rf"^\s+{_VALUE} = load (?:volatile )?({_TYPE}), ptr ({_VALUE})(?:,|$)")
_STORE: Final = re.compile(rf"^\s+store (?:volatile )?({_TYPE}) .*, ptr ({_VALUE})(?:, align|, !|$)")
_DERIVED: Final = re.compile(rf"^\s+({_VALUE}) = (?:getelementptr[^%]*?, ptr|bitcast ptr) ({_VALUE})(?:,|$)")
_ALLOCA: Final = re.compile(rf"^\s+({_VALUE}) = alloca ")
_ALLOCATION: Final = re.compile(rf"^\s+({_VALUE}) = (?:tail )?call .*@NRT_MemInfo_\w*alloc")
_POINTER: Final = re.compile(rf"^\s+({_VALUE}) = load ptr, ptr ({_VALUE})(?:,|$)")
_LABEL: Final = re.compile(rf"^({_NAME}):")
_PHI: Final = re.compile(rf"%({_NAME}) \]")
_MEMORY: Final = re.compile(r"^\s+(?:tail )?call void @llvm\.(memset|memcpy|memmove)\.[\w.]+\((.*)\)(?:[ ,]|$)")
_MASKED: Final = re.compile(r"call .*@llvm\.masked\.(load|store|gather|scatter)\.[\w.]+\((.*)\)(?:[ ,]|$)")
_CONTAINER: Final = re.compile(rf"call [^@]*@numba_((?:list|dict)_\w+)\(ptr [^%]*({_VALUE})")
CHANGES: Final = frozenset((
    "list_append", "list_setitem", "list_delitem", "list_delete_slice", "list_pop", "list_resize",
    "dict_insert", "dict_insert_ez", "dict_delitem", "dict_popitem",
))  # fmt: skip
"""Functions of Numba's containers that change them; each other one that has a container reads it."""
_DEFINE: Final = re.compile(rf"^define .*?@({_NAME})\((.*)\)")
_LINKAGE: Final = re.compile(r"^define (?:(?:linkonce_odr|weak_odr|dso_local|hidden) )*")
_HEAD: Final = re.compile(rf"^define [\w ]*\bi32 @({_NAME})\((.*)\) [^()]*\{{$")
_DEBUG: Final = re.compile(r"!dbg (!\d+)")
_LOCATION: Final = re.compile(
    r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: \d+)?, scope: !\d+(?:, inlinedAt: (!\d+))?"
)
_STRIPPED: Final = re.compile(r",? !dbg !\d+|^!llvm\.dbg\.cu = .*$|^\s+#dbg_.*$", re.MULTILINE)
_BITS: Final = {"double": 64, "float": 32, "half": 16, "ptr": 64, "fp128": 128, "x86_fp80": 128}

WORD: Final = 8
"""Bytes of a whole cell of the shadow memory."""

_FRESH: Final = count()
"""Numbers for values: unique in the process, because modules are linked into one another."""

Chain = tuple[int, ...]
"""The numbers of an access's lines, innermost first: the place, where that was inlined, and so on."""


def strip_lines(text: str) -> str:
    """Return the module without line information, which only Weft reads."""
    return _STRIPPED.sub("", text)


def type_size(llvm_type: str) -> int | None:
    """Return the size in bytes of an LLVM type such as `double` or `<4 x i32>`; None for any other kind of type, and
    for vectors of single bits.
    """
    if match := re.fullmatch(r"<(\d+) x ([\w.]+)>", llvm_type):
        element = type_size(match[2])
        if match[2] == "i1" or element is None:
            return None
        return int(match[1]) * element
    if llvm_type in _BITS:
        return _BITS[llvm_type] // 8
    if re.fullmatch(r"i\d+", llvm_type):
        return -(-int(llvm_type[1:]) // 8)
    return None


def split_arguments(arguments: str) -> list[str]:
    """Return the arguments of an LLVM call, split at the commas outside brackets and quotes. Text after the bracket
    that closes the call is left out.
    """
    parts: list[str] = []
    depth, quoted, start = 0, False, 0
    for at, sign in enumerate(arguments):
        if sign == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
            if depth < 0:
                return [*parts, arguments[start:at].strip()]
        elif sign == "," and depth == 0:
            parts.append(arguments[start:at].strip())
            start = at + 1
    return [*parts, arguments[start:].strip()]


def _append_to_name(name: str, suffix: str) -> str:
    """Return a function's name with something added, within its quotes."""
    return f'{name[:-1]}{suffix}"' if name.endswith('"') else name + suffix


def operand_of_argument(argument: str) -> str:
    """Return the value in an argument of an LLVM call, such as `%7` of `ptr nonnull %7`; a constant is returned with
    its type.
    """
    if match := re.search(rf"({_VALUE})$", argument):
        return match[1]
    return argument


@dataclass(frozen=True, slots=True)
class IterationAddresses:
    """Where the runtime's cells lie, and addresses of what it knows of the iteration that runs (numba.c)."""

    fold: int
    """The bits of an address that choose its cell."""
    cells: int
    """What is added to them."""
    iteration: int
    """Its stamp."""
    loop: int
    """Which of the loops that ran it belongs to."""
    places: int
    """For each place, in which loop it was seen last."""


@dataclass
class Module:
    """One module. `find_place_id` gives the runtime's number for a chain of lines, or None of an access to
    leave alone.
    """

    text: str
    find_place_id: Callable[[Chain], int | None]
    kernel: bool
    iteration_addresses: IterationAddresses | None = None
    """Of a kernel, where it is to tell by itself that an iteration wrote an element before."""
    guards: int = 0
    """Of a kernel: address of a byte for each of its arguments, 0 where the runtime need not see what is done there."""
    asks_for_thread: bool = False
    """Whether the loop's own body asks which thread it runs on."""
    stored: set[int] | None = field(default_factory=set)
    """Of a kernel: the arguments that it writes to; None where it may write to anything."""
    sites: set[int] = field(default_factory=set)
    """The places that its calls name."""
    bounds: bool = False
    """Whether it raises for an index outside: its iterations are to be run one at a time."""
    arguments: int = 0
    """Of a kernel: how many it has, the schedule among them."""
    find_container_place_id: Callable[[Chain], int | None] = lambda chain: None
    """Gives the number of a call into a container's library."""
    _chains: dict[str, Chain] = field(default_factory=dict)
    _told: dict[str, Chain] = field(default_factory=dict)
    _roots: Roots | None = None
    _used: set[str] = field(default_factory=set)

    def instrument(self) -> str:
        """Return the LLVM text of the module with calls of the runtime before its accesses to memory.

        A function that a kernel calls becomes internal to the kernel's module: under its own name the linker would take
        the copy without calls of the runtime, which the program uses outside loops.
        """
        lines = self.text.split("\n")
        self.bounds = f"@{BOUNDS}(" in self.text
        self._chains = find_line_chains(lines)
        out: list[str] = []
        function: list[str] | None = None
        head = ""
        for line in lines:
            if function is None:
                out.append(line)
                is_helper = self.kernel and KERNEL not in line
                # Functions that Numba writes in LLVM itself have no line information.
                if line.startswith("define ") and _is_program_function(line) and not (is_helper and "!dbg" not in line):
                    function, head = [], line
                    if is_helper:
                        out[-1] = head = _LINKAGE.sub("define internal ", line)
            elif line.startswith("}"):
                hooked = [*self._instrument_body(head, function), line]
                whole = self._make_two_variants(head, function, hooked) if self._roots else ()
                out[-1:] = whole or [head, *hooked]
                function = None
            else:
                function.append(line)
        held = self.text
        out += [DECLARATIONS[name] for name in sorted(self._used) if f"@{name}(" not in held]
        return "\n".join(out)

    def _instrument_body(self, head: str, ir_lines: list[str]) -> Iterator[str]:
        """Yield the LLVM lines of a function's body, with a call of the runtime before each access to memory."""
        own = find_frame_pointers(ir_lines)
        self._told = dict(self._find_pointer_lines(ir_lines))
        self._roots = Roots(head, ir_lines) if self.kernel and self.guards and KERNEL in head else None
        if self._roots is not None:
            self._note_stored_arguments(ir_lines, own)
            self.arguments = max(self.arguments, self._roots.count)
        before, label = "", ""
        renamed: dict[str, str] = {}
        out: list[str] = []
        for line in ir_lines:
            if found := _LABEL.match(line):
                label = found[1]
            for new in self._render_calls_before(line, own, before):
                out.append(new)
                if found := _LABEL.match(new):
                    renamed[label] = found[1]
            out.append(self._add_place_to_bounds_check(line) if BOUNDS in line else line)
            before = line
        for line in out:
            yield _PHI.sub(lambda m: f"%{renamed.get(m[1], m[1])} ]", line) if " = phi " in line else line

    def _make_two_variants(self, head: str, ir_lines: list[str], hooked_lines: list[str]) -> list[str]:
        """Return the LLVM lines of three functions: the kernel with calls of the runtime, the kernel without them, and
        a function with the kernel's name that chooses one of the two at run time. Empty if the kernel's arguments have
        an unknown form.
        """
        found = _HEAD.match(head)
        given = [one.split() for one in split_arguments(found[2])] if found else []
        if not found or not all(re.fullmatch(r"[\w.]+", words[0]) for words in given):
            return []
        names = [_append_to_name(found[1], f".weft.{way}") for way in ("hooked", "whole")]
        rest = head[head.index("(", found.end(1)) :]
        heads = [f"define internal i32 @{name}{rest}" for name in names]
        passed = ", ".join(f"{words[0]} {words[-1]}" for words in given)
        return [
            heads[0],
            *hooked_lines,
            strip_lines(heads[1]),
            *(strip_lines(self._add_place_to_bounds_check(line)) for line in ir_lines),
            "}",
            strip_lines(head),
            f"  %weft.g = load i8, ptr inttoptr (i64 {self.guards + MAX_ARGUMENTS} to ptr), align 1",
            "  %weft.t = icmp eq i8 %weft.g, 0",
            "  br i1 %weft.t, label %weft.hooked, label %weft.whole",
            "weft.hooked:",
            f"  %weft.h = call i32 @{names[0]}({passed})",
            "  ret i32 %weft.h",
            "weft.whole:",
            f"  %weft.w = call i32 @{names[1]}({passed})",
            "  ret i32 %weft.w",
            "}",
        ]

    def _note_stored_arguments(self, ir_lines: list[str], frame_pointers: set[str]) -> None:
        """Add the numbers of the array arguments to which a kernel writes to `stored`; set `stored` to None if the
        kernel may write to anything else.
        """
        assert self._roots is not None
        for line in ir_lines:
            pointer = ""
            if match := _STORE.match(line):
                pointer = match[2]
            elif match := _MEMORY.match(line):
                pointer = operand_of_argument(split_arguments(match[2])[0])
            elif "@llvm.masked.store" in line or "@llvm.masked.scatter" in line:
                given = split_arguments(_MASKED.search(line)[2])  # type: ignore[index]
                pointer = next((operand_of_argument(one) for one in given if one.startswith("ptr ")), "?")
            elif re.search(r"call .*@_ZN", line) or _CONTAINER.search(line):
                pointer = "?"
            if not pointer or pointer in frame_pointers or self._roots.is_allocated(pointer):
                continue
            root = self._roots.find_argument(pointer)
            if root is None:
                self.stored = None
            elif self.stored is not None:
                self.stored.add(root)

    def _find_place_id(self, line: str, pointer: str = "") -> int | None:
        """Return the id of the source line of an access; None if it is not in the program. If optimisation left the
        access without a line, the line of another instruction that uses the same pointer is taken.
        """
        return self.find_place_id(self._chain(line) or self._told.get(pointer, ()))

    def _chain(self, line: str) -> Chain:
        found = _DEBUG.search(line)
        return self._chains.get(found[1], ()) if found else ()

    def _find_pointer_lines(self, ir_lines: list[str]) -> Iterator[tuple[str, Chain]]:
        """Yield (pointer, chain of source lines) for each instruction that computes or uses a pointer and has a source
        line.
        """
        for line in ir_lines:
            if match := _DERIVED.match(line):
                pointer = match[1]
            elif match := _LOAD.match(line) or _STORE.match(line):
                pointer = match[2]
            else:
                continue
            if chain := self._chain(line):
                yield pointer, chain

    def _render_calls_before(self, ir_line: str, frame_pointers: set[str], line_before: str) -> Iterator[str]:
        """Yield the LLVM calls of the runtime to insert before an instruction; none if the instruction accesses no data
        of the program. `frame_pointers`: pointers into the function's own frame, whose accesses need no call.
        """
        if " = load " in ir_line or ir_line.lstrip().startswith("store "):
            match, what = (_LOAD.match(ir_line), "read") if " = load " in ir_line else (_STORE.match(ir_line), "write")
            if match is None or match[2] in frame_pointers or f"(ptr {match[2]}," in line_before:
                return
            bytes_, site = type_size(match[1]), self._find_place_id(ir_line, match[2])
            if bytes_ is not None and site is not None:
                call = self._render_access_call(what, match[2], str(bytes_), site)
                whole = bytes_ == WORD and re.search(r", align (?:8|16|32|64)\b", ir_line)
                yield from self._render_guarded_call(match[2], call, site if whole else None)
        elif "call " not in ir_line:
            return
        elif "@llvm.masked." in ir_line:
            yield from self._render_masked_calls(ir_line, frame_pointers)
        elif match := _MEMORY.match(ir_line):
            site = self._find_place_id(ir_line)
            given = [operand_of_argument(one) for one in split_arguments(match[2])]
            length = given[2].removeprefix("i64 ")
            if site is None:
                return
            for what, pointer in (("write", given[0]), ("read", given[1])):
                if (
                    pointer.startswith("%")
                    and pointer not in frame_pointers
                    and (what == "write" or match[1] != "memset")
                ):
                    yield from self._render_guarded_call(pointer, self._render_access_call(what, pointer, length, site))
        elif match := _CONTAINER.search(ir_line):
            site = self.find_container_place_id(self._chain(ir_line))
            if site is not None and self.kernel and re.fullmatch(r"%arg\.\w+\.1", match[2]):
                # The container's MemInfo, which Numba's allocator made: the runtime knows whose it is.
                access, owner = "write" if match[1] in CHANGES else "read", f"{match[2][:-1]}0"
                yield self._render_access_call(access, owner, str(WORD), site)
        elif "@get_thread_id()" in ir_line and self._find_place_id(ir_line) is not None:
            self.asks_for_thread = True

    def _render_access_call(self, access: str, pointer: str, length: str, place_id: int) -> str:
        """Return the LLVM call that reports an access (`read` or `write`) of some bytes to the runtime."""
        name = f"weft_numba_{access}" if self.kernel else f"weft_numba_{access}_given"
        self._used.add(name)
        self.sites.add(place_id)
        return f"  call void @{name}(ptr {pointer}, i64 {length}, i32 {place_id})"

    def _render_guarded_call(self, pointer: str, call: str, place_id: int | None = None) -> Iterator[str]:
        """Yield LLVM lines that make a call of the runtime unless it is unneeded. It is unneeded if the array need not
        be checked or, with `place_id`, if this iteration wrote the element before.
        """
        new = f"weft.{next(_FRESH)}"
        root = self._roots.find_argument(pointer) if self._roots else None
        lines: list[str] = []
        if root is not None:
            lines += [
                f"  %{new}.g = load i8, ptr inttoptr (i64 {self.guards + root} to ptr), align 1",
                f"  %{new}.t = icmp ne i8 %{new}.g, 0",
                f"  br i1 %{new}.t, label %{new}.look, label %{new}.on",
                f"{new}.look:",
            ]
        if place_id is not None and self.iteration_addresses is not None:
            lines += _render_own_write_test(new, pointer, place_id, self.iteration_addresses)
        yield from [*lines, call, f"  br label %{new}.on", f"{new}.on:"] if lines else [call]

    def _render_masked_calls(self, ir_line: str, frame_pointers: set[str]) -> Iterator[str]:
        """Yield LLVM lines that report an access to vector elements under a mask to the runtime: one call with the mask
        if the elements are adjacent, else one call for each element.
        """
        match, site = _MASKED.search(ir_line), self._find_place_id(ir_line)
        if match is None or site is None:
            return
        given = split_arguments(match[2])
        pointers = next(one for one in given if re.match(r"ptr\b|<\d+ x ptr>", one))
        mask = next(one for one in given if re.match(r"<\d+ x i1>", one))
        value = next((one for one in given if not re.match(r"ptr\b|<\d+ x (?:ptr|i1)>|i32 ", one)), given[-1])
        lanes = int(re.match(r"<(\d+) x", mask)[1])  # type: ignore[index]
        total = type_size(re.match(r"<\d+ x [\w.]+>", value)[0])  # type: ignore[index]
        pointer = operand_of_argument(pointers)
        if total is None or pointer in frame_pointers:
            return
        new = f"%weft.{next(_FRESH)}"
        held = mask[len(f"<{lanes} x i1>") :].strip()
        yield f"  {new}.i = bitcast <{lanes} x i1> {held} to i{lanes}"
        yield f"  {new}.m = zext i{lanes} {new}.i to i64" if lanes < 64 else f"  {new}.m = add i64 {new}.i, 0"
        what = "read" if match[1] in ("load", "gather") else "write"
        if pointers.startswith("ptr"):
            self._used.add(name := f"weft_numba_{what}_masked")
            call = f"  call void @{name}(ptr {pointer}, i64 {total // lanes}, i64 {new}.m, i32 {site})"
            yield from self._render_guarded_call(pointer, call)
            return
        self._used.add(name := f"weft_numba_{what}_lane")
        for lane in range(lanes):
            yield f"  {new}.p{lane} = extractelement <{lanes} x ptr> {pointer}, i64 {lane}"
            yield (f"  call void @{name}(ptr {new}.p{lane}, i64 {total // lanes}, i64 {new}.m, i32 {lane}, i32 {site})")

    def _add_place_to_bounds_check(self, line: str) -> str:
        """Return an LLVM line; if it calls the bounds check, the id of its source line is put in as the
        last argument.
        """
        site = self._find_place_id(line)
        return re.sub(r"i32 0\)(?=[ ,]|$)", f"i32 {site or 0})", line) if f"@{BOUNDS}(" in line else line


def _render_own_write_test(
    label_prefix: str, pointer: str, place_id: int, addresses: IterationAddresses
) -> Iterator[str]:
    """Yield LLVM lines that skip a call of the runtime if this iteration wrote the element before, and the place was
    seen in this loop: they jump to the label PREFIX.on. Otherwise they go on at PREFIX.call, where the call must
    follow.
    """
    seen = addresses.places + 4 * (place_id & (PLACES - 1))
    yield f"  %{label_prefix}.a = ptrtoint ptr {pointer} to i64"
    yield f"  %{label_prefix}.f = and i64 %{label_prefix}.a, {addresses.fold}"
    yield f"  %{label_prefix}.c = add i64 %{label_prefix}.f, {addresses.cells}"
    yield f"  %{label_prefix}.p = inttoptr i64 %{label_prefix}.c to ptr"
    yield f"  %{label_prefix}.w = load i32, ptr %{label_prefix}.p, align 8"
    yield f"  %{label_prefix}.i = load i32, ptr inttoptr (i64 {addresses.iteration} to ptr), align 4"
    yield f"  %{label_prefix}.e = icmp eq i32 %{label_prefix}.w, %{label_prefix}.i"
    yield f"  br i1 %{label_prefix}.e, label %{label_prefix}.own, label %{label_prefix}.call"
    yield f"{label_prefix}.own:"
    yield f"  %{label_prefix}.s = load i32, ptr inttoptr (i64 {seen} to ptr), align 4"
    yield f"  %{label_prefix}.l = load i32, ptr inttoptr (i64 {addresses.loop} to ptr), align 4"
    yield f"  %{label_prefix}.k = icmp eq i32 %{label_prefix}.s, %{label_prefix}.l"
    yield f"  br i1 %{label_prefix}.k, label %{label_prefix}.on, label %{label_prefix}.call"
    yield f"{label_prefix}.call:"


class Roots:
    """Where a function's pointers come from: an argument's array, or memory that the function itself was given."""

    def __init__(self, head: str, lines: list[str]) -> None:
        names = dict.fromkeys(match[1] for match in re.finditer(r"%arg\.(\w+)", head))
        self._arguments = {name: number for number, name in enumerate(names)}
        self.count = len(names)
        self._from: dict[str, str] = {}
        self._fresh: set[str] = set()
        for line in lines:
            if match := _DERIVED.match(line):
                self._from[match[1]] = match[2]
            elif (match := _ALLOCATION.match(line)) or (
                (match := _POINTER.match(line)) and self.is_allocated(match[2])
            ):
                self._fresh.add(match[1])

    def _find_root(self, pointer: str) -> str:
        """Return the pointer from which another pointer is computed, over up to 64 steps; a pointer that nothing is
        known of is returned itself.
        """
        for _ in range(64):
            if pointer not in self._from:
                break
            pointer = self._from[pointer]
        return pointer

    def is_allocated(self, pointer: str) -> bool:
        """Return whether a pointer points into memory that the function allocated."""
        return self._find_root(pointer) in self._fresh

    def find_argument(self, pointer: str) -> int | None:
        """Return the number of the argument into whose array a pointer points, None for any other pointer; the schedule
        is 0.
        """
        match = re.fullmatch(r"%arg\.(\w+)\.4", self._find_root(pointer))
        return self._arguments.get(match[1]) if match else None


def _is_program_function(head: str) -> bool:
    """Return whether a function's `define` line belongs to the program or a library function that it calls. False for
    Numba's code between Python and the program, and for its runtime (NRT).
    """
    match = _DEFINE.match(head)
    name = match[1].strip('"') if match else ""
    return not name.startswith(("cpython.", "cfunc.", "NRT_", "numba_", "__gufunc__", ".kernel")) and bool(
        re.match(r"_ZN(?!\d*cpython|\d*cfunc|7cpython|5cfunc)", name)
    )


def find_frame_pointers(ir_lines: list[str]) -> set[str]:
    """Return the pointers into a function's own frame, and to the place for its result. The program's data are not
    there.
    """
    own = {"%retptr", "%excinfo"}
    for line in ir_lines:
        if (match := _ALLOCA.match(line)) or ((match := _DERIVED.match(line)) and match[2] in own):
            own.add(match[1])
    return own


def find_line_chains(ir_lines: list[str]) -> dict[str, Chain]:
    """Return, for each location in a module's line information (such as `!7`), its line numbers: that in the innermost
    inlined function, the line of the call that was inlined, and so on. Lines that optimisation lost (0) are left out.
    """
    held = {match[1]: (int(match[2]), match[3]) for line in ir_lines if (match := _LOCATION.match(line))}
    found = {}
    for name in held:
        chain: list[int] = []
        at: str | None = name
        while at is not None and at in held and len(chain) < 64:
            number, at = held[at]
            if number:
                chain.append(number)
        found[name] = tuple(chain)
    return found
