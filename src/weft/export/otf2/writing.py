"""Export to OTF2, the Open Trace Format: an archive for Vampir, Cube, and the tools of Score-P and Scalasca.

Each thread is a location, each MPI function a region. Messages, collectives and one-sided communication have the
records of OTF2, and the line of each call is an attribute of its Enter. Events go straight from columns into the OTF2
library that the Python package brings (native/kernel/otf2.c).
"""

from __future__ import annotations

from pathlib import Path

from weft.export.blocks import read_blocks
from weft.export.otf2.archive import Archive
from weft.export.otf2.definitions import Definitions
from weft.export.otf2.messages import MessageTraffic
from weft.export.otf2.rank_records import RankRecords
from weft.export.output import ExportCount, pair_operations
from weft.terms.run_extent import run_extent, start_realtime_ns
from weft.trace import Trace


def write(trace: Trace, folder: Path) -> list[ExportCount]:
    """Write the run as the archive `folder`/traces.otf2, and return how many calls, messages and so on it has."""
    run = run_extent(trace)
    traffic = MessageTraffic(trace, pair_operations(trace, folder), run, folder)
    definitions = Definitions(trace)
    messages = opened = 0
    with Archive(folder, run.last - run.first, start_realtime_ns(trace) + run.first) as archive:
        for rank in trace.ranks:
            recorder = RankRecords(rank, traffic.of_rank(rank), definitions)
            for block in read_blocks(rank, run):
                for thread, rows in recorder.records_by_thread(block):
                    definitions.count_events(
                        rank, thread, archive.write_rows(definitions.location_number(rank, thread), rows)
                    )
                for text, start, end, location in recorder.find_open_calls(block):
                    archive.mark_open_call(text, start, end, location)
                    opened += 1
            archive.close_locations(definitions.rank_locations(rank))
            messages += recorder.sent
        archive.write_definitions(definitions)
    return [
        ExportCount(trace.event_count, "call"),
        ExportCount(definitions.events, "record"),
        ExportCount(messages, "message"),
        ExportCount(opened, "open call"),
    ]
