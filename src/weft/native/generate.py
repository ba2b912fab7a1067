"""Writes weft.native.headers, and C that compares every layout in it with the compiler's. The build runs it.

format.h  ->  headers/format.py    constants, enums, flags; numpy dtypes of structures without pointers
view.h    ->  headers/view.py      structures with pointers as classes of ctypes, functions with their types
all       ->  headers/made_for.py  the state of the headers that all this is for
          ->  C in build/, which does not compile where the compiler lays something out in another way
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from weft.native import declarations, shared
from weft.native.declarations import SCALARS, Enum, Function, Header, Known, Member, Parameter, Struct

_OUT: Final = shared.NATIVE / "headers"
_RECORDS: Final = ("table",)
"""The headers whose structures are read from another process: as dtypes, pointers too."""
_NUMBERS: Final = ("pvm_tasks",)
"""The headers whose numbers alone are taken, for code that cannot wait for numpy."""
_CLASSES: Final = ("numba",)
"""Headers whose structures are written by Python, whatever is in them."""
_ALSO: Final = ("weft_span",)
"""Structures without pointers that are read one at a time, member by member."""
_BOUND: Final = ("record",)
"""Headers outside of kernel/ whose functions are in the kernels; their structures are C's own."""
_CODES: Final = {
    "bool": "U8", "int8_t": "I8", "uint8_t": "U8", "int16_t": "I16", "uint16_t": "U16", "int32_t": "I32",
    "uint32_t": "U32", "int": "I32", "unsigned": "U32", "int64_t": "I64", "uint64_t": "U64", "size_t": "U64",
    "uintptr_t": "U64", "float": "F32", "double": "F64",
}  # fmt: skip
_CTYPES: Final = {
    "char": "c_char", "bool": "c_bool", "int": "c_int", "unsigned": "c_uint", "size_t": "c_size_t",
    "uintptr_t": "c_size_t", "float": "c_float", "double": "c_double",
} | {f"{sign}int{n}_t": f"c_{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)}  # fmt: skip
_KEYWORDS: Final = ("in", "from", "class", "is")
_STATE: Final = """#include <stdint.h>
__attribute__((visibility("default"))) uint32_t weft_kernel_headers(void);
/* The state of the headers that these kernels were built from, which the loader asks for. */
__attribute__((visibility("default"))) uint32_t weft_kernel_headers(void) {{ return {state:#x}u; }}
"""


class _ModuleWriter:
    """Writes the text of one module, and notes whose names it borrows."""

    def __init__(self, name: str, header: Header, known: dict[str, tuple[str, Struct]], bound: bool) -> None:
        self.name, self.header, self.known, self.bound = name, header, known, bound
        self.borrowed: set[tuple[str, str]] = set()

    def text(self) -> str:
        """Return the whole text of the module."""
        body = "\n".join(self._render_body())
        head = f'"""{self.header.name}, as the build read it: changes belong there."""\n'
        head += '# mypy: disable-error-code="assignment,misc"\n\nfrom __future__ import annotations\n\n'
        head += "".join(_import_line(module, names, body) for module, names in _IMPORTS.items())
        head += "import numpy as np\n" if "np." in body else ""
        head += "".join(f"from weft.native.headers.{module} import {name}\n" for module, name in sorted(self.borrowed))
        return f"{head}\n{body}\n"

    def _render_body(self) -> Iterator[str]:
        """Yield the Python lines for a header's constants, enums, structures and functions."""
        flags = {f"{e.tag}.{m}" for e in self.header.enums if e.flags for m in e.members}
        for name, value in self.header.constants.items():
            plain = name.removeprefix("WEFT_")
            if not any(f"{plain.split('_')[0].lower()}.{plain.partition('_')[2]}" == f for f in flags):
                yield f"{plain}: Final = {value!r}"
        for enum in self.header.enums:
            if enum.tag:
                yield from self._render_enum(enum)
        for struct in self.header.structs.values():
            if not struct.opaque and self.name not in (*_BOUND, *_NUMBERS):
                yield from self._render_struct(struct)
        if self.bound:
            yield from self._render_functions()

    def _render_enum(self, enum: Enum) -> Iterator[str]:
        """Yield the Python lines of the class for an enum."""
        names = dict(_short_names(enum))
        said = self.header.comments.get(enum.tag) or f"{enum.tag} of {self.header.name}"
        yield f'\n\nclass {_camel(enum.tag)}({"IntFlag" if enum.flags else "IntEnum"}):\n    """{said}."""\n'
        yield from (f"    {name} = {hex(value) if enum.flags else value}" for name, value in names.items())

    def _render_struct(self, struct: Struct) -> Iterator[str]:
        """Yield the Python lines for a structure: a NumPy dtype, a ctypes class, or both."""
        record = self.name in _RECORDS or (not struct.pointers and self.name not in _CLASSES)
        if record and all(m.depth or m.type in SCALARS or m.parts or self._dtype_name(m.type) for m in struct.members):
            yield f"\n{_upper(struct.tag)}: Final = np.dtype({self._render_dtype(struct.members, struct.size)})"
        if self.name not in _RECORDS and (struct.pointers or self.name in _CLASSES or struct.tag in _ALSO):
            yield from self._render_class(struct)

    def _dtype_name(self, tag: str) -> str:
        """Return the name of the constant that is a structure's NumPy dtype, "" if it has none. The module then
        imports the name."""
        module, struct = self.known.get(tag, ("", None))
        if struct is None or struct.opaque or module in _CLASSES or (struct.pointers and module not in _RECORDS):
            return ""
        return self._borrow_name(module, _upper(tag))

    def _borrow_name(self, module: str, name: str) -> str:
        if module != self.name:
            self.borrowed.add((module, name))
        return name

    def _render_dtype(self, members: tuple[Member, ...], size: int) -> str:
        """Return the arguments of np.dtype for a structure, as Python source. Every offset is given, as there may be
        gaps between members."""
        names, offsets = [m.name for m in members], [m.offset for m in members]
        formats = ", ".join(self._member_format(m) for m in members)
        return f'{{"names": {names}, "formats": [{formats}], "offsets": {offsets}, "itemsize": {size}}}'

    def _member_format(self, member: Member) -> str:
        """Return the NumPy format of a structure's member, as Python source."""
        if member.depth:
            code = '"<u8"'
        elif member.parts:
            code = f"np.dtype({self._render_dtype(member.parts, _end_offset(member.parts))})"
        elif member.type == "char" and member.shape:
            return f'"S{member.shape[0]}"'
        elif member.type in SCALARS:
            code = repr(_numpy(member.type))
        else:
            code = self._dtype_name(member.type)
        return f"({code}, {member.shape})" if member.shape else code

    def _render_class(self, struct: Struct) -> Iterator[str]:
        """Yield the Python lines of the ctypes class for a structure with pointers."""
        said = self.header.comments.get(struct.tag)
        yield f'\n\nclass {_camel(struct.tag)}(Struct):\n    """{struct.c_type}{f": {said}" if said else ""}."""\n'
        yield "    _fields_ = ("
        yield from (f'        ("{m.name}", {self._member_ctype(m)}),' for m in struct.members)
        targets = ", ".join(f'"{m.name}": {self._pointer_target(m)}' for m in struct.members if m.depth)
        yield f"    )\n    _targets_ = {{{targets}}}\n    if TYPE_CHECKING:"
        yield from (f"        {m.name}: {_python_type(m)}" for m in struct.members)
        given = ((m.name, "object" if m.depth or m.shape else _python_type(m)) for m in struct.members)
        parameters = ", ".join(f"{name}: {kind} = ..." for name, kind in given)
        yield f"\n        def __init__(self, *, {parameters}) -> None: ...\n"

    def _member_ctype(self, member: Member) -> str:
        """Return the ctypes type of a structure's member, as Python source."""
        if member.depth:
            code = "c_void_p"
        elif member.type in SCALARS:
            code = _CTYPES[member.type]
        else:
            code = self._borrow_name(self.known[member.type][0], _camel(member.type))
        return " * ".join((code, *map(str, member.shape)))

    def _pointer_target(self, of: Member | Parameter) -> str:
        """Return the name of the dtype or class to which a pointer points, as Python source; ANY if it is not known."""
        if of.depth > 1:
            return "U64"
        plain = _CODES.get(of.type) or self._dtype_name(of.type)
        module, struct = self.known.get(of.type, ("", None))
        if plain or struct is None or struct.opaque or module in _BOUND:
            return plain or "ANY"
        return self._borrow_name(module, _camel(of.type))

    def _render_functions(self) -> Iterator[str]:
        """Yield the Python lines of the table of a header's functions, and of the protocol that gives them types."""
        yield "\n\nFUNCTIONS: Final[dict[str, Any]] = {"
        for f in self.header.functions:
            parameters = "".join(f"{self._parameter_type(f, p)}, " for p in f.parameters)
            yield f'    "{f.name}": ({self._returned(f.returns)}, ({parameters})),'
        yield "}\n\nif TYPE_CHECKING:\n\n    class Kernel(Protocol):"
        for f in self.header.functions:
            given = ", ".join(["self", *(f"{_plain(p.name)}: {self._typed(p)}" for p in f.parameters), "/"])
            yield f"        def {f.name}({given}) -> {self._gives(f.returns)}: ..."
        yield "\n\n@cache\ndef kernel() -> Kernel:"
        yield f'    """Return the C functions of {self.header.name}, bound with ctypes at the first call."""\n'
        yield "    lib: Kernel = bind_functions(FUNCTIONS)\n    return lib\n"

    def _parameter_type(self, function: Function, parameter: Parameter) -> str:
        """Return the ctypes type of a function's parameter."""
        if parameter.depth:
            return f'Pointer("{function.name}: {parameter.name}", {self._pointer_target(parameter)})'
        return _CTYPES[parameter.type]

    def _returned(self, given: Parameter) -> str:
        return "c_void_p" if given.depth else "None" if given.type == "void" else _CTYPES[given.type]

    def _typed(self, parameter: Parameter) -> str:
        return "object" if parameter.depth else "float" if parameter.type in ("float", "double") else "int"

    def _gives(self, given: Parameter) -> str:
        return "int | None" if given.depth else "None" if given.type == "void" else self._typed(given)


_IMPORTS: Final = {
    "ctypes": sorted({*_CTYPES.values(), "c_void_p"}),
    "enum": ["IntEnum", "IntFlag"],
    "functools": ["cache"],
    "typing": ["TYPE_CHECKING", "Any", "Final", "Protocol"],
    "weft.native.bridge": ["ANY", *sorted(set(_CODES.values())), "Pointer", "Struct", "bind_functions"],
}


def _import_line(module: str, names: list[str], body: str) -> str:
    """Return the import of what a body uses of a module."""
    used = [name for name in names if re.search(rf"(?<![\w\".]){name}\b", body)]
    return f"from {module} import {', '.join(used)}\n" if used else ""


def _short_names(enum: Enum) -> Iterator[tuple[str, int]]:
    """Yield (name, value) of an enum's members, without the prefix that all names share. A last member END is left
    out, as it only counts the others."""
    parts = [name.split("_") for name in enum.members]
    same = 0
    while not enum.flags and all(len(p) > same + 1 and p[same] == parts[0][same] for p in parts):
        same += 1
    for part, value in zip(parts, enum.members.values(), strict=True):
        name = "_".join(part[same:])
        if name != "END" or part is not parts[-1]:
            yield name, value


def _python_type(member: Member) -> str:
    """Return the Python type of a member."""
    if member.shape or (member.type not in SCALARS and not member.depth):
        return "Any" if member.shape or not member.type else _camel(member.type)
    return "Any" if member.depth else "float" if member.type in ("float", "double") else "int"


def _end_offset(members: tuple[Member, ...]) -> int:
    """Return the offset after the last member."""
    last = members[-1]
    return last.offset + SCALARS[last.type]


def _numpy(scalar: str) -> str:
    return f"<{_CODES[scalar][0].lower()}{SCALARS[scalar]}" if scalar != "char" else "S1"


def _plain(name: str) -> str:
    return f"{name}_" if name in _KEYWORDS else name


def _bare(tag: str) -> str:
    return tag.removeprefix("weft_")


def _upper(tag: str) -> str:
    return _bare(tag).upper()


def _camel(tag: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in _bare(tag).split("_"))


def render_modules() -> dict[str, str]:
    """Return the text of each module of weft.native.headers by its name."""
    known, seen = Known(), dict[str, tuple[str, Struct]]()
    texts = {
        "made_for": f'"""The state of the headers that the build saw."""\n\nSTATE = {shared.header_state():#010x}\n'
    }
    for name, path in shared.shared_headers().items():
        bound = path.parent.name == "kernel" or name in _BOUND
        header = declarations.read_header(path, known, functions=bound)
        seen |= {struct.tag: (name, struct) for struct in header.structs.values()}
        texts[name] = _ModuleWriter(name, header, seen, bound and bool(header.functions)).text()
    return texts


def render_layout_checks() -> dict[str, str]:
    """Return {name: text} of C files that only compile if the compiler lays out structures and numbers as
    weft.native.headers has them. One more, state.c, holds the checksum of the headers."""
    known = Known()
    texts = {"state.c": _STATE.format(state=shared.header_state())}
    for name, path in shared.shared_headers().items():
        header = declarations.read_header(path, known, functions=False)
        lines = ["#include <stddef.h>", f'#include "{path.relative_to(shared.NATIVE.parent)}"']
        lines += [
            f'_Static_assert(({number}) == ({value}), "{number}");' for number, value in _number_constants(header)
        ]
        for struct in header.structs.values():
            lines += layout_assertions(struct)
        texts[f"{name}.c"] = "\n".join([*lines, ""])
    return texts


def _number_constants(header: Header) -> Iterator[tuple[str, str]]:
    """Yield (name, value as C) of a header's numbers: its constants and the members of its enums."""
    for name, value in header.constants.items():
        if isinstance(value, int):
            yield name, f"{value}u" if value > 2**63 else str(value)
    for enum in header.enums:
        yield from ((name, str(value)) for name, value in enum.members.items() if not enum.flags)


def layout_assertions(struct: Struct) -> Iterator[str]:
    """Yield the C assertions for a structure's size and offsets."""
    if struct.opaque:
        return
    yield f'_Static_assert(sizeof({struct.c_type}) == {struct.size}, "size of {struct.c_type}");'
    for m in struct.members:
        place = f"offsetof({struct.c_type}, {m.name})"
        yield f'_Static_assert({place} == {m.offset}, "{struct.c_type}: {m.name}");'


def write_files(build: Path) -> list[Path]:
    """Write the generated Python and C files that are new or different, and remove old ones. Return the paths of all
    generated C files, which are compiled into the kernels."""
    sources = {build / name: text for name, text in render_layout_checks().items()}
    texts = sources | {_OUT / f"{name}.py": text for name, text in render_modules().items()}
    build.mkdir(parents=True, exist_ok=True)
    for old in {*_OUT.glob("*.py"), *build.glob("*.c")} - texts.keys() - {_OUT / "__init__.py"}:
        old.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return sorted(sources)
