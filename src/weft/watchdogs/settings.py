"""The settings of the watchdog: after how many seconds it acts, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError

SECONDS: Final = "WEFT_WATCHDOG"
ACTION: Final = "WEFT_WATCHDOG_ACTION"
FILE: Final = "WEFT_WATCHDOG_FILE"
ACTIONS: Final = ("tell", "abort")


@dataclass(frozen=True, slots=True)
class WatchdogSettings:
    """Report after `seconds` without progress; `abort`: end the program afterwards."""

    seconds: float
    abort: bool = False
    file: str = ""
    """Where it is written beside standard error; empty: a name of its own in the working folder."""


def read_settings(
    seconds: float | None = None, action: str | None = None, file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> WatchdogSettings | None:  # fmt: skip
    """Return the watchdog's settings. An argument that is not given is read from the environment. None if no time is
    set, or 0: the watchdog is off.

    UsageError if a value is not valid.
    """
    text = environment.get(SECONDS, "") if seconds is None else str(seconds)
    if text in ("", "0"):
        return None
    action = action or environment.get(ACTION) or ACTIONS[0]
    if action not in ACTIONS:
        raise UsageError(f"{ACTION}={action}: unknown value; use one of {', '.join(ACTIONS)}")
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{SECONDS}={text}: not a number of seconds; use a number such as 60, or 0 for no watchdog")
    return WatchdogSettings(number, action == "abort", os.fspath(file or environment.get(FILE, "")))
