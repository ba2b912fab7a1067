"""Lists the processes that a program has made by multiprocessing, by multiprocessing's own records."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

from .tracer import frame_and_callers


def list_child_processes() -> list[list[Any]]:
    """Return [process number, name] for each living child process of multiprocessing."""
    module: Any = sys.modules.get("multiprocessing.process")
    made = list(module._children) if module is not None else []
    known = ((getattr(one._popen, "pid", None), one.name) for one in made)
    return sorted([pid, name] for pid, name in known if pid is not None and is_process_alive(pid))


def find_forked_loops() -> Iterator[Any]:
    """Yield the loops that the parent process was running when it forked this process. Their tasks here are copies,
    which never continue.
    """
    forked = False
    for frame in frame_and_callers(sys._current_frames().get(threading.main_thread().ident or 0)):
        code = frame.f_code
        forked = forked or (code.co_qualname == "Popen._launch" and code.co_filename.endswith("popen_fork.py"))
        if forked and code.co_qualname == "BaseEventLoop.run_forever":
            yield frame.f_locals.get("self")


def is_process_alive(pid: int) -> bool:
    """Return whether a process exists and has not ended. A zombie has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib may never be imported
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
