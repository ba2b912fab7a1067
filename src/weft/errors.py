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


class DebuggerError(WeftError):
    """A debugger, or Weft's agent in a process, could not do what it was asked; the message has its own words."""
