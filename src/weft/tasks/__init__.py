"""Logical tasks: one task, line by line, wherever it runs, as if it were the only thread in the world.

`model.py` is the table and the six hooks of a runtime; `debugger.py` has the commands, written once on it. Backends:
`python.py` with `../inprocess/` for asyncio, `openmp.py` with `native/` for OpenMP. `session` is the API.
"""

from weft.tasks.api import Session, session

__all__ = ["Session", "session"]
