"""Say from time to time how far a check has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Final, TypeVar

from weft.base.words import plural

FIRST_SECONDS: Final = 10
LOOK_SECONDS: Final = 0.5
T = TypeVar("T")
Say = Callable[[str], None]
"""What prints a sentence for the user."""


def ignore(text: str) -> None:
    """Print nothing."""


class Progress:
    """Says what goes on after 10 seconds, 20, 40 and so on: `say` gets a sentence with the seconds."""

    def __init__(self, say: Say, doing: str) -> None:
        self._say, self._doing = say, doing
        self._began = time.monotonic()
        self._next = float(FIRST_SECONDS)

    def report_if_due(self, more: str = "") -> None:
        """Report how many seconds the work has taken so far, if the next report is due. `more`: text to add."""
        taken = time.monotonic() - self._began
        if taken >= self._next:
            self._say(f"{self._doing} for {taken:.0f} s{more}")
            self._next *= 2


def wait_for_compilations(compilations: Sequence[Future[T]], say: Say) -> list[T]:
    """Wait until all sources are compiled, and return the results of the compilations in their order. Raises the first
    error that one of them raised.

    After an error or an interruption, compilations that have not begun are cancelled.
    """
    progress = Progress(say, "compiling")
    pending = set(compilations)
    try:
        while pending:
            done, pending = wait(pending, LOOK_SECONDS, FIRST_EXCEPTION)
            next((one.result() for one in done if one.exception()), None)
            of = f"{len(compilations) - len(pending)} of {plural(len(compilations), 'source')} so far"
            progress.report_if_due(f": {of}")
    except BaseException:
        for one in pending:
            one.cancel()
        raise
    return [one.result() for one in compilations]
