"""Findings as the simulated OpenMP runtime writes them: two accesses to one memory, or two places, with their lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.runtime_output import RuntimeOutput
from weft.dataparallel.source_map import AccessPlace


@dataclass(frozen=True, slots=True)
class NamedElement:
    """The variable, and its element if it is an array, that a finding is about.

    `scalar`: it is a single number; `is_static`: it lives as long as the program; `is_local_static`: it is a static
    variable of a function; `library_function`: it is the own data of this function of the C library.
    """

    name: str = ""
    index: tuple[int, ...] = ()
    scalar: bool = False
    line: int = 0
    is_static: bool = False
    is_local_static: bool = False
    is_common_block: bool = False
    library_function: str = ""

    def render(self, fortran: bool) -> str:
        """Return the element as the program writes it: `a[3][4]`, in Fortran `a(4, 3)`."""
        if not self.name:
            return "data without a name"
        if self.is_common_block:
            return f"the common block `/{self.name.removesuffix('_')}/`"
        if not self.index:
            return f"`{self.name}`"
        if fortran:
            return f"`{self.name}({', '.join(map(str, self.index))})`"
        return f"`{self.name}{''.join(f'[{i}]' for i in self.index)}`"


@dataclass(frozen=True, slots=True)
class Strand:
    """What executes code and accesses memory: an iteration, a task, a thread. `what`: its kind; `index`: its number."""

    what: str = ""
    index: int = 0
    pc: int = 0
    at: AccessPlace = NOWHERE
    """Where its construct stands."""
    number: int = -1
    """Of an iteration, counted from 0; -1: unknown."""
    beside: int = 0
    """The task of a target construct that it is of; 0: none."""
    has_lock: bool = False
    """It held a lock, or was in a critical section, at the access."""
    strand: int = 0
    made_by: int = 0
    """Of a task, the strand whose code makes it."""
    region: int = 0
    """The strand of the innermost parallel region that it is in; 0: none."""
    work: int = 0
    """Which run of a worksharing construct it is of; these numbers rise as the threads of a team meet constructs."""


@dataclass(frozen=True, slots=True)
class Access:
    """One access to memory: its place in the source, its program counter, whether it writes, and the strand that makes
    it.
    """

    place: AccessPlace
    pc: int
    write: bool
    strand: Strand
    calls: tuple[AccessPlace, ...] = ()
    """The calls that lead to it, up to the one in a source, where it is in a header's function that the compiler put
    there.
    """
    is_in_library: bool = False
    """It is in a function of the language's library; `place` and `pc` are those of the program's call."""

    @property
    def caller(self) -> AccessPlace:
        """Return the call in a source that leads to an access in a header's function; NOWHERE if it is in none."""
        return self.calls[-1] if self.calls else NOWHERE

    @property
    def does(self) -> str:
        """`write` or `read`."""
        return "write" if self.write else "read"


@dataclass(slots=True)
class RawOpenMPFinding:
    """A finding as the runtime wrote it; of a race, `access` is the later access, and `named` the memory that both
    touch.
    """

    id: int
    kind: str
    why: str
    count: int
    access: Access
    other_access: Access
    address: int
    bytes: int
    device: bool
    """The copy on the device is meant."""
    near: tuple[int, ...]
    """What is mapped before and after the memory."""
    block: int | None
    """Where the block of the heap begins that it lies in."""
    frame: tuple[int, int] | None
    """Of the function on whose stack it lies: the return address into it, and where its variables are counted from."""
    region: AccessPlace
    """The target region."""
    chunk: int = 0
    """Of the loop's schedule, which gives both accesses to one thread; 0: none does."""
    named: NamedElement = NamedElement()
    crosses: bool = False
    """Iterations of two loops with different numbers race, too."""


def parse_findings(
    output: RuntimeOutput,
    places: Mapping[int, AccessPlace],
    calls: Mapping[int, tuple[AccessPlace, ...]] = MappingProxyType({}),
) -> list[RawOpenMPFinding]:
    """Return the raw findings of one process, with source places instead of program counters. An access in a header
    gets the `calls` that led to it.
    """

    def place_at(pc: int) -> AccessPlace:
        return places.get(pc, NOWHERE)

    def make_strand(held: Mapping[str, Any] | None) -> Strand:
        return Strand(**held, at=place_at(held["pc"])) if held else Strand()

    def make_access(fields: Mapping[str, Any], key: str) -> Access:
        """Return the access whose keys in `fields` begin with `key`. If it is in the language's library, its place is
        the program's call.
        """
        pc, caller = fields[f"{key}pc"], fields.get(f"{key}caller_pc", 0)
        in_library = bool(caller) and is_library_file(place_at(pc).file)
        pc = caller if in_library else pc
        return Access(
            place_at(pc), pc, fields.get(f"{key}write", False), make_strand(fields.get(key.strip("_") or "strand")),
            calls.get(pc, ()), in_library,
        )  # fmt: skip

    def make_raw_finding(fields: Mapping[str, Any]) -> RawOpenMPFinding:
        """Return the raw finding that one JSON object of the runtime's output describes."""
        frame, block = fields.get("frame"), fields.get("block")
        return RawOpenMPFinding(
            id=fields["id"],
            kind=fields["kind"],
            why=fields["why"],
            count=fields["count"],
            access=make_access(fields, ""),
            other_access=make_access(fields, "other_"),
            address=fields.get("address", 0),
            bytes=fields.get("bytes", 0),
            device=fields.get("device", False),
            near=tuple(fields.get("near", ())),
            block=block["low"] if block else None,
            frame=(frame["pc"], frame["cfa"]) if frame else None,
            region=place_at(fields.get("region_pc", 0)),
            chunk=fields.get("chunk", 0),
            crosses=fields.get("crosses", False),
        )

    return [make_raw_finding(one) for one in output.raw_findings.values()]


HEADERS: Final = frozenset((".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tcc", ".tpp", ""))


def is_header(file: str | None) -> bool:
    """Return whether a file is one that C and C++ sources include."""
    return Path(file or "").suffix.lower() in HEADERS


def is_library_file(file: str | None) -> bool:
    """Return whether a file is a header of the compiler or the system, or unknown; its caller's place is reported."""
    return not file or file.startswith(("/usr/include/", "/usr/lib/"))


def collect_program_counters(output: RuntimeOutput) -> set[int]:
    """Return all program counters in the output of one process, to be looked up in the debugging information."""
    found = {held["pc"] for held in (*output.raw_findings.values(), *output.constructs)}
    for held in output.raw_findings.values():
        found |= {held.get(key, 0) for key in ("other_pc", "region_pc", "caller_pc", "other_caller_pc")}
        found |= {held[key]["pc"] for key in ("strand", "other") if key in held}
    if output.slow is not None:
        found.add(output.slow["pc"])
    return found - {0}
