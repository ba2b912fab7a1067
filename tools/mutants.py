"""Mutants of right C-DVMH and Fortran-DVM programs: each clause deleted or changed in turn, and whether that is found.

    python tools/mutants.py [--jobs 2] [--timeout 20] [--most N] [--list FILE] [--part 1/2] PROGRAM...

A program takes part if it is silent as it is. A mutant is found if a finding names the loop of its directive, a
variable of the clause or a line beside it; the table counts them by what was changed. What came of each is written
to --list, a line each, as soon as it is known, and what stands there already is not done again; an interrupt ends with
the table of those. What the programs print goes nowhere.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from weft.check import CheckRequest, CheckResult, check_program
from weft.errors import UsageError, WeftError

DIRECTIVE: Final = re.compile(r"^[ \t]*(?:#[ \t]*pragma[ \t]+dvm|[!c*]dvm\$)", re.IGNORECASE)
CLAUSE: Final = re.compile(
    r"\b(shadow_renew|shadow_compute|across|reduction|private|new|remote_access|consistent)\s*\(", re.IGNORECASE
)
LISTS: Final = re.compile(r"\b(private|new|shadow_renew|remote_access|actual|get_actual)\s*\(", re.IGNORECASE)
WHOLE: Final = re.compile(
    r"(?:dvm|\$)\s*(get_actual|actual|remote_access|redistribute|realign|shadow_start|shadow_wait|"
    r"reduction_start|reduction_wait|shadow_renew)\b",
    re.IGNORECASE,
)
OPERATION: Final = re.compile(r"\breduction\s*\(\s*(\w+)\s*\(", re.IGNORECASE)
OTHER: Final = {
    "sum": "max", "max": "sum", "min": "max", "product": "sum", "maxloc": "minloc", "minloc": "maxloc", "and": "or",
    "or": "and",
}  # fmt: skip
ON: Final = re.compile(r"\bon\s+\w+\s*[\[(]\s*(\w+)\s*(?=[\]),])", re.IGNORECASE)
WITH: Final = re.compile(r"\bwith\s+\w+\s*[\[(]\s*(\w+)\s*(?=[\]),])", re.IGNORECASE)
CONTINUED: Final = re.compile(r"^[!c*]dvm\$[^ \t]", re.IGNORECASE)
NEAR: Final = 3
"""Lines behind a directive that may be its loop's."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A program with one change; `line` is the changed one, `first` where its directive begins."""

    kind: str
    first: int
    line: int
    clause: str
    text: str


def mutants(text: str) -> Iterator[Mutant]:
    """All mutants of a source, by its directives' lines."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not DIRECTIVE.match(line):
            continue
        first = beginning(lines, number)
        for kind, clause, changed in changes(line):
            yield Mutant(kind, first, number, clause, "\n".join([*lines[: number - 1], changed, *lines[number:]]))


def beginning(lines: Sequence[str], number: int) -> int:
    """The line where the directive of a line begins: that may be a continuation."""
    while number > 1 and (
        lines[number - 2].rstrip().endswith(("\\", "&")) or CONTINUED.match(lines[number - 1])
    ):  # fmt: skip
        number -= 1
    return number


def changes(line: str) -> Iterator[tuple[str, str, str]]:
    """What is changed, its text, and the line that comes of it."""
    tail = "\\" if line.rstrip().endswith("\\") else ""
    if (found := WHOLE.search(line)) and not tail:
        yield f"{found[1].lower()} (directive)", line.strip(), ""
    elif not found:
        for found in CLAUSE.finditer(line):
            if end := closing(line, found.end() - 1):
                head, rest = line[: found.start()].rstrip(" ,"), line[end:].lstrip(" ,")
                glue = (
                    ", "
                    if rest and not rest.startswith("\\") and "," in line[found.start() - 2 : found.start()]
                    else " "
                )
                yield found[1].lower(), line[found.start() : end], head + glue + rest
    for found in LISTS.finditer(line):
        end = closing(line, found.end() - 1)
        items = parts(line[found.end() : end - 1]) if end else []
        for n in range(len(items) if len(items) > 1 else 0):
            kept = ", ".join(items[:n] + items[n + 1 :])
            yield f"{found[1].lower()}: an item", items[n], line[: found.end()] + kept + line[end - 1 :]
    for found in OPERATION.finditer(line):
        if other := OTHER.get(found[1].lower()):
            changed = line[: found.start(1)] + other + line[found.end(1) :]
            yield "reduction: operation", f"{found[1]} -> {other}", changed
    for pattern, kind in ((ON, "on: index"), (WITH, "align: index")):
        for found in pattern.finditer(line):
            yield kind, f"{found[1]} -> {found[1]}+1", line[: found.end(1)] + "+1" + line[found.end(1) :]


def closing(line: str, at: int) -> int:
    """The place behind the bracket that closes the one at `at`; 0: it is in another line."""
    depth = 0
    for place in range(at, len(line)):
        depth += {"(": 1, ")": -1}.get(line[place], 0)
        if not depth:
            return place + 1
    return 0


def parts(text: str) -> list[str]:
    """The items of a list, split at the commas outside of brackets."""
    found, depth = [""], 0
    for sign in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


def run(path: Path, text: str, seconds: float) -> CheckResult:
    """Check a text in place of a program's own, beside its headers."""
    with tempfile.TemporaryDirectory(prefix="weft-mutant-") as folder:
        room = Path(folder)
        source = room / path.name
        source.write_text(text, errors="surrogateescape")
        (room / "built").mkdir()
        return check_program(CheckRequest((source,), include=(path.parent,), timeout=seconds), room / "built")


def silent(path: Path, seconds: float) -> bool:
    """Whether a program is right as it is, and something of it is looked at."""
    try:
        held = run(path, path.read_text(errors="surrogateescape"), seconds)
    except WeftError:
        return False
    return held.whole and not held.findings and not held.looked.is_empty


def outcome(one: tuple[Path, Mutant], seconds: float) -> str:
    """`found`, `refused` (by the compiler or the front end), `elsewhere` (findings at other loops) or `silent`."""
    path, mutant = one
    try:
        held = run(path, mutant.text, seconds)
    except UsageError:
        return "refused"
    except WeftError as error:
        return f"failed: {error}"
    names = set(re.findall(r"\w+", mutant.clause.lower()))
    for finding in held.findings:
        lines = {finding.facts().get("loop", {}).get("line", 0), *(site.line for site in finding.sites)}
        near = any(mutant.first <= line <= mutant.line + NEAR for line in lines)
        if near or str(finding.facts().get("variable", "")).lower() in names:
            return "found"
    return "elsewhere" if held.findings else "silent" if held.whole else "ended badly"


def quiet() -> None:
    """What this process and its children print goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--timeout", type=float, default=20, help="a program that takes longer takes no part")
    parser.add_argument("--most", type=int, default=10_000, help="so many mutants at most")
    parser.add_argument("--list", type=Path, help="what came of each; what is there is not done again")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="every N-th program only, from the K-th on")
    args = parser.parse_args()
    part, parts_ = map(int, args.part.split("/"))
    programs = args.programs[part - 1 :: parts_]
    kept = List(args.list)
    with ProcessPoolExecutor(args.jobs, initializer=quiet) as pool, suppress(KeyboardInterrupt):  # what is done is told
        ways = {path: str(path) for path in programs}
        for path, holds in kept.each(pool, partial(silent, seconds=args.timeout), ways):
            kept.taken += [path] if holds == str(True) else []
        jobs = [(p, m) for p in kept.taken for m in mutants(p.read_text(errors="surrogateescape"))][: args.most]
        ways = {(p, m): f"{p}:{m.line}\t{m.kind}\t{m.clause}\t{hash_of(m)}" for p, m in jobs}
        for job, result in kept.each(pool, partial(outcome, seconds=args.timeout), ways):
            kept.jobs.append(job)
            kept.outcomes.append(result)
    write(kept.taken, programs, kept.jobs, kept.outcomes)
    return 0


def hash_of(mutant: Mutant) -> str:
    """A word for its text: one line may have the same clause twice."""
    return hashlib.sha256(mutant.text.encode("utf-8", "surrogateescape")).hexdigest()[:12]


class List:
    """What came of each, in a file from one run to the next."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.taken: list[Path] = []
        self.jobs: list[tuple[Path, Mutant]] = []
        self.outcomes: list[str] = []
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        self.known = {name: result for result, _, name in (line.partition("\t") for line in lines)}

    def each(self, pool: Executor, work: Callable[[Any], object], ways: Mapping[Any, str]) -> Iterator[tuple[Any, str]]:
        """Each thing, and what came of it: as the file says, else by doing it; `ways` has their names in the file."""
        missing = [one for one, name in ways.items() if name not in self.known]
        for one, name in ways.items():
            if name in self.known:
                yield one, self.known[name]
        for one, result in zip(missing, pool.map(work, missing), strict=True):
            if self.file:
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(f"{result}\t{ways[one]}\n")
            yield one, str(result)


def write(
    taken: Sequence[Path], programs: Sequence[Path], jobs: Sequence[tuple[Path, Mutant]], outcomes: Sequence[str]
) -> None:
    """The table of outcomes by what was changed."""
    print(f"{len(taken)} of {len(programs)} programs are silent as they are; {len(jobs)} mutants")
    counts = Counter(
        (mutant.kind, result.partition(":")[0]) for (_, mutant), result in zip(jobs, outcomes, strict=True)
    )
    columns = ("found", "elsewhere", "refused", "silent", "ended badly", "failed")
    print(f"{'changed':28}" + "".join(f"{name:>13}" for name in columns))
    for kind in sorted({kind for kind, _ in counts}):
        print(f"{kind:28}" + "".join(f"{counts[kind, name]:13}" for name in columns))
    print(f"{'all':28}" + "".join(f"{sum(counts[k, name] for k in {k for k, _ in counts}):13}" for name in columns))


if __name__ == "__main__":
    sys.exit(main())
