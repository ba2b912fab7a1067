"""Ctrl-C and the limit of a command come at any moment, and what is done afterwards works all the same."""

from __future__ import annotations

import signal
import subprocess
from contextlib import suppress

from weft.debug.limit import has_ended, limited


def test_a_process_that_was_being_asked_about_can_be_waited_for() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        before = signal.getsignal(signal.SIGALRM)
        for number in range(3000):
            with suppress(KeyboardInterrupt), limited(2e-5 + number % 50 * 1e-6):
                while not has_ended(process):
                    pass
            assert signal.getsignal(signal.SIGALRM) is before
        process.kill()
        process.wait(timeout=10)
        assert has_ended(process)


def test_a_process_that_has_ended_is_still_there_to_be_waited_for() -> None:
    with subprocess.Popen(["false"]) as process:
        while not has_ended(process):
            pass
        assert process.wait(timeout=10) == 1
