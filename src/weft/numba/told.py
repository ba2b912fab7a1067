"""A source map for traced values, which tells the runtime each name as soon as it gets a number."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from weft.dataparallel.source_map import SourceMap, format_loop_line
from weft.native.headers import check

TYPES: Final = {
    "int8": check.INT8,
    "int16": check.INT16,
    "int32": check.INT32,
    "int64": check.INT64,
    "uint8": check.UINT8,
    "uint16": check.UINT16,
    "uint32": check.UINT32,
    "uint64": check.UINT64,
    "float32": check.FLOAT,
    "float64": check.DOUBLE,
    "complex64": check.COMPLEX_FLOAT,
    "complex128": check.COMPLEX_DOUBLE,
    "bool": check.LOGICAL1,
}


class TracedSourceMap(SourceMap):
    """A source map that passes every new name on to the loaded runtime (native/trace.c)."""

    __slots__ = ("library",)

    def __init__(self, library: Path) -> None:
        super().__init__("python")
        self.library = ctypes.CDLL(str(library.resolve()))

    def add_construct(  # noqa: PLR0917 - as of SourceMap
        self, kind: str, file: str, line: int, column: int = 0, text: str = "", indices: Sequence[str] = ()
    ) -> int:
        """Add a loop, pass its text to the tracing runtime, and return its id."""
        number = super().add_construct(kind, file, line, column, text, indices)
        told = format_loop_line(self.constructs[number])
        self.library.weft_check_describe_loop(number, ctypes.create_string_buffer(told.encode(errors="replace")))
        return number

    def add_variable(
        self, name: str, file: str, line: int, kind: Literal["variable", "array", "template", "tasks"] = "variable"
    ) -> int:
        """Add a variable, pass its name to the tracing runtime, and return its id."""
        number = super().add_variable(name, file, line, kind)
        self.library.weft_check_name_variable(number, name.encode(errors="replace"), 0)
        return number

    def set_number_type(self, variable_id: int, type_name: str) -> None:
        """Report to the tracing runtime the type of a variable's elements, such as `float64`."""
        if variable_id in self.variables:
            name = self.variables[variable_id].name.encode(errors="replace")
            self.library.weft_check_name_variable(variable_id, name, int(TYPES.get(type_name, 0)))

    def add_place(self, file: str, line: int, column: int = 0, function: str = "", text: str = "") -> int:
        """Add the place of an access, pass it to the tracing runtime, and return its id."""
        number = super().add_place(file, line, column, function, text)
        self.library.weft_check_describe_place(number, file.encode(errors="replace"), line)
        return number
