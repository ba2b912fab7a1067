"""Sourced by gdb: log points, which say a message at each visit and never stop the program."""

from __future__ import annotations

import json
import re

import gdb

MARK = "weft-log:"
"""How the line of a message begins in gdb's output; mi.py looks for it."""


class LogPoint(gdb.Breakpoint):  # type: ignore[misc, unused-ignore]
    """A breakpoint that says its message instead of stopping, also in the middle of a `next`."""

    def __init__(self, place: str, message: str, condition: str, count: int) -> None:
        super().__init__(place)
        self.weft_message, self.weft_condition, self.weft_left = message, condition, count

    def stop(self) -> bool:
        """Print the message if the condition is true and the line was visited often enough. Return False, so that the
        program continues. gdb calls this at each visit.
        """
        if self.weft_condition:
            try:
                if not gdb.parse_and_eval(self.weft_condition):
                    return False
            except gdb.error:
                pass  # a condition that cannot be computed holds
        self.weft_left -= 1
        if self.weft_left <= 0:
            text = re.sub(r"\{([^{}]+)\}", lambda found: _evaluate_as_text(found.group(1)), self.weft_message)
            gdb.write(MARK + json.dumps(text) + "\n")
        return False


def _evaluate_as_text(expression: str) -> str:
    """Return the value of an expression as text, or gdb's error in angle brackets."""
    try:
        return str(gdb.parse_and_eval(expression))
    except gdb.error as error:
        return f"<{error}>"


def weft_log(place: str, message: str, condition: str, count: int) -> None:
    """Set a log point, and print its number."""
    print(LogPoint(place, message, condition, count).number)
