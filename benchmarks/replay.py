"""What a full replay costs beside the plain run: processor time of all ranks, and the ring of dbxR-II's authors.

    python benchmarks/replay.py [--repeat 9] [--only programs,ring] [--ranks 2,4,6] [--write]

Plain runs and replays are taken in turn; a figure is the median of the ratios of such pairs, beside the quartiles.
--write puts the tables into docs/performance.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from capture import MPI, Row, Spread, execute, markdown, one, prepare, recording, write

import weft
from weft.match import match_operations
from weft.replay import RankPlan, Replay, make_plans
from weft.trace.functions import FunctionTable

LIMIT = 1.10
PROGRAMS = {
    "ring, bare": ("ring", ["50", "4", "0"]), "ring, 64 KB and work": ("ring", ["100", "65536", "200000"]),
    "halo (stencil)": ("stencil", ["256", "400"]), "master and workers (pool)": ("pool", ["400", "100000"]),
}  # fmt: skip
PAPER = {2: (186.2, 367.7), 3: (420.9, 2358.2), 4: (538.8, 3909.0), 5: (795.7, 5991.0), 6: (953.1, 8177.2)}
"""ms that 50 rounds took, plain and replayed: Miei & Takahashi 1996, table 3."""


class Replayed:
    """A program, recorded once; each run of it is plain or a replay of this record."""

    def __init__(self, mpi: MPI, folder: Path, program: str, arguments: Sequence[str], ranks: int) -> None:
        self.mpi, self.folder, self.ranks = mpi, folder, ranks
        self.command = one(mpi, program, arguments)
        execute(mpi, self.command, recording(mpi, folder / "record", "trace"), ranks)
        trace = weft.open(folder / "record")
        self.calls, self.functions = trace.event_count, trace.functions
        self.steps: list[RankPlan] = make_plans(trace, match_operations(trace))

    def plain(self) -> float:
        return float(execute(self.mpi, self.command, {}, self.ranks))

    def again(self) -> float:
        return float(execute(self.mpi, self.command, self.variables(self.functions), self.ranks))

    def variables(self, functions: FunctionTable) -> Mapping[str, str]:
        """What makes the ranks follow the record; SystemExit where the run before did not."""
        found = recording(self.mpi, self.folder / "again", "trace")
        shutil.rmtree(self.folder / "plans", ignore_errors=True)
        self.session = Replay(self.steps)
        self.session.write_plans(self.folder / "plans", functions)
        return found | {"WEFT_INTERNAL_REPLAY": str(self.folder / "plans")}

    def pairs(self, repeat: int) -> list[tuple[float, float]]:
        """Plain run and replay, in turn."""
        found = []
        for _ in range(repeat):
            pair = self.plain(), self.again()
            if self.session.diverged_ranks() or self.session.unfinished_threads():
                raise SystemExit(f"{self.command}: the replay did not follow its record")
            found.append(pair)
        return found


def programs(mpi: MPI, folder: Path, counts: Sequence[int], repeat: int) -> Iterator[Row]:
    """Processor time of all ranks from start to end, of a full replay beside the plain run."""
    yield ["program", "ranks", "calls", "plain ms", "replay ms", "replay / plain"]
    for title, (program, arguments) in PROGRAMS.items():
        for ranks in counts:
            one_ = Replayed(mpi, folder, program, arguments, ranks)
            pairs = one_.pairs(repeat)
            ratio = Spread.of([again / plain for plain, again in pairs])
            plain, again = (statistics.median(pair[i] for pair in pairs) / 1e6 for i in (0, 1))
            over = "" if ratio.median <= LIMIT else f" **over {LIMIT:.2f}**"
            yield [title, str(ranks), str(one_.calls), f"{plain:.0f}", f"{again:.0f}", ratio.text(2) + over]


def ring(mpi: MPI, folder: Path, counts: Sequence[int], repeat: int) -> Iterator[Row]:
    """Time on the wall of 50 rounds of the bare ring, in ms, beside dbxR-II's figures."""
    yield ["ranks", "plain ms", "replay ms", "replay / plain", "dbxR-II plain ms", "replay ms", "replay / plain"]
    for ranks in counts:
        pairs = Replayed(mpi, folder, "ring", ["50", "4", "0", "rounds"], ranks).pairs(repeat)
        ratio = Spread.of([again / plain for plain, again in pairs])
        plain, again = (statistics.median(pair[i] for pair in pairs) / 1e6 for i in (0, 1))
        theirs = PAPER.get(ranks)
        quoted = [str(theirs[0]), str(theirs[1]), f"{theirs[1] / theirs[0]:.1f}"] if theirs else [""] * 3
        yield [str(ranks), f"{plain:.3f}", f"{again:.3f}", ratio.text(2), *quoted]


TABLES: dict[str, Callable[[MPI, Path, Sequence[int], int], Iterator[Row]]] = {"programs": programs, "ring": ring}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=9, help="pairs of runs for each figure (default 9)")
    parser.add_argument("--only", default=",".join(TABLES), help="which tables, by comma")
    parser.add_argument("--ranks", default="2,4,6", help="numbers of ranks, by comma")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    options = parser.parse_args()
    counts = [int(count) for count in options.ranks.split(",")]
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        folder = Path(name)
        mpi = prepare("MPICH", Path(sys.executable).parent, folder, {})
        for table in options.only.split(","):
            text = markdown(list(TABLES[table](mpi, folder, counts, options.repeat)))
            print(f"\n{(TABLES[table].__doc__ or '').splitlines()[0]}\n\n{text}", flush=True)
            if options.write:
                write(f"replay-{table}", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
