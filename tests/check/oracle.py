"""Weft beside the DVM system's own dynamic control: one table of what either of them says of a program.

    python tests/check/oracle.py --dvm FOLDER [--timeout SECONDS] [-o FILE] [PROGRAM...]

FOLDER is a DVM system that was built (it holds bin/dvm_drv). Without programs those of tests/check are run, each with
its faults and corrected. The verdict is a rule's (same line and kind, same line, one of them only): why they differ is
for a person to say, in tests/evidence/check-oracle.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from weft.dvm.fortran_lines import read_source

ROOT: Final = Path(__file__).parents[2]
FORTRAN: Final = frozenset((".fdv", ".f", ".f90"))

# What DVM's dynamic control says (its user guide, the table of errors), and the kind of finding that says it here.
KINDS: Final = (
    ("Data dependence in loop", "loop-dependence"),
    ("Using non-initialized", "uninitialised-read"),
    ("Writing to read-only", "shared-write"),
    ("before asynchronous reduction completed", "early-reduction-use"),
    ("Using element outside of array limits", "out-of-bounds"),
    ("Access to non-local element", "remote-access"),
    ("Reading remote element", "remote-access"),
    ("Writing to remote", "remote-access"),
    ("Writing to shadow element", "halo-write"),
    ("before asynchronous shadow renew completed", "stale-halo-read"),
    ("for reduction without", "directive-order"),
    ("Reduction operation was not started", "directive-order"),
)
RECORD: Final = re.compile(
    r"\*\*\* DYNCONTROL \*\*\* : (?P<context>[^\n]*)\n\s+(?P<message>[^\n]+)"
    r"(?:\n\s+Count\((?P<count>\d+)\))?(?:\s+File: (?P<file>\S+)\s+Line: (?P<line>\d+))?"
)
C_UNIT: Final = re.compile(r"^(?:static )?\w+ \**(\w+)\([^;]*\)$")
C_END: Final = re.compile(r"^}$")
C_CALL: Final = re.compile(r"^    (\w+)\(.*\);$")
FORTRAN_UNIT: Final = re.compile(
    r"^\s*(?:program\b|(?:recursive |[a-z0-9* ]+ )?(?:subroutine|function) +(\w+))", re.IGNORECASE
)
FORTRAN_END: Final = re.compile(r"^\s*end\s*(?:(?:program|subroutine|function)\b.*)?$", re.IGNORECASE)
FORTRAN_CALL: Final = re.compile(r"^\s+(?:if \(.*\) )?call (\w+)", re.IGNORECASE)
ELEMENT: Final = re.compile(
    r"(?:limits:|(?<!Using )element|variable|buffer) +(?P<name>.+?)(?= of array| before| in seq|$)"
)
ENDED: Final = re.compile(r"\*\*\* RTS err [\d.]+: wrong call (?P<call>\w+).*?USRLINE=(?P<line>\d+)", re.DOTALL)
ORDER: Final = frozenset(("strtsh_", "waitsh_", "strtrd_", "waitrd_", "loadbg_", "waitbg_"))
TOTAL: Final = re.compile(r"\n\*\*\* Processor \d+: total errors: \d+")


class RefusedError(Exception):
    """A system did not run the program; the text is its first words about it."""


@dataclass(frozen=True)
class Told:
    """What one system says of one line."""

    line: int
    kind: str
    element: str
    iteration: str
    count: int
    message: str


@dataclass(frozen=True)
class Row:
    """A line of the table: what both, or one of them, say of a place."""

    program: str
    line: int
    dvm: Told | None
    weft: Told | None
    verdict: str


@dataclass(frozen=True)
class Program:
    """A source to run, with the name it has in the table."""

    name: str
    source: Path
    arguments: tuple[str, ...] = ()


def command(words: list[str], folder: Path, limit: float, **more: str) -> tuple[int, str]:
    """Run a command in its own process group; its status (-15 where the limit ended it) and what it printed."""
    with subprocess.Popen(
        words, cwd=folder, env={**os.environ, **more}, text=True, errors="replace", start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            said, _ = process.communicate()
        return process.returncode, said


def by_dvm(program: Program, dvm: Path, limit: float) -> list[Told]:
    """What dynamic control says of a program that DVM's converter prepared for it. RefusedError where it could not."""
    with tempfile.TemporaryDirectory(prefix="weft-oracle-") as name:
        folder = Path(name)
        source = shutil.copy(program.source, folder)
        stem = Path(source).stem
        convert = ["cpdeb"]
        if Path(source).suffix in FORTRAN:
            convert = ["fpdeb", "-f90"] if read_source(Path(source)).free else ["fpdeb"]
        driver = str(dvm / "bin" / "dvm_drv")
        # The converter of the old form knows no -noCuda, and its programs get DVM's parameters by an argument.
        old = "#define DVM(" in Path(source).read_text(errors="replace")
        settings = {"dvmdir": str(dvm), **({"optcconv": "-e2"} if old else {})}
        _, said = command([driver, *convert, Path(source).name], folder, limit, **settings)
        if not (folder / f"{stem}_p").is_file():
            raise RefusedError(complaint(said))
        words = [driver, "err", *"1111", stem, *(["dvm"] if old else []), *program.arguments]
        status, said = command(words, folder, limit, **settings)
        told = folder / "error.dbg"
        records = list(read_dvm(told.read_text(errors="replace"))) if told.exists() else []
        ended = ENDED.search(said)
        if ended and ended["call"] in ORDER:
            message = f"ended at {ended['call']}"
            records.append(Told(int(ended["line"]), "directive-order", "", "", 1, message))
        elif status and not records:
            raise RefusedError(f"ended with {status}: {complaint(said)}")
        return records


def complaint(said: str) -> str:
    """The line of an output that says why it failed."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|RTS (err|fatal)", line, re.IGNORECASE)]
    return (telling or lines or ["nothing said"])[0]


def read_dvm(text: str) -> Iterator[Told]:
    """The errors of an error.dbg: those of its last list, which has their counts, or of a run that did not end."""
    found = list(TOTAL.finditer(text))
    for record in RECORD.finditer(text[found[-1].end() :] if found else text):
        message = record["message"]
        kind = next((kind for words, kind in KINDS if words in message), message)
        element = ELEMENT.search(message)
        iteration = re.search(r"(?:Iter|Task)\(([^)]*)\)(?!.*(?:Iter|Task)\()", record["context"])
        yield Told(
            line=int(record["line"] or 0),
            kind=kind,
            element=element["name"].strip() if element else "",
            iteration=iteration[1] if iteration else "",
            count=int(record["count"] or 1),
            message=message,
        )


def by_weft(program: Program, limit: float) -> list[Told]:
    """What weft check says of a program. RefusedError where it cannot be checked."""
    with tempfile.TemporaryDirectory(prefix="weft-oracle-") as name:
        folder = Path(name)
        report = folder / "report.json"
        source = shutil.copy(program.source, folder)
        status, said = command(
            [
                str(Path(sys.executable).with_name("weft")), "check", "--format", "json", "-o", str(report),
                "--timeout", str(limit), str(source), "--", *program.arguments,
            ],
            folder, 4 * limit,
        )  # fmt: skip
        if status not in (0, 1):
            raise RefusedError(complaint(said))
        return [of_weft(finding) for finding in json.loads(report.read_text())["findings"]]


def of_weft(finding: dict[str, Any]) -> Told:
    """A finding of the report in the table's terms."""
    held = finding["evidence"]
    index = held.get("index") or ([held["value"]] if "value" in held else [])
    shown = f"({','.join(map(str, index))})" if index else ""
    return Told(
        line=finding["sites"][0]["line"],
        kind=finding["kind"],
        element=f"{held.get('variable') or ''}{shown}",
        iteration=",".join(map(str, held.get("iteration") or ())),
        count=held.get("count", 1),
        message=finding["message"],
    )


def rows(program: str, dvm: list[Told], weft: list[Told]) -> Iterator[Row]:
    """Both lists side by side: first what is of the same kind in a line, then what shares the line, then the rest."""
    for line in sorted({told.line for told in (*dvm, *weft)}):
        here = kinds([told for told in weft if told.line == line])
        there = kinds([told for told in dvm if told.line == line])
        for kind in sorted(here.keys() & there.keys()):
            yield Row(program, line, there.pop(kind), here.pop(kind), "same")
        while here and there:
            yield Row(program, line, there.pop(min(there)), here.pop(min(here)), "same line")
        left = "again" if any(told.line == line for told in weft) and any(told.line == line for told in dvm) else "only"
        yield from (Row(program, line, told, None, f"{left} DVM") for told in there.values())
        yield from (Row(program, line, None, told, f"{left} Weft") for told in here.values())


def kinds(told: Iterable[Told]) -> dict[str, Told]:
    """The first finding of each kind, with the sum of the counts."""
    found: dict[str, Told] = {}
    for kind, same in groupby(sorted(told, key=lambda each: each.kind), key=lambda each: each.kind):
        first, *rest = same
        found[kind] = Told(**{**asdict(first), "count": first.count + sum(each.count for each in rest)})
    return found


def parts(text: str, fortran: bool) -> Iterator[tuple[str, str]]:
    """Each procedure that the main program calls, with the program that calls only it; lines stay where they are.

    DVM ends a program at the first construct that it does not take: alone, the others can still be compared.
    """
    begins, ends, calls = (FORTRAN_UNIT, FORTRAN_END, FORTRAN_CALL) if fortran else (C_UNIT, C_END, C_CALL)
    lines = text.splitlines()
    units = dict(procedures(lines, begins, ends))
    main = "" if fortran else "main"
    inside = units.get(main, range(0))
    called = [(n, c[1].lower()) for n in inside if (c := calls.match(lines[n])) and c[1].lower() in units]
    for name in dict.fromkeys(name for _, name in called):
        needed = closure(name, units, lines)
        drop = {n for unit, span in units.items() if unit not in needed | {main} for n in span}
        drop |= {n for n, other in called if other != name}
        yield name, "".join(("" if n in drop else line) + "\n" for n, line in enumerate(lines))
    if not called:
        yield "", text


def procedures(lines: list[str], begins: re.Pattern[str], ends: re.Pattern[str]) -> Iterator[tuple[str, range]]:
    """The lines of each procedure with its name; that of a Fortran main program is empty."""
    start: tuple[str, int] | None = None
    for n, line in enumerate(lines):
        if start is None and (begun := begins.match(line)):
            first = next(k for k in range(n, -1, -1) if k == 0 or not lines[k - 1].startswith("#pragma"))
            start = (begun[1] or "").lower(), first
        if start is not None and ends.match(line):
            yield start[0], range(start[1], n + 1)
            start = None


def closure(name: str, units: dict[str, range], lines: list[str]) -> set[str]:
    """The procedures that a procedure names, and those that they name."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        found.add(here)
        words = {word.lower() for n in units[here] for word in re.findall(r"\w+", lines[n])}
        waiting += [unit for unit in units if unit in words - found]
    return found


def programs_of_the_tests(folder: Path) -> Iterator[Program]:
    """Each program of tests/check with its faults and corrected, a procedure at a time, and the right ones."""
    sys.path.insert(0, str(ROOT / "tests"))
    from check import c_programs, test_fortran

    for source in sorted(c_programs.PROGRAMS.glob("*.cdv")):
        for right in (False, True):
            yield from alone(source.name, c_programs.variant(source.read_text(), right), right, folder)
    for right in (False, True):
        old = c_programs.PROGRAMS.with_name("old") / "old_form.cdv"
        yield from alone(old.name, c_programs.variant(old.read_text(), right), right, folder)
    for source in sorted(c_programs.PROGRAMS.with_name("correct").glob("*.cdv")):
        yield from alone(source.name, source.read_text(), True, folder)
    for source in sorted(test_fortran.PROGRAMS.glob("*.fdv")):
        for right in (False, True):
            yield from alone(source.name, test_fortran.variant(source.stem, right, folder).read_text(), right, folder)
    for source in sorted((test_fortran.PROGRAMS / "right").glob("*.fdv")):
        yield from alone(source.name, source.read_text(), True, folder)


def alone(name: str, text: str, right: bool, folder: Path) -> Iterator[Program]:
    """The procedures of a program, a source each."""
    suffix = Path(name).suffix
    for case, (called, part) in enumerate(parts(text, suffix in FORTRAN), 1):
        path = folder / f"{Path(name).stem}_{case}_{'right' if right else 'wrong'}{suffix}"
        path.write_text(part)
        yield Program(f"{'right' if right else 'wrong'} {name} {called}".strip(), path, (str(case),))


def compare(program: Program, dvm: Path, limit: float) -> Iterator[Row | str]:
    """The rows of a program, or who refused it and why."""
    answers = []
    for name in ("DVM", "Weft"):
        try:
            answers.append(by_dvm(program, dvm, limit) if name == "DVM" else by_weft(program, limit))
        except RefusedError as refused:
            yield f"{program.name}: refused by {name}: {refused}"
    if len(answers) == 2:
        yield from rows(program.name, *answers)


def shown(told: Told | None) -> str:
    """One system's cell."""
    if told is None:
        return "-"
    return f"{told.kind} {told.element} ({told.iteration}) x{told.count}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dvm", type=Path, required=True, metavar="FOLDER", help="where the DVM system was built")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="seconds for each command (60)")
    parser.add_argument("--language", choices=("c", "fortran"), help="of the programs of tests/check: both by default")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the rows here, too")
    parser.add_argument("programs", nargs="*", type=Path, metavar="PROGRAM")
    args = parser.parse_args()
    verdicts: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="weft-oracle-") as folder:
        named = (Program(path.name, path.resolve()) for path in args.programs)
        for program in named if args.programs else programs_of_the_tests(Path(folder)):
            if args.language not in (None, "fortran" if program.source.suffix in FORTRAN else "c"):
                continue
            found = list(compare(program, args.dvm.resolve(), args.timeout))
            if not found:
                print(f"{program.name}: both silent")
            verdicts["both silent" if not found else "refused" if isinstance(found[0], str) else "told"] += 1
            for row in found:
                if isinstance(row, str):
                    print(row)
                    continue
                print(f"{row.program}:{row.line}: {row.verdict}: DVM {shown(row.dvm)} | Weft {shown(row.weft)}")
                verdicts[row.verdict] += 1
                kept.append(asdict(row))
            sys.stdout.flush()
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    if args.output:
        args.output.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
