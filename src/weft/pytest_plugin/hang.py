"""Finds tests that hang: a thread interrupts the test on the ranks where that is possible, or ends the job with a
report.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import pytest

from weft.pytest_plugin.meeting import SuiteMeeting
from weft.watchdogs import reporting

PAUSE: Final = 0.1
GRACE: Final = 3.0
"""Seconds for interrupted ranks to come back from a test."""
WAITS: Final = re.compile(r"outside of MPI at meeting\.py:\d+ SuiteMeeting\.\w+")
"""Where a rank is that waits for the others of the suite."""
SIGNAL: Final = signal.SIGUSR1


@dataclass(frozen=True, slots=True)
class Hang:
    """A test that hangs, the ranks on which it hangs, and where all ranks are."""

    test: int
    nodeid: str
    ranks: list[int]
    text: str

    @property
    def summary(self) -> str:
        """Return the first line of the text: `hangs on rank 1; ranks 0 and 2 are through`."""
        return self.text.partition("\n")[0]


class HangMonitor(threading.Thread):
    """Thread that watches the running test; that of rank 0 decides for all ranks.

    `seconds`: the time limit of a test. `words`: renders ranks as text. `last_word`: is called before the job is ended.
    """

    def __init__(
        self,
        meeting: SuiteMeeting,
        seconds: float,
        words: Callable[[list[int]], str],
        last_word: Callable[[Hang], None],
    ) -> None:
        super().__init__(name="weft suite", daemon=True)
        self.hangs: dict[int, Hang] = {}
        """What hung, by the number of the test."""
        self._meeting, self._seconds, self._words, self._last_word = meeting, seconds, words, last_word
        self._test: tuple[int, str, float] | None = None
        self._inside = False
        self._interrupted = -1

    def start_test(self, number: int, nodeid: str) -> None:
        """Begin to watch a test for a hang. `number`: its place in the suite; `nodeid`: pytest's name for it."""
        signal.signal(SIGNAL, self._fail_interrupted_test)
        self._inside = True
        self._test = (number, nodeid, time.monotonic())

    def mark_rank_done(self) -> None:
        """Note that this rank has finished the test and waits for the others. The test is not interrupted here any
        more.
        """
        self._inside = False

    def end_test(self) -> None:
        """Stop watching the test, which all ranks have finished."""
        self._test = None

    def _fail_interrupted_test(self, signal_number: int, frame: FrameType | None) -> None:
        """Fail the running test if it is the one that was interrupted because it hangs. This is the handler of
        SIGNAL.
        """
        __tracebackhide__ = True
        if self._inside and self._test is not None and self._interrupted == self._test[0]:
            self._inside = False
            pytest.fail(f"interrupted after {self._seconds:g} s: this test hangs")

    def run(self) -> None:
        """Watch the tests, as the body of a thread, until the process ends. A test that hangs is interrupted; rank 0
        also finds out which tests hang.
        """
        while True:
            time.sleep(PAUSE)
            self._meeting.read_news()
            first = self._meeting.said[0]
            if first.get("ended"):
                os._exit(1)
            test = self._test
            if test is None:
                continue
            number, nodeid, begun = test
            hang = first.get("hang")
            if hang is not None and hang["test"] == number and number not in self.hangs:
                self._interrupt_hanging_test(Hang(**hang))
            if self._meeting.rank == 0 and number not in self.hangs and time.monotonic() - begun > self._seconds:
                self._handle_timeout(number, nodeid)

    def _interrupt_hanging_test(self, hang: Hang) -> None:
        """Store that a test hangs. If it hangs on this rank, interrupt it here."""
        self.hangs[hang.test] = hang
        if self._meeting.rank in hang.ranks:
            self._interrupted = hang.test
            signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)

    def _handle_timeout(self, number: int, nodeid: str) -> None:
        """Find out where all ranks are, and tell them that a test hangs. If some ranks do not come back from the test
        after that, end the job.
        """
        late = self._find_unfinished_ranks(number)
        if not late:
            return
        reporting.allow_tracing()
        seen = WAITS.sub(
            "through with the test", reporting.JobInspection(os.getpid()).wait_for_text().partition("\n\n")[0]
        )
        if not (late := self._find_unfinished_ranks(number)):  # it was slow, and came while we looked
            return
        others = sorted(set(range(self._meeting.size)) - set(late))
        who = f"{nodeid} hangs on {self._words(late)} after {self._seconds:g} s"
        if others:
            who += f"; {self._words(others)} {'has' if len(others) == 1 else 'have'} finished it"
        hang = Hang(number, nodeid, late, f"{who}\n{seen}")
        self._meeting.publish(hang={"test": number, "nodeid": nodeid, "ranks": late, "text": hang.text})
        self._interrupt_hanging_test(hang)
        limit = time.monotonic() + GRACE
        while self._find_unfinished_ranks(number):
            if time.monotonic() > limit:
                self._last_word(hang)
                self._meeting.publish(ended=True)
                time.sleep(10 * PAUSE)
                os._exit(1)
            time.sleep(PAUSE)

    def _find_unfinished_ranks(self, number: int) -> list[int]:
        """Return the ranks that have not finished a test. `number`: its place in the suite."""
        self._meeting.read_news()
        return [rank for rank, said in enumerate(self._meeting.said) if _number(said.get("done")) < number]


def _number(said: Any) -> int:
    return -1 if said is None else int(said)
