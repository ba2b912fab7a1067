"""Run the variants of a recorded run by `weft replay --force`, and compare their results."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self

import weft
from weft.base.lazy import dataclass
from weft.base.lifetime import temporary_folder
from weft.errors import WeftError
from weft.explore.choices import Wanted, expected_choices, find_choices, has_choices
from weft.explore.outcomes import Outcome, Variant
from weft.explore.search import VariantResult
from weft.launch.rundir import read_facts
from weft.match import match_operations
from weft.replay import Result as Replayed
from weft.replay.force import Forcing
from weft.report import analyse
from weft.safety.started import own_python
from weft.trace import Trace

STANDS: Final = "stands"
"""How a run ended in which no rank went on, though that is no proven deadlock."""
MOST_TEXT: Final = 160


@dataclass(slots=True)
class Result:
    """The result of a run: how it ended, its standard output (lines, sorted), and its findings."""

    status: int
    ended: str
    output: list[str]
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Errors and warnings but for races, by kind and sentence."""


@dataclass(slots=True)
class ReplayRuns:
    """The runs of one exploration of `base`; its outcomes are stored beside it as BASE-other-1 and so on."""

    base: Path
    program: Sequence[str] = ()
    timeout: float = 60.0
    results: dict[Path, Result] = field(default_factory=dict)
    """By the directory of the run."""
    steady: bool = True
    """Whether two replays of the record print the same: else what is printed is not compared."""

    jobs: int = 1
    """Runs at once."""
    agreed: str = ""
    """The word for what replays may execute (weft.safety.runs.agreement), where no other program is given."""
    _warm: subprocess.Popen[bytes] | None = None
    _scratch: tempfile.TemporaryDirectory[str] | None = None
    _running: dict[int, tuple[Variant | None, Path]] = field(default_factory=dict)
    _wants: dict[Variant, Wanted] = field(default_factory=dict)
    _begun: int = 0

    def __enter__(self) -> Self:
        """Start the process that forks the replays."""
        self._scratch = temporary_folder("explore")
        self._warm = subprocess.Popen(
            own_python("-m", "weft.cli._warm", str(self.base)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs, and remove its files."""
        assert self._warm is not None
        assert self._scratch is not None
        self._warm.communicate()
        for variant, out in self._running.values():
            if variant is not None:
                shutil.rmtree(out, ignore_errors=True)
        self._scratch.cleanup()

    def replay_record_twice(self, trace: Trace) -> Result:
        """Replay the record itself twice, and return the result and output of the first replay. Set `self.steady` to
        whether both replays printed the same. WeftError if the record cannot be replayed."""
        assert self._scratch is not None
        printed = []
        for k in range(2):
            out = Path(self._scratch.name) / f"plain-{k}"
            self._start_replay(None, self.base, out)
            _, number, status = self._wait_for_replay()
            if (result := _read_replay_facts(out).get("result")) != Replayed.FINISHED.value or _was_cut_off(out):
                said = (
                    _first_message_of_replay(self._read_output(number, "err"))
                    or f"its replay ended with: {result or 'nothing'}"
                )
                raise WeftError(f"{self.base} cannot be replayed, so no other outcome can be run: {said}")
            printed.append((status, _sorted_lines(self._read_output(number, "out"))))
        self.steady = printed[0][1] == printed[1][1]
        first = Result(printed[0][0], _recorded_ending(trace), printed[0][1], _count_findings(trace))
        self.results[self.base] = first
        return first

    def start_variant(self, parent: Outcome, variant: Variant, forcing: Forcing) -> None:
        """Start to run a variant: a replay of its parent with a forced outcome."""
        taken = [out for _, out in self._running.values()]
        out = next(path for path in self._free_run_paths() if path not in taken and not path.exists())
        self._wants[variant] = expected_choices(forcing, parent.made)
        self._start_replay(variant, parent.trace.path, out, "--force", str(variant.forced))

    def wait_for_variant(self) -> VariantResult:
        """Wait until some started variant has ended, and return its result. A run that is no outcome is deleted."""
        (variant, out), number, status = self._wait_for_replay()
        assert variant is not None
        want, replayed = self._wants.pop(variant), _read_replay_facts(out)
        result = replayed.get("result")
        if result == Replayed.FINISHED.value and not _was_cut_off(out):
            return VariantResult(variant, self._store_outcome(out, number, status))
        if result == Replayed.STALLED.value and not replayed.get("polls"):
            if not replayed.get("held") and _made_choices(out, want):
                return VariantResult(variant, self._store_outcome(out, number, status, STANDS))
            cut = ""
        else:
            cut = _first_message_of_replay(self._read_output(number, "err")) or f"its replay ended with status {status}"
        shutil.rmtree(out, ignore_errors=True)  # made by this replay: it stopped in the middle
        return VariantResult(variant, cut=cut)

    def _store_outcome(self, out: Path, number: int, status: int, ended: str = "") -> Trace:
        """Store the result of a run that came to an outcome, and return the run's record."""
        trace = weft.open(out)
        ended = _recorded_ending(trace) if _recorded_ending(trace) == "deadlock" else ended or _recorded_ending(trace)
        self.results[out] = Result(
            status, ended, _sorted_lines(self._read_output(number, "out")), _count_findings(trace)
        )
        return trace

    def restore_result(self, trace: Trace, status: int, output: list[str]) -> None:
        """Store the result of a run that an earlier exploration made."""
        stands = _read_replay_facts(trace.path).get("result") == Replayed.STALLED.value
        ended = STANDS if stands else _recorded_ending(trace)
        self.results[trace.path] = Result(status, ended, [str(line) for line in output], _count_findings(trace))

    def _free_run_paths(self) -> Iterator[Path]:
        """Yield paths for new runs beside the explored one: RUN-other-1, RUN-other-2 and so on."""
        k = 0
        while True:
            k += 1
            yield self.base.with_name(f"{self.base.name}-other-{k}")

    def _start_replay(self, variant: Variant | None, run: Path, out: Path, *options: str) -> None:
        """Let the process that forks the replays replay a run into `out`. `variant`: None for a replay of the record
        itself.
        """
        assert self._warm is not None
        assert self._warm.stdin is not None
        program = ["--", *self.program] if self.program else []
        words = ["replay", str(run), *options, "--uncompared", "--out", str(out), "--timeout", f"{self.timeout:g}"]
        words += ["--agreed", self.agreed] if self.agreed else []
        words += program
        self._begun += 1
        files = {name: str(self._output_path(self._begun, name)) for name in ("out", "err")}
        self._running[self._begun] = variant, out
        self._warm.stdin.write(json.dumps({"id": self._begun, "words": words, **files}).encode() + b"\n")
        self._warm.stdin.flush()

    def _wait_for_replay(self) -> tuple[tuple[Variant | None, Path], int, int]:
        """Wait for a replay to end, and return ((its variant, the path of its run), its number, its exit status)."""
        assert self._warm is not None
        assert self._warm.stdout is not None
        line = self._warm.stdout.readline()
        if not line:
            raise WeftError("the process that runs the replays of `weft explore` has ended")
        answer = json.loads(line)
        return self._running.pop(answer["id"]), answer["id"], answer["status"]

    def _output_path(self, number: int, name: str) -> Path:
        assert self._scratch is not None
        return Path(self._scratch.name) / f"{number}.{name}"

    def _read_output(self, number: int, name: str) -> str:
        return self._output_path(number, name).read_text(errors="replace")


class Harm(IntEnum):
    """How bad the difference of a run from another is."""

    NONE = 0
    PRINTS = 1
    ENDS = 2
    """Another status, or errors and warnings."""
    DEADLOCK = 3


@dataclass(frozen=True, slots=True)
class Effects:
    """How a run differs from another, worst first: short sentences, and how bad the worst is."""

    worst: Harm
    texts: tuple[str, ...]


def compare_results(result: Result, reference: Result, *, output: bool) -> Effects:
    """Return how the result of a run differs from a reference. `output`: whether to compare what they printed."""
    found = []
    worst = Harm.ENDS
    if result.ended == "deadlock" and reference.ended != "deadlock":
        worst = Harm.DEADLOCK
        words = [text for (kind, text) in result.findings if kind == "deadlock"]
        found.append("deadlock" + (f": {_shorten(words[0])}" if words else ""))
    elif reference.ended == "deadlock" and result.ended != "deadlock":
        found.append("ends without the deadlock")
    elif result.ended == STANDS and reference.ended != STANDS:
        worst = Harm.DEADLOCK
        found.append("no rank makes progress (a deadlock is not proven)")
    elif result.status != reference.status:
        found.append(f"ends with status {result.status} instead of {reference.status}")
    new = Counter(kind for kind, _ in result.findings.keys() - reference.findings.keys() if kind != "deadlock")
    new.subtract(Counter(kind for kind, _ in reference.findings.keys() - result.findings.keys()))
    for kind in sorted(kind for kind, n in new.items() if n > 0):
        text = next(text for k, text in result.findings.keys() - reference.findings.keys() if k == kind)
        found.append(f"{kind}: {_shorten(text)}")
    if output and not found and result.output != reference.output:
        worst = Harm.PRINTS
        found.append(_describe_output_change(result.output, reference.output))
    return Effects(worst if found else Harm.NONE, tuple(found))


def _describe_output_change(lines: list[str], reference_lines: list[str]) -> str:
    """Return how the printed lines of a run differ from those of the reference, as a short sentence."""
    more, less = (
        list((Counter(lines) - Counter(reference_lines)).elements()),
        list((Counter(reference_lines) - Counter(lines)).elements()),
    )
    if more and less:
        return f"prints `{_shorten(more[0], 60)}` instead of `{_shorten(less[0], 60)}`"
    return f"prints `{_shorten(more[0], 60)}`, too" if more else f"does not print `{_shorten(less[0], 60)}`"


def _shorten(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _sorted_lines(text: str) -> list[str]:
    """Return the lines of all ranks sorted, as their order among ranks is the launcher's and means nothing."""
    return sorted(text.splitlines())


def _first_message_of_replay(error_output: str) -> str:
    """Return Weft's own first message in the error output of a replay, which also has the output of the ranks. "" if
    there is none.
    """
    lines = [line.removeprefix("weft: ") for line in error_output.splitlines() if line.startswith("weft: ")]
    return next((line for line in lines if not line.startswith("damaged: ")), "")


def _read_replay_facts(run_path: Path) -> dict[str, Any]:
    """Return what run.json of a replay says about its result; empty if it says nothing."""
    found = read_facts(run_path).get("replayed")
    return found if isinstance(found, dict) else {}


def _was_cut_off(run_path: Path) -> bool:
    """Return whether a replay was ended from outside, by a signal to it or to its launcher."""
    return read_facts(run_path).get("ended") in ("interrupted", "killed")


def _made_choices(run_path: Path, choices: Wanted) -> bool:
    """Return whether the run at a path made some choices."""
    trace = weft.open(run_path)
    return has_choices(find_choices(trace, match_operations(trace)), choices)


def _recorded_ending(trace: Trace) -> str:
    return str(trace.run.get("ended") or "")


def _count_findings(trace: Trace) -> Counter[tuple[str, str]]:
    """Return how often the analyses found each (kind, sentence) in a run. Notes and message races are left out."""
    return Counter(
        (one.kind, one.message) for one in analyse(trace)
        if one.severity != "note" and one.kind != "message-race"
    )  # fmt: skip
