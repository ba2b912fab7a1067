"""Programs of OpenCilk's runtime by script: `next` over stolen continuations, with lines, variables and results.

python tests/tasks/opencilk.py [STEALS]     that many steals in each program, and what was right

OPENCILK_ROOT names a built copy of OpenCilk's runtime (OpenCilk/cheetah: `make -C runtime CC=clang CXX=clang++`), whose
hand-compiled programs are compiled here by clang -O0.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.tasks import session


@dataclass(frozen=True)
class Hand:
    """A hand-compiled program: what it is given, its first line of a spawn, where `next` is to come from there.

    `says`: what it writes where its result is right.
    """

    name: str
    arguments: str
    spawn: int
    lines: tuple[int, ...]
    says: str
    holds: tuple[str, ...] = ()
    """What is true where it comes there, in C."""


HANDS = (
    Hand("fib", "14", 52, (55, 58, 59, 61), r"Result: 377\b",
         ("n == $n", "n == $n", "x == $fib(n - 1) && y == $fib(n - 2)", "_tmp == $fib(n)")),
    Hand("nqueens", "6", 92, (94,), r"solutions : 4\b", ("j == $j",)),
    Hand("mm_dac", "-n 64 -c", 109, (113, 114, 118), "MM_dac test passed", ("length == $length",) * 3),
    Hand("cilksort", "-n 30000 -c", 436, (440, 441, 445), "Sorting successful", ("size == $size",) * 3),
)  # fmt: skip


def library(root: Path) -> Path:
    """The runtime, linked statically: hand-compiled programs use what it does not export."""
    return next(root.glob("lib/**/libopencilk.a"))


def compiled(name: str, folder: Path) -> Path:
    """One of the runtime's hand-compiled programs."""
    root = Path(os.environ["OPENCILK_ROOT"])
    hand, target = root / "handcomp_test", folder / name
    sources = [str(hand / f"{part}.c") for part in (name, "ktiming", "getoptions", "ZERO")]
    subprocess.run(
        ["clang", "-O0", "-g", "-w", "-DOPENCILK_ABI", "-DTIMING_COUNT=1", f"-I{root / 'include'}", *sources,
         "-o", str(target), str(library(root)), "-lrt", "-lpthread", "-lm"],
        check=True, timeout=120,
    )  # fmt: skip
    return target


def fib(n: int) -> int:
    """Slowly, as the program does."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def expected(condition: str, known: dict[str, int]) -> str:
    """A condition of `Hand.holds`, with values in the place of what stood at the spawn."""
    text = re.sub(r"\$fib\((n(?: - \d)?)\)", lambda f: str(fib(eval(f[1], {"n": known["n"]}))), condition)
    return re.sub(r"\$(\w+)", lambda f: str(known[f[1]]), text)


def followed(do: Any, hand: Hand) -> tuple[bool, bool, list[Any]] | None:
    """One spawn and on: whether it was stolen, whether all was right, what was told; None at the program's end."""
    do(f"tbreak {hand.name}.c:{hand.spawn}")  # gone at once: others come there, too, and would stop the task anywhere
    first = do("continue")
    if first["why"] == "ended":
        return None
    names = sorted(set(re.findall(r"\$(?!fib)(\w+)", " ".join(hand.holds))) | ({"n"} if hand.name == "fib" else set()))
    known = {name: int(do(f"print {name}")["value"]) for name in names}
    told, right, stole = list[Any](), True, False
    for number, (line, holds) in enumerate(zip(hand.lines, hand.holds, strict=True)):
        at = do("next")
        stole |= number == 0 and at["worker"] != first["worker"]
        good = (at["why"], at["task"], (at["at"] or {}).get("line")) == ("line", first["task"], line)
        good = good and do(f"print {expected(holds, known)}")["value"] == "1"
        told.append((good, at))
        right = right and good
        if not good:
            break
    return stole, right, told


def stolen(hand: Hand, program: Path, steals: int) -> tuple[int, int, int, int]:
    """Steals seen, those with every line and variable right, wrong ones of any kind, and programs with a wrong end."""
    seen = right = wrong = ends = 0
    while seen < steals:
        with session([str(program), *hand.arguments.split()]) as opened:
            while (found := followed(opened.do, hand)) is not None:
                stole, good, told = found
                seen, right, wrong = seen + stole, right + (stole and good), wrong + (not good)
                if not good:
                    print("wrong:", hand.name, told, flush=True)
                if seen >= steals:
                    break
            while opened.do("continue")["why"] != "ended":
                pass
            ends += not re.search(hand.says, opened.output())
    return seen, right, wrong, ends


def main(steals: int) -> int:
    """All programs, by two workers."""
    os.environ["CILK_NWORKERS"] = "2"
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for hand in HANDS:
            seen, right, wrong, ends = stolen(hand, compiled(hand.name, Path(folder)), steals)
            print(f"{hand.name}: {seen} stolen, {right} right, {wrong} wrong, results wrong {ends}", flush=True)
            bad += wrong + ends + (seen == 0)
    return bad


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 60) > 0)
