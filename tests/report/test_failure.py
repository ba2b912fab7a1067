"""An analysis that fails is Weft's error: it is told before all else, says where it came up, and what to send."""

from __future__ import annotations

import re
import sys
import warnings
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import weft
from tests_support import ROOT, Installed, execute
from weft.cli import main as cli
from weft.cli.run import print_findings
from weft.report import AnalysisWarning, Report, analyse, run_analyses, to_json
from weft.report.document import JSON_SCHEMA
from weft.report.page import to_html
from weft.report.registry import ANALYSES, Analysis
from weft.report.sarif import to_sarif
from weft.trace.builder import Builder
from weft.view.run_view import RunView

FIRST = "Weft's error, not the program's: the analysis of "


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which one of two messages comes first."""
    b = Builder(ranks=3, path=tmp_path_factory.mktemp("failure") / "run")
    for r in b.ranks:
        r.init()
    b.ranks[1].send(0, tag=1)
    b.ranks[2].send(0, tag=1)
    for source in (1, 2):
        b.ranks[0].recv(tag=1, got=source, site=("serve.py", source, "main"))
    for r in b.ranks:
        r.finalize()
    return b.write()


def broken(analysis: Analysis, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the analysis is run on every run, and fails."""
    monkeypatch.setattr(analysis, "worthwhile", lambda context: True)
    monkeypatch.setattr(analysis, "find", lambda context: 1 / 0)


def reported(run: Path, monkeypatch: pytest.MonkeyPatch, name: str = "waits") -> Report:
    """The report in which one analysis fails."""
    [analysis] = [one for one in ANALYSES if one.name == name]
    broken(analysis, monkeypatch)
    return run_analyses(weft.open(run))


def ended(run: Path) -> bool:
    """What `weft run` says at the end of a run; whether Weft itself did all of it."""
    job: Any = SimpleNamespace(run=SimpleNamespace(path=run, facts={"level": "trace"}))
    args = Namespace(no_report=False, report=None, output=[], fail_on=[], baseline=None, suppress=None)
    return print_findings(job, args)[0]


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_the_first_line_of_a_report_and_of_what_ends_a_run_is_the_analysis_that_failed(
    run: Path, analysis: Analysis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(analysis, monkeypatch)
    assert cli.main(["report", str(run)]) == 4
    first, heading, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{FIRST}{analysis.name} failed at weft/report/")
    assert "ZeroDivisionError: division by zero" in first
    assert first.endswith(f"send the output of `weft doctor --bug-report` and `weft report --format json {run}`")
    assert str(run) in heading
    assert not ended(run)
    assert capsys.readouterr().err.splitlines()[0] == f"weft: {first}"


def test_where_nothing_fails_nothing_is_said_of_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(run)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith("1 warning in ") and "Weft's error" not in told.out and not told.err
    assert ended(run)
    assert "Weft's error" not in capsys.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of runs that other tests built, collected just now
        analyse(weft.open(run))


def test_the_line_of_weft_that_failed_is_named_and_the_others_still_find(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.races.service.group_rows", None)
    [failure] = run_analyses(weft.open(run)).failures
    assert (failure.analysis, failure.error) == ("message races", "TypeError: 'NoneType' object is not callable")
    file, line = failure.where.rsplit(":", 1)
    assert file == "weft/races/service.py"
    assert "group_rows(" in (ROOT / "src" / file).read_text().splitlines()[int(line) - 1]


def test_analyses_that_fail_of_one_cause_share_the_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    b = Builder(ranks=2, path=tmp_path / "hung", ended="deadlock")
    b.ranks[0].open.recv(1, tag=0)
    b.ranks[1].open.recv(0, tag=0)
    run = b.write()

    def fail(*of: object) -> None:
        raise MemoryError("too much")

    monkeypatch.setattr("weft.report.context.match_operations", fail)
    assert cli.main(["report", str(run)]) == 4
    told = capsys.readouterr().out.splitlines()
    assert re.match(
        r"Weft's error, not the program's: the analyses of potential deadlock, .* and waits failed at "
        r"weft/report/context\.py:\d+, so their findings are missing here: MemoryError: too much\. To report",
        told[0],
    )
    assert not told[1].startswith("Weft's error")
    assert any(line.endswith("[deadlock]") for line in told)
    assert not ended(run)


def test_every_form_says_it(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = reported(run, monkeypatch)
    trace = weft.open(run)
    page = to_html(trace, report)
    assert page.index("of waits failed") < page.index("<h1>")
    document = to_json(trace, report.findings, report.failures)
    jsonschema.validate(document, JSON_SCHEMA)
    [failure] = document["failures"]
    assert failure["analysis"] == "waits" and failure["where"].startswith("weft/report/analysis.py:")
    assert "Traceback" in failure["traceback"]
    [sarif] = to_sarif(trace, report.findings, report.failures)["runs"]  # type: ignore[misc]
    [invocation] = sarif["invocations"]
    assert not invocation["executionSuccessful"]
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith(f"{FIRST}waits failed at weft/")
    picture = RunView(trace)
    picture.analyse()
    [told] = picture.list_findings("time")["failures"]
    assert told.startswith(f"{FIRST}waits failed at weft/")


@pytest.mark.parametrize("form", ["json", "sarif", "html"])
def test_a_report_for_others_says_it_to_the_person_too(
    run: Path, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(run, monkeypatch)
    assert cli.main(["report", str(run), "--format", form]) == 4
    assert capsys.readouterr().err.startswith(f"weft: {FIRST}waits failed")


def test_tables_that_cannot_be_made_are_told_like_an_analysis(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("weft.report.tables.make_tables_of_context", lambda context: 1 / 0)
    assert cli.main(["report", str(run), "--times"]) == 4
    assert capsys.readouterr().out.startswith(f"{FIRST}times and messages failed at weft/cli/_report_output.py:")


def test_who_asks_in_python_is_warned(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reported(run, monkeypatch)
    with pytest.warns(AnalysisWarning, match="the analysis of waits failed"):
        found = analyse(weft.open(run))
    assert [one.kind for one in found] == ["message-race"]


def test_a_command_that_goes_on_with_findings_says_which_are_missing(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(run, monkeypatch)
    assert cli.main(["dump", str(run), "--where", "finding:message-race"]) == 0
    assert capsys.readouterr().err.startswith(f"weft: {FIRST}waits failed")


BREAKS = """
import sys
from weft.cli.main import main
from weft.report.registry import ANALYSES
if {broken}:
    [one] = [one for one in ANALYSES if one.name == "waits"]
    one.find = lambda context: 1 / 0
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("broken", [True, False])
def test_a_run_whose_analysis_fails_ends_with_status_4(mpich: Installed, tmp_path: Path, broken: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    weft_ = [sys.executable, "-c", BREAKS.format(broken=broken)]
    done = execute([*weft_, "run", "-n", "2", "--", mpich.python, program], cwd=tmp_path, timeout=120)  # type: ignore[list-item]
    assert done.returncode == (4 if broken else 0), done.stderr
    told = [line for line in done.stderr.splitlines() if not re.match("weft: (building|recorded)", line)]
    assert told[0].startswith(f"weft: {FIRST}waits failed") == broken
    assert ("nothing found" in done.stderr) != broken
