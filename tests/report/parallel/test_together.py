"""`mpiexec -n N weft report RUN` finds what one process finds, byte for byte, and never hangs."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from races.test_races_against_enumeration import build, random_program, record
from tests_support import ROOT, WEFT, execute
from weft.report.parallel import divide_ranks
from weft.report.parallel.report import WHOLE
from weft.report.registry import ANALYSES
from weft.trace import Trace
from weft.trace.builder import ANY, Builder, RankBuilder

MPIEXEC = Path(sys.executable).parent / "mpiexec"
COMPARED = ROOT / "tests" / "report" / "parallel" / "compared.py"

pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python (make setup)")


def together(count: int, *line: str | Path, **options: object) -> CompletedProcess[str]:
    """Run a program as some processes."""
    return execute([MPIEXEC, "-n", str(count), *line], **options)  # type: ignore[arg-type]


def faulty(rng: random.Random, path: Path) -> Trace:
    """A run of messages and collectives, some of whose calls are wrong: on any rank, with any other."""
    b = Builder(ranks=rng.randint(2, 9), path=path)
    for r in b.ranks:
        r.init()
    for step in range(rng.randint(3, 25)):
        one, two = rng.sample(b.ranks, 2)
        rng.choice(STEPS)(rng, b.ranks, one, two, step)
    for r in b.ranks:
        if rng.random() < 0.95:
            r.finalize()
    return b.open()


def _message(rng: random.Random, ranks: Sequence[RankBuilder], one: RankBuilder, two: RankBuilder, step: int) -> None:
    sizes = rng.choice([(4, 4), (4, 4), (8, 4), (4, 8)])
    types = rng.choice([("MPI_INT", "MPI_INT"), ("MPI_INT", "MPI_INT"), ("MPI_INT", "MPI_FLOAT")])
    tag = rng.randrange(3)
    one.send(two.index, tag, count=sizes[0], datatype=types[0])
    two.recv(rng.choice([ANY, one.index]), tag, got=one.index, got_tag=tag, count=sizes[1], datatype=types[1])


def _left(rng: random.Random, ranks: Sequence[RankBuilder], one: RankBuilder, two: RankBuilder, step: int) -> None:
    """Sent and not received, or received with another tag."""
    one.send(two.index, 5)
    if rng.random() < 0.5:
        two.irecv(one.index, 6)


def _leak(rng: random.Random, ranks: Sequence[RankBuilder], one: RankBuilder, two: RankBuilder, step: int) -> None:
    one.isend(two.index, 7)
    request = two.irecv(one.index, 7)
    if rng.random() < 0.5:
        two.wait(request)


def _exchange(rng: random.Random, ranks: Sequence[RankBuilder], one: RankBuilder, two: RankBuilder, step: int) -> None:
    """Both send first."""
    one.send(two.index, 1)
    two.send(one.index, 1)
    one.recv(two.index, 1)
    two.recv(one.index, 1)


def _all(rng: random.Random, ranks: Sequence[RankBuilder], one: RankBuilder, two: RankBuilder, step: int) -> None:
    for r in ranks:
        if r is one and rng.random() < 0.2:
            r.barrier()
        else:
            r.bcast(root=step % 2)


STEPS = (_message, _message, _message, _left, _leak, _exchange, _all)


@pytest.fixture(scope="session")
def random_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 runs of random programs: half of them with wildcards and many orders, half with calls that are wrong."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(100):
        rng = random.Random(seed)
        program = random_program(rng)
        trace, _ = build(program, record(program, rng))
        shutil.copytree(trace.path, folder / f"orders-{seed}")
        faulty(rng, folder / f"faulty-{seed}")
    return folder


@pytest.mark.matrix
@pytest.mark.parametrize(
    "workers", [pytest.param(2, marks=pytest.mark.matrix), 3, pytest.param(4, marks=pytest.mark.matrix)]
)
def test_several_processes_find_what_one_finds_in_200_random_programs(random_runs: Path, workers: int) -> None:
    done = together(workers, sys.executable, COMPARED, random_runs, timeout=240)
    assert done.stdout.splitlines()[-1:] == ["200 the same, 0 not"], done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.matrix
def test_the_random_programs_have_findings_of_many_kinds(random_runs: Path) -> None:
    """What is compared is not silence: every analysis that is shared out finds something."""
    from weft.report import run_analyses

    kinds = {f.kind for path in random_runs.iterdir() if path.is_dir() for f in run_analyses(Trace.open(path)).findings}
    assert kinds >= {
        "message-race", "potential-deadlock", "unmatched-send", "unmatched-receive", "type-mismatch", "truncation",
        "request-leak", "collective-mismatch",
    }, kinds  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of five ranks with a message that nobody takes."""
    return faulty(random.Random(7), tmp_path / "run").path


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["text", "json", "sarif"])
def test_every_form_of_the_report_is_the_serial_one(run: Path, form: str) -> None:
    serial = execute([*WEFT, "report", run, "--format", form])
    shared = together(3, *WEFT, "report", run, "--format", form)
    assert serial.stdout and shared.stdout == serial.stdout
    assert shared.returncode == serial.returncode


@pytest.mark.matrix
def test_more_processes_than_ranks_are_no_harm(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    b.ranks[0].send(1, 3)
    for r in b.ranks:
        r.finalize()
    path = b.open().path
    assert together(4, *WEFT, "report", path).stdout == execute([*WEFT, "report", path]).stdout


def test_one_process_of_mpiexec_needs_no_mpi4py(run: Path, no_mpi4py: dict[str, str]) -> None:
    serial = execute([*WEFT, "report", run])
    assert together(1, *COMMAND, "report", run, env=no_mpi4py).stdout == serial.stdout


@pytest.mark.cases(1)
@pytest.mark.parametrize("between", [[], ["sh", "-c", 'exec "$0" "$@"'], ["sh", "-c", '"$0" "$@"; exit $?']])
def test_a_command_of_a_program_of_mpi_is_no_worker_of_its_job(run: Path, between: list[str]) -> None:
    """A test suite under mpiexec starts `weft report`: it reports alone, though it has the variables of a rank."""
    program = (
        "import subprocess, sys\nfrom mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 1: print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout)\n"
    )
    serial = execute([*WEFT, "report", run])
    line = [str(word) for word in (sys.executable, "-c", program, *between, *WEFT, "report", run)]
    assert together(3, *line).stdout == serial.stdout + "\n"


@pytest.mark.cases(1)
@pytest.mark.parametrize("between", [["sh", "-c", 'exec "$0" "$@"'], ["sh", "-c", '"$0" "$@"; exit $?']])
def test_a_script_may_stand_between_the_launcher_and_its_workers(run: Path, between: list[str]) -> None:
    serial = execute([*WEFT, "report", run])
    assert together(3, *between, *WEFT, "report", run).stdout == serial.stdout


COMMAND = (sys.executable, "-m", "weft.cli.main")
"""As WEFT, with PYTHONPATH."""


@pytest.fixture
def no_mpi4py(tmp_path: Path) -> dict[str, str]:
    """An environment in which mpi4py cannot be imported."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "mpi4py.py").write_text("raise ImportError('no mpi4py here')\n")
    return {"PYTHONPATH": str(tmp_path / "hidden")}


def test_several_processes_without_mpi4py_are_told_in_one_line(run: Path, no_mpi4py: dict[str, str]) -> None:
    done = together(3, *COMMAND, "report", run, env=no_mpi4py)
    told = [line for line in done.stderr.splitlines() if line.startswith("weft:")]
    assert len(told) == 1 and "3 processes, which needs mpi4py" in told[0] and "pip install mpi4py" in told[0]
    assert done.returncode != 0 and not done.stdout.startswith("weft")


FAILING = """
import os, signal, sys
from weft.report.parallel import messages
from weft.cli.main import main
whole = messages.extract_operations
def extract_operations(trace, *room):
    if trace.share.start > 0:
        {what}
    return whole(trace, *room)
messages.extract_operations = extract_operations
sys.exit(main(sys.argv[1:]))
"""


def test_a_worker_that_fails_ends_the_report_with_its_error(run: Path) -> None:
    what = "raise MemoryError('no memory for the operations')"
    done = together(2, sys.executable, "-c", FAILING.format(what=what), "report", run, timeout=60)
    assert done.returncode != 0
    assert "weft: error: worker 1 of 2" in done.stderr and "no memory for the operations" in done.stderr
    assert "report the run with one process instead: weft report RUN" in done.stderr


def test_a_worker_that_is_killed_ends_the_report(run: Path) -> None:
    what = "os.kill(os.getpid(), signal.SIGKILL)"
    done = together(2, sys.executable, "-c", FAILING.format(what=what), "report", run, timeout=60)
    assert done.returncode != 0
    assert "KILLED" in done.stdout + done.stderr.upper() or "SIGNAL" in (done.stdout + done.stderr).upper()


def test_workers_that_see_different_runs_say_what_differs(run: Path, tmp_path: Path) -> None:
    """As where a host's own disk has an older copy of the run."""
    shutil.copytree(run, tmp_path / "other" / "run")
    next((tmp_path / "other" / "run" / "ranks").glob("*.weft")).unlink()
    script = "import os, sys; os.chdir(sys.argv[1 + int(os.environ['PMI_RANK'] == '1')])"
    script += "; sys.argv[1:] = ['report', 'run']; from weft.cli.main import main; sys.exit(main())"
    done = together(2, sys.executable, "-c", script, run.parent, tmp_path / "other", timeout=60)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("weft:")]
    assert len(told) == 1 and "do not see the same run: worker 1 of 2 has" in told[0], done.stderr


def test_what_is_no_run_is_told_once(tmp_path: Path) -> None:
    done = together(3, *WEFT, "report", tmp_path / "none", timeout=60)
    told = [line for line in done.stderr.splitlines() if line.startswith("weft:")]
    assert len(told) == 1 and "is not a run" in told[0]
    assert done.returncode != 0


def test_ranks_are_shared_by_the_bytes_of_their_records(tmp_path: Path) -> None:
    b = Builder(ranks=8, path=tmp_path / "run")
    for _ in range(30_000):
        b.ranks[7].barrier()
    trace = b.open()
    for count in (1, 2, 3, 8, 11):
        of = divide_ranks(trace, count)
        assert len(of) == count and [rank for share in of for rank in share] == list(range(8))
    assert divide_ranks(trace, 2) == [range(7), range(7, 8)]


def test_the_page_says_what_runs_on_the_first_process_alone() -> None:
    page = (ROOT / "docs" / "commands" / "report.md").read_text()
    for analysis in ANALYSES:
        told = f"`{analysis.name}`" in page
        assert told == (analysis.name in WHOLE), f"docs/commands/report.md on {analysis.name}"
