"""Tell source files of libraries from the user's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # a watched program asks here, too, and waits for no numpy
    from weft.trace.sites import CallSite

PARTS: Final = (
    "/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ", "<string>", "/include/c++/", "/usr/include/",
)  # fmt: skip
"""Parts of the paths of Python's own library, of C++'s, and of what pip or the system installed."""
_RUNTIMES: Final = re.compile(
    r"(lib(c|m|pthread|gfortran|stdc\+\+|gcc_s|quadmath|mpi\w*|ucs|ucp|python3.*)|ld-linux.*)[.-]"
)
"""Libraries of the system and of MPI, whose lines say nothing of the program."""


def is_library_file(file: str) -> bool:
    """Return whether a file is Python's or C++'s own, or part of an installed package."""
    return any(part in file for part in PARTS)


def is_library_code(site: CallSite) -> bool:
    """Return whether a call site lies in Python itself, in MPI, or in a package that pip or the system installed."""
    file = site.file or ""
    compiled = file.endswith((".pyx", ".pxi")) or (site.function or "").startswith("mpi4py.")
    runtime = _RUNTIMES.match((site.module or "").rpartition("/")[2])
    return compiled or bool(runtime) or is_library_file(file)


def innermost_user_site(stack: Iterable[CallSite]) -> CallSite | None:
    """Return the innermost call site of a stack in the user's own code. One with a known line is preferred; None if
    there is none.
    """
    users = [site for site in stack if (site.known or site.module) and not is_library_code(site)]
    return next((site for site in users if site.known), None) or next(iter(users), None)
