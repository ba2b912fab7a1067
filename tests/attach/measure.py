"""What two looks at ranks that poll cost: python tests/attach/measure.py [--mpi openmpi] [--python] 2 16 64.

Prints for each number of ranks: elapsed seconds, those of a processor that Weft took, and how the job ended.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from attach.jobs import PROGRAMS, compiled, running, until, where
from tests_support import ROOT, WEFT, Installed

CONSENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def installed(name: str) -> Installed:
    """One of the two MPIs of this repository's environments."""
    folder = ROOT / (".venv" if name == "mpich" else ".venv-openmpi") / "bin"
    more = ("--oversubscribe",) if name == "openmpi" else ()
    return Installed(
        name, (str(folder / "mpiexec"), *more), str(folder / "mpicc"), str(folder / "python"),
        CONSENT if more else {},
    )  # fmt: skip


def once(of: Installed, ranks: int, folder: Path, *, python: bool) -> str:
    """One job, looked at once it hangs."""
    program = [of.python or "", PROGRAMS / "hang.py"] if python else [compiled(of, "hang.c", folder), "recv", "go"]
    (folder / "go").unlink(missing_ok=True)
    with running(of, ranks, program, folder) as job:
        hung = ranks - (1 if python or ranks == 2 else 2)
        until(lambda told: len(where(told).get("Barrier" if python else "MPI_Barrier", ())) == hung, job.pid)
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([*WEFT, "attach", str(job.pid)], stdout=subprocess.DEVNULL, timeout=300, check=True)
        elapsed, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        alive = job.poll() is None
        (folder / "go").touch()
        ended = "" if python or ranks == 2 else f", and ended with {job.wait(timeout=300)}"
        return f"{ranks:3} ranks: {elapsed:6.2f} s, {spent:5.2f} s of a processor; alive after: {alive}{ended}"


def main() -> None:
    """Measure each number of ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ranks", type=int, nargs="+")
    parser.add_argument("--mpi", choices=("mpich", "openmpi"), default="mpich")
    parser.add_argument("--python", action="store_true", help="mpi4py in place of C")
    args = parser.parse_args()
    for ranks in args.ranks:
        with tempfile.TemporaryDirectory(prefix="weft-measure-") as folder:
            print(once(installed(args.mpi), ranks, Path(folder), python=args.python), flush=True)


if __name__ == "__main__":
    main()
