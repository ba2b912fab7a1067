"""Twenty programs whose tasks take their turns by chance: recorded once, and replayed again and again.

python tests/tasks/orders.py [--runs 20] [--only NAME]... [--runtime FILE]

Right is a replay that prints the order of its record, and ends with status 0. Of each program three records are made,
to see that its order is one of chance: how many of them differ is told.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests_support import clang
from weft.tasks import session

PROGRAMS = Path(__file__).parent / "programs"
OPENMP = ("many", "tree", "depending", "groups", "loose", "loops", "once", "locks", "nested", "made")
ASYNCIO = ("sleeps", "locked", "queued", "threaded", "timed", "served", "first", "cancelled", "limited", "told")


def ran(command: list[str], *, record: str = "", replay: str = "", runtime: str = "") -> str:
    """A run to its end: what it printed, or how it ended where that was not well."""
    with session(command, record=record, replay=replay, runtime=runtime) as s:
        stop = s.do("continue")
        return s.output() if (stop["why"], stop["code"]) == ("ended", 0) else str(stop)


def commands(folder: Path) -> dict[str, list[str]]:
    """The programs: half of OpenMP's by gcc, half by clang."""
    found = {}
    for number, kind in enumerate(OPENMP):
        compiler = ("gcc", clang() if shutil.which(clang()) else "gcc")[number % 2]
        program = folder / f"ordered-{compiler}"
        build = [compiler, "-g", "-O0", "-fopenmp", str(PROGRAMS / "ordered.c"), "-o", str(program)]
        if not program.exists():
            subprocess.run(build, check=True, cwd=folder, timeout=60)
        found[kind] = [str(program), kind]
    return found | {kind: [sys.executable, str(PROGRAMS / "orders.py"), kind] for kind in ASYNCIO}


def main() -> int:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", action="append")
    parser.add_argument("--runtime", default="")
    options = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands(Path(folder)).items():
            if options.only and name not in options.only:
                continue
            runtime = options.runtime if name in OPENMP else ""
            files = [f"{folder}/{name}-{n}" for n in range(3)]
            first = [ran(command, record=file, runtime=runtime) for file in files]
            again = [ran(command, replay=files[0], runtime=runtime) for _ in range(options.runs)]
            same = again.count(first[0])
            wrong += same < options.runs
            kind = "OpenMP" if name in OPENMP else "asyncio"
            chance = f"of 3 records {len(set(first))} differ"
            print(f"{kind}, {name}: {same} of {options.runs} replays as recorded; {chance}", flush=True)
            for other in sorted(set(again) - {first[0]})[:1]:
                print(f"  recorded {first[0]!r}\n  replayed {other!r}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
