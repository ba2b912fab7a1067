"""The commands that people know from gdb and pdb, on ranks of C, C++, Fortran and Python: each is really given.

    python tests/debug/commands_table.py        # prints the table of tests/evidence/debug-commands.md

One program (squares.*) is written in four languages. Every row is a script of commands and what its output has to
show. Beside Weft's prompt, on two ranks of a replay, plain gdb and pdb are given their own words for it, on one
process without a launcher.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from replay.campaign import environment

PROGRAMS = Path(__file__).parent / "programs"
LANGUAGES = {"C": "squares.c", "C++": "squares.cpp", "Fortran": "squares.f90", "Python": "squares.py"}


@dataclass(frozen=True)
class Row:
    """One thing a person wants: Weft's commands, what shows that they did it, and gdb's and pdb's words for it.

    `{here}` is the line of the loop's body, `{file}` the program's name. An empty script: there is no such command.
    """

    what: str
    weft: Sequence[str]
    shows: str
    gdb: Sequence[str] = ()
    gdb_shows: str = ""
    pdb: Sequence[str] = ()
    pdb_shows: str = ""
    languages: Sequence[str] = ("C", "C++", "Fortran", "Python")
    """Those that have such a thing."""
    build: str = ""
    """`-O2`: the program as it is shipped."""
    keys: bool = False
    """Whether the commands are typed at a terminal, where Tab completes them."""


NATIVE = ("C", "C++", "Fortran")
AT = ("break {file}:{here}", "continue")
HERE = ("break {file}:{here}", "run")
PDB = ("break {here}", "continue")
ROWS = [
    Row(
        "breakpoint at a line",
        AT,
        r"ranks 0 and 1  at {file}:{here} in .*add",
        HERE,
        r"Breakpoint 1, .*add",
        PDB,
        r"\({here}\)add\(\)",
    ),
    Row(
        "breakpoint at a function",
        ("break square", "continue"),
        r"ranks 0 and 1  at {file}:\d+ in .*square",
        ("break square", "run"),
        r"Breakpoint 1, .*square",
        ("break square", "continue"),
        r"square\(\)",
    ),
    Row(
        "condition (`break ... if`)",
        ("break {file}:{here} if k == 3", "continue", "print k"),
        r"ranks 0 and 1  3\n",
        ("break {file}:{here} if k == 3", "run", "print k"),
        r"\$1 = 3",
        ("break {here}, k == 3", "continue", "p k"),
        r"\) 3\n",
    ),
    Row(
        "once (`tbreak`)",
        ("tbreak {file}:{here}", "continue", "breakpoints"),
        r"\(weft\) breakpoints\nno breakpoints",
        ("tbreak {file}:{here}", "run"),
        r"Temporary breakpoint 1, ",
        ("tbreak {here}", "continue"),
        r"Deleted breakpoint 1",
    ),
    Row(
        "visits ignored (`ignore`)",
        ("break {file}:{here}", "ignore 1 2", "continue", "print k"),
        r"ranks 0 and 1  3\n",
        ("break {file}:{here}", "ignore 1 2", "run", "print k"),
        r"\$1 = 3",
        ("break {here}", "ignore 1 2", "continue", "p k"),
        r"\) 3\n",
    ),
    Row(
        "calls of MPI that fit a filter",
        ("break MPI_Allreduce count:1", "continue"),
        r"ranks 0 and 1  before event \d+: allreduce",
    ),
    Row(
        "change of a value (`watch`)",
        (*AT, "watch total @1", "continue"),
        r"total: 0 -> 1\b",
        (*HERE, "watch total", "continue"),
        r"Old value = 0\s+New value = 1\b",
    ),
    Row(
        "line by line (`next`, `step`)",
        (*AT, "next", "step @0"),
        r"next\n(.|\n)*rank 0 +at {file}:\d+ in (.|\n)*step @0\n(.|\n)*at {file}:{here} in .*add",
        (*HERE, "next"),
        r"\n\d+\t",
        (*PDB, "next"),
        r"add\(\)",
    ),
    Row(
        "functions left out by `step` (`skip`)",
        ("break {file}:{here} if k == 2", "continue", "delete", "skip square", "step @0"),
        r"step @0\n(.|\n)*rank 0 +at {file}:\d+ in .*add",
        (*HERE, "delete", "skip function square", "step"),
        r"will be skipped when stepping.\n(?!square)",
    ),
    Row(
        "stepped into again (`unskip`)",
        ("break {file}:{here} if k == 2", "continue", "delete", "skip square", "unskip square", "step @0"),
        r"step @0\n(.|\n)*rank 0 +at {file}:\d+ in .*square",
        (*HERE, "delete", "skip function square", "skip delete", "step"),
        r"\nsquare ",
    ),
    Row(
        "what a command does, with an example (`help`)",
        ("help tbreak",),
        r"tbreak main",
        ("help tbreak",),
        r"[Tt]emporary breakpoint",
        ("help tbreak",),
        r"tbreak",
    ),
    Row(
        "on until the function returns (`finish`)",
        ("break square", "continue", "delete", "finish"),
        r"in .*add.*; returned 1\b",
        ("break square", "run", "delete", "finish"),
        r"Value returned is \$1 = 1",
        ("break square", "continue", "return"),
        r"->1",
    ),
    Row(
        "stack, frames (`where`, `up`, `down`)",
        (*AT, "where", "up", "print me", "down"),
        r"#1 {file}:\d+ in .*(.|\n)*rank \d #1(.|\n)*rank 0  0\n(.|\n)*rank \d #0",
        (*HERE, "backtrace", "up", "print me", "down"),
        r"#1 (.|\n)*\$1 = 0",
        (*PDB, "where", "up", "p me", "down"),
        r"\) 0\n",
    ),
    Row(
        "variables of a frame (`info locals`)", (*AT, "info locals"), r"total = 0", (*HERE, "info locals"), r"total = 0"
    ),
    Row(
        "value in another format (`p/x`)",
        (*AT, "p/x n + 12"),
        r"rank 0  0x10\n",
        (*HERE, "p/x n + 12"),
        r"\$1 = 0x10",
        (*PDB, "p hex(n + 12)"),
        r"0x10",
    ),
    Row(
        "shown at every stop (`display`)",
        (*AT, "display total", "continue", "continue"),
        r"1: total = rank \d  5",
        (*HERE, "display total", "continue", "continue"),
        r"1: total = 5",
        (*PDB, "display total", "continue", "continue"),
        r"display total: 5",
    ),
    Row(
        "another value (`set`)",
        (*AT, "set total = 1000 @0", "print total"),
        r"rank 0  1000\n *rank 1  0\n",
        (*HERE, "set var total = 1000", "print total"),
        r"\$1 = 1000",
        (*PDB, "!total = 1000", "p total"),
        r"\) 1000\n",
    ),
    Row("a line without code is refused, the nearest told", ("break {file}:2",), r"no code in (that )?line"),
    Row("values of all ranks side by side", (*AT, "print n"), r"rank 0  4\n  rank 1  5\n"),
    Row("to a call of the record (`until`)", ("until MPI_Allreduce",), r"before event \d+: allreduce"),
    Row(
        "a line back (`reverse-next`)",
        ("break {file}:{here} if k == 2", "continue", "delete", "reverse-next", "reverse-next", "print k"),
        r"reverse-next\n(.|\n)*rank 0 +at {file}:{here} in (.|\n)*ranks? [0 and]*1?  1\n",
    ),
    Row(
        "back to the last change (`watch`, `reverse-continue`)",
        (*AT, "delete", "watch total @0", "continue", "continue", "reverse-continue"),
        r"reverse-continue\n(.|\n)*total: 0 -> 1\b",
    ),
    Row(
        "back to the last visit (`break`, `reverse-continue`)",
        (*AT, "continue", "continue", "reverse-continue", "print k @0"),
        r"rank 0  2\n",
    ),
    Row(
        "a reference or dummy argument is shown with its value",
        ("break square", "continue", "print k", "info locals"),
        r"print k\n  ranks 0 and 1  1\n",
        ("break square", "run", "print k"),
        r"\$1 = .*\b1\n",
        languages=("C++", "Fortran"),
    ),
    Row(
        "a variable that the compiler left out is named as such",
        ("break square", "continue", "info locals"),
        r" = <optimized out>",
        ("break square", "run", "info locals"),
        r" = <optimized out>",
        languages=("C", "C++"),
        build="-O2",
    ),
    Row(
        "inlined functions are frames (`where`, `up`)",
        ("break square", "continue", "where", "up"),
        r"#0 {file}:\d+ in .*square(.|\n)*#1 {file}:{here} in .*add(.|\n)*#2 .* in (main|squares)\b"
        r"(.|\n)*rank 0 #1 {file}:{here}",
        ("break square", "run", "backtrace", "up"),
        r"#0 .*square(.|\n)*#1 .* add(.|\n)*#2 .* main(.|\n)*#1 ",
        languages=NATIVE,
        build="-O2",
    ),
    Row(
        "out of an inlined function (`finish`)",
        ("break square", "continue", "delete", "finish"),
        r"in .*square(.|\n)*finish\n(.|\n)* in .*add",
        ("break square", "run", "delete", "finish"),
        r"Run till exit(.|\n)*\badd \(",
        languages=NATIVE,
        build="-O2",
    ),
    Row(
        "commands are completed with Tab",
        ("breakp\t", "quit"),
        r"breakpoints\b(.|\n)*no breakpoints",
        ("info breakp\t", "quit"),
        r"No breakpoints or watchpoints",
        ("unti\t", "quit"),
        r"until(.|\n)*->",
        keys=True,
    ),
    Row("back (`prev event`)", ("until MPI_Allreduce", "prev event"), r"prev event\n(.|\n)*before event \d+: barrier"),
]


def line(file: str) -> int:
    """The line that is marked in a program."""
    [found] = [
        i for i, row in enumerate((PROGRAMS / file).read_text().splitlines(), 1) if re.search(r"(/\*|!|#) here", row)
    ]
    return found


class Bench:
    """The programs built and recorded with the MPI of a virtual environment, Fortran with the system's MPICH."""

    def __init__(self, venv: Path, folder: Path) -> None:
        self.bin, self.folder = venv.absolute() / "bin", folder
        self.commands: dict[str, list[str]] = {}

    def build(self, language: str, how: str = "") -> bool:
        """Build and record one language (with its key of `commands`); false where its compiler is not here."""
        source, out = PROGRAMS / LANGUAGES[language], self.folder / f"squares-{language}{how}"
        compilers = {"C": [str(self.bin / "mpicc")], "C++": [str(self.bin / "mpicxx")], "Fortran": ["mpif90.mpich"]}
        if language == "Python":
            self.commands[language + how] = [str(self.bin / "python"), str(source)]
        else:
            if shutil.which(compilers[language][0]) is None:
                return False
            subprocess.run(
                [*compilers[language], "-g", how or "-O0", "-o", str(out), str(source)], check=True, cwd=self.folder
            )
            self.commands[language + how] = [str(out)]
        launcher = ["mpiexec.mpich", "-n", "2"] if language == "Fortran" else [str(self.bin / "mpiexec"), "-n", "2"]
        words = [str(self.bin / "weft"), "run", "--out", str(self.folder / f"run-{language}{how}"), "--", *launcher]
        self._run([*words, *self.commands[language + how]], "")
        return True

    def _run(self, words: Sequence[str], text: str, **more: str) -> str:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=100, check=False,
                              env=environment() | more, cwd=self.folder)  # fmt: skip
        return done.stdout + done.stderr

    def weft(self, row: Row, language: str) -> tuple[bool, str]:
        """Whether Weft does it in this language, and what was said."""
        if row.build and language + row.build not in self.commands:
            self.build(language, row.build)
        if row.keys:
            run = str(self.folder / f"run-{language}")
            said = typed([str(self.bin / "weft"), "debug", run], row.weft, "(weft)", self.folder)
        else:
            said = self.script(row.weft, language, row.build)
        return re.search(self.filled(row.shows, language), said) is not None, said

    def script(self, commands: Sequence[str], language: str, how: str = "") -> str:
        """What a script of commands prints."""
        words = [word for command in commands for word in ("-c", self.filled(command, language))]
        return self._run([str(self.bin / "weft"), "debug", str(self.folder / f"run-{language}{how}"), *words], "")

    def gdb(self, row: Row) -> tuple[bool, str]:
        """Whether plain gdb does it, on C, or on what has such a thing."""
        language = row.languages[0]
        if not row.gdb or language + row.build not in self.commands:
            return False, ""
        begin = ["gdb", "--nx", "-q", "-iex", "set debuginfod enabled off"]
        if row.keys:
            said = typed([*begin, *self.commands[language]], row.gdb, "(gdb)", self.folder)
        else:
            words = [word for command in row.gdb for word in ("-ex", self.filled(command, language))]
            said = self._run([*begin, "--batch", *words, *self.commands[language + row.build]], "")
        return re.search(self.filled(row.gdb_shows, language), said) is not None, said

    def pdb(self, row: Row) -> tuple[bool, str]:
        """Whether plain pdb does it."""
        command = [str(self.bin / "python"), "-m", "pdb", str(PROGRAMS / LANGUAGES["Python"])]
        if row.pdb and row.keys:
            said = typed(command, row.pdb, "(Pdb)", self.folder)
            return re.search(row.pdb_shows, said) is not None, said
        text = "".join(self.filled(command, "Python") + "\n" for command in [*row.pdb, "quit"])
        said = self._run(command, text)
        return bool(row.pdb) and re.search(self.filled(row.pdb_shows, "Python"), said) is not None, said

    def filled(self, text: str, language: str) -> str:
        file = LANGUAGES[language]
        return text.replace("{file}", file).replace("{here}", str(line(file)))


def typed(command: Sequence[str], lines: Sequence[str], prompt: str, folder: Path) -> str:
    """What a command shows at a terminal where lines are typed, each at its prompt."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment() | {"TERM": "dumb"},
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    said, until, seen = "", time.monotonic() + 100, 0
    left = list(lines)
    try:
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.2)[0]:
                said += os.read(ours, 4096).decode(errors="replace")
            if left and said.count(prompt, seen):
                seen = len(said)
                os.write(ours, left.pop(0).encode())
                time.sleep(0.5)  # what Tab makes of it
                os.write(ours, b"\n")
    except OSError:  # it has ended
        pass
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\a", "", said)


def main() -> int:
    """Print the table; status 1 where Weft lacks something. Names of rows as arguments: only those."""
    wanted = [row for row in ROWS if not sys.argv[1:] or any(word in row.what for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as made:
        bench, bad = Bench(Path(sys.prefix), Path(made)), 0
        languages = [language for language in LANGUAGES if bench.build(language)]
        print(f"| | {' | '.join(languages)} | plain gdb (C) | plain pdb |\n|---|{'---|' * (len(languages) + 2)}")
        for row in wanted:
            cells = []
            for language in languages:
                good, said = bench.weft(row, language) if language in row.languages else (True, "")
                if not good:
                    print(f"{language}: {row.what}\n{said}", file=sys.stderr)
                bad += not good
                cells.append("" if language not in row.languages else "yes" if good else "-")
            cells += ["yes" if good else "-" for good, _ in (bench.gdb(row), bench.pdb(row))]
            print(f"| {row.what} | {' | '.join(cells)} |", flush=True)
    return bool(bad)


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    raise SystemExit(main())
