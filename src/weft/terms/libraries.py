"""Which files of source are a library's, not the user's own."""

from __future__ import annotations

from typing import Final

PARTS: Final = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "<string>")
"""Parts of the paths of Python's own library and of what pip or the system installed."""


def of_library(file: str) -> bool:
    """Whether a file is Python's own, or of an installed package."""
    return any(part in file for part in PARTS)
