"""Programs beside themselves: what each prints when compiled as it is and when it is checked, and what is found in it.

    python tools/trials.py [--seconds 30] [-p 2x2] [--set NAME=VALUE]... [--quiet] PROGRAM...

A PROGRAM is a source of C-DVMH or Fortran-DVM(H), a Python script, or a folder whose sources are one program. A line of
its output that tells a time differs from run to run and is not compared. `--set` gives a macro or a named constant
another value in a copy: the grids of benchmarks are too large. A line a program: `same` or `differs`, the number of its
findings, what was looked at; below it each finding. The status is 1 where any output differs.
"""

from __future__ import annotations

import argparse
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import ndiff
from pathlib import Path
from typing import Final

from weft.check.front_ends import fortran_dvm
from weft.check.source_discovery import source_suffixes
from weft.dataparallel.runtime import find_compiler, runtime_sources

CLOCKS: Final = re.compile(r"time|second|\bsec\b|mop|clock|performance|compil", re.IGNORECASE)
FIRST: Final = re.compile(
    r"^(?P<said>.*) in .* \((?P<ended>[^()]*)\)$",
)
MOST_LINES: Final = 20
WAIT: Final = 4
"""Times the processor time that a program may take that it is waited for: others may be busy on the machine."""
HEADERS: Final = (".h", ".hpp", ".inc", ".dat", ".par")


@dataclass(frozen=True, slots=True)
class Trial:
    """A program as it was run twice."""

    name: str
    outcome: str
    """`same`, `differs`, `refused` (checking it is an error), or why the plain program is none."""
    said: str
    """What the check said of it."""
    findings: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    """The first lines in which its outputs differ: `- ` of the plain one, `+ ` of the checked one."""


def parts(program: Path) -> list[Path]:
    """The sources of a program: a file, or those of a folder."""
    if program.is_file():
        return [program]
    return sorted(path for path in program.iterdir() if path.suffix.lower() in source_suffixes())


def copied(program: Path, to: Path, settings: Sequence[str]) -> list[Path]:
    """The program's sources and what lies beside them in a folder, with other values for some names."""
    folder = program if program.is_dir() else program.parent
    chosen = parts(program)
    beside = [path for path in folder.iterdir() if path.suffix.lower() in HEADERS]
    for path in (*chosen, *beside):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        for setting in settings:
            name, _, value = setting.partition("=")
            text = re.sub(rf"(#\s*define\s+{name}\s+)\S.*", rf"\g<1>{value}", text)
            text = re.sub(rf"(\bparameter\b.*?\b{name}\s*=\s*)\w+", rf"\g<1>{value}", text, flags=re.IGNORECASE)
        (to / path.name).write_text(text, encoding="utf-8", errors="surrogateescape")
    return [to / path.name for path in chosen]


def plain(names: Sequence[Path], to: Path) -> list[str] | str:
    """The command of the plain program; a sentence where it cannot be built."""
    if names[0].suffix == ".py":
        return [sys.executable, str(names[0])]
    fortran = names[0].suffix.lower() in fortran_dvm.FRONT_END.suffixes
    tool = find_compiler("fortran" if fortran else "c++" if names[0].suffix in (".cpp", ".cc", ".cxx") else "c").split()
    library = to / "library.o"
    subprocess.run(
        [*find_compiler().split(), "-c", str(runtime_sources() / "library.c"), "-o", str(library)], check=True
    )
    language = [] if fortran else ["-x", "c++" if tool[0].endswith("++") else "c", "-include", "dvmh.h"]
    if not fortran:
        (to / "dvmh.h").write_text("double dvmh_wtime(void); void dvmh_barrier(void); int dvmh_get_num_procs(int);\n")
    done = None
    for form in ("-ffixed-form", "-ffree-form") if fortran else ("",):
        given = ["-w", "-O1", f"-I{to}", *([form, "-x", "f95"] if form else []), *language, *map(str, names)]
        line = [*tool, *given, "-x", "none", str(library), "-o", str(to / "plain"), "-lm"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, errors="replace")
        if done.returncode == 0:
            return [str(to / "plain")]
    assert done is not None
    return f"no plain program: {first_error(done.stderr)}"


def first_error(text: str) -> str:
    """The first line of a compiler's complaints that says something."""
    lines = [line for line in text.splitlines() if "error" in line.lower() or "undefined" in line]
    return (lines or text.splitlines() or [""])[0].strip()


def output(command: Sequence[str], folder: Path, seconds: float) -> tuple[list[str], int | None]:
    """The lines that a command prints, without those that tell times, and its status; None: its time was up.

    `seconds` are the processor time of each of its processes.
    """

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))

    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=WAIT * seconds, check=False, errors="replace",
            stdin=subprocess.DEVNULL, preexec_fn=limited,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [], None
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return [], None
    return [line.rstrip() for line in done.stdout.splitlines() if not CLOCKS.search(line)], done.returncode


def trial(program: Path, settings: Sequence[str], grid: str, seconds: float) -> Trial:
    """Run a program plain and checked."""
    with tempfile.TemporaryDirectory(prefix="weft-trial-") as held:
        folder = Path(held)
        names = copied(program, folder, settings)
        line = plain(names, folder)
        if isinstance(line, str):
            return Trial(str(program), "none", line)
        expected, status = output(line, folder, seconds)
        if status is None:
            return Trial(str(program), "none", f"the plain program takes more than {seconds:g} s")
        if status and names[0].suffix == ".py":
            return Trial(str(program), "none", f"the plain program fails: its status is {status}")
        report = folder / "report.txt"
        words = [sys.executable, "-m", "weft", "check", "-o", str(report), "--timeout", str(20 * WAIT * seconds)]
        if names[0].suffix != ".py":
            words += [f"-I{folder}", *(["-p", grid] if grid else [])]
        words += map(str, names)
        got, _ = output(words, folder, 30 * seconds)
        if not report.exists():
            wait = 30 * WAIT * seconds
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=wait, check=False)
            return Trial(str(program), "refused", done.stderr.strip().replace(f"{folder}/", ""))
        said = report.read_text(encoding="utf-8").replace(f"{folder}/", "").splitlines()
    found = tuple(one for one in said if re.match(r"(error|warning|note): |  +.*\[[a-z-]+\]$", one))
    looked = next((one for one in said if one.startswith("Looked at")), "")
    apart = [line for line in ndiff(expected, got) if line[0] in "+-"][:MOST_LINES]
    return Trial(str(program), "differs" if apart else "same", f"{said[0]}; {looked}", found, tuple(apart))


def main() -> int:
    """Print a line a program, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM")
    parser.add_argument(
        "--seconds", type=float, default=30, help="of processor time of the plain program; the check may take 20 times"
    )
    parser.add_argument("-p", "--processors", default="", help="as -p of weft check")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--quiet", action="store_true", help="only what differs, is refused or has findings")
    args = parser.parse_args()
    counts: dict[str, int] = {}
    for program in args.programs:
        one = trial(program, args.set, args.processors, args.seconds)
        counts[one.outcome] = counts.get(one.outcome, 0) + 1
        counts["with findings"] = counts.get("with findings", 0) + bool(one.findings)
        if not args.quiet or one.findings or one.outcome != "same":
            print(f"{one.outcome:8} {one.name}: {one.said}", flush=True)
            for text in (*one.differing, *one.findings):
                print(f"         {text}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    return int("differs" in counts)


if __name__ == "__main__":
    sys.exit(main())
