"""Export to Perfetto's trace format: a track for each thread, a slice for each call with its arguments, a flow for each
message.

The messages of perfetto_trace.proto are encoded by hand (protobuf.py), a block of calls at a time, as objects would
cost tens of microseconds for each call. The tests read them back with the classes that Perfetto publishes.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from weft.export.blocks import read_blocks
from weft.export.output import ExportCount, pair_operations
from weft.export.perfetto import tracks
from weft.export.perfetto.flows import Flows
from weft.export.perfetto.slices import PacketSequence
from weft.terms.run_extent import run_extent, start_realtime_ns
from weft.trace import Trace


def write(trace: Trace, path: Path) -> list[ExportCount]:
    """Write the run as a Perfetto trace file, and return how many calls, flows and so on it has."""
    run = run_extent(trace)
    flows = Flows(pair_operations(trace, path))
    slices = unfinished = 0
    numbers = itertools.count(1)
    with path.open("wb") as file:
        file.write(tracks.make_clock_packet(start_realtime_ns(trace) + run.first))
        for rank in trace.ranks:
            file.write(tracks.make_process_packet(rank))
            sequences = [PacketSequence(rank, thread, next(numbers)) for thread in rank.threads]
            for sequence in sequences:
                file.write(sequence.make_first_packet())
            of_rank = flows.rank_flows(rank)
            for block in read_blocks(rank, run):
                for number, sequence in enumerate(sequences):
                    for part in sequence.make_block_packets(block, number, of_rank):
                        file.write(part)
                slices += len(block)
                unfinished += int(block.open.sum())
    return [ExportCount(slices, "slice"), ExportCount(flows.count, "flow"), ExportCount(unfinished, "unfinished slice")]
