"""Lists the C sources that say what libc and libgfortran read and write for a program, for `weft cc` and `weft
check`.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from weft.errors import WeftError


def library_headers() -> list[Traversable]:
    """Return the sources: each is included by an object that defines what they want."""
    return [files("weft.native.library") / name for name in ("fortran.h", "libc.h")]


@cache
def wrapped_functions(*objects: Path) -> tuple[str, ...]:
    """Return the names of the functions that these object files replace: they define `__wrap_NAME`, and the linker is
    to send all calls of NAME there.

    WeftError if the files cannot be read.
    """
    try:
        listed = subprocess.run(["nm", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise WeftError(f"nm, of binutils, cannot list what {objects[0]} has: {error}") from error
    return tuple(sorted(re.findall(r" T __wrap_(\w+)$", listed, re.M)))
