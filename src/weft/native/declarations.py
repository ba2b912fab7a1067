"""Reads what a header of Weft's own C declares: structures with their layouts, enums, constants and functions.

Only the C that those headers use is understood; anything else is an error that names the header and the words. Layouts
follow the rule that x86-64 and AArch64 share (each member at a multiple of its size), and a compiler compares
every size and offset with its own when the kernels are built (generate.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

WORD: Final = 8
SCALARS: Final = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "int": 4,
    "unsigned": 4, "int64_t": 8, "uint64_t": 8, "size_t": 8, "uintptr_t": 8, "float": 4, "double": 8,
}  # fmt: skip
"""Bytes of C's own types."""

_BETWEEN: Final = r"/\*(?:[^*]|\*(?!/))*\*/|//[^\n]*"
_LITERALS: Final = {"UINT64_MAX": 2**64 - 1, "UINT32_MAX": 2**32 - 1, "INT64_MAX": 2**63 - 1, "INT32_MAX": 2**31 - 1}


class HeaderError(ValueError):
    """A header has something that this reader does not understand."""


@dataclass(frozen=True)
class Member:
    """One member of a structure. `type`: a scalar's, `struct tag`, or what a pointer (`depth` > 0) points to."""

    name: str
    type: str
    depth: int
    shape: tuple[int, ...]
    offset: int
    parts: tuple[Member, ...] = ()
    """Of a structure that has no name."""


@dataclass(frozen=True)
class Struct:
    """A structure as the compiler lays it out; `opaque`: it has members that no other language is to see."""

    tag: str
    members: tuple[Member, ...]
    size: int
    typedef: bool
    opaque: bool = False

    @property
    def c_type(self) -> str:
        """Return its type in C."""
        return self.tag if self.typedef else f"struct {self.tag}"

    @property
    def pointers(self) -> bool:
        """Return whether it has addresses."""
        return any(m.depth for m in self.members)


@dataclass(frozen=True)
class Enum:
    """An enum; without a tag its members are mere constants. `flags`: `#define`s of single bits under one prefix."""

    tag: str
    members: dict[str, int]
    flags: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function, or what it returns (without a name)."""

    name: str
    type: str
    depth: int


@dataclass(frozen=True)
class Function:
    """A function that is called from outside."""

    name: str
    returns: Parameter
    parameters: tuple[Parameter, ...]


@dataclass
class Known:
    """What the headers read so far declare: a later one may use it."""

    constants: dict[str, int | str] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)


@dataclass
class Header:
    """What one header declares, in its order."""

    name: str
    constants: dict[str, int | str] = field(default_factory=dict)
    structs: dict[str, Struct] = field(default_factory=dict)
    enums: list[Enum] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    comments: dict[str, str] = field(default_factory=dict)
    """The comment in front of a structure or enum, by tag."""


def read_header(path: Path, known: Known, *, functions: bool) -> Header:
    """Return what a C header declares, and add it to `known` for later headers. `functions`: whether to read
    functions, too. HeaderError names a declaration that is not understood."""
    text = path.read_text()
    header = Header(path.name)
    header.comments = {m[2]: _first_sentence(m[1]) for m in re.finditer(
        r"/\*((?:[^*]|\*(?!/))*)\*/\n(?:typedef )?(?:struct|enum) (\w+) \{", text)}  # fmt: skip
    bare = re.sub(_BETWEEN, " ", text)
    bare = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", bare, flags=re.DOTALL | re.MULTILINE)
    for name, value in _find_defines(bare):
        number = _evaluate_constant(value, known)
        if number is not None:
            header.constants[name] = known.constants[name] = number
    header.enums += _find_flags(bare, header.constants)
    for statement in _split_statements(re.sub(r"^#.*(?:\\\n.*)*$", "", bare, flags=re.MULTILINE)):
        try:
            _add_declaration(statement, header, known, functions)
        except (HeaderError, KeyError, SyntaxError) as error:
            raise HeaderError(f"{path.name}: cannot read `{statement[:80]}`: {error}") from error
    return header


def _first_sentence(comment: str) -> str:
    """Return the first sentence of a comment."""
    text = " ".join(line.strip(" *") for line in comment.strip().splitlines())
    return re.split(r"(?<=[.:;])\s", text, maxsplit=1)[0].strip().rstrip(":;.")


def _find_defines(text: str) -> Iterator[tuple[str, str]]:
    for m in re.finditer(r"^#define (\w+)[ \t]+(\S[^\n\\]*)$", text, re.MULTILINE):
        yield m[1], m[2].strip()


def _evaluate_constant(expression: str, known: Known) -> int | str | None:
    """Return the value of a constant expression in C, a number or string; None if it is something else."""
    if expression.startswith('"') and expression.endswith('"'):
        return expression[1:-1]
    plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)
    try:
        return _evaluate_node(ast.parse(plain.strip(), mode="eval").body, known)
    except (HeaderError, KeyError, SyntaxError):
        return None


def _evaluate_node(node: ast.expr, known: Known) -> int:
    """Return the value of a part of a constant expression, which Python has parsed. HeaderError or KeyError if it is
    not constant."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in _LITERALS:
            return _LITERALS[name]
        case ast.Name(id=name) if isinstance(value := known.constants[name], int):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate_node(operand, known)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _evaluate_node(left, known), _evaluate_node(right, known)
            return {"LShift": a << b, "BitOr": a | b, "Add": a + b, "Sub": a - b}[type(operator).__name__]
    raise HeaderError("this is not a number")


def _find_flags(text: str, constants: dict[str, int | str]) -> Iterator[Enum]:
    """Yield an enum of flags for each group of at least two neighbouring `#define`s that have the same prefix and
    distinct single bits as values."""
    for run in re.finditer(r"(?:^#define [^\n]*\n)+", text, re.MULTILINE):
        names = [name for name, value in _find_defines(run[0]) if re.fullmatch(r"(0x)?[0-9a-fA-F]+u", value)]
        for prefix in dict.fromkeys(m[0] for n in names if (m := re.match(r"(WEFT_)?[A-Z]+_", n))):
            members = {n[len(prefix) :]: constants[n] for n in names if n.startswith(prefix)}
            bits = {n: v for n, v in members.items() if isinstance(v, int) and v.bit_count() == 1}
            if len(bits) == len(members) == len(set(bits.values())) > 1:
                yield Enum(prefix.removeprefix("WEFT_").strip("_").lower(), bits, flags=True)


def _split_statements(text: str) -> Iterator[str]:
    """Yield the declarations in the text of a header one by one; functions come without their bodies."""
    start = depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        body = letter == "}" and depth == 0 and re.search(r"\)\s*\{", text[start:at])
        if depth == 0 and (letter == ";" or body):
            statement = " ".join(text[start : at + (letter != ";")].split())
            start = at + 1
            if statement and not body:
                yield statement


def _add_declaration(statement: str, header: Header, known: Known, functions: bool) -> None:
    """Read one C declaration, and add its structure, enum or function to `header` and `known`. Declarations that other
    languages do not need are ignored. HeaderError for an unknown form."""
    if re.match(r"_Static_assert|extern |static |WEFT_INLINE |(struct|enum) \w+$", statement):
        return
    if m := re.match(r"(typedef )?struct (?:(\w+) )?\{(.*)\}(?: (\w+))?$", statement):
        _add(_read_struct(m[4] or m[2], m[3], known, bool(m[1])), header, known)
    elif m := re.match(r"(?:typedef )?enum (?:(\w+) )?\{(.*)\}$", statement):
        members = dict(_read_enumerators(m[2], known))
        known.constants |= members
        header.enums.append(Enum(m[1] or "", members))
        if not m[1]:
            header.constants |= members
    elif m := re.match(r"(?:EXPORT )?([\w ]+?[ *]+)(\w+)\((.*)\)$", statement):
        if functions:
            parameters = [] if m[3] in ("", "void") else [_read_parameter(p) for p in m[3].split(",")]
            header.functions.append(Function(m[2], _read_parameter(f"{m[1]} _"), tuple(parameters)))
    elif not statement.startswith("typedef"):
        raise HeaderError("this is not a declaration of a known form")


def _add(struct: Struct, header: Header, known: Known) -> None:
    header.structs[struct.tag] = known.structs[struct.tag] = struct


def _read_enumerators(body: str, known: Known) -> Iterator[tuple[str, int]]:
    """Yield the names and values of an enum's members."""
    last = -1
    for one in body.split(","):
        name, _, value = (part.strip() for part in one.partition("="))
        if name:
            number = _evaluate_constant(value, known) if value else last + 1
            if not isinstance(number, int):
                raise HeaderError(f"{name} is not a number")
            last = known.constants[name] = number
            yield name, number


def _read_parameter(declaration: str) -> Parameter:
    """Return a function's parameter from its declaration in C, such as `const int *a`."""
    words = re.sub(r"\b(const|volatile|struct)\b", " ", declaration)
    m = re.fullmatch(r"\s*(\w+)([\s*]*?)(\w+)((?:\[\w*\])*)\s*", words)
    if m is None:
        raise HeaderError(f"`{declaration.strip()}` is not a parameter")
    return Parameter(m[3], m[1], m[2].count("*") + bool(m[4]))


def _read_struct(tag: str, body: str, known: Known, typedef: bool) -> Struct:
    """Return a structure with the layout of its members. It is opaque, without members, if the type of one is not
    Weft's own."""
    try:
        members, size = _lay_out_members(body, known)
    except _HiddenError:
        return Struct(tag, (), 0, typedef, opaque=True)
    return Struct(tag, members, size, typedef)


class _HiddenError(HeaderError):
    """A member is of a type that is not Weft's own."""


def _lay_out_members(body: str, known: Known) -> tuple[tuple[Member, ...], int]:
    """Return (members of a structure at their offsets, size of the structure), in bytes."""
    members: list[Member] = []
    at, widest = 0, 1
    for name, type_, depth, shape, parts in _read_members(body, known):
        size, align = _size_and_alignment(type_, depth, parts, known)
        at = -(-at // align) * align
        widest = max(widest, align)
        members.append(Member(name, type_, depth, shape, at, parts))
        for n in shape:
            size *= n
        at += size
    return tuple(members), -(-at // widest) * widest


def _size_and_alignment(type_: str, pointer_depth: int, parts: tuple[Member, ...], known: Known) -> tuple[int, int]:
    """Return (size, alignment) of one member in bytes; of one element for an array. `parts`: the members of an unnamed
    structure. Raises _HiddenError for a type that is not Weft's own."""
    if pointer_depth:
        return WORD, WORD
    if type_ in SCALARS:
        return SCALARS[type_], SCALARS[type_]
    if not parts and (type_ not in known.structs or known.structs[type_].opaque):
        raise _HiddenError(type_)
    parts = parts or known.structs[type_].members
    inner = [_size_and_alignment(m.type, m.depth, m.parts, known) for m in parts]
    align = max(a for _, a in inner)
    end = parts[-1].offset + inner[-1][0] * _element_count(parts[-1].shape)
    return -(-end // align) * align, align


def _element_count(shape: tuple[int, ...]) -> int:
    """Return the number of elements of an array with this shape."""
    n = 1
    for extent in shape:
        n *= extent
    return n


_Member = tuple[str, str, int, tuple[int, ...], tuple[Member, ...]]


def _read_members(body: str, known: Known) -> Iterator[_Member]:
    """Yield (name, type, depth of pointers, shape, inner members) of each member of a structure."""
    for text in _split_members(body):
        if m := re.match(r"struct \{(.*)\} (\w+)$", text):
            yield m[2], "", 0, (), _lay_out_members(m[1], known)[0]
        elif m := re.match(r"[\w *]+\(\*(\w+)\)\(", text):
            yield m[1], "void", 1, (), ()
        else:
            yield from _read_declarators(text, known)


def _split_members(body: str) -> Iterator[str]:
    """Yield the declarations in the body of a structure one by one; an inner structure is a single one."""
    depth, start = 0, 0
    for at, letter in enumerate(body):
        depth += (letter == "{") - (letter == "}")
        if letter == ";" and depth == 0:
            yield body[start:at].strip()
            start = at + 1


def _read_declarators(text: str, known: Known) -> Iterator[_Member]:
    """Yield the members of one declaration, such as `int a, *b`."""
    words = re.sub(r"\b(const|volatile|struct)\b", " ", text).strip()
    m = re.match(r"(\w+)(.*)$", words)
    if m is None:
        raise HeaderError(f"`{text}` is not a member")
    for one in m[2].split(","):
        d = re.fullmatch(r"([\s*]*)(\w+)\s*((?:\[\w*\])*)", one.strip())
        if d is None:
            raise HeaderError(f"`{one}` is not a member")
        shape = re.findall(r"\[(\w*)\]", d[3])
        if shape == [""]:  # as many as follow: none of them is in the size
            continue
        extents = tuple(int(n) if n.isdigit() else int(known.constants[n]) for n in shape)
        yield d[2], m[1], d[1].count("*"), extents, ()
