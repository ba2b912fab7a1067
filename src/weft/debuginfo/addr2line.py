"""Look up the source lines of return addresses with addr2line; answers are kept by build id."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from weft.base.cache import recall_facts, store_facts
from weft.debuginfo.symbols import cached_debuginfo, name_functions

ADDR2LINE_SECONDS: Final = 120
MAX_KEPT: Final = 20_000
"""Addresses of one module that are kept."""

Found = tuple[str | None, int, str | None]
"""(file, line, function) of a frame."""


def lines_of(path: str, build_id: str, offsets: Sequence[int], problems: list[str]) -> dict[str, list[Found]]:
    """Return offset as text -> frames (file, line, function) at this return address, innermost first. Addresses without
    any known frame are left out.

    A function without a line is named only within its symbol's size. addr2line is asked only for offsets that are not
    in the cache.
    """
    files = [Path(path), *_list_debug_files(path, build_id)]
    if not build_id:
        return run_addr2line(path, offsets, problems)
    key = [path, build_id]
    told: dict[str, list[Found]] = (recall_facts("frames", key, files) or {}).get("lines", {})
    left = [offset for offset in offsets if str(offset) not in told]
    if left and (answers := _look_up_frames(path, files, left, problems)):
        kept = told if len(told) < MAX_KEPT else {}
        store_facts("frames", key, files, {"lines": kept | answers})
        told = told | answers
    return _drop_unknown({text: told[text] for offset in offsets if (text := str(offset)) in told})


def _list_debug_files(path: str, build_id: str) -> list[Path]:
    """Return where separate debugging information of a module may be: once it is installed, more lines are known."""
    of = Path(path)
    system = Path("/usr/lib/debug")
    return [
        system / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug", Path(f"{path}.debug"),
        of.parent / ".debug" / f"{of.name}.debug", system / f"{path[1:]}.debug", *cached_debuginfo(build_id),
    ]  # fmt: skip


def run_addr2line(path: str, offsets: Sequence[int], problems: list[str]) -> dict[str, list[Found]]:
    """Return offset as text -> frames (file, line, function) at this return address, as `lines_of` does. The answers do
    not come from the cache and are not stored there.
    """
    return _drop_unknown(_look_up_frames(path, [Path(path)], offsets, problems))


def _look_up_frames(
    path: str, files: Sequence[Path], offsets: Sequence[int], problems: list[str]
) -> dict[str, list[Found]]:
    """Return offset as text -> frames at this return address. If no source line is known, the only frame has just the
    function's name or nothing. `files`: the module, then its files of debugging information.
    """
    told = _query_addr2line(path, offsets, problems)
    for fetched in files[-1:]:  # addr2line itself finds the others
        if str(fetched).endswith("/debuginfo") and (
            left := [o for o in offsets if not _has_line(told.get(str(o), ()))]
        ):
            told |= {key: of for key, of in _query_addr2line(str(fetched), left, problems).items() if _has_line(of)}
    without = [int(key) - 1 for key, frames in told.items() if not _has_line(frames)]
    names = name_functions(files, without) if without else {}
    return told | {str(address + 1): [(None, 0, names.get(address))] for address in without}


def _has_line(frames: Sequence[Found]) -> bool:
    return any(file for file, _, _ in frames)


def _drop_unknown(answers: Mapping[str, Sequence[Found]]) -> dict[str, list[Found]]:
    """Return the answers that have a frame with a file or a function."""
    return {of: list(frames) for of, frames in answers.items() if any(any(frame) for frame in frames)}


def _query_addr2line(path: str, offsets: Sequence[int], problems: list[str]) -> dict[str, list[Found]]:
    """Return offset as text -> the frames that addr2line gives for this return address, innermost first. A frame may
    lack its line; frames in MPI's headers are dropped. If addr2line cannot be run, return {} and add a sentence to
    `problems`.
    """
    # A return address follows its call, maybe on the next line: the byte before belongs to the call.
    addresses = "".join(f"{offset - 1:#x}\n" for offset in offsets)
    environment = {**os.environ, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    try:
        done = subprocess.run(
            ["addr2line", "-a", "-f", "-C", "-i", "-e", path], input=addresses, capture_output=True, text=True,
            errors="backslashreplace", timeout=ADDR2LINE_SECONDS, env=environment, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        problems.append(f"calls in {path} have no source lines: addr2line is missing (install binutils)")
        return {}
    except (OSError, subprocess.TimeoutExpired) as error:
        problems.append(f"calls in {path} have no source lines: addr2line failed ({error})")
        return {}
    blocks = _parse_output(done.stdout)
    return {str(offset): _drop_mpi_headers(blocks[offset - 1]) for offset in offsets if offset - 1 in blocks}


def _parse_output(output: str) -> dict[int, list[Found]]:
    """Return address -> frames from addr2line's output. The output has lines with the address, and then for each frame
    the function and `file:line`.
    """
    blocks: dict[int, list[Found]] = {}
    frames: list[Found] = []
    function: str | None = None
    for line in output.splitlines():
        if line.startswith("0x") and function is None:
            frames = blocks.setdefault(int(line, 16), [])
        elif function is None:
            function = line
        else:
            file, _, number = line.split(" (discriminator")[0].rpartition(":")
            known = bool(file) and not file.startswith("??") and number.isdigit() and int(number) > 0
            name = None if function.startswith("??") else function
            frames.append((file if known else None, int(number) if known else 0, name))
            function = None
    return blocks


def _drop_mpi_headers(frames: list[Found]) -> list[Found]:
    """Return frames without the innermost ones in headers of an MPI library, from which C++ bindings are inlined. If
    all are there, the first is kept.
    """
    for k, frame in enumerate(frames):
        if frame[0] and not _in_mpi_header(frame[0]):
            return frames[k:]
    return frames[:1]


def _in_mpi_header(file: str) -> bool:
    return Path(file).name in ("mpicxx.h", "mpi.h") or "/openmpi/ompi/mpi/cxx/" in file
