"""The processes that a program has made by multiprocessing, as multiprocessing itself knows them; none is asked for."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

from .tracer import backs


def children() -> list[list[Any]]:
    """The number and the name of each that lives."""
    module: Any = sys.modules.get("multiprocessing.process")
    made = list(module._children) if module is not None else []
    known = ((getattr(one._popen, "pid", None), one.name) for one in made)
    return sorted([pid, name] for pid, name in known if pid is not None and lives(pid))


def copied() -> Iterator[Any]:
    """The loops that ran in the parent when it made this process by a fork: their tasks are copies and never go on."""
    forked = False
    for frame in backs(sys._current_frames().get(threading.main_thread().ident or 0)):
        code = frame.f_code
        forked = forked or (code.co_qualname == "Popen._launch" and code.co_filename.endswith("popen_fork.py"))
        if forked and code.co_qualname == "BaseEventLoop.run_forever":
            yield frame.f_locals.get("self")


def lives(pid: int) -> bool:
    """Whether a process has not come to its end: one that nobody has waited for yet is still listed."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib may never be imported
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
