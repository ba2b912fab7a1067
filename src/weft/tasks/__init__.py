"""Debugging of logical tasks: one task, line by line, whichever thread runs it, as if it were the only thread.

`model.py` defines the table of tasks and the six hooks of a runtime; `debugger.py` has the commands, written once for
all runtimes. Backends: `python.py` with `../inprocess/` for asyncio, `openmp.py` with `native/` for OpenMP. `session`
is the API.
"""

from weft.tasks.api import Session, session

__all__ = ["Session", "session"]
