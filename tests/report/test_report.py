"""The report: everything is run, merged and rendered, and nothing out of the record is markup."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif

from tests_support import WEFT, execute
from weft.cli import main as cli
from weft.endings import describe_ends as ends
from weft.evidence import Parameter
from weft.findings import Finding, Site
from weft.report import AnalysisContext, Failure, Report, analyse, run_analyses, summary, to_json
from weft.report.analysis import merge_by_cause
from weft.report.document import JSON_SCHEMA
from weft.report.page import to_html
from weft.report.registry import ANALYSES, NONE, Analysis
from weft.report.sarif import to_sarif
from weft.report.text import print_report
from weft.trace.builder import Builder
from weft.trace.layout import State

EVIL = '<script>alert("x")</script>\x1b[31m'


def hung(path: Path | None = None, file: str = "step.py") -> Builder:
    b = Builder(ranks=2, path=path, ended="deadlock")
    b.ranks[1].open.recv(0, tag=99, site=(file, 9, "main"))
    b.ranks[0].open.allreduce(site=(file, 10, "main"))
    return b


def healthy(path: Path | None = None) -> Builder:
    b = Builder(ranks=2, path=path)
    for r in b.ranks:
        r.init()
    b.ranks[0].send(1, tag=1)
    b.ranks[1].recv(0, tag=1)
    for r in b.ranks:
        r.finalize()
    return b


def _finding(n: int = 0, **kw: object) -> Finding:
    site = Site(n, "MPI_Isend", "a.c", 5, "main")
    values = {"kind": "request-leak", "severity": "error", "certainty": "certain", "message": "a request leaks"}
    return Finding(**{**values, "ranks": (n,), "sites": (site,), "events": ((n, 1),), **kw})  # type: ignore[arg-type]


def test_a_healthy_run_has_no_errors_and_a_hung_one_has_its_deadlock_first() -> None:
    assert [f for f in analyse(healthy().open()) if f.severity != "note"] == []
    assert analyse(hung().open())[0].kind == "deadlock"


def test_a_thousand_findings_of_one_cause_are_one_with_the_count() -> None:
    found = merge_by_cause([_finding(n, sites=(Site(0, "MPI_Isend", "a.c", 5, "main"),)) for n in range(1000)])
    assert len(found) == 1
    assert found[0].message == "a request leaks (and 999 more like it)"
    assert found[0].facts()["count"] == 1000
    assert found[0].ranks == tuple(range(1000))


def test_other_lines_are_other_causes() -> None:
    assert len(merge_by_cause([_finding(), _finding(sites=(Site(0, "MPI_Isend", "a.c", 6, "main"),))])) == 2


def test_the_document_fulfils_its_schema() -> None:
    for b in (hung(), healthy()):
        trace = b.open()
        report = run_analyses(trace)
        document = json.loads(json.dumps(to_json(trace, report.findings, report.failures)))
        jsonschema.Draft202012Validator(JSON_SCHEMA).validate(document)
        assert document["schema"] == "weft-report/1"
        assert document["run"]["ranks"] == 2


def test_a_document_with_an_unknown_severity_does_not_fulfil_the_schema() -> None:
    trace = hung().open()
    document = to_json(trace, analyse(trace))
    document["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, JSON_SCHEMA)


def test_an_analysis_that_fails_takes_no_other_down() -> None:
    def broken(context: AnalysisContext) -> list[Finding]:
        raise RuntimeError("boom")

    [deadlock] = [analysis for analysis in ANALYSES if analysis.name == "deadlock"]
    report = run_analyses(hung().open(), (Analysis("broken", NONE, broken), deadlock))
    assert [f.kind for f in report.findings] == ["deadlock"]
    assert [(f.analysis, f.error) for f in report.failures] == [("broken", "RuntimeError: boom")]


def test_the_summary_is_a_line_a_finding_worst_first() -> None:
    lines = summary(hung().open()).splitlines()
    assert lines[0].startswith("error: rank 1 waits in recv(source=0, tag=99) at step.py:9;")
    assert lines[0].endswith("[deadlock]")
    assert "nothing found" in summary(healthy().open())


def crashed() -> Builder:
    """Rank 1 fell, ranks 0 and 2 were in a barrier, rank 3 in a receive."""
    b = Builder(ranks=4, ended="crashed")
    for rank in (0, 2):
        b.ranks[rank].open.barrier(site=("fall.c", 9, "main"))
    b.ranks[1].send(3, tag=1, site=("fall.c", 5, "main"))
    b.ranks[1].state = State.RUNNING
    b.ranks[3].recv(1, tag=1)
    b.ranks[3].open.recv(1, tag=2, site=("fall.c", 7, "main"))
    return b


def test_of_a_crashed_run_it_is_said_where_each_rank_ended() -> None:
    trace = crashed().open()
    said = [
        "rank 1 ended outside MPI, after send(dest=3, tag=1) at fall.c:5",
        "ranks 0 and 2 ended in barrier at fall.c:9",
        "rank 3 ended in recv(source=1, tag=2) at fall.c:7",
    ]
    assert ends(trace) == said
    lines = summary(trace).splitlines()
    assert lines == [*said, "no misuse of MPI found"]
    out = io.StringIO()
    print_report(trace, run_analyses(trace), out)
    assert out.getvalue().startswith("No misuse of MPI found in ")
    assert out.getvalue().count("\n".join(said)) == 1


@pytest.mark.parametrize("ended", ["finished", "deadlock", "running"])
def test_of_other_runs_that_is_not_said(ended: str) -> None:
    b = crashed()
    b.ended = ended
    assert ends(b.open()) == []


def test_many_ends_are_cut() -> None:
    b = Builder(ranks=20, ended="killed")
    for rank in b.ranks:
        rank.open.barrier(site=("fall.c", rank.rank, "main"))
    lines = ends(b.open())
    assert len(lines) == 9 and lines[-1].startswith("and 12 more ranks elsewhere: weft view --text ")


def test_the_text_names_places_and_ranks_and_holds_no_terminal_codes() -> None:
    out = io.StringIO()
    trace = hung(file=f"st{EVIL}.py").open()
    print_report(trace, run_analyses(trace), out)
    assert "\x1b" not in out.getvalue()
    assert "rank 1, MPI_Recv in main" in out.getvalue()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_nothing_out_of_the_record_is_markup() -> None:
    trace = hung(file=f"/tmp/{EVIL}.py").open()
    trace.run["command"] = [EVIL]
    report = Report(
        (*tuple(analyse(trace)), _finding(message=EVIL, evidence=Parameter(parameter=EVIL))), (Failure(EVIL, EVIL),)
    )
    page = to_html(trace, report)
    parser = _Tags()
    parser.feed(page)
    assert "script" not in parser.tags
    assert "<script" not in page
    assert "\x1b" not in page
    assert "request-leak" in page


def test_sarif_has_a_result_a_finding_with_its_line() -> None:
    trace = hung(file="/w/a b/step.py").open()
    trace.run["cwd"] = "/w"
    document = to_sarif(trace, analyse(trace))
    run = document["runs"][0]
    assert document["version"] == "2.1.0"
    result = run["results"][0]
    assert result["ruleId"] == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "deadlock"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/step.py", "uriBaseId": "CWD"}
    assert place["region"] == {"startLine": 9}
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 10}


def test_sarif_is_what_the_schema_of_the_standard_asks_for() -> None:
    trace = hung(file="/w/a b/step.py").open()
    trace.run["cwd"] = "/w"
    document = to_sarif(trace, analyse(trace), [Failure("races", "ValueError: no")])
    assert document["runs"][0]["results"]
    # Generated from the OASIS schema; properties that it does not know are refused.
    Sarif.model_validate(document)
    document["runs"][0]["results"][0]["severity"] = "error"
    with pytest.raises(ValidationError):
        Sarif.model_validate(document)


def test_the_command_exits_1_with_an_error_and_0_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(hung(tmp_path / "hung").write())]) == 1
    assert "[deadlock]" in capsys.readouterr().out
    assert cli.main(["report", str(healthy(tmp_path / "healthy").write())]) == 0


@pytest.mark.parametrize("form", ["json", "sarif", "html"])
def test_the_command_writes_each_form_to_a_file(tmp_path: Path, form: str) -> None:
    target = tmp_path / "report"
    assert cli.main(["report", str(hung(tmp_path / "run").write()), "--format", form, "-o", str(target)]) == 1
    text = target.read_text()
    assert "deadlock" in text
    if form != "html":
        json.loads(text)


def test_a_failed_analysis_is_exit_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("weft.deadlock.find", lambda trace: 1 / 0)
    assert cli.main(["report", str(healthy(tmp_path / "run").write())]) == 4
    told = capsys.readouterr()
    assert "the analysis of deadlock failed" in told.out.splitlines()[0]
    assert not told.err


def test_a_path_that_is_no_run_is_an_error_of_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tmp_path)]) in (2, 4)
    assert "Traceback" not in capsys.readouterr().err


def test_a_run_whose_hosts_all_lost_their_records_is_no_clean_one(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    lost = [{"host": "b", "ranks": [], "why": "its connection was closed", "folder": "/tmp/x"}]
    facts = {"schema": "weft-run/1", "ranks": 0, "ended": "finished", "lost": lost}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    done = execute([*WEFT, "report", tmp_path])
    assert done.stdout.startswith("No rank left a record. ")
    assert done.returncode == 1
