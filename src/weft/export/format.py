"""What a format of an export is. A format is a package of `weft.export` with FORMAT in it: no list names it."""

from __future__ import annotations

from typing import NamedTuple


class Format(NamedTuple):
    """A format: what it is for people, how its path ends, the packages it needs, and the file that tools open.

    Its package has a module `writing` with `write(trace, path) -> list[Told]`, which is only imported to write.
    """

    what: str
    suffix: str
    needs: tuple[str, ...] = ()
    opened: str = ""
