"""`weft explore` on real programs: every order is run once, what each does is told, kept, and said by the report."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft
from replay.campaign import Burners, environment
from tests_support import WEFT, Installed, execute

ORDERS = """
import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    came = []
    for _ in range(comm.size - 1):
        status = MPI.Status()
        comm.recv(source=MPI.ANY_SOURCE, tag=1, status=status)
        came.append(status.source)
    if came == [3, 1, 2] and sys.argv[1] == "hang":
        comm.recv(source=1, tag=2)  # nobody sends it
    print("sum", sum(came) if sys.argv[1] != "order" else came)
else:
    comm.send(comm.rank, dest=0, tag=1)
"""
"""Three workers: six orders. `hang`: one of them deadlocks; `order`: the result depends on it."""


def explored(folder: Path, mode: str, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    (folder / "orders.py").write_text(ORDERS)
    if not (folder / "run").exists():
        program = [sys.executable, "orders.py", mode]
        execute([*WEFT, "run", "--out", "run", "-n", "4", "--", *program], cwd=folder, env=environment())
    done = execute([*WEFT, "explore", "run", "--budget", "500", *words], cwd=folder, env=environment())
    return done, json.loads((folder / "run" / "explored.json").read_text())


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_the_one_order_of_six_that_deadlocks_is_found_and_the_report_says_it(mpich: Installed, tmp_path: Path) -> None:
    done, told = explored(tmp_path, "hang")
    assert done.returncode == 1, done.stderr
    assert "6 outcomes with the recorded one: all that there are" in done.stdout
    assert len(told["outcomes"]) == 6
    of_deadlock = [one for one in told["outcomes"] if one["status"] == 3]
    assert len(of_deadlock) == 1
    assert [one for one in told["outcomes"] if one["harmful"]]
    assert {race["line"] for race in told["races"]} == {"rank 0 at orders.py:9"}
    assert "rank 0 at orders.py:9: harmful: " in done.stdout
    other = of_deadlock[0]["run"]
    if other != "run":  # each outcome can be replayed
        again = execute([*WEFT, "replay", other], cwd=tmp_path, env=environment())
        assert again.returncode == 3, again.stderr
    report = execute([*WEFT, "report", "run"], cwd=tmp_path).stdout
    assert "Explored: " in report


@pytest.mark.matrix
@pytest.mark.timeout(600)
def test_a_race_that_changes_nothing_is_benign_and_what_was_tried_is_not_tried_again(
    mpich: Installed, tmp_path: Path
) -> None:
    done, told = explored(tmp_path, "sum")
    assert (done.returncode, len(told["outcomes"])) == (0, 6), done.stdout + done.stderr
    assert "rank 0 at orders.py:9: benign as far as tried" in done.stdout
    assert "`weft explore` ran this: the result is the same" in execute([*WEFT, "report", "run"], cwd=tmp_path).stdout
    before = sorted(path.name for path in tmp_path.iterdir())
    (again, _) = explored(tmp_path, "sum")
    assert again.stdout == done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.timeout(600)
def test_another_result_is_named_with_both_lines(mpich: Installed, tmp_path: Path) -> None:
    done, told = explored(tmp_path, "order", "--format", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == told
    effects = [one["effects"] for one in told["outcomes"][1:]]
    assert all("prints `[" in one[0] or "prints `sum [" in one[0] for one in effects), effects


def test_a_run_without_races_has_no_other_outcome(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.barrier()\n")
    program = [sys.executable, "plain.py"]
    execute([*WEFT, "run", "--out", "run", "-n", "2", "--", *program], cwd=tmp_path, env=environment())
    done = execute([*WEFT, "explore", "run"], cwd=tmp_path, env=environment())
    assert done.returncode == 0
    assert "no other outcome" in done.stdout and "not varied" not in done.stdout
    wrong = execute([*WEFT, "explore", "run", "--finding", "9"], cwd=tmp_path, env=environment())
    assert wrong.returncode == 2
    assert re.search(r"the report of run has \d findings?$", wrong.stderr.strip())  # a busy machine makes ranks late


@pytest.mark.matrix
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("how", "least"), [("any", 6), ("started", 6), ("some", 6)])
def test_each_order_in_which_requests_are_completed_is_run(
    mpich: Installed, tmp_path: Path, how: str, least: int
) -> None:
    """Three receives of named ranks: six orders one by one; MPI_Waitsome may complete several at once besides."""
    source = Path(__file__).parent / "programs" / "completions.c"
    execute([mpich.mpicc, "-g", "-o", tmp_path / "completions", source]).check_returncode()
    execute([*WEFT, "run", "--out", "run", "-n", "4", "--", "./completions", how], cwd=tmp_path, env=environment())
    done = execute([*WEFT, "explore", "run", "--budget", "500"], cwd=tmp_path, env=environment())
    told = json.loads((tmp_path / "run" / "explored.json").read_text())
    assert len(told["outcomes"]) >= least, done.stdout + done.stderr
    assert told["unreached"] == []
    assert "all that there are" in done.stdout
    ends = [weft.open(tmp_path / one["run"]).run["ended"] for one in told["outcomes"]]
    assert ends.count("deadlock") == 1, done.stdout
    line = next(i for i, text in enumerate(source.read_text().splitlines(), 1) if f"/* {how} */" in text)
    sets = [f"rank 0 at completions.c:{line}"] if how == "some" else []
    assert told["unvaried"] == {"polls": [], "sets": sets}
    assert ("not varied: which requests complete together" in done.stdout) == bool(sets)
    assert {race["line"] for race in told["races"]} == {f"rank 0 at completions.c:{line}"}


def test_a_request_that_cannot_be_complete_is_refused(mpich: Installed, tmp_path: Path) -> None:
    source = Path(__file__).parent / "programs" / "completions.c"
    execute([mpich.mpicc, "-g", "-o", tmp_path / "completions", source]).check_returncode()
    command = [*WEFT, "run", "--out", "run", "-n", "4", "--", "./completions", "any", "all"]
    execute(command, cwd=tmp_path, env=environment())
    calls = [call for call in weft.open(tmp_path / "run").ranks[0] if call.function.name == "MPI_Waitany"]
    first, taken = calls[0].index, calls[0].args["index"]

    def said(force: str) -> str:
        done = execute([*WEFT, "replay", "run", "--force", force], cwd=tmp_path, env=environment())
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert "this is what the record has already" in said(f"0:{first}=#{taken}")
    assert "has requests #0 to #2 only" in said(f"0:{first}=#7")
    assert f"request #{taken} is not active" in said(f"0:{first + 1}=#{taken}")
    assert "does not choose among requests" in said("0:0=#0")


def late(
    mpich: Installed, folder: Path, mode: str, *words: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Explore programs/late.c in one of its modes."""
    source = Path(__file__).parent / "programs" / "late.c"
    execute([mpich.mpicc, "-g", "-o", folder / "late", source]).check_returncode()
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", "./late", mode], cwd=folder, env=environment())
    done = execute([*WEFT, "explore", "run", "--budget", "300", *words], cwd=folder, env=environment())
    return done, json.loads((folder / "run" / "explored.json").read_text())


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_deadlock_is_found_on_a_machine_that_is_busy(mpich: Installed, tmp_path: Path) -> None:
    with Burners(8):
        done, told = late(mpich, tmp_path, "hang")
    assert told["unreached"] == told["cut_off"] == []
    assert [one["status"] for one in told["outcomes"]] == [0, 3], done.stdout + done.stderr
    assert [race["label"] for race in told["races"]] == ["harmful"]


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_program_that_ends_with_a_status_of_ours_has_ended(mpich: Installed, tmp_path: Path) -> None:
    done, told = late(mpich, tmp_path, "status")
    assert [one["status"] for one in told["outcomes"]] == [0, 5], done.stdout + done.stderr
    assert told["outcomes"][1]["effects"] == ["ends with status 5 instead of 0"]


@pytest.mark.cases(1)
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("compute", "ended the replay after 4 seconds"),
        ("poll", "was to take a message of rank 2, but no rank makes progress"),
    ],
)
def test_an_order_that_was_not_run_to_its_end_is_not_called_unreached(
    mpich: Installed, tmp_path: Path, mode: str, why: str
) -> None:
    done, told = late(mpich, tmp_path, mode, "--timeout", "4" if mode == "compute" else "100")
    assert told["unreached"] == []
    assert [race["label"] for race in told["races"]] == ["cut off"], done.stdout + done.stderr
    assert why in told["cut_off"][0]["why"]
    assert "1 more did not run to their end" in done.stdout
    assert f"unknown result: weft replay run --force {told['cut_off'][0]['forced']}: " in done.stdout
    assert not list(tmp_path.glob("run-other-*"))


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_polls_that_failed_are_named_as_what_is_not_varied(mpich: Installed, tmp_path: Path) -> None:
    done, told = late(mpich, tmp_path, "polls")
    source = (Path(__file__).parent / "programs" / "late.c").read_text().splitlines()
    [line] = [i for i, text in enumerate(source, 1) if "/* fails */" in text]
    assert told["unvaried"] == {"polls": [f"rank 0 at late.c:{line}"], "sets": []}, done.stderr
    assert f"not varied: how many times polls fail, at rank 0 at late.c:{line}" in done.stdout


def unset(installed: Installed, folder: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Record and explore programs/unset.c."""
    source = Path(__file__).parent / "programs" / "unset.c"
    execute([installed.mpicc, "-O2", "-g", "-o", folder / "unset", source]).check_returncode()
    program = [*installed.mpiexec, "-n", "3", "./unset", *words]
    execute([*WEFT, "run", "--out", "run", "--", *program], cwd=folder, env=environment())
    done = execute([*WEFT, "explore", "run", "--budget", "300"], cwd=folder, env=environment())
    return done, json.loads((folder / "run" / "explored.json").read_text())


def check_unset_value_is_printed(installed: Installed, folder: Path, call: str) -> None:
    """Check that a message which comes later in an explored order is not there yet, in that run and in its replays."""
    done, said = unset(installed, folder, call, "wrong")
    assert done.returncode == 1, done.stderr + done.stdout
    other = next(one for one in said["outcomes"] if one["harmful"])
    assert "prints `unset` instead of `set`" in other["effects"][0]
    for _ in range(2):
        again = execute([*WEFT, "replay", other["run"]], cwd=folder, env=environment())
        assert again.returncode == 0, again.stderr
        assert "unset" in again.stdout
    if shutil.which("gdb"):
        check_debugger_holds_the_message_back(folder, other["run"])


def check_debugger_holds_the_message_back(folder: Path, run: str) -> None:
    """Check that `weft debug` shows memory as in the explored run, and sends the message once its sender may go on."""
    source = (Path(__file__).parent / "programs" / "unset.c").read_text().splitlines()
    [line] = [number for number, text in enumerate(source, 1) if "printf(" in text]
    [event] = [one.index for one in weft.open(folder / run).ranks[1] if one.function.base == "MPI_Send"]
    words = (f"break 0:unset.c:{line}", "continue", "print values[0] @0", f"until 1:{event + 1}", "ranks", "continue")
    done = execute(
        [*WEFT, "debug", run, *(word for one in words for word in ("-c", one))], cwd=folder, env=environment()
    )
    stops = done.stdout.split("(weft) ")
    assert "rank 0  -1" in stops[3], done.stdout
    assert f"rank 1  before event {event + 1}" in stops[5], done.stdout
    assert "unset" in "".join(stops[4:]), done.stdout


def test_a_message_that_comes_later_is_not_there_when_another_request_is_completed(
    mpich: Installed, tmp_path: Path
) -> None:
    check_unset_value_is_printed(mpich, tmp_path, "any")


@pytest.mark.matrix
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
@pytest.mark.parametrize("call", ["any", "some", "testany", "testsome"])
def test_later_messages_wait_for_each_call_that_completes_requests(
    request: pytest.FixtureRequest, name: str, tmp_path: Path, call: str
) -> None:
    installed: Installed = request.getfixturevalue(name)
    check_unset_value_is_printed(installed, tmp_path, call)
    right = tmp_path / "right"
    right.mkdir()
    done, said = unset(installed, right, call, "right")
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(said["outcomes"]) >= 2


@pytest.mark.matrix
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_send_goes_where_the_other_message_needs_it_by_a_way_that_no_record_shows(
    request: pytest.FixtureRequest, name: str, tmp_path: Path
) -> None:
    installed: Installed = request.getfixturevalue(name)
    done, said = unset(installed, tmp_path, "named", "wrong")
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(said["outcomes"]) == 2


def test_the_report_names_explore_where_another_request_could_have_been_completed(
    mpich: Installed, tmp_path: Path
) -> None:
    source = Path(__file__).parent / "programs" / "unset.c"
    execute([mpich.mpicc, "-g", "-o", tmp_path / "unset", source]).check_returncode()
    execute([*WEFT, "run", "--out", "run", "-n", "3", "--", "./unset", "any", "wrong"], cwd=tmp_path, env=environment())
    told = execute([*WEFT, "report", "run"], cwd=tmp_path, env=environment()).stdout
    assert "MPI_Waitany of rank 0 at unset.c:17 could have completed another request: weft explore run" in told
