"""Lines at a terminal are wrapped and coloured, elsewhere plain: in `weft report` as at the end of `weft run`."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from weft.cli._said import print_own_blocks
from weft.report import run_analyses
from weft.report.terminal import print_blocks
from weft.report.text import print_report, summary_blocks
from weft.trace.builder import Builder


class Terminal(io.StringIO):
    """A file that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def hung(path: Path) -> Builder:
    b = Builder(ranks=2, path=path, ended="deadlock")
    b.ranks[1].open.recv(0, tag=99, site=("step.py", 9, "main"))
    b.ranks[0].open.allreduce(site=("step.py", 10, "main"))
    return b


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_a_finding_is_wrapped_and_coloured_in_report_and_run_alike(tmp_path: Path) -> None:
    trace = hung(tmp_path).open()
    report = run_analyses(trace)
    ran, reported = Terminal(), Terminal()
    print_own_blocks(summary_blocks(trace, report), ran)
    print_report(trace, report, reported)
    for out, prefix in ((ran, "weft: "), (reported, "")):
        lines = out.getvalue().splitlines()
        assert all(len(plain(line)) <= 60 for line in lines)
        [first] = [n for n, line in enumerate(lines) if "rank 1 waits" in line]
        assert lines[first].startswith(f"{prefix}\x1b[1;31merror: rank 1 waits")
        assert plain(lines[first + 1]).startswith(prefix + " " * 9) and "\x1b[1;31m" in lines[first + 1]
    words = [" ".join(plain(out.getvalue()).replace("weft: ", "").split()) for out in (ran, reported)]
    assert words[0] in words[1]


def test_elsewhere_a_finding_is_one_plain_line(tmp_path: Path) -> None:
    trace = hung(tmp_path).open()
    out = io.StringIO()
    print_own_blocks(summary_blocks(trace, run_analyses(trace)), out)
    [line] = out.getvalue().splitlines()
    assert line.startswith("weft: error: rank 1 waits") and line.endswith("[deadlock]")


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colours_gets_none(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    out = Terminal()
    print_blocks([("error: " + "word " * 30, "error")], out)
    assert "\x1b" not in out.getvalue() and len(out.getvalue().splitlines()) > 1


def test_source_is_cut_and_never_wrapped_and_acts_on_no_terminal() -> None:
    out = Terminal()
    print_blocks([("    | x = '\x1b[2J'" + "y" * 90, "code")], out)
    [line] = out.getvalue().splitlines()
    assert len(line) == 60 and line.endswith("...") and "\x1b" not in line
