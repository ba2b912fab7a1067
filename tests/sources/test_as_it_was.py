"""Reports say what they said on the first day, byte for byte, when the sources were edited, moved or deleted since."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import weft
from tests_support import WEFT, Installed, execute
from weft.cli import main as cli
from weft.sources import Sources
from weft.view.html_export import render_html
from weft.view.run_view import RunView

PROGRAMS = Path(__file__).parent / "programs"
FORMATS = ("text", "json", "sarif", "html")
RUN = "run"
"""The run by a name that is the same in any folder."""


@dataclass
class Recorded:
    """A run and the source that it is of."""

    folder: Path
    source: Path
    summary: str
    first_day: dict[str, str]


def reports(folder: Path) -> dict[str, str]:
    """The run's report in every form, and its view as a file."""
    made = {}
    with contextlib.chdir(folder):
        for form in FORMATS:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                assert cli.main(["report", RUN, "--format", form]) in (0, 1)
            made[form] = out.getvalue()
        picture = RunView(weft.open(RUN))
        picture.analyse()
        made["view"] = render_html(picture).decode()
    return made


def without_note(made: dict[str, str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, str]:
    """The same but for the one note that files have changed, which must be there in each."""
    found = {}
    found["text"], count = re.subn(r"\nsource: [^\n]+\n", "", made["text"])
    found["html"], more = re.subn(r'<p class="changed">[^\n]+</p>\n', "", made["html"])
    assert (count, more) == (1, 1)
    document = json.loads(made["json"])
    assert len(document.pop("notes")) == 1
    found["json"] = json.dumps(document, indent=1) + "\n"
    sarif = json.loads(made["sarif"])
    notes = sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert [note["level"] for note in notes] == ["note"]
    notes.clear()
    found["sarif"] = json.dumps(sarif, indent=1) + "\n"
    with monkeypatch.context() as patched:
        patched.setattr(Sources, "note", lambda self, of=None: None)
        found["view"] = reports(folder)["view"]
    assert found["view"] != made["view"]
    return found


def record(folder: Path, source: Path, command: list[str | Path], *options: str) -> Recorded:
    done = execute([*WEFT, "run", "--out", RUN, *options, "--", *command], cwd=folder, timeout=110)
    assert done.returncode in (0, 3), done.stderr
    return Recorded(folder, source, done.stderr, reports(folder))


def python_run(mpich: Installed, folder: Path, *options: str) -> Recorded:
    source = Path(shutil.copy(PROGRAMS / "hang.py", folder))
    return record(folder, source, [*mpich.mpiexec, "-n", "2", mpich.python or "python", source.name], *options)


@pytest.fixture(scope="module", params=["python", "c", "fortran"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run of a program in one of the languages."""
    folder = tmp_path_factory.mktemp("recorded")
    if request.param == "python":
        return python_run(request.getfixturevalue("mpich"), folder)
    mpi: Installed
    if request.param == "c":
        mpi = request.getfixturevalue("mpich")
        source, compiler = "leak.c", mpi.mpicc
    else:
        mpi = request.getfixturevalue("debian_mpich")
        source, compiler = "leak.f90", mpi.mpicc.replace("mpicc", "mpif90")
    kept = Path(shutil.copy(PROGRAMS / source, folder))
    done = execute([compiler, "-g", "-O0", "-o", "program", kept.name], cwd=folder)
    assert done.returncode == 0, done.stderr
    return record(folder, kept, [*mpi.mpiexec, "-n", "2", "./program"])


@pytest.fixture
def source(recorded: Recorded) -> Iterator[Path]:
    """The source, put back as it was after the test."""
    data, status = recorded.source.read_bytes(), recorded.source.stat()
    yield recorded.source
    recorded.source.write_bytes(data)
    os.utime(recorded.source, ns=(status.st_atime_ns, status.st_mtime_ns))


EXPECTED = {
    "hang.py": ("waits in recv(source=1, tag=99) at hang.py:9;", "| return comm.recv(\n"),
    "leak.c": ("leak.c:5", "| MPI_Isend(x, 1, MPI_INT, /* (to whom */ to, 99,\n"),
    "leak.f90": ("leak.f90:", "| call MPI_Isend(x, 1, MPI_INTEGER, & ! to whom\n"),
}


@pytest.mark.matrix
def test_each_form_quotes_the_statement_and_says_of_no_change_on_the_first_day(recorded: Recorded) -> None:
    words, quoted = EXPECTED[recorded.source.name]
    made = recorded.first_day
    assert words in made["text"] and quoted in made["text"]
    assert "source: " not in made["text"] and "changed" not in json.loads(made["json"])
    [*sites] = [site for finding in json.loads(made["json"])["findings"] for site in finding["sites"]]
    assert sites and all("statement" in site for site in sites if site["file"] == str(recorded.source))
    results = json.loads(made["sarif"])["runs"][0]["results"]
    region = results[0]["locations"][0]["physicalLocation"]["region"]
    lines = recorded.source.read_text().split("\n")
    assert region["snippet"]["text"].split("\n") == lines[region["startLine"] - 1 : region["endLine"]]
    around = results[0]["locations"][0]["physicalLocation"]["contextRegion"]
    assert around["startLine"] <= region["startLine"] and around["endLine"] >= region["endLine"]
    assert around["snippet"]["text"].split("\n") == lines[around["startLine"] - 1 : around["endLine"]]
    assert 'class="l here"' in made["html"] and 'class="t-c"' in made["html"]


def test_the_end_of_weft_run_says_the_words_of_the_report(recorded: Recorded) -> None:
    said = [line.removeprefix("weft: ") for line in recorded.summary.splitlines() if line.endswith("]")]
    assert said and all(line in recorded.first_day["text"] for line in said)


@pytest.mark.cases(1)
def test_after_an_edit_all_is_as_it_was_but_for_one_note(
    recorded: Recorded, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = source.read_text()
    source.write_text("\n" + text.replace("recv", "bcast").replace("Isend", "Irecv"))
    made = reports(recorded.folder)
    assert f"source: {source.name} has changed since the run: " in made["text"]
    assert without_note(made, monkeypatch, recorded.folder) == recorded.first_day
    source.write_text(text)  # touched, but with the same text
    assert reports(recorded.folder) == recorded.first_day


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_source_that_is_gone_changes_nothing_but_the_note(
    recorded: Recorded, source: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "moved":
        source.rename(source.with_name("elsewhere.txt"))
    else:
        source.unlink()
    program = recorded.folder / "program"
    if program.exists():
        program.rename(recorded.folder / "moved")
    made = reports(recorded.folder)
    if not program.exists() and (recorded.folder / "moved").exists():
        (recorded.folder / "moved").rename(program)
    assert f"source: {source.name} is no longer there: " in made["text"]
    assert without_note(made, monkeypatch, recorded.folder) == recorded.first_day


def test_on_another_machine_all_is_as_it_was_without_a_note(recorded: Recorded, source: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded.folder / RUN, tmp_path / RUN)
    run = json.loads((tmp_path / RUN / "run.json").read_text())
    (tmp_path / RUN / "run.json").write_text(json.dumps({**run, "host": "another"}))
    source.unlink()
    assert reports(tmp_path) == recorded.first_day


@pytest.mark.matrix
def test_without_sources_the_words_are_the_same_and_no_line_is_kept(mpich: Installed, tmp_path: Path) -> None:
    bare = python_run(mpich, tmp_path, "--no-sources")
    assert not (tmp_path / RUN / "sources.bin").exists()
    assert "which is in" not in "".join(path.read_text("utf-8", "replace") for path in (tmp_path / RUN).glob("*.*"))
    words, _ = EXPECTED["hang.py"]
    assert words in bare.first_day["text"]
    assert not re.search(r"^ +\| \w", bare.first_day["text"], re.M) and '"statement"' not in bare.first_day["json"]
    bare.source.write_text("\n" + bare.source.read_text().replace("recv", "bcast"))
    assert words in reports(tmp_path)["text"]
