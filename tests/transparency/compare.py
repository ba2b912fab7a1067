"""Does mpi4py's own test suite give the same result under `weft run`, test by test?

    make test-transparency                   # both PyPI MPIs on 1, 2 and 3 ranks; RANKS=2 for some
    python tests/transparency/compare.py --suite mpi4py-4.1.2/test --python VENV/bin/python --ranks 1 2 3

Runs every module twice, without and with the recorder, each with a time limit, and compares each test's outcome on
each rank. A module that is unsteady by itself (two plain runs differ) is named and compared against both. Recorded runs
(gigabytes, all together) are kept where a module differs, or all of them in the folder that --keep names.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
Outcome = dict[str, str]


def environment(python: Path) -> dict[str, str]:
    """The environment of a run: one thread a rank, Open MPI allowed to run as root and on few cores."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }


def place_of(arguments: argparse.Namespace, module: str, ranks: int) -> Path:
    """Where a module's recorded run lies."""
    return Path(arguments.runs) / f"{arguments.python.parent.parent.name}-{module}-{ranks}"


def launch(
    arguments: argparse.Namespace, module: str, ranks: int, recorded: bool, out: Path
) -> tuple[list[Outcome], str]:
    """Run the module once. Returns the outcomes by rank and how the process ended."""
    program = [str(arguments.python), str(HERE / "one_module.py"), str(arguments.suite), module, str(out)]
    line = [str(arguments.python.parent / "mpiexec"), "-n", str(ranks), *program]
    if recorded:
        run = place_of(arguments, module, ranks)
        line = [str(arguments.weft), "run", "--out", str(run), "--level", arguments.level, "--", *line]
    try:
        done = subprocess.run(line, check=False, env=environment(arguments.python), capture_output=True, text=True,
                              timeout=arguments.timeout, cwd=arguments.suite, errors="replace")  # fmt: skip
        ended = f"exit {done.returncode}"
        if done.returncode and arguments.verbose:
            print(done.stderr[-2000:], file=sys.stderr)
    except subprocess.TimeoutExpired:
        ended = "time limit"
    outcomes = []
    for rank in range(ranks):
        file = out.with_name(f"{out.name}.{rank}.json")
        outcomes.append(json.loads(file.read_text()) if file.exists() else {})
    return outcomes, ended


def normal(word: str) -> str:
    """An outcome without addresses and paths of temporary files."""
    return re.sub(r"0x[0-9a-f]+|/tmp/\S+", "", word)


def differences(plain: list[Outcome], recorded: list[Outcome]) -> list[str]:
    """One sentence for each test whose outcome differs."""
    found = []
    for rank, (before, after) in enumerate(zip(plain, recorded, strict=True)):
        for test in sorted(before.keys() | after.keys()):
            a, b = normal(before.get(test, "not run")), normal(after.get(test, "not run"))
            if a != b:
                found.append(f"rank {rank}: {test}: {a} without, {b} with Weft")
    return found


def check(arguments: argparse.Namespace, module: str, ranks: int) -> tuple[int, list[str], str]:
    """Compare one module: number of outcomes, differences, a remark."""
    with tempfile.TemporaryDirectory() as folder:
        plain, ended = launch(arguments, module, ranks, False, Path(folder) / "plain")
        recorded, ended_recorded = launch(arguments, module, ranks, True, Path(folder) / "recorded")
        found = differences(plain, recorded)
        if ended != ended_recorded:
            found.append(f"ended by {ended} without, {ended_recorded} with Weft")
        remark = ended
        if found:  # is it the module's own unsteadiness?
            again, ended_again = launch(arguments, module, ranks, False, Path(folder) / "again")
            if differences(plain, again) or ended != ended_again:
                remark += ", unsteady without Weft too"
                if not differences(again, recorded) and ended_again == ended_recorded:
                    found = []
    return sum(len(o) for o in plain), found, remark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--weft", type=Path, default=Path(sys.executable).with_name("weft"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--modules", nargs="*")
    parser.add_argument("--level", default="trace")
    parser.add_argument("--timeout", type=float, default=180)
    parser.add_argument("--keep", metavar="FOLDER")
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    arguments.suite = arguments.suite.resolve()
    arguments.python = arguments.python.absolute()
    arguments.runs = arguments.keep or tempfile.mkdtemp(prefix="weft-transparency-")
    modules = arguments.modules or sorted(p.stem for p in arguments.suite.glob("test_*.py"))
    total = worse = 0
    for ranks in arguments.ranks:
        for module in modules:
            count, found, remark = check(arguments, module, ranks)
            if not found and not arguments.keep:
                shutil.rmtree(place_of(arguments, module, ranks), ignore_errors=True)
            total += count
            worse += len(found)
            print(f"{ranks} ranks  {module:32} {count:5} outcomes  {len(found):3} differ  ({remark})", flush=True)
            for sentence in found[:20]:
                print(f"    {sentence}", flush=True)
    left = Path(arguments.runs).exists() and any(Path(arguments.runs).iterdir())
    if not left and not arguments.keep:
        Path(arguments.runs).rmdir()
    print(f"{total} outcomes compared, {worse} differ" + (f"; runs kept in {arguments.runs}" if left else ""))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
