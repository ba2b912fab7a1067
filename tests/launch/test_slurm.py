"""Jobs under a real Slurm of three nodes (Debian's slurm-wlm), on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launch.slurm import Slurm, started
from tests_support import WEFT, Installed, execute
from weft.mpi import shim

PROGRAMS = Path(__file__).parent / "programs"
SRUN = ("srun", "-N2", "-n4", "--overcommit")
ENDED = {"good": ("finished", 0, []), "deadlock": ("deadlock", 3, ["deadlock"])}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm whose nodes are this machine."""
    yield from started(tmp_path_factory.mktemp("slurm"))


@pytest.fixture(scope="module")
def mpich_step(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return compiled(mpich.mpicc, tmp_path_factory.mktemp("mpich")), "pmi2"


@pytest.fixture(scope="module")
def openmpi_step(debian_openmpi: Installed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return compiled(debian_openmpi.mpicc, tmp_path_factory.mktemp("openmpi")), "pmix"


def compiled(mpicc: str, folder: Path, name: str = "step") -> Path:
    shim.build_shim(mpicc)
    done = execute([mpicc, "-g", "-o", folder / name, PROGRAMS / f"{name}.c"])
    assert done.returncode == 0, done.stderr
    return folder / name


def held(slurm: Slurm, command: Sequence[str | Path], folder: Path, mode: str) -> dict[str, Any]:
    """Run a line, and hold what came of it against what the mode must come to; returns run.json."""
    # Two nodes that are one machine have one /dev/shm, in which Open MPI's nodes would meet.
    environment = {**slurm.environment, "OMPI_MCA_btl": "self,tcp"}
    done = execute(command, cwd=folder, env=environment)
    told = done.stderr + "".join(path.read_text() for path in folder.glob("*.out"))
    ended, status, kinds = ENDED[mode]
    assert done.returncode == status, told
    assert told.count("weft: recorded 4 ranks") == 1, told
    assert "world of its own" not in told
    [run] = (folder / "weft-runs").glob("step-*")
    facts: dict[str, Any] = json.loads((run / "run.json").read_text())
    assert (facts["ended"], facts["ranks"]) == (ended, 4)
    report = execute([*WEFT, "report", run, "--format", "json"], cwd=folder)
    assert [one["kind"] for one in json.loads(report.stdout)["findings"] if one["severity"] == "error"] == kinds
    assert slurm.quiet()
    return {**facts, "name": run.name}


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("of", ["mpich_step", pytest.param("openmpi_step", marks=pytest.mark.matrix)])
def test_weft_run_starts_srun(slurm: Slurm, of: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    program, speaks = request.getfixturevalue(of)
    facts = held(slurm, [*WEFT, "run", "--", *SRUN, f"--mpi={speaks}", program, mode], tmp_path, mode)
    assert facts["name"] == "step-1"


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("of", ["mpich_step", pytest.param("openmpi_step", marks=pytest.mark.matrix)])
def test_srun_starts_many_weft_run(
    slurm: Slurm, of: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program, speaks = request.getfixturevalue(of)
    facts = held(slurm, [*SRUN, f"--mpi={speaks}", *WEFT, "run", "--", program, mode], tmp_path, mode)
    assert facts["step"]["system"] == "slurm"
    assert facts["name"] == f"step-{facts['step']['name']}"


@pytest.mark.cases(1)
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize(
    ("of", "batch"),
    [
        ("mpich_step", False),
        *(pytest.param(*more, marks=pytest.mark.matrix) for more in [("mpich_step", True), ("openmpi_step", True)]),
    ],
)
def test_weft_run_with_local_starts_srun(
    slurm: Slurm, tmp_path: Path, request: pytest.FixtureRequest, *, of: str, batch: bool, mode: str
) -> None:
    program, speaks = request.getfixturevalue(of)
    line: list[str | Path] = [*WEFT, "run", "--local", tmp_path / "disk", "--", *SRUN, f"--mpi={speaks}", program, mode]
    if batch:
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\n{' '.join(str(word) for word in line)}\n")
        line = ["sbatch", "-W", "-N2", "-n4", "--overcommit", "-o", "job.out", script]
    facts = held(slurm, line, tmp_path, mode)
    assert sum(one["files"] > 0 for one in facts["hosts"]) == 1  # the nodes are one machine
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.matrix
@pytest.mark.parametrize("outside", [True, False], ids=["weft run -- srun", "srun weft run"])
def test_tasks_of_a_job_array_make_runs_of_their_own(
    slurm: Slurm, mpich_step: tuple[Path, str], outside: bool, tmp_path: Path
) -> None:
    program, speaks = mpich_step
    weft, srun = " ".join([*WEFT, "run"]), f"srun -n2 --overcommit --mpi={speaks}"
    named = "--out weft-runs/$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"
    (tmp_path / "job.sh").write_text(
        f"#!/bin/sh\n{f'{weft} -- {srun}' if outside else f'{srun} {weft} {named} --'} {program} good\n"
    )
    command = ["sbatch", "-W", "--array=1-3", "-n2", "--overcommit", "-o", "%a.out", "job.sh"]
    done = execute(command, cwd=tmp_path, env=slurm.environment)
    assert done.returncode == 0, done.stderr
    runs = [path for path in (tmp_path / "weft-runs").iterdir() if path.is_dir()]
    assert [json.loads((run / "run.json").read_text())["ranks"] for run in runs] == [2, 2, 2]
    said = [(tmp_path / f"{k}.out").read_text() for k in (1, 2, 3)]
    assert [text.count("weft: recorded 2 ranks in weft-runs/") for text in said] == [1, 1, 1]


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize(
    ("of", "batch"),
    [
        ("mpich_step", False),
        *(pytest.param(*more, marks=pytest.mark.matrix) for more in [("mpich_step", True), ("openmpi_step", False)]),
    ],
)
def test_srun_starts_many_weft_run_with_local(
    slurm: Slurm, tmp_path: Path, request: pytest.FixtureRequest, *, of: str, batch: bool, mode: str
) -> None:
    program, speaks = request.getfixturevalue(of)
    line: list[str | Path] = [
        *SRUN, f"--mpi={speaks}", *WEFT, "run", "--local", tmp_path / "disk", "--", program, mode
    ]  # fmt: skip
    if batch:
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\n{' '.join(str(word) for word in line)}\n")
        line = ["sbatch", "-W", "-N2", "-n4", "--overcommit", "-o", "job.out", script]
    facts = held(slurm, line, tmp_path, mode)
    assert facts["name"] == f"step-{facts['step']['name']}"
    assert len(facts["hosts"]) == 1  # the nodes are one machine
    assert gone(tmp_path / "disk")


def gone(disk: Path) -> bool:
    """Whether nothing stays on a disk, within some seconds."""
    limit = time.monotonic() + 15
    while list(disk.iterdir()) and time.monotonic() < limit:
        time.sleep(0.2)
    return not list(disk.iterdir())


@pytest.mark.matrix
def test_scancel_gathers_what_srun_weft_run_local_has_recorded(
    slurm: Slurm, mpich: Installed, mpich_step: tuple[Path, str], tmp_path: Path
) -> None:
    program = compiled(mpich.mpicc, mpich_step[0].parent, "ring")
    script = tmp_path / "job.sh"
    line = [*SRUN, "--mpi=pmi2", *WEFT, "run", "--local", tmp_path / "disk", "--", program, "60"]
    script.write_text(f"#!/bin/sh\nexec {' '.join(str(word) for word in line)}\n")
    command = ["sbatch", "--parsable", "-N2", "-n4", "--overcommit", "-o", "job.out", script]
    job = execute(command, cwd=tmp_path, env=slurm.environment).stdout.strip()
    limit = time.monotonic() + 60
    while len(list((tmp_path / "disk").glob("*/ranks/*-00000?.weft"))) < 4:
        assert time.monotonic() < limit, (tmp_path / "job.out").read_text()
        time.sleep(0.1)
    slurm.told("scancel", f"{job}.0", "--signal=TERM")
    assert slurm.quiet()
    [run] = (tmp_path / "weft-runs").glob("ring-*")
    facts = json.loads((run / "run.json").read_text())
    assert (facts["ranks"], facts["ended"]) == (4, "interrupted"), (tmp_path / "job.out").read_text()
    assert "weft: the run was ended by SIGTERM" in (tmp_path / "job.out").read_text()
    assert gone(tmp_path / "disk")


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("outside", [True, False], ids=["weft run -- srun", "srun weft run"])
def test_a_batch_script_does_either(
    slurm: Slurm, mpich_step: tuple[Path, str], outside: bool, mode: str, tmp_path: Path
) -> None:
    program, speaks = mpich_step
    weft, srun = " ".join([*WEFT, "run", "--"]), " ".join([*SRUN, f"--mpi={speaks}"])
    line = f"{weft} {srun} {program} {mode}" if outside else f"{srun} {weft} {program} {mode}"
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{line}\n")
    held(slurm, ["sbatch", "-W", "-N2", "-n4", "--overcommit", "-o", "job.out", script], tmp_path, mode)


@pytest.mark.matrix
def test_an_mpiexec_in_a_batch_script_is_the_step(
    slurm: Slurm, mpich: Installed, mpich_step: tuple[Path, str], tmp_path: Path
) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{' '.join([*mpich.mpiexec, '-n', '4', *WEFT, 'run', '--'])} {mpich_step[0]}\n")
    facts = held(slurm, ["sbatch", "-W", "-N1", "-o", "job.out", script], tmp_path, "good")
    assert facts["step"]["system"] == "mpiexec"


def test_ranks_that_do_not_find_each_other_are_told(slurm: Slurm, mpich_step: tuple[Path, str], tmp_path: Path) -> None:
    command = [*WEFT, "run", "--", *SRUN, "--mpi=none", mpich_step[0]]
    done = execute(command, cwd=tmp_path, env=slurm.environment)
    assert "each of the 4 processes ran as an MPI world of its own" in done.stderr
    assert "srun --mpi=pmi2" in done.stderr
