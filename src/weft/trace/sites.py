"""Call sites: the line of the program that made a call.

Python sites are decoded from the record itself. Native ones are return addresses: `resolve`, run on the machine that
ran the program, asks addr2line and keeps the answers in RUN/sites.json, so that a copied run still knows its lines.
"""

# ruff: noqa: A002 - the domain's words id, type and open
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.trace.definitions import CodeDefinition, SiteDefinition

if TYPE_CHECKING:
    from weft.trace.run import Rank


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a program. `line` is 0 and `file` None where only module and offset are known, or nothing."""

    file: str | None = None
    line: int = 0
    function: str | None = None
    module: str | None = None
    offset: int = 0

    @property
    def text(self) -> str:
        """`step.py:9 exchange`, `prog+0x1234`, or `?`."""
        if self.file:
            return f"{Path(self.file).name}:{self.line}" + (f" {self.function}" if self.function else "")
        if self.module:
            return f"{Path(self.module).name}+{self.offset:#x}"
        return "?"

    @property
    def known(self) -> bool:
        """Whether a line of source is known."""
        return self.file is not None


UNKNOWN = Site()


def line_of(code: CodeDefinition, instruction: int) -> int:
    """The line of the instruction at a byte offset (PEP 657, CPython's Objects/locations.md); 0 where it has none."""
    line, end, at = code.first_line, 0, 0
    table = code.locations
    while at < len(table):
        head = table[at]
        at += 1
        kind, length = head >> 3 & 15, (head & 7) + 1
        delta: int | None = 0
        if kind == 15:
            delta = None
        elif kind in (13, 14):
            value, at = _number(table, at)
            delta = -(value >> 1) if value & 1 else value >> 1
            if kind == 14:
                for _ in range(3):
                    _, at = _number(table, at)
        elif kind >= 10:
            delta = kind - 10
            at += 2
        else:
            at += 1
        line += delta or 0
        end += 2 * length
        if instruction < end:
            return line if delta is not None and 0 <= line < 2**31 else 0
    return 0


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


class Sites:
    """The call sites of a run, resolved as far as the record and RUN/sites.json tell."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[tuple[int, int], Site] = {}

    def site(self, rank: Rank, id: int) -> Site:
        """The site that a rank knows by `id`."""
        key = rank.index, id
        if key not in self._known:
            definition: Any = rank.definitions.site(id) if id else None
            self._known[key] = self._resolve(rank, definition) if definition else UNKNOWN
        return self._known[key]

    def _resolve(self, rank: Rank, definition: SiteDefinition) -> Site:
        module = rank.definitions.module(definition.module) if definition.module else None
        path = module.path if module else None
        code = rank.definitions.code(definition.code) if definition.code else None
        if code:
            return Site(code.file, line_of(code, definition.instruction), code.name, path, definition.offset)
        return Site(None, 0, None, path, definition.offset)
