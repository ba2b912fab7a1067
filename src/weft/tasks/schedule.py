"""The file of `--record` and `--replay`: in which order tasks took their turns. What it holds is its runtime's own."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from weft.errors import UsageError
from weft.safety.folders import open_regular
from weft.tasks.inside.order import LONGEST, SCHEMA

Runtime = Literal["asyncio", "openmp"]


def check(how: str, file: str, runtime: Runtime) -> None:
    """Refuse what cannot be replayed. UsageError with the file and the reason."""
    if how != "replay":
        return
    first: object = None
    with suppress(OSError, ValueError, RecursionError), os.fdopen(open_regular(Path(file)), "rb") as lines:
        first = json.loads(lines.readline(LONGEST) or "null")
    if not isinstance(first, dict) or first.get("schema") != SCHEMA:
        raise UsageError(f"--replay {file}: `weft tasks --record` did not write this file")
    if first.get("runtime", "asyncio") != runtime:
        raise UsageError(
            f"--replay {file}: it is the order of tasks of {first['runtime']}, and this program's are {runtime}"
        )
