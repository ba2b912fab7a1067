"""Ctrl-C and the limit of a command come at any moment, and what is done afterwards works all the same."""

from __future__ import annotations

import signal
import subprocess

from weft.base.interrupts import has_ended, interrupting_after


def ask_until_the_limit(process: subprocess.Popen[bytes], seconds: float) -> None:
    with interrupting_after(seconds):
        while not has_ended(process):
            pass


def test_a_process_that_was_being_asked_about_can_be_waited_for() -> None:
    before, interrupts = signal.getsignal(signal.SIGALRM), 0
    with subprocess.Popen(["sleep", "100"]) as process:
        for number in range(3000):
            try:
                ask_until_the_limit(process, 2e-5 + number % 50 * 1e-6)
            except KeyboardInterrupt:
                interrupts += 1
            assert signal.getsignal(signal.SIGALRM) is before
        process.kill()
        process.wait(timeout=10)
        assert has_ended(process)
    assert interrupts == 3000


def test_a_process_that_has_ended_is_still_there_to_be_waited_for() -> None:
    with subprocess.Popen(["false"]) as process:
        while not has_ended(process):
            pass
        assert process.wait(timeout=10) == 1
