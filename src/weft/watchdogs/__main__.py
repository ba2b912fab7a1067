"""`python -m weft.watchdogs PROGRAM ARGS`: run a Python program, unchanged, under the watchdog.

WEFT_WATCHDOG sets the seconds without progress after which it reports; the default is 120.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from weft.errors import UsageError
from weft.watchdogs.settings import SECONDS, read_settings
from weft.watchdogs.watcher import start_watchdog

SECONDS_OF_ITS_OWN = 120.0


def run_program_with_watchdog() -> None:
    """Start the watchdog, and run the program of the command line as the main module."""
    words = sys.argv[1:]
    if not words or words == ["-m"] or words[0] in ("-h", "--help"):
        sys.exit(__doc__)
    try:
        start_watchdog(read_settings(None if SECONDS in os.environ else SECONDS_OF_ITS_OWN))
    except UsageError as error:
        sys.exit(f"weft: {error}")
    if words[0] == "-m":
        sys.argv = words[1:]
        sys.path[0] = str(Path.cwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).absolute().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    run_program_with_watchdog()
