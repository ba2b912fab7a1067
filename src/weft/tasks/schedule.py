"""Checks the file of `--record` and `--replay`: the order in which tasks took their turns, in its
runtime's own terms.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from weft.errors import UsageError
from weft.inprocess.schedule_file import explain_refusal, read_schedule_header
from weft.safety.folders import open_regular

Runtime = Literal["asyncio", "openmp"]


def check_schedule_file(mode: str, file: str, runtime: Runtime) -> None:
    """Raise a UsageError if the file that `--replay` names has no order of tasks, or the order of another runtime's
    tasks. `mode`: `record` or `replay`; for `record` nothing is checked.
    """
    if mode != "replay":
        return
    first: dict[str, Any] = {}
    with suppress(OSError, ValueError), os.fdopen(open_regular(Path(file)), "rb") as lines:
        first = read_schedule_header(lines)
    if why := explain_refusal(first):
        raise UsageError(f"--replay {file}: {why}")
    if first.get("runtime", "asyncio") != runtime:
        raise UsageError(
            f"--replay {file}: it is the order of tasks of {first['runtime']}, and this program's are {runtime}"
        )
