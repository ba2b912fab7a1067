"""Jobs under a real Slurm whose three nodes are hosts with private disks: no directory of a run is common to them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attach.jobs import compiled, where
from launch.hosts import Hosts, made
from launch.slurm import Slurm, started
from launch.test_local import cache, kill_in_the_middle, lost_host_is_told, nothing_of_weft_stays
from tests_support import WEFT, Installed, execute
from weft.mpi import shim

PROGRAMS = Path(__file__).parent / "programs"
ENDED = {"good": ("finished", 0, []), "deadlock": ("deadlock", 3, ["deadlock"])}
Program = Callable[[str], Path]
Line = list[str | Path]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """A Slurm of three hosts, a, b and c."""
    for hosts in made(tmp_path_factory.mktemp("hosts"), ["a", "b", "c"]):
        yield from started(tmp_path_factory.mktemp("slurm"), hosts)


@pytest.fixture(autouse=True)
def clean(slurm: Slurm) -> None:
    """Homes without what other tests have left there."""
    assert slurm.hosts is not None
    for name in slurm.nodes:
        slurm.hosts.run(name, ["rm", "-rf", "disk", "weft-runs"])


@pytest.fixture
def step(mpich: Installed, program: Program) -> tuple[Path, str]:
    """A program of MPICH, and how srun speaks with it."""
    return program("step"), "pmi2"


@pytest.fixture
def openmpi_step(debian_openmpi: Installed, tmp_path: Path) -> tuple[Path, str]:
    """The same of Debian's Open MPI."""
    shim.build_shim(debian_openmpi.mpicc)
    done = execute([debian_openmpi.mpicc, "-g", "-o", tmp_path / "step", PROGRAMS / "step.c"])
    assert done.returncode == 0, done.stderr
    return tmp_path / "step", "pmix"


def run(slurm: Slurm, line: Line, timeout: float = 120) -> Any:
    """Run a line on host a."""
    assert slurm.hosts is not None
    own = {**slurm.environment, "WEFT_CACHE": cache(), "OMPI_MCA_btl": "self,tcp"}
    return slurm.hosts.run("a", line, own, timeout)


def facts(slurm: Slurm) -> dict[str, Any]:
    """The one run, which is on host a alone; nothing of it stays on the others."""
    assert slurm.hosts is not None
    nothing_of_weft_stays(slurm.hosts, slurm.nodes)
    assert [slurm.hosts.read(name, "ls weft-runs") for name in "bc"] == ["", ""]
    found: dict[str, Any] = json.loads(slurm.hosts.read("a", "cat weft-runs/*/run.json"))
    assert "step" not in slurm.hosts.read("a", "ls weft-runs/*").split()
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ENDED)
@pytest.mark.parametrize("outside", [True, False], ids=["weft run -- srun", "srun weft run"])
@pytest.mark.parametrize("of", ["step", pytest.param("openmpi_step", marks=pytest.mark.matrix)])
def test_a_run_is_gathered_and_a_deadlock_proven(
    slurm: Slurm, request: pytest.FixtureRequest, *, of: str, outside: bool, mode: str
) -> None:
    program, speaks = request.getfixturevalue(of)
    srun = ["srun", "-N3", "-n6", f"--mpi={speaks}"]
    weft = [*WEFT, "run", "--local", "disk", "--"]
    done = run(slurm, [*weft, *srun, program, mode] if outside else [*srun, *weft, program, mode])
    ended, status, kinds = ENDED[mode]
    killed = {137} if speaks == "pmix" and not outside and status else set()  # Slurm kills a step whose rank ends
    assert done.returncode in {status, *killed}, done.stderr
    assert done.stderr.count("weft: recorded 6 ranks") == 1, done.stderr
    assert "note:" not in done.stderr
    told = facts(slurm)
    assert (told["ended"], told["ranks"], sorted(one["host"] for one in told["hosts"])) == (ended, 6, ["a", "b", "c"])
    report = json.loads(run(slurm, [*WEFT, "report", "--format", "json"]).stdout)
    assert [one["kind"] for one in report["findings"] if one["severity"] == "error"] == kinds
    assert slurm.quiet()


@pytest.mark.matrix
@pytest.mark.parametrize(("mode", "status"), [("leave", 7), ("crash", 134)])
def test_the_status_is_that_of_the_task_that_failed(
    slurm: Slurm, step: tuple[Path, str], mode: str, status: int
) -> None:
    srun = ["srun", "-N3", "-n6", "-m", "cyclic", "--mpi=pmi2", "-K"]  # rank 1 is on host b, with rank 4
    done = run(slurm, [*srun, *WEFT, "run", "--local", "disk", "--", step[0], mode])
    assert done.returncode in (status, 137, 143), done.stderr  # -K ends the others
    assert done.stderr.count("weft: recorded 6 ranks") == 1, done.stderr
    assert ("rank 1 crashed by SIGABRT" in done.stderr) is (mode == "crash"), done.stderr
    assert facts(slurm)["ranks"] == 6
    assert slurm.quiet()


@pytest.mark.matrix
def test_a_program_that_never_begins_mpi_ends(slurm: Slurm, mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "none.c").write_text("#include <mpi.h>\nint main(void) { int f; MPI_Initialized(&f); return f; }\n")
    built = execute([mpich.mpicc, "-o", tmp_path / "none", tmp_path / "none.c"])
    assert built.returncode == 0, built.stderr
    done = run(slurm, ["srun", "-N3", "-n6", "--mpi=pmi2", *WEFT, "run", "--local", "disk", "--", tmp_path / "none"])
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("weft: nothing was recorded: ") == 1, done.stderr
    assert slurm.quiet()


@pytest.mark.matrix
def test_tasks_in_a_batch_script_that_is_ended_are_gathered(slurm: Slurm, program: Program) -> None:
    assert slurm.hosts is not None
    line = ["srun", "-N3", "-n6", "--mpi=pmi2", *WEFT, "run", "--local", "disk", "--", program("ring"), "60"]
    script = slurm.hosts.folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {' '.join(str(word) for word in line)}\n")
    job = run(slurm, ["sbatch", "--parsable", "-N3", "-n6", "-o", "job.out", script]).stdout.strip()
    limit = time.monotonic() + 60
    while any(not slurm.hosts.read(name, "ls disk/*/ranks | grep -v tmp") for name in slurm.nodes):
        assert time.monotonic() < limit, slurm.hosts.read("a", "cat job.out")
        time.sleep(0.2)
    time.sleep(1)
    slurm.told("scancel", f"{job}.0", "--signal=TERM")
    assert slurm.quiet()
    told = facts(slurm)
    assert (told["ranks"], told["ended"]) == (6, "interrupted"), slurm.hosts.read("a", "cat job.out")


@pytest.mark.matrix
def test_a_step_that_hangs_is_seen_on_all_hosts(slurm: Slurm, mpich: Installed, tmp_path: Path) -> None:
    hosts = slurm.hosts
    assert hosts is not None
    program = compiled(mpich, "hang.c", tmp_path)
    line = [*hosts.enter("a"), "srun", "-N3", "-n6", "--mpi=pmi2", program, "recv", tmp_path / "go"]
    with subprocess.Popen(line, env={**os.environ, **slurm.environment}, stdout=subprocess.PIPE, text=True) as job:
        while not (number := slurm.told("squeue", "-h", "--states=RUNNING", "--format=%A")):
            assert job.poll() is None
        limit = time.monotonic() + 60
        told: dict[str, Any] = {"groups": []}
        while where(told) != {"MPI_Barrier": [0, 3, 4, 5], "MPI_Recv": [1], "": [2]}:
            assert time.monotonic() < limit, told
            done = run(slurm, [*WEFT, "attach", f"{number}.0", "--format", "json"])
            told = json.loads(done.stdout) if done.returncode == 0 else told
        assert sorted({rank["host"] for rank in told["ranks"]}) == ["a", "b", "c"]
        assert any(text.startswith("rank 1 is in MPI_Recv from 2 (tag 7)") for text in told["told"])
        (tmp_path / "go").touch()
        assert "through" in job.communicate(timeout=60)[0]
        assert job.returncode == 0


@pytest.mark.matrix
def test_hosts_that_see_the_run_record_as_ever(slurm: Slurm, step: tuple[Path, str], tmp_path: Path) -> None:
    line = [
        "srun",
        "-N3",
        "-n6",
        "--mpi=pmi2",
        *WEFT,
        "run",
        "--local",
        "disk",
        "--out",
        tmp_path / "run",
        "--",
        step[0],
    ]
    done = run(slurm, line)
    assert done.returncode == 0, done.stderr
    assert "weft: recorded 6 ranks" in done.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()}.isdisjoint({"step", "packs", ".incoming"})


@pytest.mark.matrix
def test_a_host_that_dies_loses_only_its_own_ranks(
    hosts: Hosts, program: Program, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for slurm in started(tmp_path_factory.mktemp("another"), hosts):
        kill_in_the_middle(hosts, "b")
        line = [
            "srun",
            "-N3",
            "--ntasks-per-node=2",
            "--mpi=pmi2",
            *WEFT,
            "run",
            "--local",
            "disk",
            "--",
            program("ring"),
            "60",
        ]
        own = {**os.environ, **slurm.environment, "WEFT_CACHE": cache(), "HOME": str(hosts.home)}
        with subprocess.Popen([*hosts.enter("a"), *line], env=own, stderr=subprocess.PIPE, text=True) as job:
            assert job.stderr is not None
            said = []
            for text in job.stderr:
                said += [text.strip()] if text.startswith("weft: ") else []
                if "no misuse of MPI found" in text:
                    break
            job.kill()  # it waits until Slurm takes the host for down
        assert said[1].startswith("weft: of 6 ranks ranks 2 and 3 left no record (host b: "), said
        lost_host_is_told(said)
        assert any(text.startswith("weft: srun waits for host b until Slurm marks it as down") for text in said), said
        told = json.loads(hosts.read("a", "cat weft-runs/*/run.json"))
        assert (told["ranks"], told["lost"][0]["ranks"]) == (4, [2, 3])


@pytest.mark.matrix
def test_without_munge_each_host_keeps_its_part_and_says_what_needs_no_common_directory(
    slurm: Slurm, step: tuple[Path, str], tmp_path: Path
) -> None:
    for word in ("srun", "env", "sh"):
        (tmp_path / word).symlink_to(str(execute(["sh", "-c", f"command -v {word}"]).stdout.strip()))
    line = [
        "srun",
        "-N2",
        "-n2",
        "--mpi=pmi2",
        "env",
        f"PATH={tmp_path}",
        *WEFT,
        "run",
        "--local",
        "disk",
        "--",
        step[0],
    ]
    done = run(slurm, line)
    assert done.returncode == 4, done.stderr
    assert "weft: host b has rank 1 of 2 in " in done.stderr
    assert "`weft run --local DIR -- srun ...` needs no common directory" in done.stderr
