"""Runs real applications plain, recorded and replayed, and writes what came of it into docs/applications.md.

    python tools/applications.py [NAME...] [--ranks 3] [--keep FOLDER]

An application is a folder of tests/applications: small inputs and a case.toml, which says how it is started, which
lines of its output are its result, and what each kind of finding was judged to be when somebody looked at the calls or
the sources. An application passes if it ends with the same status and result with Weft as without, if every finding
has been judged and none as false, and if its replay ends with the recorded result (or the case says why it cannot). One
that is not installed is named, and is no failure. Programs run under Debian's Open MPI. The status is the number that
failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

from page_table import PageTable

ROOT: Final = Path(__file__).parents[1]
CASES: Final = ROOT / "tests" / "applications"
PAGE: Final = ROOT / "docs" / "applications.md"
TABLE: Final = PageTable(
    "tools/applications.py",
    "| application | version | result | findings | replay | calls | CPU: plain, recorded with its report | report "
    "| date, commit |\n|---|---|---|---|---|---|---|---|---|\n",
)
VERDICTS: Final = ("true", "harmless", "false")
NUMBER: Final = re.compile(r"[-+]?\d+\.\d+(?:[eEdD][-+]?\d+)?")
ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
"""Open MPI is started by root and on fewer cores than ranks."""


@dataclass(frozen=True)
class Application:
    """How one application is started and judged."""

    folder: Path
    name: str
    package: str
    command: Sequence[str]
    result: str
    """A regular expression of the lines that are the result."""
    digits: int = 0
    """Decimals are compared to so many significant digits; 0: as they are printed."""
    compile: Sequence[str] = ()
    prepare: Sequence[Sequence[str]] = ()
    needs: Sequence[str] = ()
    """Files that another package brings."""
    environment: Mapping[str, str] = field(default_factory=dict)
    judged: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each kind of finding its verdict (one of VERDICTS), and why."""
    replay_differs: str = ""
    """Why the replay cannot end with the recorded result."""

    @classmethod
    def from_folder(cls, folder: Path) -> Application:
        """Read a case.toml. ValueError where a verdict is none of VERDICTS."""
        case = cls(folder, **tomllib.loads((folder / "case.toml").read_text()))
        for kind, judgement in case.judged.items():
            if judgement["verdict"] not in VERDICTS:
                raise ValueError(f"{folder / 'case.toml'}: the verdict of {kind} is one of {', '.join(VERDICTS)}")
        return case

    def find_missing(self) -> str:
        """Return what is not installed, or nothing."""
        programs = [self.command[0], *self.compile[:1], *(step[0] for step in self.prepare), "mpiexec.openmpi"]
        lacking = [name for name in programs if not name.startswith("./") and shutil.which(name) is None]
        lacking += [name for name in self.needs if not Path(name).exists()]
        installed = subprocess.run(["dpkg", "-s", self.package], capture_output=True, check=False).returncode == 0
        return ", ".join([*lacking, *([] if installed else [f"Debian's package {self.package}"])])

    def select_result(self, output: str) -> list[str]:
        """Return the lines of an output that are the result, their decimals rounded to `digits`."""
        lines = [line.rstrip() for line in output.splitlines() if re.search(self.result, line)]
        if not self.digits:
            return lines
        return [
            NUMBER.sub(lambda number: f"{float(re.sub('[dD]', 'e', number[0])):.{self.digits - 1}e}", line)
            for line in lines
        ]


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    status: int
    output: str
    errors: str
    seconds: float
    """Processor time of the command and all that it waited for."""


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float = 600) -> Ending:
    """Run a command in a folder. One that takes longer than `seconds` is ended, with status 124."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        ["timeout", "--kill-after=10", str(seconds), *command],
        cwd=folder,
        env=os.environ | ENVIRONMENT | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ending(ended.returncode, ended.stdout.decode(errors="replace"), ended.stderr.decode(errors="replace"), spent)


def prepare(application: Application, folder: Path) -> str:
    """Make a folder in which an application can run, compiled and prepared. Return what failed, or nothing."""
    shutil.copytree(application.folder, folder)
    for step in [*([application.compile] if application.compile else []), *application.prepare]:
        if (ended := run(step, folder, application.environment)).status:
            return f"{' '.join(step)} ended with status {ended.status}: {ended.errors[-500:]}"
    return ""


def count_calls(run_directory: Path) -> int:
    """Return how many calls all ranks of a run recorded."""
    import weft

    return sum(len(rank.events) for rank in weft.open(run_directory).ranks)


def judge(application: Application, findings: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return the table's words for the findings of a run, and what is wrong with them."""
    kinds = Counter(finding["kind"] for finding in findings if finding["severity"] != "note")
    words, faults = [], []
    for kind, number in sorted(kinds.items()):
        judgement = application.judged.get(kind)
        if judgement is None:
            faults.append(f"nobody has judged {kind}: {next(f['message'] for f in findings if f['kind'] == kind)}")
            continue
        words.append(f"{number} {kind}: {judgement['verdict']}, {judgement['why']}")
        if judgement["verdict"] == "false":
            faults.append(f"{kind} is false: {judgement['why']}")
    return "; ".join(words) or "none", faults


def try_application(application: Application, ranks: int, scratch: Path) -> tuple[str, list[str]]:
    """Run an application in all three ways: its row of the table, and what is wrong."""
    faults: list[str] = []
    folders = {way: scratch / application.folder.name / way for way in ("plain", "recorded")}
    for folder in folders.values():
        if fault := prepare(application, folder):
            return "", [fault]
    launch = ["mpiexec.openmpi", "-n", str(ranks), *application.command]
    weft = [sys.executable, "-m", "weft"]
    plain = run(launch, folders["plain"], application.environment)
    expected = application.select_result(plain.output)
    if plain.status or not expected:
        ending = f"status {plain.status} and {len(expected)} lines of result"
        return "", [f"without Weft it ends with {ending}: {plain.errors[-500:]}"]
    recorded = run([*weft, "run", "--out", "run", "--", *launch], folders["recorded"], application.environment)
    if recorded.status != plain.status:
        faults.append(f"recorded, it ends with status {recorded.status}: {recorded.errors[-500:]}")
    if application.select_result(recorded.output) != expected:
        faults.append(
            f"recorded, its result differs: {application.select_result(recorded.output)[:3]}, not {expected[:3]}"
        )
    began = time.monotonic()
    report = run([*weft, "report", "run", "--format", "json"], folders["recorded"], application.environment)
    took = time.monotonic() - began
    document = json.loads(report.output)
    words, wrong = judge(application, document["findings"])
    faults += wrong + [f"an analysis failed: {failure}" for failure in document["failures"]]
    calls = count_calls(folders["recorded"] / "run")
    # A replay runs where the program ran, and what that wrote is not to be there again.
    record = folders["recorded"].with_name("run")
    shutil.move(folders["recorded"] / "run", record)
    shutil.rmtree(folders["recorded"])
    prepare(application, folders["recorded"])
    replay = run([*weft, "replay", str(record), "--out", "replay"], folders["recorded"], application.environment)
    holds = replay.status == 0 and application.select_result(replay.output) == application.select_result(
        recorded.output
    )
    if not holds and not application.replay_differs:
        faults.append(f"its replay does not hold (status {replay.status}): {replay.errors[-800:]}")
    commit = subprocess.check_output(["git", "rev-parse", "--short=8", "HEAD"], text=True, cwd=ROOT).strip()
    cells = [
        application.name,
        find_version(application.package),
        "as plain" if not faults else "see the log",
        words,
        "holds" if holds else application.replay_differs or "does not hold",
        f"{calls:,}",
        f"{plain.seconds:.1f} s, {recorded.seconds:.1f} s",
        f"{took:.1f} s",
        f"{date.today()}, {commit}",
    ]
    return f"| {' | '.join(cells)} |\n", faults


def find_version(package: str) -> str:
    """Return the version of a Debian package, without Debian's own part."""
    version = subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}", package], text=True)
    return version.split(":")[-1].split("-")[0].split("+")[0]


def main() -> int:
    """Try each application, and write its row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of tests/applications (all)")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the folders of the runs here")
    options = parser.parse_args()
    names = options.names or sorted(file.parent.name for file in CASES.glob("*/case.toml"))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="weft-applications-") as temporary:
        scratch = options.keep or Path(temporary)
        for name in names:
            application = Application.from_folder(CASES / name)
            if lacking := application.find_missing():
                print(f"{application.name}: not tried, not installed: {lacking}", flush=True)
                continue
            row, faults = try_application(application, options.ranks, scratch)
            failed += bool(faults)
            print(row or f"{application.name}: failed", end="" if row else "\n", flush=True)
            print("".join(f"    {fault}\n" for fault in faults), end="", flush=True)
            if row and not faults:
                PAGE.write_text(TABLE.replace_rows(PAGE.read_text(), [row]))
    print(f"{failed} of {len(names)} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
