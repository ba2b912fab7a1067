"""Look up the variables behind the buffers of a run's calls, in the program's debugging information after the run.

`resolve_variables`, on the machine that ran the program, asks the modules and keeps the answers in RUN/variables.json,
so that a copied run still knows them. `variables_of(trace)` reads them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from weft.base.json_files import read_json, write_whole
from weft.base.lazy import dataclass
from weft.debuginfo.addr2line import Found, lines_of
from weft.sources import files, statement, variable_slots
from weft.sources.call_arguments import find_plain_argument
from weft.trace import Rank, Run, Trace
from weft.trace.layout import Def
from weft.trace.site_lines import why_module_differs

if TYPE_CHECKING:
    from weft.debuginfo import dwarf

    # It needs pyelftools, and says so if that is missing.
    from weft.debuginfo.dwarf import DwarfModule

NAME: Final = "variables.json"
SCHEMA: Final = "weft-variables/1"
MOST_SITES: Final = 2000
"""Call sites of a program whose variables are looked up."""
MOST_BYTES: Final = 64 << 20
"""Debugging information of a module beyond which only its symbols are read."""
ADDRESSES: Final = 32
"""Buffers of a call site that are looked for among the static variables."""

Place = tuple[str, str]
"""(path of a module, its build id)."""


@dataclass(frozen=True)
class TypePart:
    """A part of a type that is no structure: `sort` is i, f, c, b (a byte), p (a pointer) or ? (unknown); `at` its
    offset.
    """

    at: int
    sort: str
    width: int
    name: str


@dataclass(frozen=True)
class VariableType:
    """A type: its name, its size in bytes, and the size of the element that its parts describe and that is repeated."""

    text: str
    size: int
    element: int
    parts: tuple[TypePart, ...]


@dataclass(frozen=True)
class ProgramVariable:
    """A variable at `at`: an address in its module, or a distance from the end of its function's frame."""

    name: str
    at: int
    size: int
    line: int
    type: VariableType | None


class Variables:
    """The variables of a run, by module."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._frames: dict[tuple[Place, int], list[ProgramVariable]] = {}
        self._statics: dict[Place, list[ProgramVariable]] = {}
        self._pointed: dict[tuple[Place, int], dict[int, tuple[str, VariableType]]] = {}
        modules = data.get("modules")
        for module in modules if isinstance(modules, list) else []:
            self._add_module(module)

    def _add_module(self, module: Any) -> None:
        """Add the variables of one module, from variables.json."""
        place = str(module["path"]), str(module["build_id"])
        types = [_make_type(*shape) for shape in module["types"]]
        for offset, rows in module["frames"].items():
            self._frames[place, int(offset)] = [_make_variable(row, types) for row in rows]
        self._statics[place] = sorted((_make_variable(row, types) for row in module["statics"]), key=lambda v: v.at)
        for offset, pointed in module["pointed"].items():
            self._pointed[place, int(offset)] = {int(n): (str(name), types[t]) for n, (name, t) in pointed.items()}

    def find_local(self, module: Place, offset: int, distance: int) -> ProgramVariable | None:
        """Return the local variable that has the byte at a distance from the end of a frame; of several, the one that
        reaches farthest. None if there is none. `offset`: the return address in the module, which tells the function.
        """
        rows = (v for v in self._frames.get((module, offset), ()) if v.at <= distance < v.at + v.size)
        return max(rows, key=lambda v: (v.at + v.size, -v.at), default=None)

    def find_static(self, module: Place, address: int) -> ProgramVariable | None:
        """Return the static variable of a module that holds an address, None if there is none."""
        rows = self._statics.get(module, [])
        found = bisect_right([v.at for v in rows], address) - 1
        return rows[found] if found >= 0 and address < rows[found].at + rows[found].size else None

    def pointed(self, module: Place, offset: int, argument: int) -> tuple[str, VariableType] | None:
        """Return the pointer given to a call as an argument, and the type that it points to; None if unknown."""
        return self._pointed.get((module, offset), {}).get(argument)


def _make_type(text: object, size: Any, element: Any, parts: Any) -> VariableType:
    """Return the type that a row of variables.json describes."""
    return VariableType(
        str(text), int(size), int(element), tuple(TypePart(int(a), str(s), int(w), str(n)) for a, s, w, n in parts)
    )


def _make_variable(row: Any, types: list[VariableType]) -> ProgramVariable:
    name, at, size, line, kind = row
    return ProgramVariable(str(name), int(at), int(size), int(line), types[kind] if 0 <= kind < len(types) else None)


_READ: WeakKeyDictionary[Run, Variables] = WeakKeyDictionary()


def variables_of(trace: Run) -> Variables:
    """Return the variables of a run, read from its variables.json at the first call. There are none if the file is
    missing or damaged.
    """
    trace = trace.origin
    if trace not in _READ:
        problems: list[str] = []
        data = read_json(trace.path, NAME, SCHEMA, problems) if (trace.path / NAME).exists() else {}
        try:
            _READ[trace] = Variables(data)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            _READ[trace] = Variables({})
    return _READ[trace]


# After the run


@dataclass
class _Wanted:
    """What is asked of one module: return addresses of functions, addresses, and pointers by the call's place."""

    frames: set[int]
    statics: dict[int, set[int]]
    """By address the calls that use it."""
    pointers: dict[int, dict[int, str]]
    """By return address: names by number of the argument."""


def resolve_variables(trace: Trace) -> list[str]:
    """Look up the variables behind the buffers of a run's calls, and keep them in RUN/variables.json; return what went
    wrong."""
    problems: list[str] = []
    modules = look_up_variables(trace)
    if modules:
        try:
            write_whole(trace.path / NAME, json.dumps({"schema": SCHEMA, "modules": modules}).encode())
        except OSError as error:
            problems.append(f"{trace.path / NAME} cannot be written: {error.strerror}")
    return problems


def look_up_variables(trace: Trace) -> list[dict[str, object]]:
    """Return the variables behind the buffers of a run's calls, module by module, in the form of variables.json."""
    modules: list[dict[str, object]] = []
    for place, wanted in sorted(_collect_wanted_variables(trace).items()):
        if why_module_differs(trace, *place) is not None or Path(place[0]).stat().st_size > MOST_BYTES:
            continue  # that the file is another one, the call sites have said
        key = place, repr(wanted)
        if key not in _LOOKED_UP:
            found = _look_up_module(Path(place[0]), wanted, lines_of(*place, sorted(wanted.frames), []))
            _LOOKED_UP.clear()
            _LOOKED_UP[key] = {"path": place[0], "build_id": place[1], **found} if found else None
        if (module := _LOOKED_UP[key]) is not None:
            modules.append(module)
    return modules


_LOOKED_UP: Final[dict[tuple[Place, str], dict[str, object] | None]] = {}
"""What a module answered last: one run after the other of a program asks it the same."""


def _collect_wanted_variables(trace: Trace) -> dict[Place, _Wanted]:
    """Return module -> the variables that are to be looked up there: those at the addresses of buffers, and those that
    calls name for buffers.
    """
    found: dict[Place, _Wanted] = defaultdict(lambda: _Wanted(set(), defaultdict(set), {}))
    for rank in trace.ranks:
        if not rank.missing and rank.definitions.ways:
            _collect_from_rank(rank, found)
    return found


def _collect_from_rank(rank: Rank, found: dict[Place, _Wanted]) -> None:
    """Add to `found` the variables whose names and types one rank's calls need. They are grouped by module, and named
    by a function's return address, a static address, or a name."""
    definitions = rank.definitions
    modules = {m.id: m for m in definitions.all(Def.MODULE)}
    ways: dict[int, list[Any]] = defaultdict(list)
    for way in definitions.ways:
        ways[way.site].append(way)
    for site, events in _calls_with_buffers(rank):
        of = definitions.site(site)
        module = modules.get(of.module) if of is not None else None
        if of is None or module is None or of.code or not module.path.startswith("/"):
            continue
        home = found[module.path, module.build_id]
        addresses = {a for event in events for a in _buffer_addresses(rank, event)}
        for address in addresses:
            for way in ways[site]:
                _request_frame_variables(way, address, [(of.module, of.offset), *of.callers], modules, found)
            for m in modules.values():
                if m.base <= address < m.end:
                    found[m.path, m.build_id].statics[address - m.base].add(of.offset)
        _request_named_variables(rank, events[0], home.pointers.setdefault(of.offset, {}))


def _calls_with_buffers(rank: Rank) -> Iterator[tuple[int, list[int]]]:
    """Yield (call site id, event indices) for each call site whose calls name a buffer. The events have different
    buffers, and are at most ADDRESSES.
    """
    functions = [f.id for f in rank.trace.functions if any(p.kind == "BUFFER" for p in f.parameters)]
    rows = np.flatnonzero(np.isin(rank.events["function"], functions))
    sites, buffers = rank.events["site"][rows], rank.events["buffer"][rows]
    keys = sites.astype(np.uint64) << np.uint64(40) ^ buffers
    _, first = np.unique(keys, return_index=True)
    by_site: dict[int, list[int]] = defaultdict(list)
    for row in np.sort(first).tolist():
        several = by_site[int(sites[row])]
        if len(several) < ADDRESSES:
            several.append(int(rows[row]))
        if len(by_site) > MOST_SITES:
            break
    yield from by_site.items()


def _buffer_addresses(rank: Rank, event: int) -> Iterator[int]:
    """Yield the buffer addresses of a call."""
    of = rank.event(event)
    for parameter in of.function.parameters:
        value = of.args.get(parameter.name) if parameter.kind == "BUFFER" else None
        if isinstance(value, int) and 0 < value < 1 << 63:
            yield value


def _request_frame_variables(
    call_path: Any, address: int, places: list[tuple[int, int]], modules: Mapping[int, Any], found: dict[Place, _Wanted]
) -> None:
    """Request the variables of the function in whose frame an address is: add its return address to `found`.

    `call_path`: the ends of the frames that led to a call, innermost first; `places`: (module number, return address)
    of these frames.
    """
    low = call_path.low
    for end, (number, offset) in zip(call_path.ends, places, strict=False):
        if low <= address < end and number in modules:
            found[modules[number].path, modules[number].build_id].frames.add(offset)
        low = end


def _request_named_variables(rank: Rank, event: int, names: dict[int, str]) -> None:
    """Add to `names` the variables that the statement of a call names for its buffers, by the argument's number."""
    of = rank.event(event)
    source = files.read_source(of.site.file) if of.site.file else None
    lines = source.lines if source is not None else []
    told = statement.find_statement(lines, 1, of.site.line, of.site.file or "")
    if told is None:
        return
    for number, parameter in enumerate(of.function.parameters):
        if parameter.kind == "BUFFER":
            name = find_plain_argument(told.lines, of.function.name, number)
            if name is not None:
                names[number] = name


def _look_up_module(path: Path, wanted: _Wanted, lines: Mapping[str, Sequence[Found]]) -> dict[str, object] | None:
    """Return the wanted variables of a module, from its debugging information; None if that cannot be read."""
    try:
        # It needs pyelftools: where that is missing, variables have no names.
        from weft.debuginfo.dwarf import DwarfModule

        module = DwarfModule(path)
    except (ImportError, OSError, ValueError):
        return None
    try:
        return _Answers(module, lines).look_up(wanted)
    except Exception:  # what a damaged or strange file makes of the reader's insides cannot be foreseen
        return None
    finally:
        module.close()


class _Answers:
    """What one module says, as it is kept."""

    def __init__(self, module: DwarfModule, lines: Mapping[str, Sequence[Found]]) -> None:
        self.module = module
        self.lines = lines
        self.types: dict[Any, int] = {}

    def look_up(self, wanted: _Wanted) -> dict[str, Any]:
        """Return the requested variables in the form of variables.json: those of frames, static ones, and what named
        pointers point to. All types are listed once, and are referred to by number.
        """
        frames = {str(offset): self._rows(self._unshared_variables(offset)) for offset in sorted(wanted.frames)}
        statics = list(self._find_static_variables(wanted.statics))
        pointed = {}
        for offset, names in sorted(wanted.pointers.items()):
            shapes = {str(n): self.module.find_pointed_type(offset - 1, name) for n, name in names.items()}
            rows = {n: [names[int(n)], self._number(s)] for n, s in shapes.items() if s is not None}
            if rows:
                pointed[str(offset)] = rows
        types = [[s.text, s.size, s.element, [list(leaf) for leaf in s.leaves]] for s in self.types]
        return {"types": types, "frames": frames, "statics": statics, "pointed": pointed}

    def _unshared_variables(self, offset: int) -> list[dwarf.DwarfVariable]:
        """Return the variables of a function that share their bytes with no other variable at a call. `offset`: the
        call's return address.
        """
        found = [v for v in self.module.find_local_variables(offset - 1) if not v.static and v.shape.size]
        if not variable_slots.may_share_bytes(self.module.find_producer(offset - 1)):
            return found
        return variable_slots.select_unshared_variables(found, self.lines.get(str(offset), ()))

    def _rows(self, variables: Sequence[dwarf.DwarfVariable]) -> list[list[object]]:
        return [[v.name, v.at, v.shape.size, v.line, self._number(v.shape)] for v in variables]

    def _number(self, shape: object) -> int:
        return self.types.setdefault(shape, len(self.types))

    def _find_static_variables(self, wanted: Mapping[int, set[int]]) -> Iterator[list[object]]:
        """Yield a row [name, address, size, line, type number] for each static variable that has one of the wanted
        addresses; the number is -1 if its type is unknown. `wanted`: address -> return addresses of the calls that use
        it.
        """
        symbols = self.module.data_symbols() if wanted else []
        starts = [s.at for s in symbols]
        told = set()
        for address, calls in sorted(wanted.items()):
            before = bisect_right(starts, address)
            holding = [s for s in symbols[max(0, before - 8) : before] if s.at <= address < s.at + s.size]
            symbol = max(holding, key=lambda s: s.size, default=None)
            if symbol is None or symbol in told:
                continue
            told.add(symbol)
            same = self._find_declarations(symbol, min(calls))
            kind = self._number(same[0].shape) if len(same) == 1 else -1
            yield [same[0].name if same else symbol.name, symbol.at, symbol.size, same[0].line if same else 0, kind]

    def _find_declarations(self, symbol: dwarf.Symbol, call: int) -> list[dwarf.DwarfVariable]:
        """Return the variables that the file of a call declares where a symbol is, one for each type. Variables at file
        level come before those of functions. Empty if a part of the symbol has a name of its own (EQUIVALENCE): the
        same bytes then have several types.
        """
        end = symbol.at + symbol.size
        for level in (self.module.find_global_variables, self.module.find_function_statics):
            over = {v.shape: v for v in level(call - 1) if v.at < end and symbol.at < v.at + v.shape.size}
            if over:
                whole = all(v.at == symbol.at and v.shape.size == symbol.size for v in over.values())
                return list(over.values()) if whole else []
        return []
