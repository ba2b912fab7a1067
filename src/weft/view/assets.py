"""The files of the page. Only these are ever served, by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

TYPES: Final = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}


@cache
def load_assets() -> dict[str, bytes]:
    """Return the contents of all modules and style sheets of the page, by file name. The files are read once."""
    return {
        entry.name: entry.read_bytes()
        for entry in files("weft").joinpath("web").iterdir()
        if entry.is_file() and entry.name.endswith(tuple(TYPES))
    }


@cache
def load_page(name: str = "main") -> str:
    """Return the HTML of a page. The caller replaces `{{head}}` in it by the tags that load modules and style
    sheets.
    """
    return files("weft").joinpath("web", f"{name}.html").read_text("utf-8")


def module_names() -> list[str]:
    """Return the names of the page's modules."""
    return sorted(name for name in load_assets() if name.endswith(".js"))
