"""Correct the lines that gdb takes for those of a function inlined before them, with addr2line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.base.processes import read_memory_map
from weft.debuginfo.addr2line import lines_of
from weft.debuginfo.elf import read_build_id

Told = dict[str, Any]
"""A frame as gdb tells it."""
ET_DYN: Final = 3


def correct_inlined_lines(stacks: Mapping[int, Sequence[Told]], ended_maps: Mapping[int, str]) -> None:
    """Correct, in place, the lines of frames for which gdb shows the line of another function that was inlined before
    them.

    `stacks`: the frames of each process, innermost first. `ended_maps`: the memory maps of processes that have ended. A
    line that cannot be looked up is removed, as no line is better than one of another file.
    """
    strange: dict[str, list[tuple[int, Told]]] = {}
    for pid, frames in stacks.items():
        for frame in frames:
            if frame["address"]:
                strange.setdefault(frame["module"], []).append((pid, frame))
    for module, of in strange.items():
        offsets = [
            frame["address"] - find_load_address(ended_maps.get(pid) or read_memory_map(pid), module)
            for pid, frame in of
        ]
        try:
            found = lines_of(module, read_build_id(Path(module)), sorted(set(offsets)), [])
        except (OSError, ValueError):
            found = {}
        for (_, frame), offset in zip(of, offsets, strict=True):
            frame["file"], frame["line"], _ = found.get(str(offset), [(None, 0, None)])[0]


def find_load_address(maps: str, module: str) -> int:
    """Return the address at which a module is loaded in a process. 0 if the addresses in its file are the final ones.
    `maps`: the text of the process's memory map.
    """
    try:
        with Path(module).open("rb") as file:
            if int.from_bytes(file.read(18)[16:], "little") != ET_DYN:
                return 0
    except OSError:
        return 0
    rows = (line.split(maxsplit=5) for line in maps.splitlines())
    return next((int(row[0].partition("-")[0], 16) for row in rows if len(row) == 6 and row[5] == module), 0)
