"""A run on disk as one object. `weft.open(RUN)` gives the Trace; everything else asks it."""

from __future__ import annotations

from weft.errors import RunError
from weft.native.headers.switches import TaskKind
from weft.trace.clock import Axis
from weft.trace.communicators import Communicator
from weft.trace.datatypes import Datatype, Signature
from weft.trace.definitions import Definitions
from weft.trace.endings import Ending
from weft.trace.functions import Function, FunctionTable, Parameter
from weft.trace.layout import EVENT, EndingKind, ExitKind, Flag, Level, State
from weft.trace.rank import Event, Rank, Run, Thread
from weft.trace.rankfile import Header
from weft.trace.run import Trace
from weft.trace.sites import CallSite
from weft.trace.tails import Status
from weft.trace.tasks import LogicalTask, Tasks
from weft.trace.worlds import World

__all__ = [
    "EVENT",
    "Axis",
    "CallSite",
    "Communicator",
    "Datatype",
    "Definitions",
    "Ending",
    "EndingKind",
    "Event",
    "ExitKind",
    "Flag",
    "Function",
    "FunctionTable",
    "Header",
    "Level",
    "LogicalTask",
    "Parameter",
    "Rank",
    "Run",
    "RunError",
    "Signature",
    "State",
    "Status",
    "TaskKind",
    "Tasks",
    "Thread",
    "Trace",
    "World",
]  # fmt: skip
