"""Name the functions of a module by its symbols: an address has a name only if it lies within the symbol's size.

The nearest symbol before an address may be far away in a stripped file, and of another function. A file may bring more
symbols compressed with it (`.gnu_debugdata`, as Fedora's do: MiniDebugInfo of GDB's manual).
"""

from __future__ import annotations

import lzma
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from weft.debuginfo.elf import open_file, read_file_header

SHT_SYMTAB: Final = 2
SHT_DYNSYM: Final = 11
STT_FUNC: Final = 2
STT_GNU_IFUNC: Final = 10
MAX_SECTION: Final = 1 << 30
MAX_NAME: Final = 1 << 16
SECTION: Final = np.dtype([
    ("name", "<u4"), ("kind", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8"),
    ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8"),
])  # fmt: skip
SYMBOL: Final = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8"),
])  # fmt: skip


def name_functions(paths: Iterable[Path], addresses: Sequence[int]) -> dict[int, str]:
    """Return the functions of a module that hold the addresses, demangled; addresses outside of any are left out.

    `paths`: the module and its separate files of debugging information; files that cannot be read are left out.
    """
    found: dict[int, str] = {}
    for path in paths:
        try:
            with open_file(path) as file:
                _add_functions_of_file(file, addresses, found)
        except (OSError, ValueError, lzma.LZMAError, MemoryError):
            continue
    return _demangle(found)


def _add_functions_of_file(file: BinaryIO, addresses: Sequence[int], found: dict[int, str]) -> None:
    """Add the functions in an ELF file that hold the addresses to `found` (address -> name). If its own table of
    symbols was stripped, that in its compressed section is read, too.
    """
    sections = _read_sections(file)
    for section in sections:
        if section["kind"] in (SHT_SYMTAB, SHT_DYNSYM) and int(section["link"]) < len(sections):
            left = [address for address in addresses if address not in found]
            found |= _find_functions_in_table(_read(file, section), _read(file, sections[int(section["link"])]), left)
    for section in sections:
        if _name(file, sections, section) == b".gnu_debugdata":
            left = [address for address in addresses if address not in found]
            unpacked = lzma.LZMADecompressor().decompress(_read(file, section), MAX_SECTION)
            if left and not any(_name(file, sections, one) == b".symtab" for one in sections):
                _add_functions_of_file(BytesIO(unpacked), left, found)


def _read_sections(file: BinaryIO) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the headers of an ELF file's sections. The header of the section with all their names is repeated at the
    end; `_name` reads it there.
    """
    head = read_file_header(file)
    start = int.from_bytes(head[40:48], "little")
    size, count, names = (int.from_bytes(head[at : at + 2], "little") for at in (58, 60, 62))
    if size != SECTION.itemsize or not start:
        return np.empty(0, SECTION)
    file.seek(min(start, 2**62))
    held = file.read(size * count)
    sections = np.frombuffer(held[: len(held) // size * size], SECTION)
    return np.append(sections, sections[names : names + 1])


def _name(file: BinaryIO, sections: np.ndarray[tuple[int], np.dtype[np.void]], section: np.void) -> bytes:
    file.seek(min(int(sections[-1]["offset"]) + int(section["name"]), 2**62))
    return file.read(32).partition(b"\0")[0]


def _read(file: BinaryIO, section: np.void) -> bytes:
    file.seek(min(int(section["offset"]), 2**62))
    return file.read(min(int(section["size"]), MAX_SECTION))


def _find_functions_in_table(symbol_table: bytes, names: bytes, addresses: Sequence[int]) -> Mapping[int, str]:
    """Return address -> name for the addresses that lie within a function of one table of symbols. `names`: the bytes
    of the table's names.
    """
    symbols = np.frombuffer(symbol_table[: len(symbol_table) // SYMBOL.itemsize * SYMBOL.itemsize], SYMBOL)
    kinds = symbols["info"] & 15
    symbols = symbols[
        ((kinds == STT_FUNC) | (kinds == STT_GNU_IFUNC)) & (symbols["section"] != 0) & (symbols["size"] > 0)
    ]
    symbols = symbols[np.lexsort((symbols["info"] >> 4, symbols["value"]))]  # of several names the global one is last
    at = np.searchsorted(symbols["value"], np.array(addresses, np.uint64), side="right").astype(np.int64) - 1
    found = {}
    for address, row in zip(addresses, at.tolist(), strict=True):
        if row < 0 or address - int(symbols["value"][row]) >= int(symbols["size"][row]):
            continue
        start = int(symbols["name"][row])
        name = names[start : start + MAX_NAME].partition(b"\0")[0].partition(b"@")[0]
        if name:
            found[address] = name.decode(errors="replace")
    return found


def _demangle(found: dict[int, str]) -> dict[int, str]:
    """Return address -> name with C++ names as the source has them; unchanged if c++filt cannot be run."""
    mangled = sorted({name for name in found.values() if name.startswith("_Z")})
    if not mangled:
        return found
    try:
        done = subprocess.run(
            ["c++filt"], input="\n".join(mangled) + "\n", capture_output=True, text=True, errors="replace",
            timeout=60, check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return found
    plain = dict(zip(mangled, done.stdout.splitlines(), strict=False))
    return {address: plain.get(name, name) for address, name in found.items()}


def cached_debuginfo(build_id: str) -> Iterator[Path]:
    """Yield the debugging information of a build that a client of debuginfod has fetched before; nothing is fetched."""
    folder = os.environ.get("DEBUGINFOD_CACHE_PATH") or (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "debuginfod_client"
    )
    path = Path(folder) / build_id / "debuginfo"
    if build_id and path.is_file() and path.stat().st_size:
        yield path
