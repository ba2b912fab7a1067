"""Call sites: the line of the program that made a call.

Python sites are decoded from the record itself. Native ones are return addresses: `resolve`, run on the machine that
ran the program, asks addr2line and keeps the answers in RUN/sites.json, so that a copied run still knows its lines.
"""
# ruff: noqa: A002 - the domain's words id, type and open

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft.trace.definitions import CodeDefinition, ModuleDefinition, SiteDefinition
from weft.trace.elf import build_id_of
from weft.trace.json_file import read_json, write_whole
from weft.trace.layout import Def
from weft.trace.lines import Found, lines_of

if TYPE_CHECKING:
    from weft.trace.definitions import Definitions
    from weft.trace.run import Trace

SCHEMA: Final = "weft-sites/2"
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
        """`step.py:9 exchange`, `prog+0x1234 main`, or `?`."""
        where = "?"
        if self.file:
            where = f"{Path(self.file).name}:{self.line}"
        elif self.module:
            where = f"{Path(self.module).name}+{self.offset:#x}"
        return f"{where} {self.function}" if self.function else where

    @property
    def known(self) -> bool:
        """Whether a line of source is known."""
        return self.file is not None


UNKNOWN: Final = CallSite()


class Placed(Protocol):
    """What defines sites: a rank, or its tasks. `index` tells them apart."""

    index: int

    @property
    def definitions(self) -> Definitions:
        """Sites, modules and Python's code."""
        ...


# Python


def line_of(code: CodeDefinition, instruction: int) -> int:
    """The line of the instruction at a byte offset (PEP 657, CPython's Objects/locations.md); 0 where it has none."""
    line, end, at = code.first_line, 0, 0
    table = code.locations
    while at < len(table):
        kind, length = table[at] >> 3 & 15, (table[at] & 7) + 1
        delta, at = _delta(table, at + 1, kind)
        line += delta or 0
        end += 2 * length
        if instruction < end:
            return line if delta is not None and 0 <= line < MAX_LINE else 0
    return 0


def _delta(table: bytes, at: int, kind: int) -> tuple[int | None, int]:
    """By how much an entry's line differs from the one before (None: no line), and where the next entry begins."""
    if kind == 15:
        return None, at
    if kind in (13, 14):
        value, at = _number(table, at)
        for _ in range(3 if kind == 14 else 0):
            _, at = _number(table, at)
        return (-(value >> 1) if value & 1 else value >> 1), at
    if kind >= 10:
        return kind - 10, at + 2
    return 0, at + 1


def _number(table: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(table):
        part = table[at]
        at += 1
        value |= (part & 63) << shift
        shift += 6
        if not part & 64 or shift > 60:
            break
    return value, at


# Native

Place = tuple[str, str, int]
"""(path of the module, its build id, offset of the return address in it)."""


class Sites:
    """The call sites of a run, as far as the record and RUN/sites.json tell."""

    def __init__(self, root: Path, problems: list[str]) -> None:
        self._known: dict[tuple[int, int], CallSite] = {}
        self._native = _cached(root, problems) if (root / "sites.json").exists() else {}

    def site(self, rank: Placed, id: int) -> CallSite:
        """The site that a rank knows by `id`."""
        key = rank.index, id
        if key not in self._known:
            definition: Any = rank.definitions.site(id) if id else None
            self._known[key] = self._resolve(rank, definition) if definition else UNKNOWN
        return self._known[key]

    def native(self, rank: Placed, module: int, offset: int) -> list[CallSite]:
        """The place of a return address, and those into which its function was inlined, innermost first."""
        return self._frames(rank, module, offset)

    def _resolve(self, rank: Placed, definition: SiteDefinition) -> CallSite:
        module = rank.definitions.module(definition.module) if definition.module else None
        path = module.path if module else None
        code = rank.definitions.code(definition.code) if definition.code else None
        if code:
            callers = tuple(_python(rank, *above, path, definition.offset) for above in definition.callers)
            own = _python(rank, definition.code, definition.instruction, path, definition.offset)
            return replace(own, callers=callers)
        own, *above = self._frames(rank, definition.module, definition.offset)
        for caller in () if definition.code else definition.callers:
            above += self._frames(rank, *caller)
        return replace(own, callers=tuple(_of_the_program(above)))

    def _frames(self, rank: Placed, module: int, offset: int) -> list[CallSite]:
        """The place of a return address, and those into which its function was inlined."""
        of = rank.definitions.module(module) if module else None
        if of is None:
            return [CallSite(offset=offset)]
        found = self._native.get((of.path, of.build_id, offset)) or [(None, 0, None)]
        return [CallSite(*frame, of.path, offset) for frame in found]


def _python(rank: Placed, id: int, instruction: int, path: str | None, offset: int) -> CallSite:
    code = rank.definitions.code(id)
    return CallSite(code.file, line_of(code, instruction), code.name, path, offset) if code else UNKNOWN


def _of_the_program(callers: Sequence[CallSite]) -> Iterator[CallSite]:
    """Callers up to the one that the system starts."""
    for caller in callers:
        if caller.function in _STARTERS or _of_the_system(caller.module or ""):
            return
        yield caller
        if caller.function in ("main", "MAIN__"):
            return


def _of_the_system(module: str) -> bool:
    return Path(module).name.startswith(("libc.so", "libc-", "ld-"))


_STARTERS: Final = ("_start", "__libc_start_main", "__libc_start_call_main")


def _cached(root: Path, problems: list[str]) -> dict[Place, list[Found]]:
    data = read_json(root, "sites.json", SCHEMA, problems)
    found: dict[Place, list[Found]] = {}
    modules = data.get("modules")
    for module in modules if isinstance(modules, list) else []:
        try:
            path, build_id = str(module["path"]), str(module["build_id"])
            for offset, frames in module["sites"].items():
                found[path, build_id, int(offset)] = [_frame(*frame) for frame in frames[:MAX_FRAMES]]
        except (AttributeError, KeyError, TypeError, ValueError):
            problems.append(
                "sites.json is damaged in part; delete it, and `weft run` or weft.trace.sites.resolve makes it"
            )
    return found


def _frame(file: Any, line: Any, function: Any) -> Found:
    named = file is not None and 0 <= int(line) < MAX_LINE
    return str(file) if named else None, int(line) if named else 0, function and str(function)


def resolve(run: Trace | str | os.PathLike[str]) -> list[str]:
    """Look up the lines of a run's native call sites and keep them in RUN/sites.json.

    To be called on the machine that ran the program, soon after: a module is believed only while its build id is the
    recorded one. Returns sentences on what stays unresolved, and why.
    """
    from weft.trace.run import Trace

    trace = run if isinstance(run, Trace) else Trace.open(run)
    problems: list[str] = []
    modules: list[dict[str, Any]] = []
    for (path, build_id), offsets in sorted(_wanted(trace).items()):
        reason = mistrust(trace, path, build_id)
        sites = {} if reason else lines_of(path, build_id, sorted(offsets), problems)
        if reason:
            problems.append(f"calls in {path} stay without lines: {reason}")
        if sites:
            modules.append({"path": path, "build_id": build_id, "sites": sites})
    if modules:
        _write(trace.path / "sites.json", {"schema": SCHEMA, "modules": modules}, problems)
        trace.forget_sites()
    return problems


def _wanted(trace: Trace) -> dict[tuple[str, str], set[int]]:
    """Offsets of native sites by module."""
    wanted: dict[tuple[str, str], set[int]] = defaultdict(set)
    tasks = [rank.tasks for rank in trace.ranks if rank.tasks is not None]
    placed: list[Placed] = [*trace.ranks, *tasks]
    for rank in placed:
        for definition in rank.definitions.all(Def.SITE):
            for module, offset in () if definition.code else _shown(rank, definition):
                wanted[module.path, module.build_id].add(offset)
        for ending in rank.definitions.endings:
            for number, offset in ending.native:
                of = rank.definitions.module(number)
                if of is not None and of.path.startswith("/"):
                    wanted[of.path, of.build_id].add(offset)
    return wanted


def _shown(rank: Placed, definition: SiteDefinition) -> Iterator[tuple[ModuleDefinition, int]]:
    """The native places of a call and of its callers, up to those that `_of_the_program` leaves out."""
    for number, offset in ((definition.module, definition.offset), *definition.callers):
        module = rank.definitions.module(number) if number else None
        if module is None:
            continue
        if number != definition.module and _of_the_system(module.path):
            return
        if module.path.startswith("/"):
            yield module, offset


def mistrust(trace: Trace, path: str, build_id: str) -> str | None:
    """Why the file is not the module that ran; None where it is."""
    try:
        present = build_id_of(Path(path))
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        return f"the file is not here ({error.strerror})"
    except ValueError as error:
        return str(error)
    if present != build_id:
        return "the file was built anew since the run"
    started = min((r.header.start.realtime_ns for r in trace.ranks if r.header), default=0)
    if not build_id and started and changed > started:
        return "the file changed since the run, and has no build id (link with -Wl,--build-id)"
    return None


def _write(path: Path, data: dict[str, Any], problems: list[str]) -> None:
    """Whole or not at all."""
    try:
        write_whole(path, json.dumps(data).encode())
    except OSError as error:
        problems.append(f"{path} cannot be written: {error.strerror}")
