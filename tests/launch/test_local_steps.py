"""`mpiexec weft run --local DIR -- prog`: the tasks of a job step record one run, each host onto its own disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launch.hosts import Hosts
from launch.test_local import cache, kill_in_the_middle, lost_host_is_told, nothing_stays
from tests_support import WEFT, Installed, execute

Program = Callable[[str], Path]
Line = Callable[..., list[str | Path]]


@pytest.fixture
def line(mpich: Installed, program: Program, hosts: Hosts) -> Line:
    """A line of mpiexec over some hosts, two tasks each; `out` is a folder that all hosts see."""

    def of(names: str, name: str, *arguments: str, out: Path | None = None) -> list[str | Path]:
        count = str(2 * len(names.split(",")))
        start = [*mpich.mpiexec, "-launcher-exec", hosts.agent, "-hosts", names, "-n", count, "-ppn", "2"]
        place = [] if out is None else ["--out", out]
        return [*start, "env", f"WEFT_CACHE={cache()}", *WEFT, "run", "--local", hosts.home / "disk", *place, "--",
                program(name), *arguments]  # fmt: skip

    return of


def facts(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    assert {path.name for path in run.iterdir()}.isdisjoint({"step", "packs", ".incoming"})
    return found


@pytest.mark.matrix
@pytest.mark.parametrize(("mode", "ended"), [("good", ("finished", 0)), ("deadlock", ("deadlock", 3))])
def test_tasks_of_several_hosts_record_one_run(
    hosts: Hosts, line: Line, mode: str, ended: tuple[str, int]
) -> None:  # fmt: skip
    run = hosts.folder / "run"
    done = hosts.run("a", line("a,b,c", "step", mode, out=run))
    assert done.returncode == ended[1], done.stderr
    assert done.stderr.count("weft: recorded 6 ranks") == 1, done.stderr
    assert ("nothing found" if mode == "good" else "rank 0 waits in recv(source=1, tag=5) at step.c:") in done.stderr
    told = facts(run)
    assert (told["ended"], told["ranks"], told["n"]) == (ended[0], 6, 6)
    assert sorted(one["host"] for one in told["hosts"]) == ["a", "b", "c"]
    nothing_stays(hosts, "abc")


@pytest.mark.matrix
def test_hosts_without_a_common_directory_keep_what_they_have_and_say_how_to_gather(
    hosts: Hosts, line: Line, tmp_path: Path, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = hosts.run("a", line("a,b", "step", "good"))
    assert done.returncode == 4, done.stderr
    assert "nothing found" not in done.stderr
    for host, ranks in (("a", "ranks 0 and 1"), ("b", "ranks 2 and 3")):
        place = hosts.home / "weft-runs" / "step-1"
        assert f"weft: host {host} has {ranks} of 4 in {place}, which the other hosts do not see" in done.stderr
        assert f"this one with `scp -r {host}:{place} {host}`" in done.stderr
        with (tmp_path / f"{host}.tar").open("wb") as file:
            subprocess.run([*hosts.enter(host), "tar", "-c", "-C", place, "."], stdout=file, check=True)
        (tmp_path / host).mkdir()
        subprocess.run(["tar", "-x", "-C", tmp_path / host, "-f", tmp_path / f"{host}.tar"], check=True)
    assert "`weft gather step-1-whole a ...`" in done.stderr
    assert "`weft run --local DIR -- mpiexec ...` needs no common directory" in done.stderr
    nothing_stays(hosts, "ab")
    half = weft_command("report", "a")
    assert half.stdout.startswith("Ranks 2 and 3 of 4 left no record. ")
    gathered = weft_command("gather", "step-1-whole", "a", "b")
    assert (gathered.returncode, "4 ranks in step-1-whole" in gathered.stderr) == (0, True), gathered.stderr
    report = weft_command("report", "step-1-whole")
    assert report.stdout.startswith("Nothing found in step-1-whole (4 ranks, "), report.stdout


@pytest.mark.matrix
def test_without_a_common_directory_a_hang_is_said_to_be_unproven_and_ctrl_c_keeps_it(
    hosts: Hosts, line: Line, tmp_path: Path, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    with subprocess.Popen(
        [*hosts.enter("a"), *line("a,b", "step", "deadlock")], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HOME": str(hosts.home), "TMPDIR": str(hosts.home)},
    ) as process:  # fmt: skip
        said: list[str] = []
        assert process.stderr is not None
        for text in process.stderr:
            said.append(text)
            if "".join(said).count("cannot prove a hang that involves several hosts") == 2:
                break
        hosts.run("a", ["pkill", "-INT", "-x", Path(line("a", "step")[0]).name])
        said += process.stderr.readlines()
        assert process.wait(60) != 0
    told = "".join(said)
    for host in "ab":
        assert f"weft: host {host} has ranks " in told, told
        with (tmp_path / f"{host}.tar").open("wb") as file:
            subprocess.run([*hosts.enter(host), "tar", "-c", "-C", "weft-runs/step-1", "."], stdout=file, check=True)
        (tmp_path / host).mkdir()
        subprocess.run(["tar", "-x", "-C", tmp_path / host, "-f", tmp_path / f"{host}.tar"], check=True)
    assert weft_command("gather", "whole", "a", "b").returncode == 0
    report = json.loads(weft_command("report", "whole", "--format", "json").stdout)
    assert [one["kind"] for one in report["findings"] if one["severity"] == "error"] == ["deadlock"]
    nothing_stays(hosts, "ab")


@pytest.mark.matrix
def test_a_host_that_dies_loses_only_its_own_ranks(hosts: Hosts, line: Line) -> None:
    run = hosts.folder / "run"
    kill_in_the_middle(hosts, "b")
    with subprocess.Popen(
        [*hosts.enter("a"), *line("a,b,c", "ring", "20", out=run)], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "HOME": str(hosts.home), "TMPDIR": str(hosts.home)}, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        told = []
        for text in process.stderr:
            told.append(text.strip())
            if "no misuse of MPI found" in text:
                break
        limit = time.monotonic() + 30
        while any(" -m weft " in one and "mpiexec" not in one for name in "ac" for one in hosts.processes(name)):
            assert time.monotonic() < limit, "tasks of the hosts that are left have ended"
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)  # MPICH's own waits for the lost host
    said = [text for text in told if text.startswith("weft: ")]
    assert said[1].startswith("weft: of 6 ranks ranks 2 and 3 left no record (host b: "), told
    assert any(text.startswith("weft: mpiexec may still wait for host b: end it with Ctrl-C") for text in said), told
    lost_host_is_told(said)
    nothing_stays(hosts, "ac")
    assert facts(run)["ranks"] == 4
    assert facts(run)["lost"][0]["ranks"] == [2, 3]


def test_hosts_that_cannot_connect_put_their_records_into_the_run(hosts: Hosts, line: Line) -> None:
    run = hosts.folder / "run"
    words = line("a,b", "step", "good", out=run)
    words.insert(words.index("env") + 1, "WEFT_ADDRESS=127.0.0.1")  # no way to the one that listens
    done = hosts.run("a", words)
    assert done.returncode == 0, done.stderr
    assert "weft: recorded 4 ranks" in done.stderr
    assert sorted(one["host"] for one in facts(run)["hosts"]) == ["a", "b"]
    nothing_stays(hosts, "ab")


@pytest.mark.matrix
@pytest.mark.parametrize("of", [pytest.param("the one that listens", marks=pytest.mark.matrix), "another"])
def test_a_killed_task_hangs_nobody_and_the_records_come_all_the_same(hosts: Hosts, line: Line, of: str) -> None:
    run = hosts.folder / "run"

    def kill() -> None:
        while len(hosts.read("a", "ls disk/*/ranks").split()) < 2 or not (run / "step" / "tasks").exists():
            time.sleep(0.1)
        time.sleep(1.5)
        tasks = [one.split() for one in (run / "step" / "tasks").read_text().splitlines()]
        wanted = tasks[:1] if of == "the one that listens" else tasks[-1:]
        [[_, pid, host]] = wanted
        hosts.run(host, ["kill", "-KILL", pid])

    threading.Thread(target=kill, daemon=True).start()
    began = time.monotonic()
    done = hosts.run("a", line("a,b", "ring", "30", out=run), timeout=120)
    assert done.returncode != 0
    assert time.monotonic() - began < 45
    nothing_stays(hosts, "ab")
    assert facts(run)["ranks"] == 4


@pytest.mark.matrix
@pytest.mark.parametrize(
    "mode", ["good", "deadlock", *(pytest.param(mode, marks=pytest.mark.matrix) for mode in ("crash", "leave"))]
)
@pytest.mark.parametrize("which", ["mpich", pytest.param("openmpi", marks=pytest.mark.matrix)])
def test_tasks_of_one_host_end_as_without_local(
    which: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:  # fmt: skip
    of: Installed = request.getfixturevalue(which)
    program = tmp_path / "step"
    built = execute([of.mpicc, "-g", "-o", program, Path(__file__).parent / "programs" / "step.c"])
    assert built.returncode == 0, built.stderr
    line = [*of.mpiexec, "-n", "3", *WEFT, "run", "--local", tmp_path / "disk", "--report", "told.json", "--"]
    done = execute([*line, program, mode], cwd=tmp_path, env=of.environment)
    assert done.stderr.count("weft: recorded 3 ranks in weft-runs/step-1") == 1, done.stderr
    status = {"good": 0, "deadlock": 3, "leave": 7}.get(mode)
    assert done.returncode == status if status is not None else done.returncode != 0, done.stderr
    found = [one["kind"] for one in json.loads((tmp_path / "told.json").read_text())["findings"]]
    assert found == ([mode] if mode in ("deadlock", "crash") else [])
    limit = time.monotonic() + 15
    while list((tmp_path / "disk").iterdir()) and time.monotonic() < limit:
        time.sleep(0.2)
    assert list((tmp_path / "disk").iterdir()) == []
    assert facts(tmp_path / "weft-runs" / "step-1")["ranks"] == 3


@pytest.mark.matrix
def test_ctrl_c_gathers(mpich: Installed, program: Program, tmp_path: Path) -> None:
    line = [*mpich.mpiexec, "-n", "3", *WEFT, "run", "--local", tmp_path / "disk", "--", program("ring"), "30"]
    with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while len(list((tmp_path / "disk").glob("*/ranks/*-00000?.weft"))) < 3:
            time.sleep(0.1)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(60) != 0  # 130, or what mpiexec makes of tasks that it ends then
    assert "the run was interrupted by SIGINT (Ctrl-C); the record is complete" in said
    assert "weft: recorded 3 ranks" in said
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.matrix
def test_without_local_hosts_that_see_no_common_directory_say_so(hosts: Hosts, line: Line) -> None:
    words = [word for word in line("a,b", "step", "good") if word not in ("--local", hosts.home / "disk")]
    done = hosts.run("a", words)
    assert done.returncode == 4, done.stderr
    assert "nothing found" not in done.stderr
    for host, ranks in (("a", "ranks 0 and 1"), ("b", "ranks 2 and 3")):
        assert f"weft: host {host} has {ranks} of 4 in {hosts.home}/weft-runs/step-1" in done.stderr
        assert "4 ranks" not in done.stderr
        assert '"ranks": 2' in hosts.read(host, "cat weft-runs/step-1/run.json")
