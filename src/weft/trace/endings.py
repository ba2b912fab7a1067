"""Reads how each process of a run ended, from its own record, with the places of the program in it.

A record holds exceptions that nobody caught, exits, crashes, aborts, signals that arrived, calls of MPI outside of
its life, and where a thread was when `weft run` asked. What a process cannot record (it was killed) is not here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from weft.base.lazy import dataclass
from weft.trace.layout import EndingKind, ExitKind
from weft.trace.sites import CallSite

if TYPE_CHECKING:
    from weft.trace.definitions import EndingDefinition


@dataclass(frozen=True, slots=True)
class Ending:
    """One fact that a process recorded about its end. native/format.h says what each field means for each kind."""

    kind: EndingKind
    slot: int
    """Slot of the thread that it is about, -1 for one that never called MPI."""
    tid: int
    ticks: int
    """When, by the rank's own clock, like the column `enter` of its events."""
    time_ns: int
    """When, on the common time axis, like the events' times."""
    code: int
    """The exit status, signal or error code."""
    detail: int
    """EXIT: an ExitKind. SIGNAL: si_code. WARNED: pid of the sender, 0 for the kernel."""
    address: int
    """SIGNAL: the faulting address."""
    name: str
    text: str
    traceback: str
    """EXCEPTION: as Python printed it. SIGNAL: what part of the recorder was at work, where the fault is its own."""
    who: str
    """Name of the thread or task, empty for the main thread."""
    python: tuple[CallSite, ...] = ()
    """The Python stack, innermost first; empty where there is none."""
    native: tuple[CallSite, ...] = ()
    """The native stack, innermost first, with the functions that were inlined."""

    @property
    def part_of_weft(self) -> str:
        """Return the part of Weft that was running, if Weft's own recorder raised the signal; else ""."""
        return self.traceback if self.kind is EndingKind.SIGNAL else ""

    @property
    def how(self) -> ExitKind:
        """Return what led to an exit, such as a call of exit(); UNKNOWN for other endings."""
        known = self.kind is EndingKind.EXIT and self.detail in ExitKind.__members__.values()
        return ExitKind(self.detail) if known else ExitKind.UNKNOWN

    @property
    def stack(self) -> tuple[CallSite, ...]:
        """Return the Python stack if there is one, else the native one."""
        return self.python or self.native

    @property
    def site(self) -> CallSite | None:
        """Return the innermost call site with a known line at which the process ended. Places in interpreters never
        count; system libraries count only if nothing else has a line. None if no place remains.
        """
        known = [site for site in self.stack if site.known and not _is_interpreter_code(site)]
        return next((site for site in known if not _is_system_library(site)), known[0] if known else None)


def _is_interpreter_code(site: CallSite) -> bool:
    return (site.file or "").startswith("<frozen ") or "/mpi4py/" in (site.file or "")


def _is_system_library(site: CallSite) -> bool:
    return (site.module or "").startswith(("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/"))


def resolve_endings(
    definitions: Iterable[EndingDefinition],
    called_after: Callable[[int, int], set[str]],
    ns: Callable[[int], int],
    native: Callable[[int, int], Iterable[CallSite]],
) -> list[Ending]:
    """Return the ways in which a rank ended (crash, exit, abort), in order of time. A crash that the program survived
    is left out.

    `called_after`: returns the functions that the thread of a slot entered after a tick; `ns`: converts a tick to ns on
    the common time axis; `native`: returns the call sites of an offset in a module, inlined functions included.
    """
    held: list[EndingDefinition] = []
    for one in definitions:
        if one.kind is EndingKind.RETURNED:
            held = [e for e in held if not (e.kind is EndingKind.SIGNAL and e.code == one.code)]
        else:
            held.append(one)
    # A thread that called MPI after its crash (other than MPI_Abort, which a handler may) got over it.
    over = {
        (e.kind, e.code) for e in held
        if e.kind is EndingKind.SIGNAL and e.slot >= 0 and called_after(e.slot, e.ticks) - {"MPI_Abort"}
    }  # fmt: skip
    left = [e for e in held if (e.kind, e.code) not in over]
    return [_resolve_ending(one, ns, native) for one in sorted(left, key=lambda one: one.ticks)]


def _resolve_ending(
    definition: EndingDefinition, ns: Callable[[int], int], native: Callable[[int, int], Iterable[CallSite]]
) -> Ending:
    """Return an ending with its time in ns on the common axis, and its stack frames as call sites."""
    own = definition.kind is EndingKind.SIGNAL and bool(definition.traceback)  # else the recorder's frames tell nothing
    python = tuple(CallSite(file or None, line, function or None) for file, line, function in definition.python)
    stack = tuple(
        site
        for module, offset in definition.native
        for site in native(module, offset)
        if own or not (site.module or "").endswith("/libweft-shim.so")
    )
    return Ending(
        definition.kind, definition.slot, definition.tid, definition.ticks, ns(definition.ticks), definition.code,
        definition.detail, definition.address, definition.name, definition.text, definition.traceback,
        definition.who, python, stack,
    )  # fmt: skip
