"""The values of a run as one object: processes, places, and what each probe kept. Nothing is believed unread."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.base.lazy import dataclass
from weft.errors import OtherVersion, TraceError
from weft.native.headers.value_format import (
    VALUE_PLACE,
    VALUES_HEADER,
    VALUES_MAGIC,
    VALUES_MAJOR,
    VALUES_MINOR,
    VALUES_PAGE,
    PlaceKind,
    ValuesReason,
    ValuesState,
)  # fmt: skip
from weft.native.headers.values import VALUE_INDEX, VALUE_ITERATION, VALUE_ROW, VALUE_SITE, kernel
from weft.safety.folders import open_regular, read_regular
from weft.values.folder import FOLDER, LINES, PROCESSORS, SUFFIX
from weft.values.kept import Kept, Rebuilt

_STOPS: Final = {
    ValuesReason.DISK: "the disk was full, or a limit on the size of files was reached",
    ValuesReason.LIMIT: "they had grown to the limit of {limit:,} bytes (raise `limit` in --probes, or keep less)",
    ValuesReason.MEMORY: "there was no memory left",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A place of the program: a probe, a loop, a region, or the name of a shared array."""

    number: int
    kind: int
    name: str
    file: str
    line: int
    function: str
    callers: tuple[tuple[str, int], ...] = ()
    """Of a place without a line: modules and addresses in them, the innermost first."""

    @property
    def where(self) -> str:
        """File and line for people, "" where they are not known."""
        return f"{Path(self.file).name}:{self.line}" if self.file and self.line else ""


@dataclass
class ValueTrace:
    """The values that the probes of a run kept, by process."""

    path: Path
    processes: list[Process] = field(default_factory=list)

    @classmethod
    def open(cls, run: Path) -> ValueTrace:
        """The values of a run directory. TraceError where it has none, or a file that is not one of values."""
        files = sorted((run / FOLDER).glob(f"*{SUFFIX}"))
        if not files:
            raise TraceError(
                f"{run} holds no values: the program has no probes (weft.probe, weft.h, module weft), or was not "
                "recorded by `weft run`"
            )
        lines = _lines(run / FOLDER / LINES)
        processes = [Process(path, lines.get(path.name, {})) for path in files]
        processes.sort(key=lambda one: (one.rank, one.path.name))
        return cls(run, processes)

    @property
    def problems(self) -> list[str]:
        """What could not be kept or cannot be read, in plain sentences."""
        return [f"rank {one.rank}: {text}" for one in self.processes for text in one.problems]

    @cached_property
    def of_processors(self) -> bool:
        """Whether the processors of `weft check --trace` stand in the place of ranks."""
        return (self.path / FOLDER / PROCESSORS).exists()

    def names(self) -> dict[str, set[str]]:
        """Names by the scopes of a configuration."""
        known: dict[str, set[str]] = {"file": set(), "procedure": set(), "loop": set(), "region": set(), "probe": set()}
        kinds = {PlaceKind.PROBE: "probe", PlaceKind.LOOP: "loop", PlaceKind.REGION: "region"}
        for place in (place for one in self.processes for place in one.places if place.kind in kinds):
            known[kinds[PlaceKind(place.kind)]].add(place.name)
            known["file"].add(place.file)
            known["procedure"].add(place.function)
        return known


def _lines(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        found = json.loads(read_regular(path, path.parents[1]))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Process:
    """The values of one process. TraceError where the file is not one of values."""

    def __init__(self, path: Path, lines: Mapping[str, Any]) -> None:
        self.path = path
        self.problems: list[str] = []
        self._lines = lines
        try:
            with os.fdopen(open_regular(path, path.parents[1]), "rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise TraceError(f"{path} cannot be read: {error}") from error
        whole = np.frombuffer(self._mapped, np.uint8)
        if len(whole) < VALUES_PAGE or bytes(whole[:8]) != VALUES_MAGIC.encode():
            raise TraceError(f"{path} is not a file of values: its first bytes are not {VALUES_MAGIC}")
        self.header = whole[: VALUES_HEADER.itemsize].view(VALUES_HEADER)[0]
        found = int(self.header["major"]), int(self.header["minor"])
        if found != (VALUES_MAJOR, VALUES_MINOR):
            raise OtherVersion(path, "{}.{}".format(*found), f"{VALUES_MAJOR}.{VALUES_MINOR}")
        self.records = whole[VALUES_PAGE:][: self._used(len(whole))]
        self._index()

    @property
    def rank(self) -> int:
        """In the world of the run; 0 for a process that was started without a launcher."""
        return max(int(self.header["rank"]), 0)

    def release(self) -> None:
        """Give the pages of the file back that were read: they are read again where they are needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapped.madvise(mmap.MADV_DONTNEED)

    def _used(self, size: int) -> int:
        used = int(self.header["used"])
        if used > size - VALUES_PAGE:
            self.problems.append(
                f"{self.path.name} is cut off: its records are {used:,} bytes, and {size - VALUES_PAGE:,} are there"
            )
            used = (size - VALUES_PAGE) // 8 * 8
        if self.header["state"] == ValuesState.STOPPED:
            why = _STOPS.get(ValuesReason(int(self.header["reason"])), "of a reason that is not known")
            self.problems.append(f"values end early: {why.format(limit=int(self.header['limit']))}")
        return used

    def _index(self) -> None:
        counts = np.zeros(1, VALUE_INDEX)
        lib = kernel()
        lib.weft_values_index(self.records, len(self.records), counts, None, None, None, None)
        good = int(counts["damaged"][0])
        if good < len(self.records):
            self.problems.append(
                f"{self.path.name} is damaged from byte {VALUES_PAGE + good:,} on: what stands before is read"
            )
            self.records = self.records[:good]
            lib.weft_values_index(self.records, good, counts, None, None, None, None)
        known = counts[0]
        self._sites = np.zeros(int(known["places"]), VALUE_SITE)
        self.iterations = np.zeros(int(known["iterations"]), VALUE_ITERATION)
        self.rows = np.zeros(int(known["probes"]), VALUE_ROW)
        problems = np.zeros(int(known["problems"]), np.uint64)
        lib.weft_values_index(self.records, good, counts, self._sites, self.iterations, self.rows, problems)
        for offset in problems.tolist():
            self.problems.append(self._problem(offset))

    def _problem(self, offset: int) -> str:
        head = self.records[offset : offset + 16]
        place = self.place(int(head[4:8].view("<u4")[0]))
        text = bytes(self.records[offset + 16 : offset + int(head[8:16].view("<u8")[0])]).rstrip(b"\0")
        at = f" at {place.where}" if place.where else ""
        return f"the probe {place.name!r}{at} kept nothing: {text.decode(errors='replace')}"

    @cached_property
    def places(self) -> list[Place]:
        """All places, in the order in which they were first used."""
        return [self._place(number, int(offset)) for number, offset in enumerate(self._sites["offset"], 1)]

    def place(self, number: int) -> Place:
        """A place by its number, from 1 on."""
        return self.places[number - 1]

    def _place(self, number: int, offset: int) -> Place:
        body = self.records[offset : offset + VALUE_PLACE.itemsize].view(VALUE_PLACE)[0]
        texts = bytes(self.records[offset + VALUE_PLACE.itemsize : offset + int(body["head"]["bytes"])])
        name, file, function, rest = texts.split(b"\0", 3)
        words = [text.decode(errors="replace") for text in (name, file, function)]
        words[1] = "" if words[1].startswith(("@", "=")) else words[1]
        line = int(body["line"])
        if str(number) in self._lines:
            words[1], line, words[2] = self._lines[str(number)]
        callers = _callers(rest) if not line else ()
        return Place(number, int(body["kind"]), words[0], words[1], line, words[2], callers)

    def kept(self, row: int) -> Kept:
        """What a probe kept, by its row."""
        return Kept(self, row)

    @cached_property
    def rebuilt(self) -> Rebuilt:
        """Arrays of which only changes were kept."""
        return Rebuilt(self)

    def path_of(self, parent: int) -> list[tuple[Place, int]]:
        """The iterations around a row, the outermost first: loops and regions, each with its index."""
        found = []
        while parent >= 0:
            one = self.iterations[parent]
            found.append((self.place(int(one["place"])), int(one["index"])))
            parent = int(one["parent"])
        return found[::-1]

    def rows_of(self, place: int) -> NDArray[np.int64]:
        """The rows of a probe, in order."""
        if place not in self._by_place:
            self._by_place[place] = np.flatnonzero(self.rows["place"] == place)
        return self._by_place[place]

    @cached_property
    def _by_place(self) -> dict[int, NDArray[np.int64]]:
        return {}


def _callers(rest: bytes) -> tuple[tuple[str, int], ...]:
    """Modules and addresses behind the texts of a place."""
    if len(rest) < 8:
        return ()
    found, at = [], 8
    for _ in range(min(int.from_bytes(rest[:8], "little"), 16)):
        end = rest.find(b"\0", at + 8)
        if end < 0:
            break
        found.append((rest[at + 8 : end].decode(errors="replace"), int.from_bytes(rest[at : at + 8], "little")))
        at = end + 1
    return tuple(found)
