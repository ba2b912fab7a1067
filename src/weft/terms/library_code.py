"""Which files of source are a library's, not the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a watched program asks here, too, and waits for no numpy
    from weft.trace.sites import CallSite

PARTS: Final = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "<string>")
"""Parts of the paths of Python's own library and of what pip or the system installed."""
_RUNTIMES: Final = re.compile(
    r"(lib(c|m|pthread|gfortran|stdc\+\+|gcc_s|quadmath|mpi\w*|ucs|ucp|python3.*)|ld-linux.*)[.-]"
)
"""Libraries of the system and of MPI, whose lines say nothing of the program."""


def of_library(file: str) -> bool:
    """Whether a file is Python's own, or of an installed package."""
    return any(part in file for part in PARTS)


def library_code(site: CallSite) -> bool:
    """Whether a place is in Python itself or in what pip installed."""
    file = site.file or ""
    compiled = file.endswith((".pyx", ".pxi")) or (site.function or "").startswith("mpi4py.")
    runtime = _RUNTIMES.match((site.module or "").rpartition("/")[2])
    return compiled or bool(runtime) or of_library(file)


def innermost_own(stack: Iterable[CallSite]) -> CallSite | None:
    """The place in a stack, innermost first, that is the user's own, one with a line first; None where none is."""
    users = [site for site in stack if (site.known or site.module) and not library_code(site)]
    return next((site for site in users if site.known), None) or next(iter(users), None)
