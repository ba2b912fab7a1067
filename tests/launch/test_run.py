"""`weft run` on real programs: what it notices, what it ends, what it leaves alone, what it keeps."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from machine import need
from tests_support import WEFT, Installed, execute
from weft.cli.main import main
from weft.launch import plan
from weft.launch.options import Family
from weft.launch.plan import SLEEP_BETWEEN_POLLS, choose_polling_variables
from weft.launch.rankfile import read_header

Weft = Callable[..., subprocess.CompletedProcess[str]]
Program = Callable[[str], Path]


def facts(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / "run.json").read_text())
    return loaded


def own_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("weft: ")]


def processes_of(path: Path) -> list[int]:
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        try:
            if link.readlink() == path:
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.matrix
def test_a_run_is_kept_under_the_programs_name(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    done = weft_command("run", "-n", "2", "--", program("matched"))
    assert done.returncode == 0
    run = tmp_path / "weft-runs" / "matched-1"
    assert facts(run)["ended"] == "finished"
    assert facts(run)["ranks"] == 2
    assert facts(run)["exit_code"] == 0
    assert facts(run)["finished"] is not None
    assert json.loads((run / "functions.json").read_text())["schema"] == "weft-functions/1"
    assert len(weft.open(run).ranks) == 2
    assert own_lines(done)[0] == "weft: recorded 2 ranks in weft-runs/matched-1"


@pytest.mark.matrix
def test_a_job_that_weft_ends_leaves_no_shared_memory_of_mpich(weft_command: Weft, program: Program) -> None:
    done = weft_command("run", "-n", "2", "--out", "run", "--", program("segment"))
    assert done.returncode == 3
    segments = [Path(line) for line in done.stdout.splitlines() if line.startswith("/dev/shm/mpich_shm")]
    assert len(segments) == 1, done.stdout
    assert not segments[0].exists()


def test_a_proven_deadlock_is_ended_in_seconds_and_kept(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    begun = time.monotonic()
    done = weft_command("run", "-n", "2", "--out", "run", "--", program("deadlock"))
    assert time.monotonic() - begun < 20
    assert done.returncode == 3
    assert facts(tmp_path / "run")["ended"] == "deadlock"
    assert any("[deadlock]" in line and "tag" in line for line in own_lines(done))
    assert not processes_of(program("deadlock"))
    events = [rank.events for rank in weft.open(tmp_path / "run").ranks]
    assert all(not events_of_rank[-1]["flags"] & 1 for events_of_rank in events)  # the receive is open for ever


def test_a_rank_that_computes_for_long_is_never_ended(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    done = weft_command("run", "-n", "2", "--out", "run", "--hang-after", "1", "--", program("compute"), "3")
    assert done.returncode == 0
    assert done.stdout == "computed\n"
    assert facts(tmp_path / "run")["ended"] == "finished"


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that nobody writes."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.matrix
def test_a_standstill_without_proof_is_not_ended_by_itself(
    weft_command: Weft, program: Program, tmp_path: Path, pipe: Path
) -> None:
    done = weft_command("run", "--out", "run", "--", "timeout", "5", program("blocked"), pipe)
    assert done.returncode == 124
    assert facts(tmp_path / "run")["ended"] != "deadlock"


@pytest.mark.matrix
def test_hang_after_ends_a_standstill_and_says_that_it_is_no_proof(
    weft_command: Weft, program: Program, tmp_path: Path, pipe: Path
) -> None:
    done = weft_command("run", "--out", "run", "--hang-after", "3", "--", program("blocked"), pipe)
    assert done.returncode not in (0, 3)
    assert facts(tmp_path / "run")["ended"] == "killed"
    assert any("does not prove" in line for line in own_lines(done))
    assert not processes_of(program("blocked"))


@pytest.mark.parametrize("computes", [False, True], ids=["waits", "computes"])
def test_ranks_that_a_launcher_lets_wait_for_one_that_died_are_ended(
    computes: bool, weft_command: Weft, program: Program, tmp_path: Path
) -> None:
    done = weft_command("run", "-n", "2", "--out", "run", "--", program("left"), *(["later"] if computes else []))
    assert any("rank 1 had ended early" in line for line in own_lines(done)) != computes, done.stderr
    assert ("rank 0 goes on" in done.stdout) == computes
    assert (" in recv(source=1, tag=5) at left.c" in done.stderr) != computes
    assert not processes_of(program("left"))


@pytest.mark.matrix
@pytest.mark.parametrize("how", ["segfault", "abort", "kill", "exit"])
def test_a_crash_is_told_and_the_record_is_whole(
    weft_command: Weft, program: Program, tmp_path: Path, how: str
) -> None:
    done = weft_command("run", "-n", "2", "--out", "run", "--", program("endings"), how)
    assert done.returncode not in (0, 2, 3, 4)
    assert facts(tmp_path / "run")["ended"] == "crashed"
    assert any("crashed" in line for line in own_lines(done))
    assert any("weft: rank" in line and "ended" in line for line in own_lines(done))
    trace = weft.open(tmp_path / "run")
    names = [event.function.name for event in trace.ranks[0]]
    if how == "abort":
        assert "MPI_Abort" in names  # MPICH's may return, and the program goes on for a moment
    else:
        assert names[-1] == "MPI_Bcast"


def test_a_killed_ranks_file_is_cut_behind_its_last_byte(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    weft_command("run", "-n", "2", "--out", "run", "--", program("endings"), "kill")
    for path in (tmp_path / "run" / "ranks").iterdir():
        assert path.stat().st_size % 4096 == 0
        assert path.stat().st_size <= 15 * 4096


@pytest.mark.matrix
def test_both_open_mpi_and_mpmd_lines_work(weft_command: Weft, openmpi: Installed, tmp_path: Path) -> None:
    target = tmp_path / "matched"
    source = Path(__file__).parent / "programs" / "matched.c"
    assert execute([openmpi.mpicc, "-g", "-o", target, source]).returncode == 0
    command = [*openmpi.mpiexec, "-n", "1", target, ":", "-n", "1", target]
    done = weft_command("run", "--out", "run", "--", *command, env=openmpi.environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert facts(tmp_path / "run")["ranks"] == 2
    assert facts(tmp_path / "run")["mpi"]["abi"] == "openmpi"


@pytest.mark.matrix
def test_n_starts_the_launcher_of_the_programs_own_mpi(weft_command: Weft, openmpi: Installed, tmp_path: Path) -> None:
    target = tmp_path / "matched"
    source = Path(__file__).parent / "programs" / "matched.c"
    assert execute([openmpi.mpicc, "-g", "-o", target, source]).returncode == 0
    done = weft_command("run", "-n", "2", "--out", "run", "--", target, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(weft.open(tmp_path / "run").ranks) == 2
    assert facts(tmp_path / "run")["mpi"]["launcher"] == [openmpi.mpiexec[0]]


@pytest.mark.matrix
def test_python_ranks_are_recorded_through_their_mpi4py(weft_command: Weft, mpich: Installed, tmp_path: Path) -> None:
    script = tmp_path / "step.py"
    script.write_text(
        "from mpi4py import MPI\nworld = MPI.COMM_WORLD\nn = world.allreduce(1)\nif world.rank == 0: print(n)\n"
    )
    done = weft_command("run", "-n", "2", "--", str(mpich.python), script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2\n"
    assert (tmp_path / "weft-runs" / "step-1").is_dir()


def test_the_report_is_written_where_it_was_asked_for(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    weft_command("run", "-n", "2", "--report", "report.json", "--", program("deadlock"))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["schema"] == "weft-report/1"
    assert report["run"]["ended"] == "deadlock"
    assert report["findings"][0]["kind"] == "deadlock"


@pytest.mark.matrix
def test_the_corrected_twin_of_the_deadlock_has_no_finding(
    weft_command: Weft, program: Program, tmp_path: Path
) -> None:
    weft_command("run", "-n", "2", "--report", "report.json", "--", program("matched"))
    findings = json.loads((tmp_path / "report.json").read_text())["findings"]
    assert [one for one in findings if one["severity"] == "error"] == []


def test_an_unknown_launcher_is_started_with_the_recorder_and_a_note_says_so(
    weft_command: Weft, program: Program, tmp_path: Path
) -> None:
    launcher = tmp_path / "aprun"
    launcher.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    launcher.chmod(0o755)
    done = weft_command("run", "--", str(launcher), "-n", "1", program("many"), "3")
    assert done.returncode == 0, done.stderr
    assert any("not a launcher that Weft knows" in line for line in own_lines(done))
    assert "weft: recorded 1 rank in weft-runs/many-1" in own_lines(done)


def test_a_launcher_of_another_mpi_is_named(weft_command: Weft, program: Program, openmpi: Installed) -> None:
    command = [*openmpi.mpiexec, "-n", "2", program("many"), "3"]
    done = weft_command("run", "--", *command, env=openmpi.environment)
    assert any("belongs to Open MPI but the program loads" in line for line in own_lines(done))


@pytest.mark.matrix
def test_only_the_first_use_of_an_mpi_says_that_it_builds(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    told = [
        weft_command("run", "--", program("many"), "3", env={"WEFT_CACHE": str(tmp_path / "cache")}, timeout=110).stderr
        for _ in range(2)
    ]
    assert told[0].startswith("weft: building the recorder for ")
    assert told[0].count("weft: building") == 1
    assert "weft: building" not in told[1]


# --- wrong use, and a world that is not as it should be -------------------------------------------------------------


def test_a_program_that_is_no_mpi_program_is_named_so(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    program("matched")
    done = weft_command("run", "-n", "2", "--", "true")
    assert done.returncode == 4
    assert len(own_lines(done)) == 1
    assert "nothing was recorded" in own_lines(done)[0]
    assert "not an MPI program" in own_lines(done)[0]
    assert list((tmp_path / "weft-runs").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--"], "nothing to run"),
        (["-n", "2", "--", "./nowhere"], "no program './nowhere'"),
        (["--", "./nowhere"], "no program './nowhere'"),
        (["-n", "2", "--", "mpiexec", "-n", "2", "true"], "-n starts mpiexec itself"),
        (["-n", "2", "--", "step.py"], "run it as `python step.py`"),
        (["--out", "full", "--", "true"], "is not empty"),
        (["--level", "outcomes", "--hang-after", "3", "--", "true"], "--hang-after needs --level trace"),
        (["--level", "outcomes", "--hang-after", "3", "--", "true"], "level `outcomes` does not record"),
        (["--level", "outcomes", "--fail-on", "error", "--", "true"], "level `outcomes` holds no calls"),
        (["--report", "nowhere/x.json", "--", "true"], "cannot be written"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(
    weft_command: Weft, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "step.py").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "data").touch()
    done = weft_command("run", *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
    assert not (tmp_path / "weft-runs").exists()


@pytest.mark.parametrize(
    "arguments", [["-n", "0"], ["-n", "two"], ["--hang-after", "-1"], ["--level", "all"], ["--nonsense"]]
)
def test_a_wrong_option_is_status_2(weft_command: Weft, arguments: list[str]) -> None:
    assert weft_command("run", *arguments, "--", "true").returncode == 2


def test_no_mpiexec_is_one_line_and_status_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plan, "find_launchers", lambda library: iter(()))
    assert main(["run", "-n", "2", "--", "true"]) == 4
    assert capsys.readouterr().err.startswith("weft: there is no mpiexec: install an MPI")


def test_an_unwritable_place_is_one_line_and_status_4(weft_command: Weft, program: Program) -> None:
    done = weft_command("run", "--out", "/proc/nowhere", "--", program("matched"))
    assert done.returncode == 4
    assert len(done.stderr.splitlines()) == 1
    assert "cannot write the run to /proc/nowhere" in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB (only root may mount one)."""
    folder = tmp_path / "disk"
    folder.mkdir()
    need("mounting")
    execute(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).check_returncode()
    yield folder
    execute(["umount", "-l", folder])


def test_a_full_disk_stops_the_recording_and_not_the_program(
    weft_command: Weft, program: Program, small_disk: Path
) -> None:
    done = weft_command("run", "--out", small_disk / "run", "--", program("many"), "100000")
    assert done.stdout == "done\n"
    assert done.returncode == 4
    assert any("recording stopped early on rank 0: the disk was full" in line for line in own_lines(done))
    assert len(weft.open(small_disk / "run").ranks[0].events) > 1000


def test_a_disk_without_any_room_is_one_line_and_status_4(
    weft_command: Weft, program: Program, small_disk: Path
) -> None:
    filler = os.open(small_disk / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(filler, b"x" * 4096):
            pass
    os.close(filler)
    done = weft_command("run", "--out", small_disk / "run", "--", program("many"), "10")
    assert done.returncode == 4
    assert done.stdout == ""
    assert len(own_lines(done)) == 1
    assert "No space left on device" in own_lines(done)[0]


@pytest.mark.matrix
def test_the_recorders_variables_do_not_reach_a_ranks_children(
    weft_command: Weft, mpich: Installed, tmp_path: Path
) -> None:
    script = tmp_path / "children.py"
    script.write_text(
        "import os, subprocess\nfrom mpi4py import MPI\n"
        "env = subprocess.run('env', capture_output=True, text=True).stdout\n"
        "print(env.count('WEFT_INTERNAL_RUN='), os.environ.get('LD_PRELOAD'))\n"
    )
    done = weft_command("run", "-n", "1", "--", str(mpich.python), script)
    assert done.stdout == "0 None\n", done.stderr


@pytest.mark.matrix
def test_a_record_says_whose_it_is(weft_command: Weft, program: Program, tmp_path: Path) -> None:
    weft_command("run", "-n", "2", "--out", "run", "--", program("matched"))
    headers = [read_header(path.read_bytes()[:4096]) for path in sorted((tmp_path / "run" / "ranks").iterdir())]
    assert [(header.rank, header.world_size) for header in headers if header] == [(0, 2), (1, 2)]


@pytest.mark.matrix
def test_a_report_that_was_asked_for_is_always_written(mpich: Installed, tmp_path: Path) -> None:
    """Where nothing was recorded, and of level `outcomes`, too: it says why it is empty."""
    for name, command in (
        ("nothing", ["-n", "2", "--", "true"]),
        ("order", ["--level", "outcomes", "--", sys.executable, "-c", "from mpi4py import MPI"]),
    ):
        report = tmp_path / f"{name}.json"
        execute([*WEFT, "run", "--report", report, *command], cwd=tmp_path)
        document = json.loads(report.read_text())
        assert document["schema"] == "weft-report/1"
        assert document["findings"] == []
        said = [*document["problems"], *document.get("notes", [])]
        assert any("nothing was" in text.lower() for text in said)


def test_where_ranks_share_cores_those_of_mpich_that_wait_leave_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SLEEP_BETWEEN_POLLS:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert choose_polling_variables(Family.HYDRA, 3) == SLEEP_BETWEEN_POLLS
    assert choose_polling_variables(Family.HYDRA, 2) == {} == choose_polling_variables(Family.OPENMPI, 3)
    first, *others = SLEEP_BETWEEN_POLLS
    monkeypatch.setenv(first, "0")
    assert list(choose_polling_variables(Family.HYDRA, 3)) == others, "what the user has set was changed"


def test_ranks_that_share_cores_wait_for_each_other_no_time_slices(
    mpich: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ranks that wait without leaving their core a barrier takes milliseconds of processor time: here far less."""
    ranks, barriers = 4, 200
    for name in SLEEP_BETWEEN_POLLS:
        monkeypatch.delenv(name)
    (tmp_path / "barriers.py").write_text(
        "import resource, sys\nfrom mpi4py import MPI\n\nworld = MPI.COMM_WORLD\nworld.Barrier()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_utime\n"
        f"for _ in range({barriers}):\n    world.Barrier()\n"
        "sys.stdout.write(f'{resource.getrusage(resource.RUSAGE_SELF).ru_utime - before}\\n')\n"
    )
    words = [*WEFT, "run", "-n", str(ranks), "--out", "run", "--", str(mpich.python), "barriers.py"]
    done = execute(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    replayed = execute([*WEFT, "replay", "run", "--out", "again"], cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    for printed in (done.stdout, replayed.stdout):
        seconds = [float(line) for line in printed.splitlines()]
        assert len(seconds) == ranks
        assert sum(seconds) < barriers * 0.005, seconds
