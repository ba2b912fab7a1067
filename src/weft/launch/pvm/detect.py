"""Find out whether a program uses PVM, without running it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.launch import library

_LIBRARY: Final = re.compile(r"^lib(g?)pvm3\.so(\.\d+)*$")
_STATIC: Final = b"libpvm [t%x]"
"""A text that is in every program linked with libpvm3.a, and in no other: how PVM's library begins what it says."""
_LOOKED_AT: Final = 1 << 26


@dataclass(frozen=True)
class PVMUse:
    """How a program uses PVM. `static`: it contains PVM's code, so that its calls cannot be recorded."""

    path: Path
    library: Path | None
    groups: bool = False
    static: bool = False


def detect_in_program(program: Sequence[str]) -> PVMUse | None:
    """Return how a program with its arguments uses PVM, None if it does not. Wrappers such as `env` are skipped."""
    for word in program[:32]:
        found = library.find_executable(word)
        if found is not None and library.is_elf(found) and (uses := detect_in_executable(found)) is not None:
            return uses
    return None


def detect_in_executable(path: Path) -> PVMUse | None:
    """Return how a native program uses PVM, None if it does not."""
    loaded = {
        match[1]: Path(one) for one in library.find_needed_files(path) if (match := _LIBRARY.match(Path(one).name))
    }
    if "" in loaded:
        return PVMUse(path, loaded[""], groups="g" in loaded)
    try:
        with path.open("rb") as file:
            text = file.read(_LOOKED_AT)
    except OSError:
        return None
    return PVMUse(path, None, static=True) if _STATIC in text and b"pvmd" in text else None
