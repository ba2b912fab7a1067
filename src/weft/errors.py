"""The errors that Weft raises for people: one sentence that says what happened, where, and what to do."""

from __future__ import annotations


class WeftError(Exception):
    """Weft itself could not do what it was asked to. `exit_code` is what the command then exits with."""

    exit_code = 4


class UsageError(WeftError):
    """The request cannot be right as it stands: a wrong option, a missing program, a folder in use."""

    exit_code = 2


class TraceError(WeftError):
    """A path is not a run directory, or nothing in it can be read."""


class RunError(TraceError):
    """A run or a part of it cannot be read; the message says what, where and what to do."""

    slug = "run"


class NoRunError(RunError):
    """A path that was named is not a run; the message says what it is."""

    exit_code = 2


class OtherVersion(RunError):
    """A file is of another version of its format than the one that this Weft reads; nothing of it is read."""

    def __init__(self, path: object, found: object, reads: object) -> None:
        super().__init__(
            f"{path} is of version {found}, and this Weft reads version {reads}: record the run again, or read it "
            "with the Weft that wrote it"
        )


class DebuggerError(WeftError):
    """A debugger, or Weft's agent in a process, could not do what it was asked; the message has its own words."""
