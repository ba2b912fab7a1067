"""The program units of Fortran sources: what each declares, where its statements begin, how its loops nest."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from weft.check.dvm import syntax
from weft.check.dvm.directives.fortran import read
from weft.check.dvm.fortran_lines import Item, Sentinel, Source, Statement
from weft.check.dvm.syntax import Position

UnitKind = Literal["program", "subroutine", "function", "module", "block data"]

NAME: Final = re.compile(r"[a-z]\w*")
_TYPES = r"(?:integer|real|complex|logical|character|doubleprecision|doublecomplex|byte|type\(\w+\))"
_LENGTH = r"(?:\*\d+|\([^()]*(?:\([^()]*\))?[^()]*\))?"
_PREFIX = rf"(?:(?:recursive|pure|elemental|impure|module)|{_TYPES}{_LENGTH})*"
HEADERS: Final[tuple[tuple[UnitKind, re.Pattern[str]], ...]] = (
    ("program", re.compile(r"program([a-z]\w*)$")),
    ("block data", re.compile(r"blockdata(\w*)$")),
    ("function", re.compile(_PREFIX + r"function([a-z]\w*)\(([\w,]*)\)(?:result\((\w+)\)|bind\(.*\))*$")),
    ("subroutine", re.compile(_PREFIX + r"subroutine([a-z]\w*)(?:\(([\w,*]*)\))?(?:bind\(.*\))?$")),
    ("subroutine", re.compile(r"moduleprocedure([a-z]\w*)()$")),
    ("module", re.compile(r"(?:sub)?module(?!procedure)(?:\([\w:]+\))?([a-z]\w*)$")),
)
END: Final = re.compile(r"end(?:program|subroutine|function|module|submodule|blockdata|procedure)?\w*$")
NOT_AN_END: Final = re.compile(
    r"end(?:do|if|select|where|forall|associate|block(?!data)|critical|enum|interface|type|file|team)"
)
TYPED: Final = re.compile(
    r"(integer|real|complex|logical|character|doubleprecision|doublecomplex|byte|type(?=\()|class(?=\())"
)
SPECIFIES: Final = re.compile(
    r"(?:use[a-z,:]|import|implicit|parameter\(|dimension|common|save|data(?=[a-z(])|external|intrinsic|equivalence\(|"
    r"allocatable|pointer|target|namelist/|intent\(|optional|public|private|protected|volatile|enum,|enumerator|"
    r"endenum|procedure\(|procedure::|contiguous|value::|asynchronous|codimension|bind\(|sequence$|format\(|entry|"
    r"include['\"]|type(?:::|,|[a-z])|interface|abstractinterface|contains$|moduleprocedure|generic)"
)
DO: Final = re.compile(
    r"(?:\w+:)?do(\d+),?(?:while\(.*|concurrent\(.*|([a-z]\w*)=(.+,.+))?$|(?:\w+:)?do(?:while\(.*|concurrent\(.*|([a-z]\w*)=(.+,.+))?$"
)
END_DO: Final = re.compile(r"enddo\w*$")


@dataclass(slots=True)
class Symbol:
    """What a unit knows of a name."""

    name: str
    place: Position
    sizes: tuple[str, ...] | None = None
    dummy: bool = False
    common: bool = False
    saved: bool = False
    initialised: bool = False
    constant: bool = False
    allocatable: bool = False
    pointer: bool = False
    shared: bool = False
    """In an EQUIVALENCE."""
    typed: bool = False
    derived: bool = False
    """Of a derived type: its parts may have values of their own."""
    procedure: bool = False
    module: bool = False

    @property
    def array(self) -> bool:
        """Whether it has dimensions."""
        return self.sizes is not None

    @property
    def rank(self) -> int:
        """How many."""
        return len(self.sizes or ())

    @property
    def static(self) -> bool:
        """Whether it is the same memory each time its unit is entered."""
        return self.common or self.saved or self.module or self.initialised


@dataclass(slots=True)
class Loop:
    """A DO construct: items from its DO statement to its last one (indices in the unit's items, both included)."""

    first: int
    last: int
    variable: str
    labelled: bool


@dataclass(slots=True)
class Unit:
    """A program unit with its own symbols; `items` are those of its source that belong to it."""

    kind: UnitKind
    name: str
    source: Source
    parent: Unit | None = None
    header: Statement | None = None
    items: list[Item] = field(default_factory=list)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    uses: list[str] = field(default_factory=list)
    only: dict[str, set[str]] = field(default_factory=dict)
    """By module: the names that its ONLY lists, as they are called here."""
    renamed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the name here: (module, name there)."""
    executable: int | None = None
    """Index in items of the first executable statement or directive."""
    result: str = ""

    def hides(self, name: str) -> bool:
        """Whether a module keeps a name for itself."""
        private = public = False
        for statement in self.statements(0, len(self.items)):
            code = statement.code
            listed = re.match(r"(private|public)(?:::)?([a-z]\w*(?:,[a-z]\w*)*)?$", code)
            if listed:
                names = (listed[2] or "").split(",")
                if listed[2] is None and listed[1] == "private":
                    private = True
                elif name in names:
                    return listed[1] == "private"
            elif "::" in code and name in NAME.findall(code.partition("::")[2]):
                public |= ",public" in code.partition("::")[0]
                private |= ",private" in code.partition("::")[0]
        return private and not public

    def declares(self) -> Iterator[syntax.Declare]:
        """The directives that declare."""
        for item in self.items:
            if isinstance(item, Sentinel) and isinstance(item.directive, syntax.Declare):
                yield item.directive

    @property
    def directed(self) -> bool:
        """Whether a directive with a meaning for the data stands in it."""
        return any(isinstance(item, Sentinel) and not isinstance(item.directive, syntax.Note) for item in self.items)

    def statements(self, first: int, last: int) -> Iterator[Statement]:
        """The statements among these items."""
        for item in self.items[first : last + 1]:
            if isinstance(item, Statement):
                yield item

    def loops(self) -> dict[int, Loop]:
        """Its DO constructs by the index of their DO statement."""
        found: dict[int, Loop] = {}
        stack: list[tuple[int, str, str]] = []
        for at, item in enumerate(self.items):
            if not isinstance(item, Statement):
                continue
            if begin := DO.match(item.code):
                stack.append((at, begin[1] or "", begin[2] or begin[4] or ""))
                continue
            if item.label and any(label == item.label for _, label, _ in stack):
                while any(label == item.label for _, label, _ in stack):
                    start, label, variable = stack.pop()
                    found[start] = Loop(start, at, variable, bool(label))
            elif END_DO.match(item.code) and stack:
                start, label, variable = stack.pop()
                found[start] = Loop(start, at, variable, bool(label))
        return found


def units_of(source: Source) -> list[Unit]:
    """The units of a source, in its order, their symbols read and their directives too."""
    found: list[Unit] = []
    open_units: list[Unit] = []
    skipping = ""
    for item in source.items:
        if isinstance(item, Sentinel):
            item.directive = read(item.pieces)
            if not open_units:
                open_units.append(_begun(Unit("program", "", source), found))
            open_units[-1].items.append(item)
            continue
        code = item.code
        if skipping:
            if re.match(skipping, code):
                skipping = ""
            continue
        if re.match(r"(?:abstract)?interface(?:\w*|operator\(.*\)|assignment\(=\))$", code) and not _assigns(code):
            skipping = r"endinterface"
            continue
        if re.match(r"type(?:,.*::\w+|::\w+|(?!is)[a-z]\w*)$", code) and not _assigns(code):
            skipping = r"endtype"
            continue
        header = _header(code)
        if header:
            kind, matched = header
            parent = open_units[-1] if open_units else None
            unit = _begun(Unit(kind, matched[1], source, parent, item), found)
            _dummies(unit, matched, item)
            open_units.append(unit)
            continue
        if code == "contains":
            continue
        if not open_units:
            open_units.append(_begun(Unit("program", "", source), found))
        unit = open_units[-1]
        unit.items.append(item)
        if END.match(code) and not NOT_AN_END.match(code) and not _assigns(code):
            open_units.pop()
    for unit in found:
        _read_symbols(unit)
    return found


def _begun(unit: Unit, found: list[Unit]) -> Unit:
    found.append(unit)
    return unit


def _header(code: str) -> tuple[UnitKind, re.Match[str]] | None:
    if code.startswith("end") or _assigns(code):
        return None
    for kind, pattern in HEADERS:
        if matched := pattern.match(code):
            return kind, matched
    return None


def _dummies(unit: Unit, matched: re.Match[str], item: Statement) -> None:
    if unit.kind not in ("function", "subroutine"):
        return
    for name in (matched[2] or "").split(","):
        if name and name != "*":
            unit.symbols[name] = Symbol(name, item.place, dummy=True)
    if unit.kind == "function":
        unit.result = matched[3] or matched[1]
        unit.symbols[unit.result] = Symbol(unit.result, item.place, procedure=True)


# --- statements -------------------------------------------------------------------------------------------------------


def top_level(code: str, signs: str) -> Iterator[int]:
    """Where these signs stand outside of brackets and strings."""
    depth, quote = 0, ""
    for at, sign in enumerate(code):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        if depth == 0 and not quote and sign in signs:
            yield at


def split_top(code: str, sign: str = ",") -> list[str]:
    """The parts between these signs outside of brackets."""
    cuts = [-1, *top_level(code, sign), len(code)]
    return [code[a + 1 : b] for a, b in itertools.pairwise(cuts)]


def _equals(code: str) -> int | None:
    """Where the `=` of an assignment stands."""
    for at in top_level(code, "="):
        if code[at + 1 : at + 2] in ("=", ">") or code[at - 1 : at] in ("=", "/", "<", ">"):
            continue
        return at
    return None


TARGET: Final = re.compile(r"([a-z]\w*)((?:\(.*\))?(?:%.*)?)$")


def _assigns(code: str) -> bool:
    return assignment(code) is not None


def assignment(code: str) -> tuple[str, str, int] | None:
    """The name, what follows the name on the left, and where the `=` stands, if this is an assignment."""
    at = _equals(code)
    if at is None or DO.match(code) or any(cut < at for cut in top_level(code, ":,")):
        return None
    matched = TARGET.match(code[:at])
    if matched is None or any(True for _ in top_level(code[at:], ",")):
        return None
    if matched[1] in ("if", "forall", "where") and matched[2].startswith("(") and not _whole_bracket(matched[2]):
        return None
    return matched[1], matched[2], at


def _whole_bracket(text: str) -> bool:
    """Whether the bracket that opens the text is closed at its end (or before a part's name)."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at == len(text) - 1 or text[at + 1] in "%("
    return False


def inner(code: str) -> tuple[str, str]:
    """The condition of a logical IF and the statement behind it; ("", code) where it is none."""
    if not code.startswith("if("):
        return "", code
    depth = 0
    for at, sign in enumerate(code):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign == ")":
            rest = code[at + 1 :]
            if not rest or rest == "then" or rest[0] in "=%(" or rest[0].isdigit():
                return "", code
            return code[2 : at + 1], rest
    return "", code


def opens(code: str) -> bool:
    """Whether the statement opens a block other than DO."""
    return bool(
        re.match(r"(?:\w+:)?(?:if\(.*\)then\w*$|selectcase\(|selecttype\(|associate\(|block$|critical$)", code)
        or (
            re.match(r"(?:where|forall)\(", code)
            and not _assigns(inner(code.replace("where", "if", 1).replace("forall", "if", 1))[1])
        )
    )


def closes(code: str) -> bool:
    """Whether the statement closes a block other than DO."""
    return bool(re.match(r"end(?:if|select|associate|block(?!data)|critical|where|forall)\w*$", code))


def specifies(unit: Unit, statement: Statement) -> bool:
    """Whether the statement belongs to the specifications."""
    code = statement.code
    found = assignment(code)
    if found:
        name, rest, _ = found
        symbol = unit.symbols.get(name)
        known_array = symbol is not None and (symbol.array or symbol.pointer or symbol.allocatable)
        parameters = re.fullmatch(r"\(((?:[a-z]\w*(?:,[a-z]\w*)*)?)\)", rest)
        character = symbol is not None and symbol.typed and ":" in rest
        return bool(parameters) and not known_array and not character and not _visible_array(unit, name)
    if SPECIFIES.match(code):
        return True
    return bool(TYPED.match(code)) and not DO.match(code)


def _visible_array(unit: Unit, name: str) -> bool:
    """Whether a name may be an array of a module or of the host."""
    return bool(unit.uses) or (unit.parent is not None and name in unit.parent.symbols)


# --- symbols ----------------------------------------------------------------------------------------------------------


def _read_symbols(unit: Unit) -> None:
    for at, item in enumerate(unit.items):
        if isinstance(item, Sentinel):
            if unit.executable is None and not isinstance(item.directive, syntax.Declare | syntax.Note):
                unit.executable = at
            continue
        if unit.executable is None and not specifies(unit, item):
            unit.executable = at
        if unit.executable is None or item.code.startswith("data"):
            _specification(unit, item)
    if unit.kind in ("module", "block data"):
        unit.executable = None
    if unit.kind == "module":
        for symbol in unit.symbols.values():
            symbol.module = True


def _symbol(unit: Unit, name: str, place: Position) -> Symbol:
    return unit.symbols.setdefault(name, Symbol(name, place))


ENTITY: Final = re.compile(r"([a-z]\w*)")


def _entity(unit: Unit, text: str, place: Position) -> tuple[Symbol, str] | None:
    """The symbol of `name(sizes)*length=value`, and what stands behind its sizes."""
    matched = ENTITY.match(text)
    if not matched:
        return None
    symbol = _symbol(unit, matched[1], place)
    rest = text[matched.end() :]
    length = re.match(r"\*(?:\d+|\(\*\))", rest)
    if length:
        rest = rest[length.end() :]
    if rest.startswith("("):
        depth = 0
        for at, sign in enumerate(rest):
            depth += (sign == "(") - (sign == ")")
            if depth == 0:
                symbol.sizes = tuple(split_top(rest[1:at]))
                return symbol, rest[at + 1 :]
    return symbol, rest


def _specification(unit: Unit, statement: Statement) -> None:
    code, place = statement.code, statement.place
    if code.startswith("use") and (matched := re.match(r"use(?:,[a-z]+::|::)?([a-z]\w*)", code)):
        unit.uses.append(matched[1])
        _used(unit, matched[1], code[matched.end() :].lstrip(","))
    elif TYPED.match(code) and not _assigns(code):
        _typed(unit, code, place)
    elif code.startswith("parameter("):
        for part in split_top(code[10:-1]):
            symbol = _symbol(unit, part.partition("=")[0], place)
            symbol.constant = True
    elif code.startswith("common"):
        for block in re.sub(r"/\w*/", ",", code[6:]).split(",,"):
            for part in split_top(block):
                if part and (found := _entity(unit, part, place)):
                    found[0].common = True
    elif matched := re.match(r"(dimension|allocatable|pointer|target|save|external|intrinsic)(?:::)?", code):
        _attributes(unit, matched[1], code[matched.end() :], place)
    elif code.startswith("equivalence("):
        for name in NAME.findall(code[11:]):
            _symbol(unit, name, place).shared = True
    elif code.startswith("data"):
        for name in NAME.findall("".join(code[4:].split("/")[::2])):
            if name in unit.symbols or "(" not in code:
                _symbol(unit, name, place).initialised = True


def _used(unit: Unit, module: str, rest: str) -> None:
    """`a => b, c` or `only: a => b, c` behind a USE."""
    only = rest.startswith("only:")
    names = unit.only.setdefault(module, set()) if only else None
    for part in split_top(rest.removeprefix("only:")):
        here, renames, there = part.partition("=>")
        if renames:
            unit.renamed[here] = (module, there)
        if names is not None and here:
            names.add(here)


def _attributes(unit: Unit, keyword: str, rest: str, place: Position) -> None:
    if keyword == "save" and not rest:
        unit.symbols.setdefault("*save", Symbol("*save", place))
    for part in split_top(rest):
        if part.startswith("/"):
            continue
        found = _entity(unit, part, place)
        if not found:
            continue
        symbol = found[0]
        if keyword == "save":
            symbol.saved = True
        elif keyword == "allocatable":
            symbol.allocatable = True
        elif keyword == "pointer":
            symbol.pointer = True
        elif keyword in ("external", "intrinsic"):
            symbol.procedure = True


def _typed(unit: Unit, code: str, place: Position) -> None:
    """A type declaration, with or without `::`."""
    matched = TYPED.match(code)
    assert matched
    rest = code[matched.end() :]
    if length := re.match(r"\*(?:\d+|\(\*\))", rest):
        rest = rest[length.end() :]
    elif rest.startswith("("):
        depth = 0
        for at, sign in enumerate(rest):
            depth += (sign == "(") - (sign == ")")
            if depth == 0:
                rest = rest[at + 1 :]
                break
    attributes: list[str] = []
    colons = next((at for at in top_level(rest, ":") if rest[at : at + 2] == "::"), None)
    if colons is not None:
        attributes = split_top(rest[:colons])
        rest = rest[colons + 2 :]
    sizes = next((tuple(split_top(a[10:-1])) for a in attributes if a.startswith("dimension(")), None)
    for part in split_top(rest.lstrip(",")):
        found = _entity(unit, part, place)
        if not found:
            continue
        symbol, behind = found
        symbol.typed = True
        symbol.place = place
        symbol.derived = matched[1] in ("type", "class")
        if symbol.sizes is None and sizes is not None:
            symbol.sizes = sizes
        symbol.allocatable |= "allocatable" in attributes
        symbol.pointer |= "pointer" in attributes
        symbol.saved |= "save" in attributes
        symbol.constant |= "parameter" in attributes
        symbol.procedure |= "external" in attributes or "intrinsic" in attributes
        if behind.startswith(("=", "/")) and not symbol.constant:
            symbol.initialised = True


@dataclass(slots=True)
class Program:
    """All units of a program."""

    units: list[Unit]

    @property
    def modules(self) -> dict[str, Unit]:
        """Its modules by name."""
        return {unit.name: unit for unit in self.units if unit.kind == "module"}

    def called(self, unit: Unit, module: Unit, name: str) -> str | None:
        """What a unit calls a name of a module; None where it is not visible there."""
        here = [local for local, (_, there) in unit.renamed.items() if there == name]
        for local in (name, *here):
            found = self.owner(unit, local)
            if found is not None and found[0] is module and found[1].name == name:
                return local
        return None

    def owner(self, unit: Unit, name: str) -> tuple[Unit, Symbol] | None:
        """The unit that declares a name that is visible here, and the symbol there."""
        return self._owner(unit, name, frozenset())

    def _owner(self, unit: Unit, name: str, seen: frozenset[int]) -> tuple[Unit, Symbol] | None:
        if id(unit) in seen:
            return None
        if name in unit.symbols:
            return unit, unit.symbols[name]
        seen |= {id(unit)}
        if name in unit.renamed:
            used, there = unit.renamed[name]
            module = self.modules.get(used)
            return self._owner(module, there, seen) if module else None
        for used in unit.uses:
            module = self.modules.get(used)
            hidden = (used in unit.only and name not in unit.only[used]) or (used, name) in unit.renamed.values()
            if module and not hidden and (found := self._owner(module, name, seen)):
                return found
        return self._owner(unit.parent, name, seen) if unit.parent else None
