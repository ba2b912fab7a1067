"""Programs named by a folder or a compilation database; what a person sees of a finding: its lines, its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as Sarif

from tests_support import WEFT, execute
from weft.check.excerpt import render_excerpt
from weft.check.source_discovery import find_sources
from weft.dataparallel.raw_findings import guess_operand
from weft.dataparallel.source_map import AccessPlace
from weft.errors import UsageError
from weft.evidence import CheckCase
from weft.findings import Finding, Site

MAIN = """\
#include "size.h"
extern double a[N], b[N];
void work(void);
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++)
        a[i] = FIRST;
    work();
    return 0;
}
"""
WORK = """\
#include "size.h"
#pragma dvm array distribute[block]
double a[N];
#pragma dvm array align([i] with a[i])
double b[N];
void work(void)
{
    #pragma dvm parallel([i] on b[i])
    for (int i = 1; i < N; i++)
        b[i] = a[i] + a[i - 1]; /* <b> & co */
}
"""

LOOP = """\
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++)
        a[i] = i;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "headers").mkdir()
    (tmp_path / "src" / "main.c").write_text(MAIN)
    (tmp_path / "src" / "work.c").write_text(WORK)
    (tmp_path / "headers" / "size.h").write_text("#define N 16\n")
    return tmp_path


def database(folder: Path) -> None:
    common = {"directory": "src"}
    entries = [
        common | {"file": "main.c", "command": "cc -I../headers -D 'FIRST=2 * i' -O2 -o main.o -c main.c"},
        common | {"file": "work.c", "arguments": ["cc", "-I", "../headers", "-DFIRST=2 * i", "-c", "work.c"]},
        common | {"file": "table.s", "command": "as table.s"},
    ]
    (folder / "compile_commands.json").write_text(json.dumps(entries))


@pytest.mark.matrix
def test_a_folder_is_the_program_of_its_sources(folder: Path) -> None:
    words = ["src", "-I", "headers", "-D", "FIRST=i"]
    done = execute([*WEFT, "check", *words], timeout=200, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "1 error in src/main.c src/work.c" in done.stdout
    assert "[stale-halo-read]" in done.stdout


@pytest.mark.matrix
def test_a_finding_shows_its_lines_with_the_access_marked(folder: Path) -> None:
    database(folder)
    done = execute([*WEFT, "check", "."], timeout=200, cwd=folder)
    lines = [line.strip() for line in done.stdout.splitlines()]
    at = lines.index("10 | b[i] = a[i] + a[i - 1]; /* <b> & co */")
    assert lines[at + 1] == "|               ^^^^^^^^"
    assert "8 | #pragma dvm parallel([i] on b[i])" in lines


def test_the_page_shows_the_same_and_nothing_of_the_program_is_markup(folder: Path) -> None:
    database(folder)
    page = folder / "page.html"
    words = ["--format", "html", "-o", page, folder / "compile_commands.json"]
    done = execute([*WEFT, "check", *map(str, words)], timeout=200, cwd=folder)
    assert done.returncode == 1, done.stderr
    text = page.read_text()
    assert "<mark>   |               ^^^^^^^^</mark>" in text
    assert "/* &lt;b&gt; &amp; co */" in text and "<b>" not in text


def test_a_database_gives_folders_macros_and_options_and_leaves_out_other_languages(folder: Path) -> None:
    database(folder)
    build = find_sources([folder])
    assert [path.name for path in build.sources] == ["main.c", "work.c"]
    for options in build.own.values():
        assert [path.resolve() for path in options.include] == [folder / "headers"]
        assert options.define == ("FIRST=2 * i",) and options.flags == ()
    assert set(build.own) == set(build.sources)


VALUES = """\
#include <stdio.h>
#pragma dvm array distribute[block]
double a[9];
int other(void);
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 1; i < 9; i++)
        a[i] = AT;
    printf("%d %d\\n", VALUE, other());
    return 0;
}
"""
OTHER = "int other(void) { return VALUE; }\n"
ALONE = "int other(void);\nint main(void) { return other() - 2; }\n"
NUMBERS = """\
program p
  integer i, other
  real a(9)
!DVM$ distribute a(block)
!DVM$ parallel (i) on a(i)
  do i = 2, 9
    a(i) = AT
  end do
  print '(I1,1X,I1)', VALUE, other()
end program
"""
FUNCTION = "integer function other()\n  other = VALUE\nend function\n"
OPENMP = """\
#include <stdio.h>
int other(void);
int main(void)
{
    double a[9] = {0};
    #pragma omp parallel for
    for (int i = 1; i < 9; i++)
        a[i] = AT;
    printf("%d %d\\n", VALUE, other());
    return a[0] != 0;
}
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize(("at", "status"), [("i", 0), ("a[i-1]", 1)], ids=["right", "faulty"])
@pytest.mark.parametrize(
    ("names", "texts"),
    [
        (("p.c", "q.c"), (VALUES, OTHER)),
        (("p.F90", "q.F90"), (NUMBERS, FUNCTION)),
        (("p.c", "q.c"), (OPENMP, OTHER)),
    ],
    ids=["c", "fortran", "openmp"],
)
def test_each_source_of_a_build_has_the_macros_of_its_own_call(
    names: tuple[str, str], texts: tuple[str, str], at: str, status: int, tmp_path: Path
) -> None:
    at = at.replace("[", "(").replace("]", ")") if names[0].endswith(".F90") else at
    entries = []
    for name, text, value in zip(names, texts, (1, 2), strict=True):
        (tmp_path / name).write_text(text)
        command = f"cc -DVALUE={value} -DAT={at} -c {name}"
        entries.append(
            {"directory": str(tmp_path), "file": name, "command": command.replace("(", r"\(").replace(")", r"\)")}
        )
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    done = execute([*WEFT, "check", "."], timeout=60, cwd=tmp_path)
    assert "1 2" in done.stdout.splitlines(), done.stdout + done.stderr
    assert done.returncode == status, done.stdout


@pytest.mark.matrix
def test_files_beside_a_database_are_those_of_it_that_are_meant(tmp_path: Path) -> None:
    entries = []
    for name, text, value in (("p.c", VALUES, 1), ("q.c", OTHER, 2), ("alone.c", ALONE, 3)):
        (tmp_path / name).write_text(text)
        entries.append({"directory": ".", "file": name, "arguments": ["cc", f"-DVALUE={value}", "-DAT=i", "-c", name]})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    done = execute([*WEFT, "check", ".", "p.c", "q.c"], timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 2"), done.stderr
    done = execute([*WEFT, "check", "."], timeout=60, cwd=tmp_path)
    assert done.returncode == 2 and "two of its files define main; leave one of them out" in done.stderr


@pytest.mark.parametrize("text", ["{", '[{"file": 1}]', "[1]"])
def test_what_is_no_database_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "compile_commands.json").write_text(text)
    with pytest.raises(UsageError, match="is not a compilation database"):
        find_sources([tmp_path])


def test_a_folder_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no sources and no compile_commands\.json"):
        find_sources([tmp_path])
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "made.c").write_text("")
    with pytest.raises(UsageError, match=r"holds no sources but those of .*build, which a tool put there, and no"):
        find_sources([tmp_path])


def test_a_folder_is_looked_into_but_for_what_tools_put_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sources = ["main.c", "sub/deep/work.c", "builders/b.c"]
    tools = ["build/made.c", ".git/hook.c", "env/lib/n.c", "out/CMakeFiles/id.c", "cmake-build-debug/id.c"]
    for name in (*sources, *tools, ".idea/workspace.xml", "env/pyvenv.cfg"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("")
    build = find_sources([Path()])
    assert sorted(map(str, build.sources)) == sorted(sources)
    said = "sources in 5 folders of builds and tools (.git, build, cmake-build-debug, env and 1 more)"
    assert build.left == (said,)
    assert find_sources([Path("build")]).sources == (Path("build/made.c"),)  # who names it means it


def test_what_a_folder_holds_beside_the_program_is_told(folder: Path) -> None:
    (folder / "src" / "work").mkdir()
    (folder / "src" / "work.c").rename(folder / "src" / "work" / "work.c")
    (folder / "src" / "build").mkdir()
    (folder / "src" / "build" / "made.c").write_text("int main(void) { return 0; }\n")
    done = execute([*WEFT, "check", "src", "-I", "headers", "-D", "FIRST=i"], timeout=200, cwd=folder)
    assert done.returncode == 1, done.stderr
    assert "1 error in src/main.c src/work/work.c" in done.stdout
    assert "Not checked: sources in 1 folder of builds and tools (src/build)" in done.stdout


def test_the_database_of_a_build_below_is_the_folders(folder: Path) -> None:
    database(folder)
    (folder / "build").mkdir()
    text = (folder / "compile_commands.json").read_text().replace('"src"', '"../src"')
    (folder / "compile_commands.json").unlink()
    (folder / "build" / "compile_commands.json").write_text(text)
    build = find_sources([folder])
    assert [path.name for path in build.sources] == ["main.c", "work.c"]
    assert all(options.define == ("FIRST=2 * i",) for options in build.own.values())


@pytest.mark.parametrize(
    ("text", "call", "mark"),
    [
        ("a[i] = a[i + 1] + b[a[i]];", "write", "^^^^"),
        ("x = a(i, j) + 1", "read", "    ^^^^^^^"),
        ("if (a[i] == 1) x = 2;", "read", "    ^^^^"),
        ("A(I) = 2 * A(I-1)", "read", "           ^^^^^^"),
        ("call work(n)", "read", None),
        ("data = 1", "write", None),
    ],
)
def test_what_is_written_is_marked_left_and_what_is_read_right(
    text: str, call: str, mark: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "p.f"
    path.write_text(f"      {text}\n")
    site = Site(0, call, str(path), 1)
    finding = Finding(
        "loop-dependence", "error", "certain", "m", sites=(site,), evidence=CheckCase(case="", count=1, variable="a")
    )
    shown = render_excerpt(finding, site)
    assert shown[0] == f"1 | {text}"
    assert shown[1:] == (() if mark is None else (f"  | {mark}",))


@pytest.mark.parametrize(
    ("text", "write", "name"),
    [
        ("*p = 3;", True, "`*p`"),
        ("x = *p;", False, "`*p`"),
        ("    double y = q->next;", False, "`q->next`"),
        ("h->work[0] += a[i];", True, "`h->work[0]`"),
        ("for (i = 0; i < 3; i++) *q++ = 0;", True, "data without a name"),
        ("use(p);", False, "data without a name"),
    ],
)
def test_what_has_no_declared_name_is_called_as_its_line_writes_it(
    text: str, write: bool, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.c"
    path.write_text(f"{text}\n")
    assert guess_operand(AccessPlace(str(path), 1), write) == name


def test_sarif_has_the_place_the_column_and_the_loop(folder: Path) -> None:
    words = ["-I", "headers", "-D", "FIRST=2 * i", "--format", "sarif", "-o", "found.sarif", "src"]
    assert execute([*WEFT, "check", *words], timeout=60, cwd=folder).returncode == 1
    (run,) = json.loads((folder / "found.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("stale-halo-read", "error")
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "src/work.c"
    line = WORK.split("\n")[9]
    begin = line.index("a[i - 1]") + 1
    region = {"startLine": 10, "startColumn": begin, "endColumn": begin + 8, "snippet": {"text": "a[i - 1]"}}
    assert place["physicalLocation"]["region"] == region
    around = place["physicalLocation"]["contextRegion"]
    lines = WORK.splitlines()[around["startLine"] - 1 : around["endLine"]]
    assert around["snippet"]["text"].split("\n") == lines and line in lines
    assert result["message"]["text"].endswith(". See [parallel at work.c:8](1)")  # GitHub shows what is linked
    assert [one["physicalLocation"]["region"]["startLine"] for one in result["relatedLocations"]] == [8]
    Sarif.model_validate(json.loads((folder / "found.sarif").read_text()))


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("loop", "status", "successful", "said"),
    [
        ("", 2, False, ["nothing was checked: name the sources", "Checked: 1 directive"]),
        (f"{LOOP}abort();", 3, False, ["the program failed", "Checked: 2 directives"]),
        (LOOP, 0, True, ["Checked: 2 directives"]),
    ],
    ids=["nothing", "crash", "right"],
)
def test_sarif_without_a_result_says_where_that_is_no_all_clear(
    loop: str, status: int, successful: bool, said: list[str], tmp_path: Path
) -> None:
    text = f"#include <stdlib.h>\n#pragma dvm array distribute[block]\ndouble a[9];\nint main(void) {{\n{loop}\n}}\n"
    (tmp_path / "p.cdv").write_text(text)
    done = execute([*WEFT, "check", "--format", "sarif", "-o", "p.sarif", "p.cdv"], timeout=60, cwd=tmp_path)
    (run,) = json.loads((tmp_path / "p.sarif").read_text())["runs"]
    (how,) = run["invocations"]
    told = [one["message"]["text"] for one in how["toolExecutionNotifications"]]
    assert (done.returncode, how["executionSuccessful"], run["results"]) == (status, successful, [])
    assert [line[: len(start)] for line, start in zip(told, said, strict=True)] == said
