"""Survives files that another user cuts while they are mapped: they read as zeros, which the command reports."""

from __future__ import annotations

from weft.errors import WeftError


class CutError(WeftError):
    """The content of a file that was read no longer existed."""


class _Cuts:
    """Whether the commands of this process report cuts, so that they may survive them."""

    told = False
    is_survived = False


def report_cuts() -> None:
    """Survive cuts from now on: readers call `check` before what they have read is believed."""
    _Cuts.told = True


def prepare_for_cuts() -> None:
    """Install the handler for files that are cut off while they are mapped, if cuts are reported. To be called before
    a file is mapped."""
    if _Cuts.told and not _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # only who maps files

        kernel().weft_survive_cuts()
        _Cuts.is_survived = True


def check_for_cuts() -> None:
    """Raise CutError if a file was cut since, whatever was made of it."""
    if _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # as above

        if kernel().weft_cuts():
            raise CutError(
                "a record was cut off while it was read: what was reported of it may be wrong. Open the run again"
            )
