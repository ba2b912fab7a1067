"""Replaces rows of a table in a page that a tool writes: its lines are between two comments."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

END: Final = "<!-- to here -->\n"


@dataclass(frozen=True)
class PageTable:
    """A table that a tool writes; `header` is its first two lines."""

    tool: str
    header: str

    @property
    def begin(self) -> str:
        """The comment before the table."""
        return f"<!-- {self.tool} writes from here -->\n"

    def replace_rows(self, page: str, rows: Iterable[str]) -> str:
        """Return the page with these rows, each in the place of the older one with the same first cell."""
        before, rest = page.split(self.begin)
        lines, after = rest.split(END)
        by_name = {line.split("|")[1].strip(): line + "\n" for line in lines.splitlines()[2:]}
        by_name |= {row.split("|")[1].strip(): row for row in rows}
        return before + self.begin + self.header + "".join(by_name.values()) + END + after
