"""Check whether a compiler writes assembly that Weft's shortcuts recognise, by compiling a program that has all of
them.

If it does not, a check finds the same but takes longer, and nothing else would tell the user.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from weft.dataparallel.runtime import run_build_tool
from weft.instrument.assembly import POSSIBLE, SHORTENED, inline_hooks

FEWEST: Final = 48
"""Hooks that the program has at least once it is compiled."""
_ELEMENTS: Final = " ".join(f"x[k][{n // 8}][{n % 8}] += x[k][{n % 8}][{n // 8}];" for n in range(25))
PROGRAM: Final = f"""\
extern double a[64][64], b[64][64], x[8][8][8];
void weft_check_iteration2(long i, long j);
void loop(int n) {{
    for (long i = 1; i < n; i++)
        for (long j = 1; j < n; j++) {{
            weft_check_iteration2(i, j);
            a[i][j] = b[i][j - 1] + b[i][j + 1];
        }}
}}
void straight(int k) {{ {_ELEMENTS} }}
"""
UNKNOWN: Final = (
    "{compiler} compiles {what} in a way that Weft does not know: the findings are the same, but checked programs "
    "run slower. Please send this line to Weft's authors; another compiler (CC, CXX, FC) may be faster"
)
_COPY: Final = re.compile(r"^\.Lweftr(\d+):\n\t\.long\t3, 0\n\t\.quad\t0\n\t\.long\t(-?\d+)", re.M)
"""The head of a copy's data, with its rank."""
HOOKED, LOOPS, STRAIGHT = "the calls of its access hooks", "loops", "long code without loops"


def find_unrecognised(assembly: str, *, gcc: bool) -> list[str]:
    """Return phrases for the kinds of code (calls before accesses, loops, code without loops) that Weft cannot make
    faster, because it does not recognise them in the assembly of the test program PROGRAM. Empty if it recognises
    all."""
    if not POSSIBLE:
        return []
    made = inline_hooks(assembly, gcc=gcc)
    if len(SHORTENED.findall(made)) < FEWEST:
        return [HOOKED]
    if not gcc:
        return []
    ranks = {rank for _, rank in _COPY.findall(made)}
    return [what for rank, what in (("2", LOOPS), ("-1", STRAIGHT)) if rank not in ranks]


def check_compiler(command: list[str], folder: Path, *, gcc: bool) -> list[str]:
    """Compile the test program PROGRAM, and return phrases for the kinds of code in the compiler's assembly that Weft
    cannot make faster, because it does not recognise them."""
    (folder / "shortcuts.c").write_text(PROGRAM)
    run_build_tool([*command, "-x", "c", "-S", "shortcuts.c", "-o", "shortcuts.s"], folder)
    return find_unrecognised((folder / "shortcuts.s").read_text(errors="surrogateescape"), gcc=gcc)
