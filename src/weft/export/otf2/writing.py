"""OTF2, the Open Trace Format: an archive for Vampir, Cube, Score-P's and Scalasca's tools.

A location a thread, a region an MPI function, the records that OTF2 has for messages, collectives and one-sided
communication, and the line of each call as an attribute of its Enter. The events go straight from columns into the
OTF2 library that the Python package brings (native/kernel/otf2.c).
"""

from __future__ import annotations

from pathlib import Path

from weft.export.blocks import blocks
from weft.export.otf2.archive import Archive
from weft.export.otf2.definitions import Definitions
from weft.export.otf2.records import Recorder
from weft.export.otf2.traffic import Traffic
from weft.export.output import Told, operations
from weft.terms.run_extent import extent, start_realtime_ns
from weft.trace import Trace


def write(trace: Trace, folder: Path) -> list[Told]:
    """Write the archive `folder`/traces.otf2."""
    run = extent(trace)
    traffic = Traffic(trace, operations(trace, folder), run, folder)
    definitions = Definitions(trace)
    messages = opened = 0
    with Archive(folder, run.last - run.first, start_realtime_ns(trace) + run.first) as archive:
        for rank in trace.ranks:
            recorder = Recorder(rank, traffic.of_rank(rank), definitions)
            for block in blocks(rank, run):
                for thread, rows in recorder.rows(block):
                    definitions.count(rank, thread, archive.write(definitions.location(rank, thread), rows))
                for text, start, end, location in recorder.open_calls(block):
                    archive.mark(text, start, end, location)
                    opened += 1
            archive.finish(definitions.locations(rank))
            messages += recorder.sent
        archive.define(definitions)
    return [
        Told(trace.event_count, "call"), Told(definitions.events, "record"), Told(messages, "message"),
        Told(opened, "open call"),
    ]  # fmt: skip
