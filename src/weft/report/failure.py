"""Reports analyses that fail: an error of Weft, whatever the program did. It comes first, with what to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.base.words import printable
from weft.errors import TraceError

_HOME: Final = Path(__file__).parents[1]


class AnalysisWarning(UserWarning):
    """Warns users of the Python API that some findings were not looked for."""


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
    damaged: bool = False
    """Whether the record is to blame, which cannot be read there, and not Weft."""

    @classmethod
    def from_exception(cls, analysis: str, error: Exception) -> Failure:
        """Return the failure of the analysis `analysis` that an exception caused; the record is to blame if it is a
        TraceError.
        """
        if isinstance(error, TraceError):
            return cls(analysis, str(error), damaged=True)
        # Hardly ever: an analysis that fails.
        from traceback import format_exception

        return cls(analysis, f"{type(error).__name__}: {error}", _line_in_weft(error), "".join(format_exception(error)))


def _line_in_weft(error: Exception) -> str:
    """Return the last line of Weft's own code in an exception's traceback, as `weft/FILE:LINE`; "" if there is none."""
    # Hardly ever, too.
    from traceback import extract_tb

    files = ((Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__))
    own = [f"weft/{file.relative_to(_HOME)}:{line}" for file, line in files if file.is_relative_to(_HOME)]
    return own[-1] if own else ""


def describe_failures(run: Path, failures: Iterable[Failure]) -> list[str]:
    """Return a line for each different error in which analyses ended. The last error that is Weft's own also says what
    to send to Weft's authors. `run`: the folder of the run.
    """
    causes: dict[Failure, list[str]] = {}
    for one in sorted(failures, key=lambda one: one.damaged):
        causes.setdefault(replace(one, analysis="", details=""), []).append(one.analysis)
    send = f"`weft doctor --bug-report` and `weft report --format json {run}`"
    own = [cause for cause in causes if not cause.damaged]
    more = dict.fromkeys(own[-1:], f". To report this error, send the output of {send}")
    return [printable(describe_failed_analyses(names, cause) + more.get(cause, "")) for cause, names in causes.items()]


def describe_failed_analyses(names: Sequence[str], failure: Failure) -> str:
    """Return a sentence on an error: which analyses it ended, where in Weft, and what the report therefore lacks.

    `names`: the analyses. `failure`: the error.
    """
    which = f"analysis of {names[0]}" if len(names) == 1 else f"analyses of {', '.join(names[:-1])} and {names[-1]}"
    if failure.damaged:
        return (
            f"the {which} {'is' if len(names) == 1 else 'are'} missing here, as the record is damaged: {failure.error}"
        )
    lost = "its findings are" if len(names) == 1 else "their findings are"
    at = f" at {failure.where}" if failure.where else ""
    return f"Weft's error, not the program's: the {which} failed{at}, so {lost} missing here: {failure.error}"
