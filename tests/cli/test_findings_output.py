"""`weft report` and `weft run` in a CI job: several formats by suffix, what counts, and the status that it gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.cli.main import main
from weft.trace.builder import Builder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run with one error (a send that nobody receives) and one warning (a communicator that is never freed)."""
    monkeypatch.chdir(tmp_path)
    b = Builder(ranks=2)
    b.comm("MPI_Comm_dup", [0, 1], site=("leak.c", 5, "setup"))
    b.ranks[0].isend(1, tag=7, site=("lost.c", 9, "main"))
    for rank in b.ranks:
        rank.finalize()
    return str(b.open().path)


def kinds(report: str) -> set[str]:
    return {one["kind"] for one in json.loads(Path(report).read_text())["findings"] if one["severity"] != "note"}


def test_each_file_has_the_format_of_its_suffix(run: str) -> None:
    main(["report", run, "-o", "a.json", "-o", "a.sarif", "-o", "a.html", "-o", "a.txt"])
    assert json.loads(Path("a.json").read_text())["schema"].startswith("weft-report/")
    assert json.loads(Path("a.sarif").read_text())["version"] == "2.1.0"
    assert Path("a.html").read_text().startswith("<!")
    assert "[resource-leak]" in Path("a.txt").read_text()
    main(["report", run, "--format", "json", "-o", "b.txt"])
    assert json.loads(Path("b.txt").read_text()) == json.loads(Path("a.json").read_text())


def test_fail_on_decides_the_status(run: str) -> None:
    main(["report", run, "-o", "known.json"])
    found = kinds("known.json")
    assert "resource-leak" in found
    for words, status in (
        (["never"], 0), (["warning"], 1), (["resource-leak"], 1), (["deadlock"], 0), (["deadlock", "note"], 1),
    ):  # fmt: skip
        options = [part for word in words for part in ("--fail-on", word)]
        assert main(["report", run, *options, "-o", "c.txt"]) == status, words
    assert main(["report", run, "--fail-on", "deadlok"]) == 2


def test_what_a_baseline_knows_and_a_rule_suppresses_does_not_count(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["report", run, "-o", "known.json"])
    assert main(["report", run, "--fail-on", "warning", "--baseline", "known.json", "-o", "new.json"]) == 0
    assert kinds("new.json") == set()
    Path("rules.txt").write_text("resource-leak leak.c:setup ends with the program\ndeadlock * never seen\n")
    main(["report", run, "--suppress", "rules.txt", "-o", "left.json"])
    assert "resource-leak" not in kinds("left.json") and kinds("left.json")
    said = capsys.readouterr().err
    assert "suppressed: resource-leak at leak.c:5: ends with the program" in said
    assert "rules.txt:2: this rule suppresses nothing" in said


PROGRAM = """
from mpi4py import MPI
import sys
comm = MPI.COMM_WORLD.Dup()
MPI.COMM_WORLD.isend(1, dest=1 - MPI.COMM_WORLD.rank, tag=3).Wait()
sys.exit(int(sys.argv[1]))
"""


def test_a_recorded_program_fails_by_its_own_status_and_else_by_what_counts(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)

    def status(out: str, own: str, *options: str) -> int:
        line = [*WEFT, "run", "--out", out, *options, "-n", "2", "--", sys.executable, "p.py", own]
        return execute(line, cwd=tmp_path).returncode

    assert status("a", "0", "-o", "a.json", "-o", "a.sarif") == 0
    assert status("b", "0", "--fail-on", "warning") == 1
    assert status("c", "5", "--fail-on", "warning") == 5
    assert status("d", "0", "--fail-on", "warning", "--baseline", "a.json") == 0
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"]
    assert status("e", "0", "--no-report") == 0
    assert status("f", "0", "--no-report", "--fail-on", "error") == 2
