"""`weft run --tasks`: ranks also record which task makes each call, into RUN/tasks."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from contextlib import suppress

from weft.launch import rank_processes
from weft.launch.rankfile import trim_rank_file
from weft.launch.rundir import RunDirectory, unwritable_error
from weft.tasks.runtime import recording_environment
from weft.trace import RunError
from weft.trace.tasks import FOLDER, SUFFIX, TaskFile


def prepare_recording(programs: Iterable[Sequence[str]], run: RunDirectory) -> dict[str, str]:
    """Create the folder for the tasks of a run, and return the environment variables that its ranks need.

    UsageError if a program has OpenMP tasks that cannot be followed; WeftError if the C part cannot be built.
    """
    variables = recording_environment(programs, run.path)
    try:
        (run.path / FOLDER).mkdir()
    except OSError as error:
        raise unwritable_error(run.path, error) from error
    run.facts["tasks"] = True
    return variables


def finish_recording(run: RunDirectory) -> None:
    """After the job of `weft run --tasks`, cut the files with the ranks' tasks to their used length, and remove their
    folder if no rank had tasks.
    """
    folder = run.path / FOLDER
    for path in folder.glob(f"*{SUFFIX}"):
        with suppress(OSError, RunError):  # a longer file is no worse
            header = TaskFile(path).header
            if header.host == platform.node() and rank_processes.maps_file(header.pid, path) is False:
                trim_rank_file(path)
    with suppress(OSError):
        folder.rmdir()
