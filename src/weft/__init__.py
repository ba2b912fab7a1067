"""Weft, the debugger for parallel programs: record a run once, then ask it what went wrong."""

from __future__ import annotations

from weft.base.version import VERSION
from weft.values.probes import block, loop, part, probe, region

TYPE_CHECKING = False  # its own module is a third of what this one would take
if TYPE_CHECKING:
    import os
    from typing import Any

    from weft.compare.values.notebook import DrawnComparison
    from weft.findings import Finding
    from weft.trace import Event, Trace

__version__ = VERSION
__all__ = ["__version__", "block", "differences", "loop", "open", "part", "probe", "region", "watchdog"]


def open(path: str | os.PathLike[str]) -> Trace:
    """Open a recorded run, a directory that `weft run` wrote, for reading. If the run was cut off, its source lines are
    looked up first.
    """
    # `import weft` is all that the command line needs to print its help.
    from weft.trace import Trace

    Trace.draw_svg = staticmethod(_draw_svg)
    Trace.make_table = staticmethod(_make_table)
    Trace.finder = staticmethod(_find_findings)
    Trace.describer = staticmethod(_describe_event)
    trace = Trace.open(path)
    if trace.run.get("ended") != "running":
        return trace
    # Nearly all runs were finished by `weft run`.
    from weft.launch.cut_off_runs import look_up_lines

    return look_up_lines(trace)


def differences(
    reference: str | os.PathLike[str], run: str | os.PathLike[str], **tolerance: float | bool | str
) -> DrawnComparison:
    """Compare the values that probes kept in a run with those of a reference, as `weft compare` does. The result draws
    itself in a notebook.

    `tolerance`: absolute, relative, ulps, exact, nan="different", as for the command; what is left out is taken from
    the run's configuration. TraceError if a run has no values.
    """
    # `import weft` is all that the command line needs to print its help.
    from pathlib import Path

    from weft.compare.values import compare_values
    from weft.compare.values.notebook import DrawnComparison
    from weft.values.configuration import read_tolerances
    from weft.values.trace import ValueTrace

    sides = [ValueTrace.open(Path(path)) for path in (reference, run)]
    return DrawnComparison.from_comparison(
        compare_values(sides[0], sides[1], read_tolerances(sides[1].path, tolerance))
    )


def watchdog(seconds: float | None = None, *, action: str = "", file: str | os.PathLike[str] = "") -> bool:
    """Report once where all ranks of this host are, when the main thread has stood at one place for `seconds`. Return
    whether the watchdog is on now.

    Without `seconds`, the variable WEFT_WATCHDOG says how long; the watchdog stays off if it is not set. With
    `action="abort"` the program is ended after the report. `file`: where the report is written, besides standard error.
    Raises UsageError for an unknown action or setting.
    """
    # `import weft` is all that the command line needs to print its help.
    from weft.watchdogs import watcher
    from weft.watchdogs.settings import read_settings

    return watcher.start_watchdog(read_settings(seconds, action or None, file or None))


def _draw_svg(trace: Trace, **options: Any) -> str:
    """Return an SVG picture of a trace."""
    # Who wants no picture does not pay for it.
    from weft.picture.svg import draw_svg

    return draw_svg(trace, **options)


def _find_findings(trace: Trace) -> list[Finding]:
    """Return the findings of a trace."""
    # Who wants no findings does not pay for them.
    from weft.report import run_analyses

    return list(run_analyses(trace).findings)


def _describe_event(event: Event) -> str:
    """Return a call with its arguments, results and line, for people."""
    # Who prints no call does not pay for it.
    from weft.terms.call_text import call_text
    from weft.terms.describe import site_suffix

    return f"rank {event.rank.index}, event {event.index}: {call_text(event)}{site_suffix(event)}"


def _make_table(trace: Trace, form: str, query: str) -> Any:
    """Return the calls of a trace that `query` selects as a table. `form` names its kind: "to_arrow" for a table of
    pyarrow, "to_pandas" for a DataFrame of pandas.
    """
    # Tables need a package that may not be there.
    from weft.export import arrow_tables

    return {"to_arrow": arrow_tables.to_arrow, "to_pandas": arrow_tables.to_pandas}[form](trace, query)
