"""Lists the headers that Python and C share, and computes the number that identifies a state of them."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

NATIVE: Final = Path(__file__).parent
_WEFT: Final = NATIVE.parent
INCLUDED: Final = (_WEFT, NATIVE, _WEFT / "dataparallel/native")
"""The folders in which the compiler finds what these headers and the kernels include."""
_FIRST: Final = ("format.h", "record.h", "kernel/ops.h", "kernel/times.h")
"""The headers that others include; kernel/tails.h is C's own."""


def shared_headers() -> dict[str, Path]:
    """Return the C headers from which the modules of weft.native.headers are made, by module name. A header comes
    after those that it includes."""
    kernel = sorted(f"kernel/{path.name}" for path in (NATIVE / "kernel").glob("*.h") if path.name != "tails.h")
    paths = [NATIVE / name for name in dict.fromkeys((*_FIRST, *kernel))]
    paths += [_WEFT / "recorder/plan.h", _WEFT / "recorder/halo_kinds.h"]
    paths += [_WEFT / "tasks" / "native" / name for name in ("table.h", "switches.h")]
    paths += [_WEFT / "dataparallel/native/check.h", _WEFT / "dataparallel/native/cells.h"]
    paths += [_WEFT / "numba/native/numba.h"]
    paths += [_WEFT / "values" / "native" / name for name in ("value_format.h", "rules.h", "include/weft_array.h")]
    renamed = {"check_rows": _WEFT / "dataparallel/native/rows.h", "pvm_tasks": _WEFT / "pvm/native/tasks.h"}
    return {path.stem: path for path in paths} | renamed


def header_state() -> int:
    """Return a checksum of the texts of all shared headers. The kernels and weft.native.headers only fit the headers
    that have the same checksum."""
    total = 0
    for name, path in shared_headers().items():
        total = zlib.crc32(path.read_bytes(), zlib.crc32(name.encode(), total))
    return total
