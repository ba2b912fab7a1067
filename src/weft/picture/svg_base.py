"""What all SVG pictures share: the head with the colours, escaped text, and a file to save to."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from typing import Final

from weft.base.words import printable
from weft.errors import UsageError
from weft.picture.classes import CLASSES

_STYLE: Final = (
    ".weft-svg{--ground:#fff;--ink:#1d2126;--faint:#8a8f98;--line:#e3e5e8;--band:#f6f7f8;--trouble:#c0202a}"
    + "".join(f".weft-svg .c{n}{{fill:{c.light}}}" for n, c in enumerate(CLASSES))
    + "@media (prefers-color-scheme:dark){.weft-svg{--ground:#16181c;--ink:#e6e8eb;--faint:#8b9098;--line:#2c3036;"
    "--band:#1c1f24;--trouble:#ff6b6b}"
    + "".join(f".weft-svg .c{n}{{fill:{c.dark}}}" for n, c in enumerate(CLASSES))
    + "}.weft-svg{background:var(--ground)}"
    ".weft-svg text{font:11px system-ui,sans-serif;fill:var(--ink)}.weft-svg .faint{fill:var(--faint)}"
    ".weft-svg .title{font-size:13px;font-weight:600}.weft-svg .line{stroke:var(--line);fill:none}"
    ".weft-svg .band{fill:var(--band)}.weft-svg .torn{stroke:var(--trouble);stroke-width:1.5}"
    ".weft-svg .message{stroke:var(--ink);stroke-opacity:.75;stroke-width:1;fill:none}"
    ".weft-svg .head{fill:var(--ink)}.weft-svg .trouble{stroke:var(--trouble);fill:none;stroke-width:1.5}"
    ".weft-svg .alarm{fill:var(--trouble)}.weft-svg .in{font-size:10px;fill:#fff}.weft-svg .in.pale{fill:#111}"
    "@media (prefers-color-scheme:dark){.weft-svg .in{fill:#111}}"
)


class Picture(str):
    """SVG text that a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a new file. UsageError if the file exists."""
        write_new_file(Path(path), self)


def svg_head(width: int, height: int) -> str:
    """Return the beginning of an SVG picture of `width` times `height` pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img"><style>{_STYLE}</style>'
    )


def escape_text(told: str) -> str:
    """Return text of a record or a program so that it cannot be markup in a picture."""
    return escape(printable(told))


def write_new_file(path: Path, text: str) -> None:
    """Write a new file. UsageError if it exists, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists: delete it, or name another file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
