"""Replays that cannot be: each ends, says in one line what is wrong and where, and gives its exit status."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.campaign import HERE, environment
from tests_support import WEFT, Installed, execute
from weft.base.words import plural
from weft.cli.main import main
from weft.cli.replay import choose_start_folder
from weft.errors import WeftError
from weft.trace.builder import Builder


def line_of(comment: str, file: str = "faults.c") -> int:
    """The line of this program's file that bears this comment."""
    return next(i for i, line in enumerate((HERE / file).read_text().splitlines(), 1) if f"/* {comment} */" in line)


class Bench:
    """A folder with faults.c built, its input, and recorded runs of it."""

    def __init__(self, folder: Path, mpicc: str) -> None:
        self.folder, self.mpicc = folder, mpicc
        self.build()
        (folder / "input.txt").write_text("6\n")

    def build(self, *options: str) -> None:
        execute([self.mpicc, "-g", "-O0", *options, "-o", self.folder / "faults", HERE / "faults.c"]).check_returncode()

    def weft(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return execute([*WEFT, *words], cwd=self.folder, env=environment() | variables)

    def record(self, name: str, *words: str, level: str = "trace", **variables: str) -> str:
        command = ["run", "--out", name, "--level", level, "-n", "3", "--", "./faults", "input.txt", *words]
        self.weft(*command, **variables)
        return name


@pytest.fixture(scope="module")
def bench(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = Bench(tmp_path_factory.mktemp("faults"), mpich.mpicc)
    made.record("good")
    made.record("outcomes", level="outcomes")
    return made


@pytest.fixture
def complaint(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """The exit status of a `weft replay` that does not begin, and its one line."""

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.chdir(bench.folder)
        status = main(["replay", *words])
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        return status, said

    return run


@pytest.mark.cases(13)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--until", "0:999"], "rank 0 has no event 999; its record has events 0 to 28"),
        (["--until", "7:1"], "the run has no rank 7, only 0 to 2"),
        (["--break", "7:MPI_Send"], "the run has no rank 7, only 0 to 2"),
        (["--until", "finding:9"], "the report has {findings}, counted from 1 (`weft report good`)"),
        (["--until", f"faults.c:{line_of('the first') + 3}"], "; the nearest lines with one are "),
        (["--until", "elsewhere.c:4"], "`weft dump good` shows which calls it has"),
        (["--until", "MPI_Bcast"], "no MPI call at this place on any rank"),
        (["--until", "1:MPI_Send#13"], "only 12 calls at this place on rank 1"),
        (["--until", "what is this"], "write RANK:EVENT, FILE:LINE, FUNCTION, RANK:from=RANK, t=SECONDS or finding:N"),
        (["--until", "0:3", "--stdin", "nothing.txt"], "--stdin nothing.txt: No such file or directory"),
        (["--force", "0:3"], "write RANK:EVENT=SOURCE"),
        (["--force", "0:3=9"], "has ranks 0 to 2 only"),
        (["--force", "0:4=1"], "takes no message from any source"),
        (["-n", "4"], "-n 4: the record has 3 ranks, and a replay needs as many"),
    ],
)
def test_what_the_record_does_not_have_is_refused(
    words: list[str], said: str, bench: Bench, complaint: Callable[..., tuple[int, str]]
) -> None:
    status, line = complaint("good", *words)
    if "{findings}" in said:  # one, and on a busy machine that a rank waited, too
        report = json.loads(bench.weft("report", "good", "--format", "json").stdout)
        said = said.format(findings=plural(len(report["findings"]), "finding"))
    assert (status, said in line) == (2, True), line


def test_a_record_of_level_outcomes_has_no_events_to_stop_at(complaint: Callable[..., tuple[int, str]]) -> None:
    status, line = complaint("outcomes", "--until", "0:3")
    assert (status, "then stop in the record of that replay" in line) == (2, True), line


def test_a_folder_that_is_no_run_is_named(bench: Bench, complaint: Callable[..., tuple[int, str]]) -> None:
    (bench.folder / "empty").mkdir(exist_ok=True)
    assert complaint("nowhere") == (2, "weft: nowhere is not a run: there is no such directory\n")
    assert complaint("input.txt") == (2, "weft: input.txt is not a run: not a directory\n")
    assert "empty is not a run of Weft: empty/run.json cannot be read" in complaint("empty")[1]


def test_a_rank_without_a_record_is_named(bench: Bench, complaint: Callable[..., tuple[int, str]]) -> None:
    shutil.copytree(bench.folder / "good", bench.folder / "missing")
    next((bench.folder / "missing" / "ranks").glob("*-000001.weft")).unlink()
    status, line = complaint("missing")
    assert status == 4
    assert "missing/ranks: the record of rank 1 is missing" in line
    assert "copy the whole directory of the run" in line


OF_VERSION = """
import sys
from weft.cli.main import main
from weft.replay import plan
plan.PLAN_MAGIC += (int(sys.argv[1]) - 1) << 56
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("version", [1, 2])
def test_a_plan_of_another_version_is_refused_and_one_of_this_is_followed(version: int, bench: Bench) -> None:
    out = f"plan-{version}"
    words = ["-c", OF_VERSION, str(version), "replay", "good", "--out", out]
    done = execute([sys.executable, *words], cwd=bench.folder, env=environment())
    file = bench.folder / out / "replay" / "plan-000000.bin"
    assert file.read_bytes()[:8] == b"wftplan%d" % version
    why = f"could not read the plan of the replay, {file}: replay where all hosts see that file and have the same Weft"
    assert (done.returncode == 0, why in done.stderr) == (version == 1, version == 2), done.stderr


def test_a_truncated_record_is_replayed_to_its_end(bench: Bench) -> None:
    shutil.copytree(bench.folder / "good", bench.folder / "cut")
    os.truncate(next((bench.folder / "cut" / "ranks").glob("*-000001.weft")), 20000)
    done = bench.weft("replay", "cut")
    assert done.returncode == 0, done.stderr
    assert "weft: damaged: " in done.stderr
    assert "000001.weft" in done.stderr
    assert "as recorded, then freely beyond the end of the record" in done.stderr


def test_a_run_that_was_killed_is_replayed_to_the_kill_and_goes_on(bench: Bench) -> None:
    bench.record("killed", WEFT_TEST_CRASH="1")
    free = bench.weft("replay", "killed")
    assert (free.returncode, "as recorded, then freely beyond the end of the record" in free.stderr) == (0, True), (
        free.stderr
    )
    again = bench.weft("replay", "killed", WEFT_TEST_CRASH="1")
    # How far the others come before the launcher ends them differs from run to run.
    assert (again.returncode, "as recorded" in again.stderr) == (9, True), again.stderr


def test_a_rank_that_did_not_come_to_a_replay_that_failed_is_named_with_both_reasons(
    bench: Bench, mpich: Installed
) -> None:
    bench.record("apart", WEFT_TEST_CRASH="1")
    apart = ["env", "-u", "LD_PRELOAD", "./faults", "input.txt"]  # as on a host that does not see the run
    done = bench.weft(
        "replay", "apart", "--", *mpich.mpiexec, "-n", "2", "./faults", "input.txt", ":", "-n", "1", *apart,
        WEFT_TEST_CRASH="1",
    )  # fmt: skip
    assert done.returncode == 9, done.stderr
    # Rank 1 does not wait for rank 0 and may be killed before that comes.
    said = "took no part in the replay: the job ended with status 9 first, or (its host does|their hosts do) not see"
    assert re.search(rf"rank(s 0(,| and))? 2 {said}", done.stderr), done.stderr
    assert re.search(r"replayed (1 rank|2 ranks), \d+ calls that communicate: as recorded", done.stderr), done.stderr


def test_a_deadlocked_run_deadlocks_again(bench: Bench) -> None:
    bench.record("deadlock", "deadlock")
    done = bench.weft("replay", "deadlock")
    assert done.returncode == 3, done.stderr
    assert "it is deadlocked, as the recorded run was" in done.stderr
    assert f"rank 0 waits in recv(source=1, tag=9) at faults.c:{line_of('all wait')}" in done.stderr


def test_a_program_that_was_changed_is_told_with_both_calls(bench: Bench) -> None:
    try:
        bench.build("-DSWAPPED")
        done = bench.weft("replay", "good")
    finally:
        bench.build()
    assert done.returncode == 5, done.stderr
    assert f"recorded: send(dest=0, tag=1) at faults.c:{line_of('in order: 1')}" in done.stderr
    assert f"now:      send(dest=0, tag=2) at faults.c:{line_of('swapped: 2')}" in done.stderr
    assert "the tag or operation differs: 1 was recorded, now it is 2" in done.stderr
    assert "likely cause: faults changed since the run was recorded" in done.stderr


def test_an_input_that_was_changed_is_named(bench: Bench) -> None:
    file = bench.folder / "input.txt"
    before = file.stat()
    try:
        file.write_text("7\n")
        done = bench.weft("replay", "good")
    finally:
        file.write_text("6\n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert done.returncode == 5, done.stderr
    assert "recorded: barrier at faults.c" in done.stderr
    first = rf"recv\(.*\) at faults\.c:{line_of('the first')}\b"  # or the send to it, whichever comes first
    assert re.search(rf"now: +({first}|send\(dest=0.* at faults\.c:\d+)", done.stderr), done.stderr
    assert "input.txt" in done.stderr.splitlines()[-2]


@pytest.mark.cases(1)
@pytest.mark.parametrize("level", ["trace", "outcomes"])
def test_a_program_that_draws_lots_leaves_its_record_or_comes_to_its_end(bench: Bench, level: str) -> None:
    """At level outcomes only outcomes are held, and these are the same whatever is drawn."""
    bench.record(f"chance-{level}", "chance", level=level)
    done = bench.weft("replay", f"chance-{level}")
    if level == "outcomes":
        assert (done.returncode, "12 outcomes: as recorded" in done.stderr) == (0, True), done.stderr
        return
    assert done.returncode == 5, done.stderr
    assert "recorded: send(dest=0, tag=" in done.stderr
    assert "now:      send(dest=0, tag=" in done.stderr
    assert "something random outside of MPI" in done.stderr


def test_a_message_that_the_record_never_sends_is_refused(bench: Bench) -> None:
    done = bench.weft("replay", "good", "--force", "0:3=0")
    assert done.returncode == 2, done.stderr
    assert "--force 0:3=0: rank 0 never sends a message to rank 0 that fits this receive" in done.stderr


@pytest.mark.matrix
def test_a_sender_that_looks_at_a_file_leaves_its_record_where_another_outcome_is_forced(bench: Bench) -> None:
    execute([bench.mpicc, "-g", "-o", bench.folder / "hidden", HERE / "hidden.c"]).check_returncode()
    bench.weft("run", "--out", "hidden-1", "-n", "3", "--", "./hidden").check_returncode()
    done = bench.weft("replay", "hidden-1", "--force", "0:3=2")
    assert done.returncode == 5, done.stderr
    assert "rank 2 left its record after event 2" in done.stderr
    assert f"recorded: send(dest=0, tag=1) at hidden.c:{line_of('sent', 'hidden.c')}" in done.stderr
    assert "now:      finalize at hidden.c" in done.stderr


def test_another_program_runs_where_we_are_and_needs_no_folder_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Builder(1).open()
    trace.run["cwd"] = str(tmp_path / "gone")
    monkeypatch.chdir(tmp_path)
    assert choose_start_folder(trace, ["./copy"]) == tmp_path
    with pytest.raises(
        WeftError, match="gone, which this host does not have: change to your copy of that folder and name"
    ):
        choose_start_folder(trace, [])
    (tmp_path / "gone").mkdir()
    assert choose_start_folder(trace, []) == tmp_path / "gone"
