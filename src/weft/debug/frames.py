"""What commands look at: the selected frame of each rank, its variables, and the expressions displayed at
every stop.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from weft.debug.hands import Hand
from weft.errors import DebuggerError, UsageError

Answer = dict[str, Any]
FORMATS = "xdotcfsu"
"""As gdb names them: hexadecimal, decimal, octal, binary, character, floating point, string, unsigned."""
PARTS = "you changed a value, so the replay may differ from its record from here on; Weft reports where it does"


def split_format(text: str) -> tuple[str, str]:
    """Return the format and the expression of `/x EXPR`; the format is "" if none is given. UsageError if gdb has no
    such format.
    """
    if not text.startswith("/"):
        return "", text
    form, _, rest = text[1:].partition(" ")
    if len(form) != 1 or form not in FORMATS:
        raise UsageError(f"/{form} is not a format: use one of {', '.join('/' + f for f in FORMATS)}")
    return form, rest.strip()


class Frames:
    """The frames that commands use. `hand` returns what debugs a rank; DebuggerError if nothing can."""

    def __init__(self, hand: Callable[[int], Hand]) -> None:
        self._hand = hand
        self.level: dict[int, int] = {}
        self.displays: dict[int, tuple[str, str]] = {}
        """By number: the expression, and the ranks as a person wrote them."""
        self._ids = itertools.count(1)

    def moved(self) -> None:
        """Select the innermost frames again, as the ranks run."""
        self.level.clear()

    def choose(self, rank: int, level: int | None, up: int = 0) -> Answer:
        """Select a frame of a rank for later commands, and return it. UsageError if there is no such frame.

        `level`: the frame's number (0: innermost), None for the selected one. `up`: how many frames further out.
        """
        frames = self._hand(rank).stack()
        wanted = (self.level.get(rank, 0) if level is None else level) + up
        if not frames:
            raise DebuggerError(f"rank {rank} is in no function of the program: `next event` runs to its next call")
        if not 0 <= wanted < len(frames):
            which = f"frames 0 to {len(frames) - 1}" if len(frames) > 1 else "one frame only"
            raise UsageError(f"rank {rank} has {which}")
        self.level[rank] = wanted
        return {"kind": "frame", "rank": rank, "level": wanted, "frame": frames[wanted].as_dict()}

    def evaluate(self, rank: int, text: str, form: str = "") -> Answer:
        """Return the value of an expression in the selected frame of a rank, as a row with `value`, or with `error` if
        it has none.
        """
        try:
            return {"rank": rank, "value": self._hand(rank).evaluate(text, self.level.get(rank, 0), form)}
        except DebuggerError as error:
            return {"rank": rank, "error": str(error)}

    def variables(self, ranks: Sequence[int]) -> Answer:
        """Return the arguments and local variables of the selected frame of each of the ranks, or the error that
        prevented this.
        """
        rows: list[Answer] = []
        for rank in ranks:
            try:
                found = self._hand(rank).variables(self.level.get(rank, 0))
                rows.append({"rank": rank, "variables": [{"name": name, "value": value} for name, value in found]})
            except DebuggerError as error:
                rows.append({"rank": rank, "error": str(error)})
        return {"kind": "locals", "ranks": rows}

    def assign(self, assignment: str, ranks: Sequence[int]) -> Answer:
        """Execute the assignment `NAME = EXPR` on ranks, and return the new values. UsageError if the text is no
        assignment; DebuggerError if it fails on all ranks.
        """
        found = re.fullmatch(r"(?:var(?:iable)?\s+)?(.+?)\s*(?<![=!<>])=(?!=)\s*(.+)", assignment)
        if found is None:
            raise UsageError("give NAME = EXPR: set x = 5, set cell.id = 7 @1")
        rows: list[Answer] = []
        for rank in ranks:
            try:
                value = self._hand(rank).assign(found[1], found[2], self.level.get(rank, 0))
                rows.append({"rank": rank, "value": value})
            except DebuggerError as error:
                rows.append({"rank": rank, "error": str(error)})
        if not any("value" in row for row in rows):
            raise DebuggerError(str(rows[0]["error"]))
        return {"kind": "set", "target": found[1], "values": rows, "warning": PARTS}

    def display(self, expression: str, ranks: str) -> int:
        """Display an expression at every stop from now on, and return its number. `ranks`: the ranks as the user wrote
        them.
        """
        number = next(self._ids)
        self.displays[number] = (expression, ranks)
        return number

    def undisplay(self, numbers: str) -> None:
        """No longer display the expressions with these numbers, or all if `numbers` is "" or `all`. UsageError if one
        does not exist.
        """
        chosen = (
            list(self.displays) if numbers in ("", "all") else [int(n) if n.isdigit() else 0 for n in numbers.split()]
        )
        if not chosen or not self.displays.keys() >= set(chosen):
            raise UsageError(f"nothing is displayed as {numbers}" if numbers else "nothing is displayed")
        for number in chosen:
            del self.displays[number]
