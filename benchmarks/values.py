"""What probes cost a program, how fast arrays are hashed, and what it takes to compare 10^8 values.

    python benchmarks/values.py [--sweeps 300] [--side 1000] [--elements 1e8] [--repeat 3] [--instructions]

The program is Jacobi's method in C on one processor, with a probe of its residual and one of its whole array in each
sweep. Times are of the processor, user and system, the least of the repetitions; the program keeps its values without
the recorder of calls. Ends with status 1 where a limit is missed.

--instructions counts instructions by callgrind instead: what else the machine does is no part of them, nor is the time
of the system.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from weft.native.headers.values import kernel
from weft.values import recording
from weft.values.configuration import read_configuration
from weft.values.recording import INCLUDE

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <weft.h>
static __attribute__((noinline)) double sweep(const double *a, double *b, int n) {
    double most = 0;
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++) {
            double x = (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1]) / 4;
            double d = x > a[i * n + j] ? x - a[i * n + j] : a[i * n + j] - x;
            most = d > most ? d : most;
            b[i * n + j] = x;
        }
    return most;
}
int main(int argc, char **argv) {
    int sweeps = atoi(argv[1]), n = atoi(argv[2]);
    double *a = calloc((size_t)n * n, 8), *b = calloc((size_t)n * n, 8);
    for (int j = 0; j < n; j++) a[j] = b[j] = 1;
    for (int s = 0; s < sweeps; s++) {
        weft_loop("sweep", s);
        double most = sweep(a, b, n), *t = a;
        a = b, b = t;
        weft_probe("residual", &most, double);
        weft_probe_part("A", a, double, "A", 2, WEFT_LIST(n, n), WEFT_LIST(0, 0), WEFT_LIST(n, n));
        if (most > 2) fprintf(stderr, "wrong");
    }
    return 0;
}
"""
MODES = {
    "probes compiled out (WEFT_OFF)": (None, None),
    "without weft run": (None, None),
    "minimal: the residual in each sweep, a hash of the array in each 50th": (
        'level = "minimal"\nlimit = "8 GB"\n[probe.A]\niterations = "0:1000000:50"\n', 1.03
    ),
    "minimal in each sweep": ('level = "minimal"\nlimit = "8 GB"\n', None),
    "modifications in each sweep": ('level = "modifications"\nlimit = "8 GB"\n', None),
    "full: every element in each sweep": ('level = "full"\nlimit = "8 GB"\n', 10.0),
}  # fmt: skip
HASHED = 2e9
"""Bytes a second."""
COMPARED = (30.0, 2 << 30)
"""Seconds and bytes of memory."""
WRITER = """
import sys
import numpy as np, weft
total, wrong = int(float(sys.argv[1])), sys.argv[2] == "wrong"
for step in range(10):
    with weft.loop("step", step):
        a = np.arange(total // 10, dtype=float) * 0.001 + step
        if wrong and step == 9:
            a[-1] += 1
        weft.probe("a", weft.part(a, of="A"))
"""


def variables(folder: Path, configuration: str) -> dict[str, str]:
    """What makes a process keep values in a new folder."""
    (folder / "values").mkdir(parents=True)
    (folder / "p.toml").write_text(configuration)
    (folder / "values" / "plan").write_text(read_configuration(folder / "p.toml").plan_text())
    library = recording.library()
    return {"WEFT_INTERNAL_VALUES": str(folder / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}


def processor(command: list[str], more: dict[str, str]) -> float:
    """Processor seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    subprocess.run(command, check=True, timeout=900, env=clean | more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def instructions(command: list[str], more: dict[str, str]) -> float:
    """Millions of instructions of a process, as callgrind counts them."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT")}
    line = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(line, check=True, timeout=900, env=clean | more, capture_output=True, text=True)
    return int(done.stderr.rpartition("Collected : ")[2].split()[0]) / 1e6


def cost(folder: Path, options: argparse.Namespace) -> bool:
    """The program with each configuration, beside itself without probes; whether a limit was missed."""
    (folder / "jacobi.c").write_text(PROGRAM)
    for name, flags in (("off", ["-DWEFT_OFF"]), ("on", [])):
        command = ["cc", "-O2", f"-I{INCLUDE}", *flags, "-o", str(folder / name), str(folder / "jacobi.c")]
        subprocess.run(command, check=True, timeout=60)
    least = dict.fromkeys(MODES, float("inf"))
    for turn in range(options.repeat):
        for number, (mode, (text, _)) in enumerate(MODES.items()):
            run = folder / f"run-{turn}-{number}"
            more = variables(run, text) if text is not None else {}
            words = [str(folder / ("on" if number else "off")), str(options.sweeps), str(options.side)]
            least[mode] = min(least[mode], (instructions if options.instructions else processor)(words, more))
            subprocess.run(["rm", "-rf", str(run)], check=True, timeout=60)
    unit = "10⁶ instructions" if options.instructions else "processor s"
    print(f"| probes | {unit} | beside none | wanted |\n|---|---|---|---|")
    missed = False
    for mode, seconds in least.items():
        ratio, limit = seconds / next(iter(least.values())), MODES[mode][1]
        missed |= limit is not None and ratio > limit
        wanted = "" if limit is None else f"{limit:g}: {'ok' if ratio <= limit else 'MISSED'}"
        print(f"| {mode} | {seconds:.2f} | {ratio:.3f} | {wanted} |", flush=True)
    return missed


def hashing(repeat: int) -> bool:
    """Bytes a second of the hash; whether the limit was missed."""
    values = np.random.default_rng(0).normal(size=4_000_000)
    best = 0.0
    for _ in range(max(repeat, 3)):
        begun = time.thread_time()
        kernel().weft_hash_values(values.view(np.uint8), len(values), 8, ord("f"), 8, 0, 3)
        best = max(best, values.nbytes / (time.thread_time() - begun))
    print(
        f"\nhashes of float64: {best / 1e9:.1f} GB/s (wanted: {HASHED / 1e9:g}: {'ok' if best >= HASHED else 'MISSED'})"
    )
    return best < HASHED


def comparing(folder: Path, elements: float) -> bool:
    """Two traces of so many values compared; whether a limit was missed."""
    for name in ("right", "wrong"):
        more = variables(folder / name, 'limit = "16 GB"\n')
        processor([sys.executable, "-c", WRITER, str(elements), name], more)
    code = (
        "import resource, sys; from weft.cli.main import main; "
        "status = main(['compare', '--values', *sys.argv[1:]]); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, status)"
    )
    begun = time.monotonic()
    command = [sys.executable, "-c", code, str(folder / "right"), str(folder / "wrong")]
    done = subprocess.run(command, check=True, timeout=900, capture_output=True, text=True)
    seconds, (memory, status) = time.monotonic() - begun, map(int, done.stdout.splitlines()[-1].split())
    good = seconds <= COMPARED[0] and memory * 1024 <= COMPARED[1] and status == 1
    print(
        f"{elements:,.0f} values of each run compared, one differs: {seconds:.1f} s, {memory / 2**20:.2f} GiB "
        f"(wanted: {COMPARED[0]:g} s, 2 GiB: {'ok' if good else 'MISSED'})"
    )
    return not good


def main() -> int:
    """Measure, print the tables, compare with the limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=300, help="sweeps of the program (300)")
    parser.add_argument("--side", type=int, default=1000, help="rows and columns of its array (1000)")
    parser.add_argument("--elements", type=float, default=1e8, help="values to compare (1e8)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions, in turn (3)")
    parser.add_argument("--instructions", action="store_true", help="count instructions, of the program only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as name:
        missed = [cost(Path(name), options)]
        if not options.instructions:
            missed += [hashing(options.repeat), comparing(Path(name), options.elements)]
    return int(any(missed))


if __name__ == "__main__":
    sys.exit(main())
