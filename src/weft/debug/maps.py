"""Find the module of a process that holds an address, and tell modules of the system from the program's own."""

from __future__ import annotations

import bisect
import re
from pathlib import Path
from typing import Final

from weft.errors import DebuggerError

NOT_THE_PROGRAM: Final = re.compile(
    r"(libweft|weft|lib[pf]?mpi|libmpich|libopen[-_]|libprrte|libpmix|libuc|libfabric|libhwloc|libevent|libc[.-]|libm[.-]"
    r"|libpthread|ld-linux|libmpifort|libmpicxx|libi?omp5?[.]|libgomp[.])[^/]*$|^\[vdso\]"
)
"""Modules that are not the program's own: the recorder, MPI, the system's."""


class Maps:
    """The modules of a process by address, from /proc/PID/maps."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._read_map()

    def _read_map(self) -> None:
        """Read which modules the process has loaded, and at which addresses."""
        rows: list[tuple[int, int, str]] = []
        self._bases: dict[str, int] = {}
        for line in Path(f"/proc/{self._pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6:
                start, end = (int(word, 16) for word in words[0].split("-"))
                rows.append((start, end, words[5]))
                self._bases.setdefault(words[5], start)
        self._rows = rows
        self._starts = [row[0] for row in rows]

    def module(self, address: int) -> str:
        """Return the path of the program or library that contains an address; "" if there is none."""
        for again in (False, True):  # a library may have come since
            row = bisect.bisect_right(self._starts, address) - 1
            if row >= 0 and address < self._rows[row][1]:
                return self._rows[row][2]
            if not again:
                self._read_map()
        return ""

    def end(self, address: int) -> int:
        """Return the end of the mapping that holds an address; the address itself if there is none."""
        row = bisect.bisect_right(self._starts, address) - 1
        return self._rows[row][1] if self.module(address) else address

    def base(self, module: str) -> int:
        """Return the address at which a module begins."""
        return self._bases.get(module, 0)

    def address(self, instruction: str) -> int:
        """Return the address of the instruction `*MODULE+OFFSET` in this process. MODULE is a path or the end of one.
        DebuggerError if no such module is loaded.
        """
        name, _, offset = instruction[1:].rpartition("+")
        for again in (False, True):
            if again:
                self._read_map()
            found = [path for path in self._bases if path == name or path.endswith("/" + name)]
            if found:
                break
        else:
            raise DebuggerError(f"the rank has loaded no file {name} so far: check the name, or try again later")
        if NOT_THE_PROGRAM.search(found[0]):
            raise DebuggerError(
                f"breakpoints work only in the program's own code, and {name} is a library of the system"
            )
        address = self._bases[found[0]] + int(offset, 0)
        if self.module(address) != found[0]:
            raise DebuggerError(f"{name} ends before that")
        return address
