"""The description of an export format. A package of `weft.export` with FORMAT in it is a format; no list names them."""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """A format: its description, the suffix of its path, the packages it needs, and the file that tools open.

    Its package has a module `writing` with `write(trace, path) -> list[ExportCount]`, imported only to write.
    """

    what: str
    suffix: str
    needs: tuple[str, ...] = ()
    opened: str = ""
