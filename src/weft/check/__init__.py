"""Check data-parallel programs: run them on one processor while their parallel execution is simulated.

A front end (`front_ends`, chosen by the language of the sources) brings the program and its source map; the runtime
(`dataparallel/native`) watches loops and accesses and writes what it found; `findings` combines both.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.check.front_ends import find_front_end
from weft.dataparallel import messages, runtime_output
from weft.dataparallel.check_coverage import CheckCoverage, summarize_coverage
from weft.dataparallel.compilation import limit_compiler
from weft.dataparallel.findings import make_findings
from weft.dataparallel.front_end import CheckOutcome, CheckRequest, FrontEnd, MarkingFrontEnd
from weft.dataparallel.program import PLAIN, CompileOptions
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.errors import UsageError
from weft.findings import Finding, worst_first

__all__ = ["CheckRequest", "CheckResult", "check_program", "mark_sources"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: its findings, and how the program ended (`status` is its exit status, negative for a
    signal).
    """

    name: str
    findings: tuple[Finding, ...]
    status: int
    run: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    ranks: tuple[Any, ...] = ()
    looked: CheckCoverage = field(default_factory=CheckCoverage)
    cut_off: bool = False
    """Its time was up."""
    hidden: int = 0
    """Findings that the user chose not to be told."""

    @property
    def ending(self) -> str:
        """Return how the program ended, as a phrase such as `finished` or `Weft ended the program`."""
        if self.cut_off:
            return "Weft ended the program"
        if self.status < 0:
            return f"the program ended by {signal.Signals(-self.status).name}"
        return f"the program exited with {self.status}" if self.status else "finished"

    @property
    def whole(self) -> bool:
        """Return whether the program ran to its own end with exit status 0."""
        return self.status == 0 and not self.cut_off


def check_program(request: CheckRequest, folder: Path) -> CheckResult:
    """Build the program in `folder`, run it once, and return what was found. Raises UsageError if it cannot be
    checked.
    """
    for source in request.sources:
        if not source.is_file():
            raise UsageError(f"{source} is not a file; name the program's sources")
    front_end = find_front_end(request.sources, launched=bool(request.launcher or request.program))
    front_end.refuse_unsupported_options(request)
    found = folder / "findings.jsonl"
    found.unlink(missing_ok=True)
    with limit_compiler(request.timeout):
        outcome = front_end.run(request, folder, found)
    ended = outcome.ended
    told = runtime_output.read_runtime_output(found) if outcome.runtime_output is None else outcome.runtime_output
    found_of_all = worst_first([*make_findings(told, outcome.texts), *outcome.findings])
    seen = summarize_coverage(told, outcome.texts, (*request.unchecked, *outcome.unchecked))
    return CheckResult(
        name=" ".join(request.display_names),
        findings=tuple(found_of_all),
        status=ended.status,
        run={
            "command": [*request.launcher, *request.display_names, *request.arguments],
            "cwd": str(Path.cwd()),
            "ended": "killed" if ended.cut_off else "crashed" if ended.status < 0 else "finished",
            "seconds": {"preparing": round(ended.preparing, 3), "program": round(ended.seconds, 3)},
        },
        problems=tuple(_describe_problems(front_end, request, outcome, seen)),
        looked=seen,
        cut_off=ended.cut_off,
    )


def _describe_problems(
    front_end: FrontEnd, request: CheckRequest, outcome: CheckOutcome, seen: CheckCoverage
) -> Iterator[str]:
    """Yield sentences on what makes a check's result incomplete, and the notes of its front end."""
    if outcome.ended.cut_off:
        yield (
            f"Weft ended the program after {request.timeout or 0:g} s (--timeout): what it would have done later is "
            f"not checked"
        )
    elif outcome.ended.status:
        yield (
            "the program failed (if it needs arguments, give them after --): what it would have done later is not "
            "checked"
        )
    if seen.full_stack:
        yield messages.STACK_FULL.format(size=seen.full_stack)
    yield from outcome.notes
    if seen.is_empty:
        yield f"nothing was checked: {front_end.remedy}"


def mark_sources(sources: Sequence[Path], options: CompileOptions = PLAIN) -> tuple[list[MarkedSource], SourceMap]:
    """Return the program's sources with the runtime's calls inserted, and their source map. Raises UsageError if
    programs in this language are checked without such calls.
    """
    front_end = find_front_end(sources)
    if not isinstance(front_end, MarkingFrontEnd):
        raise UsageError(f"{sources[0]}: {front_end.name} programs run unmarked")
    return front_end.mark(sources, options)
