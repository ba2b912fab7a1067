"""Many `weft run`, one run: the tasks of a job step join, whatever their launcher is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import weft
from tests_support import WEFT, Installed, execute
from weft.errors import UsageError
from weft.launch import job_step, shared_run
from weft.launch.job_step import JobStep
from weft.launch.rundir import RunDirectory

Program = Callable[[str], Path]
SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (SLURM, JobStep("slurm", "77.0", 2, 4, True)),
        ({**SLURM, "SLURM_RESTART_COUNT": "1"}, JobStep("slurm", "77.0-1", 2, 4, True)),
        ({**SLURM, "PMI_RANK": "2", "PMI_SIZE": "4", "PMI_JOBID": "77.0"}, JobStep("slurm", "77.0", 2, 4, True)),
        ({**SLURM, "PMIX_NAMESPACE": "slurm.pmix.77.0", "PMIX_RANK": "2"}, JobStep("slurm", "77.0", 2, 4, True)),
        (
            {**SLURM, "PMIX_NAMESPACE": "prterun-a-9@1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8"},
            JobStep("mpirun", "prterun-a-9@1", 1, 8, False),
        ),
        ({"FLUX_JOB_ID": "fA", "FLUX_TASK_RANK": "0", "FLUX_JOB_SIZE": "2"}, JobStep("flux", "fA", 0, 2, True)),
        (
            {"LSB_JOBID": "5", "JSM_NAMESPACE_ID": "1", "JSM_NAMESPACE_RANK": "3", "JSM_NAMESPACE_SIZE": "4"},
            JobStep("lsf", "5.1", 3, 4, True),
        ),
        (
            {"PBS_JOBID": "9.host", "PALS_APID": "ab", "PALS_RANKID": "1", "PMI_SIZE": "2"},
            JobStep("pbs", "9.ab", 1, 2, True),
        ),
    ],
)
def test_launchers_tell_their_step_by_variables(variables: dict[str, str], found: JobStep) -> None:
    assert job_step.find_own_step(variables) == found


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # a batch script: no step
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"},  # a shell on a node
        {**SLURM, "SLURM_STEP_ID": "batch"},
        {"PBS_JOBID": "9.host", "LSB_JOBID": "5"},
    ],
)
def test_what_is_no_task_among_others_stands_alone(variables: dict[str, str]) -> None:
    assert job_step.find_own_step(variables) is None


@pytest.mark.parametrize("number", ["9" * 5000, "4000000000", "\u00b2", "\u0663", "-1", "1_0", " 1", ""])
def test_a_number_that_no_job_has_makes_no_task(number: str) -> None:
    """Who attaches as root reads the variables of every process, whoever has set them."""
    good = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    assert job_step.find_step(good, 0) is not None
    for name in ("SLURM_PROCID", "SLURM_NTASKS"):
        assert job_step.find_step({**good, name: number}, 0) is None
    named = job_step.find_step({**good, "SLURM_STEP_ID": "9" * 5000}, 0)
    assert named is None or len(named.name) <= job_step.LONGEST


@pytest.mark.parametrize(
    "words", [["proxy", "--control-port", "a:4"], ["proxy", "--upstream-host", "a", "--upstream-port", "4"]]
)
def test_a_proxy_names_its_mpiexec(words: list[str]) -> None:
    assert job_step.parse_control_port(words) == "a:4"
    assert job_step.parse_control_port(words[:2] if len(words) == 5 else ["proxy"]) is None


def enter(rank: int, folder: Path, system: str = "mpiexec") -> shared_run.SharedRun:
    of = JobStep(system, "a:4", rank, 8, system != "mpiexec")
    return shared_run.create_or_join_run(of, folder, {}, RunDirectory.write)


TASK = """
import sys, time
from pathlib import Path
from weft.launch import shared_run
from weft.launch.rundir import RunDirectory
from weft.launch.job_step import JobStep
go = Path(sys.argv[2]).parent / "go"
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
step = JobStep("mpiexec", "a:4", int(sys.argv[1]), 8, False)
entered = shared_run.create_or_join_run(step, Path(sys.argv[2]), {}, RunDirectory.write)
print(entered.run.made, entered.try_to_watch())
"""


def tasks(ranks: range, folder: Path) -> list[tuple[bool, bool]]:
    """Tasks that enter at the same time: whether each has made the run, and whether it watches."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", TASK, str(rank), folder], stdout=subprocess.PIPE, text=True)
            )
            for rank in ranks
        ]
        assert [one.stdout and one.stdout.readline() for one in started] == ["ready\n"] * len(ranks)
        (folder.parent / "go").touch()
        said = [one.communicate(timeout=60)[0].split() for one in started]
    return [(made == "True", watches == "True") for made, watches in said]


def test_one_of_many_tasks_makes_the_run(tmp_path: Path) -> None:
    made = [made for made, _ in tasks(range(8), tmp_path / "run")]
    assert sorted(made) == [False] * 7 + [True]


def test_the_run_of_another_step_is_not_joined(tmp_path: Path) -> None:
    enter(0, tmp_path / "run")
    assert not enter(1, tmp_path / "run").run.made
    with pytest.raises(UsageError, match="never overwritten"):
        enter(0, tmp_path / "run", "slurm")


def test_one_task_at_a_time_watches(tmp_path: Path) -> None:
    first = enter(0, tmp_path / "run")
    assert first.try_to_watch()
    assert first.try_to_watch()
    assert tasks(range(1, 2), tmp_path / "run") == [(False, False)]  # locks are a process's


def test_a_rank_that_somebody_else_killed_ends_no_other(tmp_path: Path) -> None:
    one = enter(0, tmp_path / "run")
    one.run.facts["ended"] = "killed"
    one.run.write()
    (one.folder / "told").touch()
    assert one.read_forced_ending() is None
    (one.folder / "told").unlink()
    one.reporting = one.run.write
    assert one.report()
    assert one.read_forced_ending() == "killed", "with what Weft ends all ranks end"


def compiled(of: Installed, folder: Path) -> Path:
    done = execute([of.mpicc, "-g", "-o", folder / "step", Path(__file__).parent / "programs" / "step.c"])
    assert done.returncode == 0, done.stderr
    return folder / "step"


def facts(folder: Path) -> dict[str, Any]:
    [run] = [path for path in (folder / "weft-runs").iterdir() if path.is_dir()]
    assert not (run / "step").exists()
    return {**json.loads((run / "run.json").read_text()), "path": run}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("mode", "ended"),
    [
        ("good", ("finished", 0)),
        ("deadlock", ("deadlock", 3)),
        ("crash", ("crashed", None)),
        ("leave", ("finished", 7)),
    ],
)
@pytest.mark.parametrize("which", ["mpich", "openmpi"])
def test_tasks_of_an_mpiexec_record_one_run_and_one_reports(
    which: str, mode: str, ended: tuple[str, int | None], tmp_path: Path, request: pytest.FixtureRequest
) -> None:  # fmt: skip
    of: Installed = request.getfixturevalue(which)
    program = compiled(of, tmp_path)
    done = execute(
        [*of.mpiexec, "-n", "3", *WEFT, "run", "--report", "report.json", "--", program, mode],
        cwd=tmp_path, env=of.environment,
    )  # fmt: skip
    run = facts(tmp_path)
    assert done.stderr.count("weft: recorded 3 ranks in weft-runs/step-1") == 1, done.stderr
    assert done.stderr.count("world of its own") == 0
    assert done.returncode == ended[1] if ended[1] is not None else done.returncode != 0, done.stderr
    assert (run["ranks"], run["n"], run["ended"]) == (3, 3, ended[0])
    report = json.loads((tmp_path / "report.json").read_text())
    found = [one["kind"] for one in report["findings"] if one["severity"] == "error"]
    assert found == ([mode] if mode in ("deadlock", "crash") else [])


@pytest.mark.matrix
def test_a_second_job_is_another_run(mpich: Installed, program: Program, tmp_path: Path) -> None:
    for _ in range(2):
        done = execute([*mpich.mpiexec, "-n", "2", *WEFT, "run", "--", program("step")], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    runs = [path for path in (tmp_path / "weft-runs").iterdir() if path.is_dir()]
    assert sorted(path.name for path in runs) == ["step-1", "step-2"]
    assert [len(weft.open(path).ranks) for path in runs] == [2, 2]


def test_what_one_weft_run_does_for_all_ranks_is_refused(mpich: Installed, program: Program, tmp_path: Path) -> None:
    done = execute([*mpich.mpiexec, "-n", "2", *WEFT, "run", "--tasks", "--", program("step")], cwd=tmp_path)
    assert done.returncode == 2
    assert "--tasks needs Weft to start the ranks itself" in done.stderr
    assert not (tmp_path / "weft-runs").exists()
