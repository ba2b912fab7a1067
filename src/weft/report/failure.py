"""Analyses that fail: an error of Weft, whatever the program did. It is told before all else, with what to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from traceback import extract_tb, format_exception
from typing import Final

import weft
from weft.plain import dataclass
from weft.terms.words import printable

_HOME: Final = Path(weft.__file__).parent


class AnalysisWarning(UserWarning):
    """Warns whoever asks in Python for findings that some are not looked for."""


@dataclass(frozen=True)
class Failure:
    """An analysis that could not finish."""

    analysis: str
    error: str
    """What was raised, and what it says."""
    where: str = ""
    """Weft's own line that it came from, such as `weft/races/service.py:183`."""
    details: str = ""
    """The traceback."""

    @classmethod
    def of(cls, analysis: str, error: Exception) -> Failure:
        """The failure that an exception is."""
        return cls(analysis, f"{type(error).__name__}: {error}", _origin(error), "".join(format_exception(error)))


def _origin(error: Exception) -> str:
    """The last line of Weft on the way to an exception, "" where there is none."""
    files = ((Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__))
    own = [f"weft/{file.relative_to(_HOME)}:{line}" for file, line in files if file.is_relative_to(_HOME)]
    return own[-1] if own else ""


def failure_lines(run: Path, failures: Iterable[Failure]) -> list[str]:
    """A line for each error in which analyses of a run ended, and in the last one what to send; else nothing."""
    causes: dict[tuple[str, str], list[str]] = {}
    for one in failures:
        causes.setdefault((one.error, one.where), []).append(one.analysis)
    lines = [failure_line(names, *cause) for cause, names in causes.items()]
    if lines:
        lines[-1] += f". To have it mended, send what `weft doctor --report` and `weft report --format json {run}` say"
    return [printable(text) for text in lines]


def failure_line(names: Sequence[str], error: str, where: str) -> str:
    """Says in which analyses an error came up, where in Weft, and what a report lacks for it."""
    of = f"analysis of {names[0]}" if len(names) == 1 else f"analyses of {', '.join(names[:-1])} and {names[-1]}"
    lost = "what it looks for is" if len(names) == 1 else "what they look for is"
    at = f" at {where}" if where else ""
    return f"Weft's error, not the program's: the {of} failed{at}, so {lost} not in here: {error}"
