"""Jobs under a real Slurm of three nodes (Debian's slurm-wlm), on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launch.slurm import Slurm, started
from tests_support import WEFT, Installed, execute
from weft.mpi import shim

PROGRAM = Path(__file__).parent / "programs" / "step.c"
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


def compiled(mpicc: str, folder: Path) -> Path:
    shim.build(mpicc)
    done = execute([mpicc, "-g", "-o", folder / "step", PROGRAM])
    assert done.returncode == 0, done.stderr
    return folder / "step"


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


@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("of", ["mpich_step", pytest.param("openmpi_step", marks=pytest.mark.matrix)])
def test_weft_run_starts_srun(slurm: Slurm, of: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    program, speaks = request.getfixturevalue(of)
    facts = held(slurm, [*WEFT, "run", "--", *SRUN, f"--mpi={speaks}", program, mode], tmp_path, mode)
    assert facts["name"] == "step-1"


@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("of", ["mpich_step", pytest.param("openmpi_step", marks=pytest.mark.matrix)])
def test_srun_starts_many_weft_run(
    slurm: Slurm, of: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program, speaks = request.getfixturevalue(of)
    facts = held(slurm, [*SRUN, f"--mpi={speaks}", *WEFT, "run", "--", program, mode], tmp_path, mode)
    assert facts["step"]["system"] == "slurm"
    assert facts["name"] == f"step-{facts['step']['name']}"


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


def test_local_in_a_task_of_srun_is_refused_with_the_line_to_use(slurm: Slurm, tmp_path: Path) -> None:
    done = execute([*SRUN, "--mpi=pmi2", *WEFT, "run", "--local", tmp_path / "disk", "--", "true"], cwd=tmp_path,
                   env=slurm.environment)  # fmt: skip
    assert done.returncode == 2
    assert "`weft run --local ... -- LAUNCHER ... PROGRAM`, not `LAUNCHER ... weft run -- PROGRAM`" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert slurm.quiet()


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
