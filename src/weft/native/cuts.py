"""Survives files that another user cuts while they are mapped: they read as zeros, which the command reports."""

from __future__ import annotations

from weft.errors import WeftError


class CutError(WeftError):
    """The content of a file that was read no longer existed."""


class _Cuts:
    """Whether this process's commands report files that were cut off while they were read, and whether they survive
    that."""

    told = False
    is_survived = False


def report_cuts() -> None:
    """Survive cuts from now on: readers call `check` before what they have read is believed."""
    _Cuts.told = True


def prepare_for_cuts() -> None:
    """Install the signal handler by which a process survives that a file it has mapped is cut off. To be called before
    a file is mapped. Does nothing if the process's commands do not report cut files."""
    if _Cuts.told and not _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # only who maps files

        kernel().weft_survive_cuts()
        _Cuts.is_survived = True


def check_for_cuts() -> None:
    """Raise CutError if a mapped file has been cut off since `prepare_for_cuts`: what was read of it may be wrong."""
    if _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # as above

        if kernel().weft_count_lost_pages():
            raise CutError(
                "a record was cut off while it was read: what was reported of it may be wrong. Open the run again"
            )
