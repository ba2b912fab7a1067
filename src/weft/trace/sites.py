"""Call sites: the line of the program that made a call.

Python sites are decoded from the record itself. Native ones are return addresses: site_lines.py, run on the machine
that ran the program, asks addr2line and keeps the answers in RUN/sites.json: a copied run still knows its lines.
"""
# ruff: noqa: A002 - the domain's words id, type and open

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft.base.json_files import read_json
from weft.base.words import short_function
from weft.debuginfo.addr2line import Found
from weft.trace.definitions import CodeDefinition, SiteDefinition

if TYPE_CHECKING:
    from weft.trace.definitions import Definitions

SCHEMA: Final = "weft-sites/1"
MAX_LINE: Final = 2**31
MAX_FRAMES: Final = 64


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place in a program. `line` is 0 and `file` None where only module and offset are known, or nothing."""

    file: str | None = None
    line: int = 0
    function: str | None = None
    module: str | None = None
    offset: int = 0
    callers: tuple[CallSite, ...] = ()
    """Who called the function, who called that one, and so on, as far as is known."""

    @property
    def text(self) -> str:
        """Return the place as text: `step.py:9 exchange`, `prog+0x1234 main`, or `?`."""
        where = "?"
        if self.file:
            where = f"{Path(self.file).name}:{self.line}"
        elif self.module:
            where = f"{Path(self.module).name}+{self.offset:#x}"
        return f"{where} {short_function(self.function)}" if self.function else where

    @property
    def known(self) -> bool:
        """Return whether a line of source is known."""
        return self.file is not None


UNKNOWN: Final = CallSite()


class HasSites(Protocol):
    """What defines sites: a rank, or its tasks. `index` tells them apart."""

    index: int

    @property
    def definitions(self) -> Definitions:
        """Return sites, modules and Python's code."""
        ...


# Python


def line_of_instruction(code: CodeDefinition, instruction_offset: int) -> int:
    """Return the source line of the instruction at a byte offset in Python code; 0 if it has none. The table of lines
    is encoded as in PEP 657 (CPython's Objects/locations.md).
    """
    line, end, at = code.first_line, 0, 0
    table = code.locations
    while at < len(table):
        kind, length = table[at] >> 3 & 15, (table[at] & 7) + 1
        delta, at = _read_line_delta(table, at + 1, kind)
        line += delta or 0
        end += 2 * length
        if instruction_offset < end:
            return line if delta is not None and 0 <= line < MAX_LINE else 0
    return 0


def _read_line_delta(table: bytes, offset: int, kind: int) -> tuple[int | None, int]:
    """Return two things about an entry of Python's table of lines: by how much its line differs from the one before
    (None: it has no line), and the offset of the next entry.

    `offset`: where the entry begins in the table, after its first byte; `kind`: its kind.
    """
    if kind == 15:
        return None, offset
    if kind in (13, 14):
        value, offset = _read_varint(table, offset)
        for _ in range(3 if kind == 14 else 0):
            _, offset = _read_varint(table, offset)
        return (-(value >> 1) if value & 1 else value >> 1), offset
    if kind >= 10:
        return kind - 10, offset + 2
    return 0, offset + 1


def _read_varint(table: bytes, offset: int) -> tuple[int, int]:
    """Return a number that is stored in groups of 6 bits, and the offset after it."""
    value = shift = 0
    while offset < len(table):
        part = table[offset]
        offset += 1
        value |= (part & 63) << shift
        shift += 6
        if not part & 64 or shift > 60:
            break
    return value, offset


# Native

Place = tuple[str, str, int]
"""(path of the module, its build id, offset of the return address in it)."""


class Sites:
    """The call sites of a run, as far as the record and RUN/sites.json tell."""

    def __init__(self, root: Path, problems: list[str]) -> None:
        self._known: dict[tuple[int, int], CallSite] = {}
        self._native = _read_sites_json(root, problems) if (root / "sites.json").exists() else {}

    def site(self, rank: HasSites, id: int) -> CallSite:
        """Return the call site that a rank knows by the number `id`."""
        key = rank.index, id
        if key not in self._known:
            definition: Any = rank.definitions.site(id) if id else None
            self._known[key] = self._resolve_definition(rank, definition) if definition else UNKNOWN
        return self._known[key]

    def native(self, rank: HasSites, module: int, offset: int) -> list[CallSite]:
        """Return the call sites of a return address, innermost first: functions that were inlined there, then the
        function itself.
        """
        return self._resolve_frames(rank, module, offset)

    def has_lines_of(self, path: str, build_id: str) -> bool:
        """Return whether the lines of a module were looked up."""
        return any(place[:2] == (path, build_id) for place in self._native)

    def _resolve_definition(self, rank: HasSites, definition: SiteDefinition) -> CallSite:
        """Return the call site that a definition in the record describes, with its callers."""
        module = rank.definitions.module(definition.module) if definition.module else None
        path = module.path if module else None
        code = rank.definitions.code(definition.code) if definition.code else None
        if code:
            callers = tuple(_python_site(rank, *above, path, definition.offset) for above in definition.callers)
            own = _python_site(rank, definition.code, definition.instruction, path, definition.offset)
            return replace(own, callers=callers)
        own, *above = self._resolve_frames(rank, definition.module, definition.offset)
        for caller in () if definition.code else definition.callers:
            above += self._resolve_frames(rank, *caller)
        return replace(own, callers=tuple(_callers_in_program(above)))

    def _resolve_frames(self, rank: HasSites, module: int, offset: int) -> list[CallSite]:
        """Return the call sites of a return address in a native module, innermost first: functions that were inlined
        there, then the function itself.
        """
        of = rank.definitions.module(module) if module else None
        if of is None:
            return [CallSite(offset=offset)]
        found = self._native.get((of.path, of.build_id, offset)) or [(None, 0, None)]
        return [CallSite(*frame, of.path, offset) for frame in found]


def _python_site(rank: HasSites, id: int, instruction: int, path: str | None, offset: int) -> CallSite:
    code = rank.definitions.code(id)
    return CallSite(code.file, line_of_instruction(code, instruction), code.name, path, offset) if code else UNKNOWN


def _callers_in_program(callers: Sequence[CallSite]) -> Iterator[CallSite]:
    """Yield the callers of a call up to the program's main function. Functions that start the program are left out."""
    for caller in callers:
        if caller.function in _STARTERS or is_start_library(caller.module or ""):
            return
        yield caller
        if caller.function in ("main", "MAIN__"):
            return


def is_start_library(module: str) -> bool:
    """Return whether a module is libc or the dynamic loader, which start every program."""
    return Path(module).name.startswith(("libc.so", "libc-", "ld-"))


_STARTERS: Final = ("_start", "__libc_start_main", "__libc_start_call_main")


def _read_sites_json(root: Path, problems: list[str]) -> dict[Place, list[Found]]:
    """Return the frames of each native place, from RUN/sites.json; {} if the file is missing or damaged."""
    data = read_json(root, "sites.json", SCHEMA, problems)
    found: dict[Place, list[Found]] = {}
    modules = data.get("modules")
    for module in modules if isinstance(modules, list) else []:
        try:
            path, build_id = str(module["path"]), str(module["build_id"])
            for offset, frames in module["sites"].items():
                found[path, build_id, int(offset)] = [_check_frame(*frame) for frame in frames[:MAX_FRAMES]]
        except (AttributeError, KeyError, TypeError, ValueError):
            problems.append(
                "sites.json is damaged in part; delete it, and weft.trace.site_lines.resolve_sites writes it again"
            )
    return found


def _check_frame(file: Any, line: Any, function: Any) -> Found:
    named = file is not None and 0 <= int(line) < MAX_LINE
    return str(file) if named else None, int(line) if named else 0, function and str(function)
