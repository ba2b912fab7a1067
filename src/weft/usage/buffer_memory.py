"""Find the memory behind a buffer: a variable of the program or a block of the heap, as far as either is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np

from weft.base.lazy import dataclass
from weft.sources import variables
from weft.sources.variables import Place, VariableType
from weft.terms.calls import masks_of
from weft.trace import Event, Rank
from weft.trace.definitions import CallPathDefinition, ModuleDefinition
from weft.trace.layout import Def

OF_A_SITE: Final = 32
"""Buffers of a call site that are looked at."""
SITES: Final = 2000


@dataclass(frozen=True)
class MemoryRange:
    """Memory from `low` to `high`; for a variable also its `name`, its `line` and its `type` if known."""

    low: int
    high: int
    name: str = ""
    line: int = 0
    type: VariableType | None = None
    above: int = 0
    """Of a variable on the stack how many functions above the call its own is, 0 the one that calls."""

    @property
    def heap(self) -> bool:
        """Return whether the memory is a block of the heap."""
        return not self.name


class RankMemory:
    """The variables and heap blocks of one rank."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        definitions = rank.definitions
        self._modules: dict[int, ModuleDefinition] = {m.id: m for m in definitions.all(Def.MODULE)}
        self._variables = variables.variables_of(rank.trace)
        self._blocks = dict(_recorded_heap_blocks(rank))
        self.ways: dict[int, list[CallPathDefinition]] = defaultdict(list)
        for way in definitions.ways:
            self.ways[way.site].append(way)

    def find_memory(self, event: Event, address: int) -> MemoryRange | None:
        """Return the heap block or variable that contains an address, which was an argument of a call; None if none is
        known.
        """
        return (
            self.block(event, address) or self._static_variable_at(address) or self._stack_variable_at(event, address)
        )

    def block(self, event: Event, address: int) -> MemoryRange | None:
        """Return the block of the heap that holds an address, if the recorder looked it up for this very call."""
        found = self._blocks.get((event.index, address))
        return MemoryRange(found[0], found[0] + found[1]) if found is not None and found[1] > 0 else None

    def find_pointer_argument(self, event: Event, parameter: str) -> tuple[str, VariableType] | None:
        """Return the name of the pointer variable that the program passes for a parameter of a call, and the type that
        it points to. None if the source does not pass a plain pointer there.
        """
        place = self._place(event.rank.definitions.site(event.site_id))
        number = next((i for i, p in enumerate(event.function.parameters) if p.name == parameter), -1)
        return self._variables.pointed(*place, number) if place is not None else None

    def find_frame(self, event: Event, address: int) -> tuple[CallPathDefinition, int] | None:
        """Return the call path that led to a call (the functions from MPI's caller outwards), and the index in it of
        the function whose stack frame contains an address; index 0 is the caller of MPI.

        None if no frame contains the address, or if the call site was reached by several paths and the address lies in
        frames of more than one.
        """
        found = [(way, k) for way in self.ways[event.site_id] if (k := _frame_number(way, address)) is not None]
        return found[0] if len(found) == 1 else None

    def _place(self, site: object) -> tuple[Place, int] | None:
        module, offset = getattr(site, "module", 0), getattr(site, "offset", 0)
        of = self._modules.get(module)
        return ((of.path, of.build_id), offset) if of is not None else None

    def _static_variable_at(self, address: int) -> MemoryRange | None:
        """Return the static variable that contains an address; None if none is known."""
        for module in self._modules.values():
            if module.base <= address < module.end:
                found = self._variables.find_static((module.path, module.build_id), address - module.base)
                if found is not None:
                    low = module.base + found.at
                    return MemoryRange(low, low + found.size, found.name, found.line, found.type)
        return None

    def _stack_variable_at(self, event: Event, address: int) -> MemoryRange | None:
        """Return the local variable at an address, if it lies in the frame of a function that led to the call; None if
        there is none.
        """
        within, of = self.find_frame(event, address), event.rank.definitions.site(event.site_id)
        if within is None or of is None:
            return None
        way, number = within
        places = [(of.module, of.offset), *of.callers]
        module = self._modules.get(places[number][0]) if number < len(places) else None
        if module is None:
            return None
        end = way.ends[number]
        found = self._variables.find_local((module.path, module.build_id), places[number][1], address - end)
        if found is None:
            return None
        return MemoryRange(end + found.at, end + found.at + found.size, found.name, found.line, found.type, number)


def _frame_number(call_path: CallPathDefinition, address: int) -> int | None:
    """Return the index of the function on a call path whose stack frame contains an address (0: the caller of MPI);
    None if there is none.
    """
    if address < call_path.low:
        return None
    return next((k for k, end in enumerate(call_path.ends) if address < end), None)


def find_first_event_since(rank: Rank, thread_slot: int, ticks: int) -> int | None:
    """Return the index of the first event that a thread began at clock time `ticks` or later; None if there is none.

    `thread_slot`: the number by which the recorder knows the thread.
    """
    thread = next((t for t in rank.threads if t.slot == thread_slot), None)
    if thread is None:
        return None
    place = int(np.searchsorted(thread.events["enter"], np.uint64(ticks)))
    if place >= len(thread.events):
        return None
    if len(rank.threads) == 1:
        return place
    mine = np.flatnonzero(rank.event_threads == rank.threads.index(thread))
    return int(mine[place]) if place < len(mine) else None


def _recorded_heap_blocks(rank: Rank) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the heap blocks that the recorder found behind buffers: ((event index of the call, address that the call
    was given), (first address of the block, its length in bytes)).
    """
    for told in rank.definitions.blocks:
        index = find_first_event_since(rank, told.slot, told.ticks)
        for address, low, length in told.blocks if index is not None else ():
            yield (index or 0, address), (low, length)


def select_calls_with_buffers(rank: Rank) -> list[int]:
    """Return the indices of events that name buffers and are worth checking. Of a call site that are at most OF_A_SITE
    calls with different buffers, and all for which the recorder found the heap block.
    """
    functions = [f.id for f in rank.trace.functions if any(p.kind == "BUFFER" for p in f.parameters)]
    table = np.zeros(65536, np.bool_)
    table[functions] = True
    events = rank.events
    rows = np.flatnonzero(table[events["function"]])
    site, count = (events[name][rows].astype(np.uint64) for name in ("site", "count"))
    keys = (site << np.uint64(40)) ^ events["buffer"][rows] ^ (count << np.uint64(20))
    _, first = np.unique(keys, return_index=True)
    seen: dict[int, int] = defaultdict(int)
    found = {event for (event, _), _ in _recorded_heap_blocks(rank) if table[events["function"][event]]}
    for row in rows[np.sort(first)].tolist():
        at = int(events["site"][row])
        seen[at] += 1
        if seen[at] <= OF_A_SITE and len(seen) <= SITES:
            found.add(row)
    return sorted(found)


def has_memory_facts(rank: Rank) -> bool:
    """Return whether the record tells anything of the memory behind a rank's buffers."""
    definitions = rank.definitions
    return bool(len(rank) and (definitions.blocks or definitions.ways) and masks_of(rank.trace.functions))
