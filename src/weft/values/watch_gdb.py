"""Run inside gdb, around a native rank: keep values at the lines that `weft run --watch` names. Needs no package."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import gdb  # type: ignore[import-not-found, unused-ignore]

MOST = 1 << 30
_SETTINGS = (
    "set breakpoint pending on", "set startup-with-shell off",
    "set print inferior-events off", "set print thread-events off", "set width 0",
    "set detach-on-fork on", "set follow-fork-mode parent", "set print finish off", "set disable-randomization off",
)  # fmt: skip


class UnfitExpression(Exception):
    """The expression cannot be kept; the message says why."""


class Elements:
    """Elements read from the program, in the form that the library takes."""

    def __init__(
        self, kind: str, size: int, data: bytes, shape: Sequence[int] = (), strides: Sequence[int] = ()
    ) -> None:
        self.kind, self.size, self.data, self.shape, self.strides = kind, size, data, shape, strides


def number_type(kind: Any) -> tuple[str, int]:
    """Return (numpy's letter, size in bytes) of a number type. UnfitExpression for other types."""
    plain = kind.strip_typedefs()
    if str(plain.unqualified()).startswith("std::complex<"):
        plain = plain.fields()[0].type.strip_typedefs()
    code, size = plain.code, plain.sizeof
    if code == gdb.TYPE_CODE_FLT:
        return "f", size
    if code == gdb.TYPE_CODE_COMPLEX:
        return "c", size
    if code == gdb.TYPE_CODE_BOOL:
        return ("b" if size == 1 else "i"), size
    if code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_ENUM, gdb.TYPE_CODE_RANGE):
        return ("i" if plain.is_signed else "u"), size
    if code == gdb.TYPE_CODE_PTR:
        raise UnfitExpression(f"it is a pointer ({kind}): write how many elements, as in [0:n]")
    raise UnfitExpression(f"it is of type {kind}, and Weft records numbers only")


def evaluate(text: str) -> Any:
    """Return the value of an expression in the selected frame, dereferenced if it is a reference."""
    return dereference(gdb.parse_and_eval(text))


def dereference(value: Any) -> Any:
    """Return the value that a reference refers to; other values unchanged."""
    references = (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF))
    return value.referenced_value() if value.type.strip_typedefs().code in references else value


_CONTAINERS = {
    # By library: the members that are the first element and the end, or an array of all, or the first and how many.
    "vector": (("_M_impl._M_start", "_M_impl._M_finish"), ("__begin_", "__end_")),
    "array": (("_M_elems", ""), ("__elems_", "")),
    "valarray": (("_M_data", "_M_size"), ("__begin_", "__end_")),
}


def find_elements(value: Any) -> tuple[Any, int] | None:
    """Return (value to subscript, number of elements) of an array or a contiguous C++ container; None for any other
    value.
    """
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return value, int(high) - int(low) + 1
    named = re.match(r"std::(?:\w+::)*(vector|array|valarray)<", str(kind.unqualified()))
    for first, last in _CONTAINERS[named[1]] if named else ():
        try:
            begin = read_member(value, first)
            end = read_member(value, last) if last else None
        except gdb.error:
            continue  # another library's
        if end is None:
            return begin, find_elements(begin)[1]  # type: ignore[index]
        return begin, int(end - begin) if end.type.strip_typedefs().code == gdb.TYPE_CODE_PTR else int(end)
    return None


def read_member(value: Any, path: str) -> Any:
    """Return the member of a value that a dotted path such as `a.b` names."""
    for name in path.split("."):
        value = value[name]
    return value


def read_item(value: Any, index: int) -> Any:
    """Return the element at an index of an array, of a contiguous C++ container, or behind a pointer."""
    held = find_elements(value)
    return dereference((value if held is None else held[0])[index])


def read_number(value: Any) -> Elements:
    """Read a single number, from memory or from the value of an expression. Raises UnfitExpression if it is no number,
    or the compiler has removed it.
    """
    kind, size = number_type(value.type)
    if value.is_optimized_out:
        raise UnfitExpression("the compiler has optimised it away at this line: compile with -Og or -O0")
    if value.address is not None:
        return Elements(kind, size, bytes(gdb.selected_inferior().read_memory(int(value.address), size)))
    if kind == "f":
        # An expression's value lies nowhere: gdb computes it as the program would.
        return Elements("f", 4 if size == 4 else 8, struct.pack("=f" if size == 4 else "=d", float(value)))
    if kind == "c":
        raise UnfitExpression("the expression is too complex: name a variable")
    return Elements(kind, size, (int(value) & (2 ** (8 * size) - 1)).to_bytes(size, "little"))


def parse_subscripts(text: str) -> tuple[str, list[str]] | None:
    """Split `A[1:n][0]` or `a(1:n, 2)` into (array, texts of its subscripts); None if no subscript is a range."""
    groups: list[str] = []
    while text.endswith(("]", ")")):
        closing = text[-1]
        depth, at = 0, len(text)
        while at > 0:
            at -= 1
            depth += (text[at] in "])") - (text[at] in "[(")
            if depth == 0:
                break
        inside = split_subscripts(text[at + 1 : -1])
        groups[:0] = inside
        text = text[:at]
        if closing == ")":
            break
    return (text, groups) if text and any(":" in one for one in groups) else None


def split_subscripts(text: str) -> list[str]:
    """Return the parts of a text between its commas; commas in further brackets do not count."""
    parts, depth = [""], 0
    for letter_ in text:
        depth += (letter_ in "[(") - (letter_ in "])")
        if letter_ == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter_
    return parts


def count_dimensions(expression: str) -> int:
    """Return the number of dimensions of the array that an expression names; 1 for a contiguous C++ container, 0 for
    any other value.
    """
    value = evaluate(expression)
    count, kind = 0, value.type.strip_typedefs()
    while kind.code == gdb.TYPE_CODE_ARRAY:
        count, kind = count + 1, kind.target().strip_typedefs()
    return count or int(find_elements(value) is not None)


class ArrayRange:
    """The elements of an array that subscripts with ranges select."""

    def __init__(self, base: str, groups: list[str], fortran: bool) -> None:
        self.base, self.fortran = base, fortran
        self.ranges: list[tuple[int, int | None]] = []
        for k, one in enumerate(groups):
            self.ranges.append(self.parse_range(one, k, len(groups)))

    def parse_range(self, text: str, dimension: int, dimension_count: int) -> tuple[int, int | None]:
        """Return (first index, number of elements) that the text of the subscript of a dimension means; the number is
        None for a single index. `dimension`: the dimension's number from 0, of `dimension_count`.
        """
        first, colon, last = (one.strip() for one in text.partition(":"))
        if not colon:
            return int(evaluate(first)), None
        low, high = (0, -1) if first and last else self.declared_bounds(dimension, dimension_count)
        low = int(evaluate(first)) if first else low
        end = int(evaluate(last)) + self.fortran if last else high + 1
        if end <= low:
            raise UnfitExpression(f"the range {text} is empty")
        return low, end - low

    def declared_bounds(self, dimension: int, dimension_count: int) -> tuple[int, int]:
        """Return (first, last) of the declared bounds of a dimension, by its number from 0. Raises UnfitExpression if
        there are none. `dimension_count`: how many dimensions the array has.
        """
        if self.fortran:
            kind = gdb.parse_and_eval(self.base).type.strip_typedefs()
            for _ in range(dimension_count - 1 - dimension):
                kind = kind.target().strip_typedefs()
            known = kind.range() if kind.code == gdb.TYPE_CODE_ARRAY else None
        else:
            held = find_elements(self.first_element())
            known = (0, held[1] - 1) if held is not None else None
        if known is None:
            raise UnfitExpression(f"{self.base} has an unknown number of elements: write [0:n]")
        return int(known[0]), int(known[1])

    def first_element(self, moved: int | None = None) -> Any:
        """Return the element at the start of all ranges; with `moved`, the next element in this dimension."""
        indices = [low + (k == moved) for k, (low, _) in enumerate(self.ranges)]
        if self.fortran:
            return gdb.parse_and_eval(f"{self.base}({', '.join(map(str, indices))})")
        value = evaluate(self.base)
        for index in indices:
            value = read_item(value, index)
        return value

    def element_address(self, moved: int | None = None) -> int:
        """Return the address of the element at the start of all ranges; with `moved`, of the next element in this
        dimension. UnfitExpression if it is not in memory.
        """
        value = self.first_element(moved)
        if value.address is None:
            raise UnfitExpression("its elements are not in memory")
        return int(value.address)

    def read_elements(self) -> Elements:
        """Read the elements of all ranges from the program's memory, with their shape and strides in bytes. Raises
        UnfitExpression if they do not lie in memory or too far apart.
        """
        kind, size = number_type(self.first_element().type)
        begin = self.element_address()
        shape = [n for _, n in self.ranges if n is not None]
        strides = [
            self.element_address(k) - begin if n > 1 else size for k, (_, n) in enumerate(self.ranges) if n is not None
        ]
        span = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + size
        if not 0 < span <= MOST or min(strides) < 0:
            raise UnfitExpression(f"its elements span {span:,} bytes, which is too much")
        return Elements(kind, size, bytes(gdb.selected_inferior().read_memory(begin, span)), shape, strides)


def read_value(expression: str, fortran: bool) -> Elements:
    """Read the number or the array that an expression names in the selected frame. `fortran`: the expression has
    Fortran's subscripts, `a(1:n, 2)`. Raises UnfitExpression if it cannot be read.
    """
    found = parse_subscripts(expression)
    if found is None and re.fullmatch(r"[\w.>%&*()-]+", expression) and (rank := count_dimensions(expression)):
        found = expression, [":"] * rank
    return ArrayRange(*found, fortran).read_elements() if found else read_number(evaluate(expression))


class Library:
    """The library that keeps values (weft.values)."""

    def __init__(self, layout: dict[str, Any]) -> None:
        self.layout = layout
        self.entry = ctypes.CDLL(os.environ["WEFT_INTERNAL_VALUES_LIBRARY"])
        self.entry.weft_values_entries.restype = ctypes.c_void_p
        self.entry.weft_values_place.restype = ctypes.c_uint32
        self.good = bool(self.entry.weft_values_entries())

    def place(self, name: str, file: str, line: int, function: str) -> int:
        """Return the number of a place."""
        texts = [text.encode(errors="replace") for text in (name, file, function)]
        return int(self.entry.weft_values_place(1, texts[0], texts[1], line, texts[2]))

    def keep(self, place: int, elements: Elements, global_array: str, lower: Sequence[int], *, fortran: bool) -> None:
        """Pass elements to the library that records values, as a value of a place in the program. `global_array`,
        `lower`: the array of which they are a part ("" for none), and their first index in it.
        """
        data = ctypes.create_string_buffer(elements.data, len(elements.data))
        name = ctypes.create_string_buffer(global_array.encode()) if global_array else None
        array = ctypes.create_string_buffer(self.layout["size"])
        dims = len(elements.shape)
        fields = {
            "data": ("=Q", ctypes.addressof(data)), "type": ("=B", ord(elements.kind)), "size": ("=B", elements.size),
            "dims": ("=B", dims), "order": ("=B", self.layout["fortran"] if fortran else 0),
            "shape": (f"={dims}q", *elements.shape), "stride": (f"={dims}q", *elements.strides),
            "of": ("=Q", ctypes.addressof(name) if name is not None else 0),
            "lower": (f"={dims}q", *((one - fortran for one in lower) if global_array else [0] * dims)),
        }  # fmt: skip
        for field, (form, *numbers) in fields.items():
            struct.pack_into(form, array, self.layout["offsets"][field], *numbers)
        self.entry.weft_values_probe(place, array)


class WatchedLine(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
    """A breakpoint at a line, or at an address of it (`at`: line and address), that keeps values and never stops."""

    def __init__(self, one: dict[str, Any], library: Library, at: tuple[int, int] | None = None) -> None:
        super().__init__(f"{one['file']}:{one['line']}" if at is None else f"*{at[1]:#x}", internal=True)
        self.silent = True
        self.one, self.library, self.place = one, library, 0
        self.line = at[0] if at is not None else 0

    def stop(self) -> bool:
        """Record the watched values when the program reaches the line. Returns False, so that gdb lets the program go
        on.
        """
        try:
            self.keep()
        except Exception as error:  # the program goes on, whatever is wrong here
            self.library.entry.weft_values_complain(self.place, str(error).encode(errors="replace")[:400])
        return False

    def keep(self) -> None:
        """Record the value of the watched expression in the newest frame, which is selected for that. Raises
        UnfitExpression if it cannot be recorded.
        """
        frame = gdb.newest_frame()
        frame.select()
        sal = frame.find_sal()
        file = sal.symtab.fullname() if sal.symtab else self.one["file"]
        name = self.one["of"] or self.one["text"]
        self.place = self.place or self.library.place(
            name, file, self.line or sal.line or self.one["line"], frame.name() or ""
        )
        fortran = "fortran" in gdb.execute("show language", to_string=True).lower()
        lower = [int(evaluate(one)) for one in split_subscripts(self.one["lower"])] if self.one["of"] else []
        kept = read_value(self.one["text"], fortran)
        if self.one["of"] and len(lower) != len(kept.shape):
            raise UnfitExpression(
                f"as {self.one['of']}[...] has {len(lower)} numbers, but the array has {len(kept.shape)} dimensions"
            )
        self.library.keep(self.place, kept, self.one["of"], lower, fortran=fortran)


class _State:
    """The watches, the library and the breakpoints."""

    watches: ClassVar[list[dict[str, Any]]] = []
    library: Any = None
    silent = False
    points: ClassVar[list[WatchedLine]] = []
    unknown: ClassVar[list[WatchedLine]] = []
    """Those of which gdb does not know the line so far."""


def set_line_breakpoints() -> None:
    """Set a breakpoint at each watched line of a file that is not Python, and note the lines that gdb does not know."""
    native = [one for one in _State.watches if not one["file"].endswith((".py", ".pyw", ".ipynb"))]
    _State.points = [WatchedLine(one, _State.library) for one in native if _State.library.good]
    _State.unknown = [point for point in _State.points if not has_exact_line(point)]


def has_exact_line(point: WatchedLine) -> bool:
    """Return whether gdb has code at the watched line itself. If not, gdb would set the breakpoint at a later line."""
    try:
        _, found = gdb.decode_line(f"{point.one['file']}:{point.one['line']}")
    except gdb.error:
        return False
    return any(sal.line == point.one["line"] for sal in found or ())


def set_address_breakpoints(_: object = None) -> None:
    """Replace breakpoints at lines that gdb does not know by breakpoints at addresses. It is called when the program or
    a library has been loaded.
    """
    for point in list(_State.unknown):
        places = line_addresses(point.one["file"], point.one["line"])
        if places:
            _State.unknown.remove(point)
            _State.points.remove(point)
            point.delete()
            _State.points += [WatchedLine(point.one, _State.library, at) for at in places]


def line_addresses(file: str, line: int) -> list[tuple[int, int]]:
    """Return (line, address) of the start of a line in each function that has code of the line. If no function has, the
    next line with code is taken, in functions that begin before the line.

    Optimising compilers mark few instructions as beginnings of statements (gcc with -Og none of many lines), and gdb
    accepts no others: it goes on to the next line, which may be in another function. All are in the line tables, which
    only this command of gdb shows.
    """
    by_function: dict[Any, list[tuple[int, int]]] = {}
    for number_, address in line_table_entries(file):
        by_function.setdefault(function_range_at(address), []).append((number_, address))
    around = [some for some in by_function.values() if min(some)[0] <= line]
    nearest = min((number_ for some in around for number_, _ in some if number_ >= line), default=None)
    return [min(one for one in some if one[0] == nearest) for some in around if nearest in dict(some)]


def line_table_entries(file: str) -> list[tuple[int, int]]:
    """Return (line, address) for all entries of a source file in gdb's line tables."""
    name = re.escape(Path(file).name)
    ending = "/" + "/".join(part for part in Path(file).parts if part not in ("..", "/"))
    if re.search(r"[\x00-\x1f\x7f]", name):  # gdb takes each line of a text for a command, and has `shell`
        return []
    gdb.execute(f"maint expand-symtabs {name}$", to_string=True)
    found, wanted = [], False
    for row in gdb.execute(f"maint info line-table {name}$", to_string=True).splitlines():
        if row.startswith("symtab: "):
            wanted = f"/{row[8:].rpartition(' ((')[0]}".endswith(ending)
        elif wanted and (entry := re.match(r"\d+\s+(\d+)\s+(0x[0-9a-f]+)", row)):
            found.append((int(entry[1]), int(entry[2], 16)))
    return found


def function_range_at(address: int) -> Any:
    """Return (start, end) of the function, or of the inlined function, at an address; None if there is none."""
    block = gdb.block_for_pc(address)
    while block is not None and block.function is None:
        block = block.superblock
    return (block.start, block.end) if block is not None else None


def silence_gdb(_: object) -> None:
    """Discard what gdb prints, once the program has begun and has an output of its own."""
    if not _State.silent:
        _State.silent = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def exit_like_program(code: int | None) -> None:
    """End gdb with the program's exit status, or by the signal that ended the program (`code` None)."""
    if code is None:
        number_ = gdb.parse_and_eval("$_exitsignal")
        if number_.type.code != gdb.TYPE_CODE_VOID:
            signal.signal(int(number_), signal.SIG_DFL)
            os.kill(os.getpid(), int(number_))
    gdb.execute(f"quit {1 if code is None else code}")


def run_watched_program() -> None:
    """Run the rank's program in gdb to its end, with breakpoints that record values at the lines of
    WEFT_INTERNAL_WATCHES. Then end gdb with the program's exit status or signal.
    """
    for setting in _SETTINGS:
        try:
            gdb.execute(setting, to_string=True)
        except gdb.error:
            continue  # an older gdb has no such setting
    gdb.execute("handle all nostop noprint pass", to_string=True)
    preload = os.environ.get("WEFT_INTERNAL_PRELOAD")
    if preload and "\n" not in preload:
        gdb.execute(f"set environment LD_PRELOAD {preload}")
    for name in ("WEFT_INTERNAL_PRELOAD", "WEFT_INTERNAL_WATCHES", "WEFT_INTERNAL_PYTHONPATH", "LINES", "COLUMNS"):
        gdb.execute(f"unset environment {name}", to_string=True)
    ended: list[int | None] = []
    gdb.events.exited.connect(lambda event: ended.append(getattr(event, "exit_code", None)))
    told = json.loads(Path(os.environ["WEFT_INTERNAL_WATCHES"]).read_text())
    gdb.events.new_thread.connect(silence_gdb)
    _State.watches, _State.library = told["watches"], Library(told["array"])
    gdb.execute("python set_line_breakpoints()", to_string=True)  # what gdb says of it is reported after the run
    try:
        gdb.execute("starti", to_string=True)
        set_address_breakpoints()  # from here on the program is where it will be
        gdb.events.new_objfile.connect(set_address_breakpoints)
        gdb.execute("continue", to_string=True)
    except gdb.error as error:
        sys.stderr.write(f"weft: --watch: gdb cannot run the program: {error}\n")
    exit_like_program(ended[0] if ended else None)


run_watched_program()
