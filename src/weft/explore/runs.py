"""Runs the variants of a recorded run by `weft replay --force`, and says what came of each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import weft
from weft.errors import WeftError
from weft.explore.search import Outcome, Variant
from weft.plain import dataclass
from weft.replay.force import Forcing
from weft.report import examine
from weft.trace import Trace

DEADLOCK: Final = 3
LEFT: Final = (4, 5)
"""What `weft replay` exits with where the outcome did not come about, besides the program's own statuses."""
MOST_TEXT: Final = 160


@dataclass(slots=True)
class Result:
    """What a run came to: how it ended, what it printed on standard output (lines, sorted), what is found in it."""

    status: int
    ended: str
    output: list[str]
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Errors and warnings but for races, by kind and sentence."""


@dataclass(slots=True)
class Runs:
    """The runs of one exploration: of `base`, whose outcomes lie beside it as BASE-other-1 and so on."""

    base: Path
    program: Sequence[str] = ()
    timeout: float = 60.0
    results: dict[Path, Result] = field(default_factory=dict)
    """By the directory of the run."""
    steady: bool = True
    """Whether two replays of the record print the same: else what is printed is not compared."""

    def reference(self, trace: Trace) -> Result:
        """What the recorded run comes to: of the record, and printed by two replays of it."""
        printed = []
        with tempfile.TemporaryDirectory() as folder:
            for k in range(2):
                done = self._replay(self.base, Path(folder) / str(k))
                printed.append((done.returncode, _lines(done.stdout)))
        if printed[0][0] in LEFT:
            raise WeftError(f"{self.base} cannot be replayed, so no other outcome can be run: {_last(done.stderr)}")
        self.steady = printed[0][1] == printed[1][1]
        result = Result(printed[0][0], _ended(trace), printed[0][1], _found(trace))
        self.results[self.base] = result
        return result

    def __call__(self, parent: Outcome, variant: Variant, forcing: Forcing) -> Trace | None:
        """Run a variant; None where it did not come about."""
        out = next(path for path in self._names() if not path.exists())
        done = self._replay(parent.trace.path, out, "--force", variant.forced)
        if done.returncode in LEFT or not (out / "run.json").is_file():
            shutil.rmtree(out, ignore_errors=True)  # made by this replay: it stopped in the middle
            return None
        trace = weft.open(out)
        self.results[out] = Result(done.returncode, _ended(trace), _lines(done.stdout), _found(trace))
        return trace

    def remember(self, trace: Trace, status: int, output: list[str]) -> None:
        """Take in a run of an earlier session."""
        self.results[trace.path] = Result(status, _ended(trace), [str(line) for line in output], _found(trace))

    def _names(self) -> Iterator[Path]:
        k = 0
        while True:
            k += 1
            yield self.base.with_name(f"{self.base.name}-other-{k}")

    def _replay(self, run: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        program = ["--", *self.program] if self.program else []
        words = [sys.executable, "-m", "weft", "replay", str(run), *more, "--out", str(out)]
        return subprocess.run(
            [*words, "--timeout", f"{self.timeout:g}", *program],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip


def effects(result: Result, than: Result, *, output: bool) -> list[str]:
    """How a run differs from another, worst first: sentences of a few words. `output`: whether to compare what they
    printed."""
    found = []
    if result.ended == "deadlock" and than.ended != "deadlock":
        words = [text for (kind, text) in result.findings if kind == "deadlock"]
        found.append("deadlock" + (f": {_short(words[0])}" if words else ""))
    elif than.ended == "deadlock" and result.ended != "deadlock":
        found.append("ends without the deadlock")
    elif result.status != than.status:
        found.append(f"ends with status {result.status} instead of {than.status}")
    new = Counter(kind for kind, _ in result.findings.keys() - than.findings.keys() if kind != "deadlock")
    new.subtract(Counter(kind for kind, _ in than.findings.keys() - result.findings.keys()))
    for kind in sorted(kind for kind, n in new.items() if n > 0):
        text = next(text for k, text in result.findings.keys() - than.findings.keys() if k == kind)
        found.append(f"{kind}: {_short(text)}")
    if output and not found and result.output != than.output:
        found.append(_printed(result.output, than.output))
    return found


def _printed(now: list[str], before: list[str]) -> str:
    more, less = list((Counter(now) - Counter(before)).elements()), list((Counter(before) - Counter(now)).elements())
    if more and less:
        return f"prints `{_short(more[0], 60)}` instead of `{_short(less[0], 60)}`"
    return f"prints `{_short(more[0], 60)}`, too" if more else f"does not print `{_short(less[0], 60)}`"


def _short(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _lines(text: str) -> list[str]:
    """The lines of all ranks: their order among ranks is the launcher's, and means nothing."""
    return sorted(text.splitlines())


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1].removeprefix("weft: ")


def _ended(trace: Trace) -> str:
    return str(trace.run.get("ended") or "")


def _found(trace: Trace) -> Counter[tuple[str, str]]:
    return Counter(
        (one.kind, one.message) for one in examine(trace).findings
        if one.severity != "note" and one.kind != "message-race"
    )  # fmt: skip
