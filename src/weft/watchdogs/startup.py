"""Starts the watchdog in every Python of a site that has WEFT_WATCHDOG in its environment; for a
line in a .pth file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from weft.errors import UsageError
from weft.watchdogs.settings import read_settings
from weft.watchdogs.watcher import start_watchdog

OWN = ("weft", "mpiexec", "mpirun", "srun")


def _start_unless_weft() -> None:
    """Start the watchdog of this Python process, unless the process runs Weft itself."""
    words = sys.orig_argv
    if any(word.startswith("weft.") for word in words) or any(Path(word).name in OWN for word in words[:2]):
        return
    try:
        start_watchdog(read_settings())
    except UsageError as error:
        sys.stderr.write(f"weft: {error}\n")


_start_unless_weft()
