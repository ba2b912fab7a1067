"""The error of a run that cannot be read."""

from __future__ import annotations

from weft.errors import TraceError


class RunError(TraceError):
    """A run or a part of it cannot be read; the message says what, where and what to do."""

    slug = "run"
