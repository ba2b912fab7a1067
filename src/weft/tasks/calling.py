"""`weft run --tasks`: a run whose ranks also write down which task makes each call, into RUN/tasks."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress

from weft.launch import rank_processes
from weft.launch.rankfile import trim_rank_file
from weft.launch.rundir import RunDirectory, unwritable_error
from weft.tasks.runtime import recording
from weft.trace import RunError
from weft.trace.tasks import FOLDER, SUFFIX, TaskFile


def begin(programs: Iterable[Sequence[str]], run: RunDirectory) -> dict[str, str]:
    """Make room in a run; return what the ranks need in their environment.

    UsageError where a program has OpenMP tasks that cannot be followed, WeftError where nothing can be built.
    """
    variables = recording(programs, run.path)
    try:
        (run.path / FOLDER).mkdir()
    except OSError as error:
        raise unwritable_error(run.path, error) from error
    run.facts["tasks"] = True
    return variables


def end(run: RunDirectory) -> None:
    """The job has ended: what its ranks wrote is made small, and nothing stays of ranks without tasks."""
    folder = run.path / FOLDER
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError, RunError):  # a longer file is no worse
            header = TaskFile(path).header
            if header.host == platform.node() and rank_processes.maps_file(header.pid, path) is False:
                trim_rank_file(path)
    with suppress(OSError):
        folder.rmdir()
