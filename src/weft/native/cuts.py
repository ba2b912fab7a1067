"""A file that another user cuts while it is mapped ends no command by a signal: it reads as zeros, which is told."""

from __future__ import annotations

from weft.errors import WeftError


class CutError(WeftError):
    """What was read of a file was no longer there."""


class _Cuts:
    """Whether commands of this process tell of cuts, so that they may live on."""

    told = False
    is_survived = False


def report_cuts() -> None:
    """From now on who reads asks `check` before what it has read is believed."""
    _Cuts.told = True


def prepare_for_cuts() -> None:
    """Be ready for cuts, before a file is mapped, where they are told."""
    if _Cuts.told and not _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # only who maps files

        kernel().weft_survive_cuts()
        _Cuts.is_survived = True


def check_for_cuts() -> None:
    """CutError where a file was cut since, whatever was made of it."""
    if _Cuts.is_survived:
        from weft.native.headers.cuts import kernel  # as above

        if kernel().weft_cuts():
            raise CutError(
                "a record was cut off while it was read: what was told of it does not hold. Open the run again"
            )
