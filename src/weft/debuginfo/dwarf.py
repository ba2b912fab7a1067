"""Read the variables of a native program from its DWARF: location, size and type.

Only variables with one fixed location are read: an address of the module, or a distance from the frame of their
function. Variables in registers, in two places, or of a length known only at run time are left out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from elftools.common.exceptions import ELFError
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.locationlists import LocationExpr, LocationParser
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

MOST_LEAVES: Final = 256
MOST_DIES: Final = 200_000
"""Entries of a compilation unit that are looked at."""
_FORTRAN: Final = frozenset((0x07, 0x08, 0x0E, 0x22, 0x23))
_PLAIN: Final = frozenset(f"DW_TAG_{t}_type" for t in ("const", "volatile", "restrict", "atomic"))
_INTEGERS: Final = frozenset((2, 5, 6, 7, 8, 0x10))
_SCOPES: Final = frozenset(("DW_TAG_namespace", "DW_TAG_module"))
_BLOCKS: Final = frozenset(("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine", "DW_TAG_subprogram"))
_POINTERS: Final = frozenset(("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"))
_CLASSES: Final = frozenset(("DW_TAG_structure_type", "DW_TAG_class_type"))
_CONTAINERS: Final = ("vector<", "array<", "valarray<", "span<", "basic_string<")
"""What has its elements in one piece of memory; their type is the first parameter of the template."""
_OP_ADDR, _OP_FBREG, _OP_CFA, _OP_RBP = 0x03, 0x91, 0x9C, 0x56
_RBP_TO_CFA: Final = 16
"""Behind `push %rbp; mov %rsp,%rbp` the frame ends two words above %rbp (the ABI for x86-64, 3.2.2)."""


class Leaf(NamedTuple):
    """A part of a type that is no structure: `sort` is i, f, c, b (a byte), p (a pointer) or ? (unknown); `at` its
    offset.
    """

    at: int
    sort: str
    width: int
    name: str


class Shape(NamedTuple):
    """A type: its name, its size in bytes (0 unknown), and for arrays the element, of which the whole is a
    repetition.
    """

    text: str
    size: int
    element: int
    leaves: tuple[Leaf, ...]


class DwarfVariable(NamedTuple):
    """A variable: `at` is an address in its module, or the distance from the end of its function's frame."""

    name: str
    at: int
    shape: Shape
    static: bool
    line: int
    depth: int = 0
    """How many inlined functions lead to its own."""
    given: bool = False
    """Whether it is an argument, used from the beginning."""


class Symbol(NamedTuple):
    """An object of a module's symbol table."""

    at: int
    size: int
    name: str


class DwarfModule:
    """The debugging information of a program or library. Raises OSError or ValueError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        try:
            self._elf: Any = ELFFile(self._file)
            self._dwarf: Any = self._elf.get_dwarf_info() if self._elf.has_dwarf_info() else None
            self._ranges: Any = self._dwarf.get_aranges() if self._dwarf else None
        except (ELFError, KeyError, AssertionError) as error:
            self._file.close()
            raise ValueError(f"{path} cannot be read as a program: {error}") from error
        self._units: dict[int, object] = {}
        self._shapes: dict[int, Shape] = {}
        self._globals: dict[int, list[DwarfVariable]] = {}
        self._statics: dict[int, list[DwarfVariable]] = {}
        self._columns: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        self._held: dict[int, list[Any]] = {}

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def data_symbols(self) -> list[Symbol]:
        """Return the symbols of global variables, with their sizes and sorted by address."""
        found = {
            Symbol(s["st_value"], s["st_size"], s.name)
            for section in self._elf.iter_sections()
            if isinstance(section, SymbolTableSection)
            for s in section.iter_symbols()
            if s["st_info"]["type"] in ("STT_OBJECT", "STT_COMMON") and s["st_size"] and s["st_shndx"] != "SHN_UNDEF"
        }
        return sorted(found)

    def find_unit(self, address: int) -> Any:
        """Return the compilation unit with the code at an address, None if there is none."""
        if self._dwarf is None:
            return None
        offset = self._ranges.cu_offset_at_addr(address) if self._ranges else None
        if offset is not None:
            return self._dwarf.get_CU_at(offset)
        return next((u for u in self._dwarf.iter_CUs() if self._covers(u.get_top_DIE(), address)), None)

    def find_column(self, address: int, line: int) -> int:
        """Return the column of the statement at an address, counted from 1; 0 if it is unknown or of another line, such
        as one of a function that the compiler put there.
        """
        unit = self.find_unit(address)
        program = self._dwarf.line_program_for_CU(unit) if unit is not None else None
        if program is None:
            return 0
        if unit.cu_offset not in self._columns:
            states = (entry.state for entry in program.get_entries())
            rows = (
                (one.address, (one.line, 0 if one.end_sequence else one.column)) for one in states if one is not None
            )
            self._columns[unit.cu_offset] = sorted(dict(rows).items())  # of several at one address the last holds
        rows_of = self._columns[unit.cu_offset]
        before = bisect_right(rows_of, address, key=lambda row: row[0])
        row_line, column = rows_of[before - 1][1] if before else (0, 0)
        return column if row_line == line else 0

    def find_global_variables(self, address: int) -> list[DwarfVariable]:
        """Return the static variables at file level in the source file with the code at an address; [] if it is
        unknown.
        """
        unit = self.find_unit(address)
        return (
            self._list_static_variables(self._globals, unit, self._top_level_entries(unit.get_top_DIE()))
            if unit is not None
            else []
        )

    def find_function_statics(self, address: int) -> list[DwarfVariable]:
        """Return the static variables inside functions in the source file with the code at an address; [] if it is
        unknown.
        """
        unit = self.find_unit(address)
        if unit is None:
            return []
        functions = self._functions(unit.get_top_DIE())
        return self._list_static_variables(
            self._statics, unit, (die for one in functions for die in self._block_variables(one))
        )

    def _list_static_variables(
        self, known: dict[int, list[DwarfVariable]], unit: Any, entries: Iterable[Any]
    ) -> list[DwarfVariable]:
        """Return the static variables among some entries (DIEs) of a compilation unit; `known` caches them by unit."""
        if unit.cu_offset not in known:
            known[unit.cu_offset] = [v for die in entries if (v := self._read_variable(die)) is not None and v.static]
        return known[unit.cu_offset]

    def find_local_variables(self, address: int) -> list[DwarfVariable]:
        """Return the variables of the function with the code at an address that are in scope there."""
        unit = self.find_unit(address)
        if unit is None:
            return []
        function = next((f for f in self._functions(unit.get_top_DIE()) if self._covers(f, address)), None)
        if function is None:
            return []
        found = self._read_variables_in_scope(function, address)
        base = self._frame_base_offset(function)
        return [v._replace(at=v.at + (0 if v.static else base or 0)) for v in found if v.static or base is not None]

    def find_producer(self, address: int) -> str:
        """Return the name, version and options of the compiler that made the code at an address, empty if unknown."""
        unit = self.find_unit(address)
        told = unit.get_top_DIE().attributes.get("DW_AT_producer") if unit is not None else None
        return told.value.decode(errors="replace") if told is not None else ""

    def find_pointed_type(self, address: int, name: str) -> Shape | None:
        """Return the type of the elements of the pointer, array or C++ container called `name` in the innermost scope
        at an address; it may be a member, as in `grid->cells`. None if no such variable is known there, or it is none
        of these.
        """
        unit = self.find_unit(address)
        if unit is None:
            return None
        function = next((f for f in self._functions(unit.get_top_DIE()) if self._covers(f, address)), None)
        inner = [die for die, _ in self._variables_in_scope(function, address)] if function is not None else []
        inner = [*self._enclosing_variables(function), *inner]
        outer = [die for die in self._top_level_entries(unit.get_top_DIE()) if die.tag == "DW_TAG_variable"]
        first, *members = re.split(r"\.|->", name)
        scope = [*reversed(inner), *outer]
        die = next((die for die in scope if self._name(die) == first), None)
        if die is None:  # in a method, a member of its object
            die = next((die for die in reversed(inner) if self._name(die) == "this"), None)
            members = [first, *members]
        for member in members:
            die = self._find_member(die, member) if die is not None else None
        return self._pointed_type(die) if die is not None else None

    def _find_member(self, die: Any, name: str) -> Any:
        """Return the entry of a member of the structure or class that a variable is of, or points to; None if it has
        none of that name.
        """
        kind = self._read_type(die)
        if kind is not None and kind.tag in _POINTERS:
            kind = self._read_type(kind)
        if kind is None or kind.tag not in _CLASSES:
            return None
        return next(
            (child for child in kind.iter_children() if child.tag == "DW_TAG_member" and self._name(child) == name),
            None,
        )

    # Entries

    def _enclosing_variables(self, function: Any) -> list[Any]:
        """Return the entries of the variables in the functions and blocks around a function, innermost last. OpenMP's
        constructs become such inner functions.
        """
        found: list[Any] = []
        die = function.get_parent() if function is not None else None
        while die is not None and die.tag in _BLOCKS:
            declared = ("DW_TAG_variable", "DW_TAG_formal_parameter")
            found[:0] = [child for child in die.iter_children() if child.tag in declared]
            die = die.get_parent()
        return found

    def _top_level_entries(self, die: Any) -> Iterator[Any]:
        """Yield the entries (DIEs) of a compilation unit at file level, including those in namespaces and modules."""
        for child in die.iter_children():
            if child.tag in _SCOPES:
                yield from self._top_level_entries(child)
            else:
                yield child

    def _block_variables(self, die: Any) -> Iterator[Any]:
        """Yield all variables of a function or block and its inner blocks, but not of functions inside it."""
        for child in die.iter_children():
            if child.tag == "DW_TAG_variable":
                yield child
            elif child.tag in _BLOCKS and child.tag != "DW_TAG_subprogram":
                yield from self._block_variables(child)

    def _functions(self, die: Any) -> Iterator[Any]:
        """Return an iterator over the functions of a compilation unit, which are cached. Inner functions come before
        the functions that contain them.
        """
        if die.offset not in self._held:
            self._held[die.offset] = list(self._walk_functions(die))
        return iter(self._held[die.offset])

    def _walk_functions(self, die: Any) -> Iterator[Any]:
        """Yield the functions below an entry, inner ones before those that contain them."""
        for child in die.iter_children():
            if child.tag in _SCOPES or child.tag in _BLOCKS:
                if child.has_children:
                    yield from self._walk_functions(child)
                if child.tag == "DW_TAG_subprogram":
                    yield child

    def _variables_in_scope(self, die: Any, address: int, inline_depth: int = 0) -> Iterator[tuple[Any, int]]:
        """Yield (entry, depth) for each variable of a function that is in scope at an address, innermost last. The
        depth counts the inlined functions around the variable.
        """
        blocks = []
        for child in die.iter_children():
            if child.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
                yield child, inline_depth
            elif child.tag in _BLOCKS and child.tag != "DW_TAG_subprogram" and self._covers(child, address):
                blocks.append(child)
        for block in blocks:
            yield from self._variables_in_scope(
                block, address, inline_depth + (block.tag == "DW_TAG_inlined_subroutine")
            )

    def _read_variables_in_scope(self, function: object, place: int) -> list[DwarfVariable]:
        """Return the variables of a function that are in scope at an address and have a known location and type."""
        found = (self._read_variable(die, depth) for die, depth in self._variables_in_scope(function, place))
        return [variable for variable in found if variable is not None]

    def _covers(self, die: Any, address: int) -> bool:
        """Return whether the code of an entry contains the instruction at an address."""
        low, high = die.attributes.get("DW_AT_low_pc"), die.attributes.get("DW_AT_high_pc")
        if low is not None and high is not None:
            relative = describe_form_class(high.form) == "constant"
            return bool(low.value <= address < (low.value + high.value if relative else high.value))
        if "DW_AT_ranges" not in die.attributes:
            return False
        return self._ranges_cover(die, address)

    def _ranges_cover(self, die: Any, address: int) -> bool:
        """Return whether the address ranges of an entry contain the instruction at an address."""
        lists = self._dwarf.range_lists()
        if lists is None:
            return False
        top = die.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
        base = top.value if top else 0
        for entry in lists.get_range_list_at_offset(die.attributes["DW_AT_ranges"].value, die.cu):
            if hasattr(entry, "base_address"):
                base = entry.base_address
            else:
                shift = 0 if getattr(entry, "is_absolute", False) else base
                if entry.begin_offset + shift <= address < entry.end_offset + shift:
                    return True
        return False

    def _find_origin(self, die: Any) -> Any:
        """Return the entry (DIE) that has the name and type of a variable. For inlined code, and for definitions of
        what was declared elsewhere, this is another entry than the given one.
        """
        for _ in range(4):
            of = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in die.attributes), None)
            if of is None or "DW_AT_type" in die.attributes:
                break
            die = die.get_DIE_from_attribute(of)
        return die

    def _name(self, die: Any) -> str:
        value = die.attributes.get("DW_AT_name") or self._find_origin(die).attributes.get("DW_AT_name")
        return value.value.decode(errors="replace") if value else ""

    def _read_variable(self, die: Any, inline_depth: int = 0) -> DwarfVariable | None:
        """Return the variable of an entry, None if the entry is no variable or its location or type is not known."""
        if die.tag not in ("DW_TAG_variable", "DW_TAG_formal_parameter") or "DW_AT_location" not in die.attributes:
            return None
        operation = self._find_location(die)
        of = self._find_origin(die)
        if operation is None or "DW_AT_type" not in of.attributes:
            return None
        line = of.attributes.get("DW_AT_decl_line")
        shape = self._find_shape(of.get_DIE_from_attribute("DW_AT_type"))
        code, at = operation
        given = die.tag == "DW_TAG_formal_parameter"
        return DwarfVariable(
            self._name(die), at, shape, code == _OP_ADDR, line.value if line else 0, inline_depth, given
        )

    def _find_location(self, die: Any) -> tuple[int, int] | None:
        """Return (operation, number) that locate a variable: an address, or an offset from the frame base. None if the
        variable has any other location, or several ones over time.
        """
        parser = LocationParser(self._dwarf.location_lists())
        found = parser.parse_from_attribute(die.attributes["DW_AT_location"], die.cu["version"], die)
        if isinstance(found, LocationExpr):
            return self._parse_single_operation(die, found.loc_expr)
        return None  # in several places, one after the other

    def _parse_single_operation(self, die: Any, expression: Any) -> tuple[int, int] | None:
        """Return (operation, number) of a location expression that is only an address, or only an offset from the frame
        base; None for any other expression.
        """
        operations = DWARFExprParser(die.cu.structs).parse_expr(expression)
        if len(operations) != 1 or operations[0].op not in (_OP_ADDR, _OP_FBREG):
            return None
        return operations[0].op, int(operations[0].args[0])

    def _frame_base_offset(self, function: Any) -> int | None:
        """Return the distance from the end of a function's frame to its frame base, None if unknown."""
        base = function.attributes.get("DW_AT_frame_base")
        if base is None or not isinstance(base.value, list):
            return None
        operations = DWARFExprParser(function.cu.structs).parse_expr(base.value)
        if len(operations) != 1:
            return None
        return {_OP_CFA: 0, _OP_RBP: -_RBP_TO_CFA}.get(operations[0].op)

    # Types

    def _pointed_type(self, die: Any) -> Shape | None:
        """Return the type that a pointer points to or an array or container holds, None for any other variable."""
        kind = self._read_type(die)
        if kind is not None and kind.tag in ("DW_TAG_reference_type", "DW_TAG_rvalue_reference_type"):
            kind = self._read_type(kind)
        if kind is None:
            return None
        if kind.tag in _POINTERS and "DW_AT_type" in kind.attributes:
            return self._find_shape(kind.get_DIE_from_attribute("DW_AT_type"))
        if kind.tag in _CLASSES and self._name(kind).startswith(_CONTAINERS):
            element = next((child for child in kind.iter_children() if child.tag == "DW_TAG_template_type_param"), None)
            if element is None or "DW_AT_type" not in element.attributes:
                return None
            return self._find_shape(element.get_DIE_from_attribute("DW_AT_type"))
        return self._find_shape(kind) if kind.tag == "DW_TAG_array_type" else None

    def _read_type(self, die: Any) -> Any:
        """Return the entry of a variable's type, without typedefs and qualifiers; None if it has none."""
        of = self._find_origin(die)
        return (
            self._strip_qualifiers(of.get_DIE_from_attribute("DW_AT_type")) if "DW_AT_type" in of.attributes else None
        )

    def _strip_qualifiers(self, die: Any) -> Any:
        """Return what is left of a type without typedefs and qualifiers such as `const`."""
        for _ in range(64):
            if die.tag not in _PLAIN and die.tag != "DW_TAG_typedef":
                break
            if "DW_AT_type" not in die.attributes:
                break
            die = die.get_DIE_from_attribute("DW_AT_type")
        return die

    def _find_shape(self, die: Any) -> Shape:
        """Return a type's text and size, and the numbers and pointers that it consists of (leaves); cached by type."""
        if die.offset not in self._shapes:
            self._shapes[die.offset] = Shape(self._format_type(die), 0, 0, ())  # of a type that holds itself
            self._shapes[die.offset] = self._build_shape(die)
        return self._shapes[die.offset]

    def _format_type(self, die: Any) -> str:
        """Format a type as in the source: `double`, `struct cell`, `double [10]`."""
        name = die.attributes.get("DW_AT_name")
        text = name.value.decode(errors="replace") if name else ""
        if die.tag == "DW_TAG_array_type":
            inner = (
                self._format_type(die.get_DIE_from_attribute("DW_AT_type")) if "DW_AT_type" in die.attributes else "?"
            )
            return inner + " " + "".join(f"[{n or ''}]" for n in self._array_lengths(die))
        if die.tag in _POINTERS:
            inner = (
                self._format_type(die.get_DIE_from_attribute("DW_AT_type"))
                if "DW_AT_type" in die.attributes
                else "void"
            )
            return f"{inner} *"
        if die.tag in _PLAIN:
            return (
                self._format_type(die.get_DIE_from_attribute("DW_AT_type"))
                if "DW_AT_type" in die.attributes
                else "void"
            )
        prefix = {"DW_TAG_structure_type": "struct ", "DW_TAG_union_type": "union ", "DW_TAG_enumeration_type": "enum "}
        plain = die.cu.get_top_DIE().attributes.get("DW_AT_language")
        c = plain is not None and plain.value in (0x01, 0x02, 0x0C, 0x1D, 0x2C)
        return (prefix.get(die.tag, "") if c else "") + (text or "?")

    def _array_lengths(self, die: Any) -> list[int]:
        """Return the number of elements along each dimension of an array; 0 for a length that is only known at run
        time.
        """
        top = die.cu.get_top_DIE().attributes.get("DW_AT_language")
        first = 1 if top is not None and top.value in _FORTRAN else 0
        found = []
        for child in die.iter_children():
            if child.tag != "DW_TAG_subrange_type":
                continue
            values = {n: child.attributes.get(f"DW_AT_{n}") for n in ("count", "lower_bound", "upper_bound")}
            if any(v is not None and not isinstance(v.value, int) for v in values.values()):
                found.append(0)
                continue
            if any(v is not None and "ref" in v.form for v in values.values()):
                found.append(0)
                continue
            count, lower, upper = (v.value if v is not None else None for v in values.values())
            if count is None and upper is not None:
                count = upper - (first if lower is None else lower) + 1
            found.append(max(count or 0, 0))
        return found

    def _build_shape(self, die: Any) -> Shape:
        """Return a type's text and size, and the numbers and pointers that it consists of (leaves). A structure with
        more than MOST_LEAVES of them has one leaf of unknown kind.
        """
        bare = self._strip_qualifiers(die)
        text = self._format_type(die)
        size = bare.attributes.get("DW_AT_byte_size")
        width = size.value if size is not None and isinstance(size.value, int) else 0
        if bare.tag == "DW_TAG_array_type" and "DW_AT_type" in bare.attributes:
            inner = self._find_shape(bare.get_DIE_from_attribute("DW_AT_type"))
            total = width or inner.size
            for n in () if width else self._array_lengths(bare):
                total *= n
            return Shape(text, total, inner.element, inner.leaves)
        if bare.tag in ("DW_TAG_structure_type", "DW_TAG_class_type"):
            leaves = tuple(self._member_leaves(bare, width))
            return Shape(text, width, width, leaves if len(leaves) <= MOST_LEAVES else (Leaf(0, "?", width, ""),))
        return Shape(text, width, width, (Leaf(0, self._classify_base_type(bare, width), width, ""),))

    def _member_leaves(self, die: Any, width: int) -> Iterator[Leaf]:
        """Yield the numbers and pointers (leaves) that a structure consists of, those of inner structures included. At
        most one more than MOST_LEAVES is yielded.
        """
        many = 0
        for child in die.iter_children():
            if child.tag not in ("DW_TAG_member", "DW_TAG_inheritance") or "DW_AT_type" not in child.attributes:
                continue
            at = child.attributes.get("DW_AT_data_member_location")
            if "DW_AT_external" in child.attributes:
                continue  # a static member lies elsewhere
            if "DW_AT_bit_size" in child.attributes or (at is not None and not isinstance(at.value, int)):
                yield Leaf(0, "?", width, "")
                continue
            start = at.value if at is not None else 0
            shape = self._find_shape(child.get_DIE_from_attribute("DW_AT_type"))
            times = shape.size // shape.element if shape.element else 1
            for k in range(times):
                for leaf in shape.leaves:
                    many += 1
                    if many > MOST_LEAVES:
                        yield leaf
                        return
                    name = self._name(child) + (f".{leaf.name}" if leaf.name else "")
                    yield Leaf(start + k * shape.element + leaf.at, leaf.sort, leaf.width, name)

    def _classify_base_type(self, die: Any, width: int) -> str:
        """Return the letter for a type's kind of value: p for a pointer, i for an integer, f for a float, c for a
        complex number, b for a byte or text; "?" if it is unknown.
        """
        if die.tag in _POINTERS:
            return "p"
        if die.tag == "DW_TAG_enumeration_type":
            return "i"
        encoding = die.attributes.get("DW_AT_encoding")
        if die.tag == "DW_TAG_string_type":
            return "b"
        if die.tag != "DW_TAG_base_type" or encoding is None:
            return "?"
        if width == 1:
            return "b"
        return {4: "f", 3: "c"}.get(encoding.value, "i" if encoding.value in _INTEGERS else "?")
