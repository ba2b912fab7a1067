"""Runs within gdb, around a native rank: keeps values at lines that `weft run --watch` names. No package is needed."""

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
    "set pagination off", "set confirm off", "set breakpoint pending on", "set startup-with-shell off",
    "set print inferior-events off", "set print thread-events off", "set debuginfod enabled off", "set width 0",
    "set detach-on-fork on", "set follow-fork-mode parent", "set print finish off", "set disable-randomization off",
    "set auto-load off",
)  # fmt: skip


class Unfit(Exception):
    """What cannot be kept; the message says why."""


class Kept:
    """Elements of the program, as they are handed to the library."""

    def __init__(
        self, kind: str, size: int, data: bytes, shape: Sequence[int] = (), strides: Sequence[int] = ()
    ) -> None:
        self.kind, self.size, self.data, self.shape, self.strides = kind, size, data, shape, strides


def letter(kind: Any) -> tuple[str, int]:
    """The letter of a type of numbers, as numpy's."""
    plain = kind.strip_typedefs()
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
        raise Unfit(f"it is a pointer ({kind}): say how many elements are meant, [0:n]")
    raise Unfit(f"it is of type {kind}, and numbers are kept")


def number(value: Any) -> Kept:
    """A single number, wherever it lies."""
    kind, size = letter(value.type)
    if value.is_optimized_out:
        raise Unfit("the compiler has optimised it away at this line: compile with -Og or -O0")
    if value.address is not None:
        return Kept(kind, size, bytes(gdb.selected_inferior().read_memory(int(value.address), size)))
    if kind == "f":
        # An expression's value lies nowhere: gdb computes it as the program would.
        return Kept("f", 4 if size == 4 else 8, struct.pack("=f" if size == 4 else "=d", float(value)))
    if kind == "c":
        raise Unfit("it is a complex expression: name a variable")
    return Kept(kind, size, (int(value) & (2 ** (8 * size) - 1)).to_bytes(size, "little"))


def subscripts(text: str) -> tuple[str, list[str]] | None:
    """`A[1:n][0]` or `a(1:n, 2)`: what is subscripted, and the texts of the subscripts; None where none is a range."""
    groups: list[str] = []
    while text.endswith(("]", ")")):
        closing = text[-1]
        depth, at = 0, len(text)
        while at > 0:
            at -= 1
            depth += (text[at] in "])") - (text[at] in "[(")
            if depth == 0:
                break
        inside = split(text[at + 1 : -1])
        groups[:0] = inside
        text = text[:at]
        if closing == ")":
            break
    return (text, groups) if text and any(":" in one for one in groups) else None


def split(text: str) -> list[str]:
    """Subscripts between commas that stand in no further brackets."""
    parts, depth = [""], 0
    for letter_ in text:
        depth += (letter_ in "[(") - (letter_ in "])")
        if letter_ == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter_
    return parts


def dimensions(text: str) -> int:
    """How many dimensions a variable has, 0 where it is no array."""
    kind = gdb.parse_and_eval(text).type.strip_typedefs()
    count = 0
    while kind.code == gdb.TYPE_CODE_ARRAY:
        count, kind = count + 1, kind.target().strip_typedefs()
    return count


class Elements:
    """The elements of an array that subscripts with ranges name."""

    def __init__(self, base: str, groups: list[str], fortran: bool) -> None:
        self.base, self.fortran = base, fortran
        self.ranges = [self.bounds(k, one, groups) for k, one in enumerate(groups)]

    def bounds(self, k: int, text: str, groups: list[str]) -> tuple[int, int | None]:
        """First index, and how many: None for one that is no dimension."""
        first, colon, last = (one.strip() for one in text.partition(":"))
        if not colon:
            return int(gdb.parse_and_eval(first)), None
        if not first or not last:
            low, high = self.declared(k, len(groups))
        low = int(gdb.parse_and_eval(first)) if first else low
        end = int(gdb.parse_and_eval(last)) + self.fortran if last else high + 1
        if end <= low:
            raise Unfit(f"the range {text} holds nothing")
        return low, end - low

    def declared(self, k: int, rank: int) -> tuple[int, int]:
        """The bounds of a dimension as they were declared."""
        kind = gdb.parse_and_eval(self.base).type.strip_typedefs()
        for _ in range(rank - 1 - k if self.fortran else k):
            kind = kind.target().strip_typedefs()
        if kind.code != gdb.TYPE_CODE_ARRAY:
            raise Unfit(f"{self.base} does not say how many elements it has: say so, [0:n]")
        low, high = kind.range()
        return int(low), int(high)

    def at(self, moved: int | None = None) -> Any:
        """The element at the first index, or one further in a dimension."""
        indices = [low + (k == moved) for k, (low, _) in enumerate(self.ranges)]
        text = f"({', '.join(map(str, indices))})" if self.fortran else "".join(f"[{one}]" for one in indices)
        value = gdb.parse_and_eval(self.base + text)
        if value.address is None:
            raise Unfit("its elements do not lie in memory")
        return value

    def kept(self) -> Kept:
        """All of them."""
        first = self.at()
        kind, size = letter(first.type)
        begin = int(first.address)
        shape = [n for _, n in self.ranges if n is not None]
        strides = [
            int(self.at(k).address) - begin if n > 1 else size for k, (_, n) in enumerate(self.ranges) if n is not None
        ]
        span = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + size
        if not 0 < span <= MOST or min(strides) < 0:
            raise Unfit(f"its elements lie {span:,} bytes apart")
        return Kept(kind, size, bytes(gdb.selected_inferior().read_memory(begin, span)), shape, strides)


def evaluated(text: str, fortran: bool) -> Kept:
    """The value of an expression in the selected frame."""
    found = subscripts(text)
    if found is None and re.fullmatch(r"[\w.>%&*()-]+", text) and (rank := dimensions(text)):
        found = text, [":"] * rank
    return Elements(*found, fortran).kept() if found else number(gdb.parse_and_eval(text))


class Library:
    """What keeps values (weft.values)."""

    def __init__(self, layout: dict[str, Any]) -> None:
        self.layout = layout
        self.entry = ctypes.CDLL(os.environ["WEFT_VALUES_LIBRARY"])
        self.entry.weft_values_entries.restype = ctypes.c_void_p
        self.entry.weft_values_place.restype = ctypes.c_uint32
        self.good = bool(self.entry.weft_values_entries())

    def place(self, name: str, file: str, line: int, function: str) -> int:
        """The number of a place."""
        texts = [text.encode(errors="replace") for text in (name, file, function)]
        return int(self.entry.weft_values_place(1, texts[0], texts[1], line, texts[2]))

    def keep(self, place: int, kept: Kept, of: str, lower: Sequence[int], *, fortran: bool) -> None:
        """Hand values on."""
        data = ctypes.create_string_buffer(kept.data, len(kept.data))
        name = ctypes.create_string_buffer(of.encode()) if of else None
        array = ctypes.create_string_buffer(self.layout["size"])
        dims = len(kept.shape)
        fields = {
            "data": ("=Q", ctypes.addressof(data)), "type": ("=B", ord(kept.kind)), "size": ("=B", kept.size),
            "dims": ("=B", dims), "order": ("=B", self.layout["fortran"] if fortran else 0),
            "shape": (f"={dims}q", *kept.shape), "stride": (f"={dims}q", *kept.strides),
            "of": ("=Q", ctypes.addressof(name) if name is not None else 0),
            "lower": (f"={dims}q", *((one - fortran for one in lower) if of else [0] * dims)),
        }  # fmt: skip
        for field, (form, *numbers) in fields.items():
            struct.pack_into(form, array, self.layout["offsets"][field], *numbers)
        self.entry.weft_values_probe(place, array)


class Watched(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
    """A line at which values are kept; the program goes on at once."""

    def __init__(self, one: dict[str, Any], library: Library) -> None:
        super().__init__(f"{one['file']}:{one['line']}", internal=True)
        self.silent = True
        self.one, self.library, self.place = one, library, 0

    def stop(self) -> bool:
        """Keep the values; never stop."""
        try:
            self.keep()
        except Exception as error:  # the program goes on, whatever is wrong here
            self.library.entry.weft_values_complain(self.place, str(error).encode(errors="replace")[:400])
        return False

    def keep(self) -> None:
        """Keep the values here."""
        frame = gdb.newest_frame()
        frame.select()
        sal = frame.find_sal()
        file = sal.symtab.fullname() if sal.symtab else self.one["file"]
        name = self.one["of"] or self.one["text"]
        self.place = self.place or self.library.place(name, file, sal.line or self.one["line"], frame.name() or "")
        fortran = "fortran" in gdb.execute("show language", to_string=True).lower()
        lower = [int(gdb.parse_and_eval(one)) for one in split(self.one["lower"])] if self.one["of"] else []
        kept = evaluated(self.one["text"], fortran)
        if self.one["of"] and len(lower) != len(kept.shape):
            raise Unfit(
                f"as {self.one['of']}[...] has {len(lower)} numbers, and the array {len(kept.shape)} dimensions"
            )
        self.library.keep(self.place, kept, self.one["of"], lower, fortran=fortran)


class _Begun:
    """What is watched, and what keeps it."""

    watches: ClassVar[list[dict[str, Any]]] = []
    library: Any = None
    silent = False
    points: ClassVar[list[Watched]] = []


def begin() -> None:
    """Put breakpoints at the lines."""
    native = [one for one in _Begun.watches if not one["file"].endswith((".py", ".pyw", ".ipynb"))]
    _Begun.points = [Watched(one, _Begun.library) for one in native if _Begun.library.good]


def fall_silent(_: object) -> None:
    """The program has begun, with an output of its own: what gdb says goes nowhere."""
    if not _Begun.silent:
        _Begun.silent = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def end(code: int | None) -> None:
    """End as the program did."""
    if code is None:
        number_ = gdb.parse_and_eval("$_exitsignal")
        if number_.type.code != gdb.TYPE_CODE_VOID:
            signal.signal(int(number_), signal.SIG_DFL)
            os.kill(os.getpid(), int(number_))
    gdb.execute(f"quit {1 if code is None else code}")


def main() -> None:
    """Run the program to its end."""
    for setting in _SETTINGS:
        try:
            gdb.execute(setting, to_string=True)
        except gdb.error:
            continue  # an older gdb has no such setting
    gdb.execute("handle all nostop noprint pass", to_string=True)
    preload = os.environ.get("WEFT_PRELOAD")
    if preload:
        gdb.execute(f"set environment LD_PRELOAD {preload}")
    for name in ("WEFT_PRELOAD", "WEFT_WATCHES", "WEFT_PYTHONPATH", "LINES", "COLUMNS"):
        gdb.execute(f"unset environment {name}", to_string=True)
    ended: list[int | None] = []
    gdb.events.exited.connect(lambda event: ended.append(getattr(event, "exit_code", None)))
    told = json.loads(Path(os.environ["WEFT_WATCHES"]).read_text())
    gdb.events.new_thread.connect(fall_silent)
    _Begun.watches, _Begun.library = told["watches"], Library(told["array"])
    gdb.execute("python begin()", to_string=True)  # what gdb says of it is told behind the run
    try:
        gdb.execute("run", to_string=True)
    except gdb.error as error:
        sys.stderr.write(f"weft: --watch: gdb cannot run the program: {error}\n")
    end(ended[0] if ended else None)


main()
