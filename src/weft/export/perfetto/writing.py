"""Perfetto's trace format: a track a thread, a slice a call with its arguments, a flow a message.

The messages of perfetto_trace.proto are written by hand (wire.py), a block of calls at a time, as objects for each
would cost tens of microseconds a call. The tests read them back with the classes that Perfetto publishes.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from weft.export.blocks import blocks
from weft.export.output import Told, operations
from weft.export.perfetto import tracks
from weft.export.perfetto.flows import Flows
from weft.export.perfetto.slices import Sequence
from weft.terms.run_extent import extent, start_realtime_ns
from weft.trace import Trace


def write(trace: Trace, path: Path) -> list[Told]:
    """Write the trace file."""
    run = extent(trace)
    flows = Flows(operations(trace, path))
    slices = unfinished = 0
    numbers = itertools.count(1)
    with path.open("wb") as file:
        file.write(tracks.clocks(start_realtime_ns(trace) + run.first))
        for rank in trace.ranks:
            file.write(tracks.process(rank))
            sequences = [Sequence(rank, thread, next(numbers)) for thread in rank.threads]
            for sequence in sequences:
                file.write(sequence.head())
            of_rank = flows.of_rank(rank)
            for block in blocks(rank, run):
                for number, sequence in enumerate(sequences):
                    for part in sequence.packets(block, number, of_rank):
                        file.write(part)
                slices += len(block)
                unfinished += int(block.open.sum())
    return [Told(slices, "slice"), Told(flows.count, "flow"), Told(unfinished, "unfinished slice")]
