"""Whether a program uses PVM, found without running it."""

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
class Uses:
    """How a program uses PVM. `static`: it holds PVM's code itself, so that its calls cannot be recorded."""

    path: Path
    library: Path | None
    groups: bool = False
    static: bool = False


def of_program(program: Sequence[str]) -> Uses | None:
    """How a program (with its arguments) uses PVM, None where it does not. Wrappers such as `env` are passed."""
    for word in program[:32]:
        found = library.executable(word)
        if found is not None and library.is_elf(found) and (uses := of_executable(found)) is not None:
            return uses
    return None


def of_executable(path: Path) -> Uses | None:
    """How a native program uses PVM."""
    loaded = {match[1]: Path(one) for one in library.needed(path) if (match := _LIBRARY.match(Path(one).name))}
    if "" in loaded:
        return Uses(path, loaded[""], groups="g" in loaded)
    try:
        with path.open("rb") as file:
            text = file.read(_LOOKED_AT)
    except OSError:
        return None
    return Uses(path, None, static=True) if _STATIC in text and b"pvmd" in text else None
