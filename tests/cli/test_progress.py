"""The bar: on a terminal alone, only for what takes long, and gone at the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from tests_support import execute

WORK = """
import sys, threading, time
from weft.cli import _progress
_progress.AFTER_S = float(sys.argv[1])
def drawn():
    return any(type(thread).__name__ == "_RefreshThread" for thread in threading.enumerate())
with _progress.show_progress("counting") as advance:
    until = time.monotonic() + 30
    while sys.stderr.isatty() and _progress.AFTER_S < 1 and not drawn() and time.monotonic() < until:
        time.sleep(0.05)  # a busy machine takes its time to load what draws
    for k in range(1, 5):
        time.sleep(0.15)
        advance(k / 4, f"part {k}")
print("done")
"""


def at_a_terminal(after: str) -> str:
    """What the error output shows where it is a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", WORK, after], stdout=subprocess.PIPE, stderr=theirs, text=True,
                          timeout=60, check=True, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"})  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # nobody writes to it any more
            break
        shown += part
    os.close(ours)
    assert done.stdout == "done\n"
    return shown.decode()


def test_long_work_shows_a_bar_that_is_gone_at_the_end() -> None:
    text = at_a_terminal("0.1")
    assert "weft: counting: part" in text and "%" in text
    # The last thing that it does is to clear its line.
    assert text.rstrip("\r\n").endswith("\x1b[2K")


def test_short_work_shows_nothing() -> None:
    assert at_a_terminal("30") == ""


def test_where_there_is_no_terminal_nothing_is_shown() -> None:
    done = execute([sys.executable, "-c", WORK, "0.1"])
    assert (done.stdout, done.stderr) == ("done\n", "")
