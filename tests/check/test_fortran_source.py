"""How Fortran sources are read and marked: forms, includes, several files, and what is told of wrong directives."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program
from weft.dataparallel.source_map import SourceMap
from weft.dvm import fortran
from weft.dvm.fortran_lines import FortranStatement, Sentinel, read_source
from weft.dvm.fortran_units import find_program_units
from weft.dvm.syntax import DirectiveError, Parallel
from weft.errors import UsageError
from weft.findings import Finding


def write(folder: Path, **files: str) -> list[Path]:
    """Write sources: `a_fdv="…"` is a.fdv."""
    paths = []
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        paths.append(folder / f"{stem}.{suffix}")
        paths[-1].write_text(text)
    return paths


def findings(folder: Path, sources: list[Path], **options: str) -> tuple[Finding, ...]:
    built = folder / "built"
    built.mkdir(exist_ok=True)
    return check_program(CheckRequest(tuple(sources), timeout=30, **options), built).findings  # type: ignore[arg-type]


def told(folder: Path, text: str) -> str:
    """What is said of a source with a wrong directive."""
    with pytest.raises(DirectiveError) as error:
        fortran.instrument_fortran_sources(write(folder, p_fdv=text), SourceMap())
    return str(error.value).removeprefix(f"{folder}/")


# --- forms ------------------------------------------------------------------------------------------------------------


def test_fixed_form_joins_continuations_and_drops_what_stands_behind_column_72(tmp_path: Path) -> None:
    line = "      A(I) = B(I) +".ljust(72) + "SEQ00010"
    (path,) = write(tmp_path, p_f=f"{line}\n     & 'C! d'   ! comment\n\tX = 1\n\t1+ 2\n")
    statements = [item for item in read_source(path).items if isinstance(item, FortranStatement)]
    assert [one.text for one in statements] == ["a(i)=b(i)+'C! d'", "x=1+2"]
    assert [one.code for one in statements] == ["a(i)=b(i)+''", "x=1+2"]


def test_free_form_joins_continuations_and_cuts_at_semicolons(tmp_path: Path) -> None:
    (path,) = write(tmp_path, p_f90="a = b + & ! why\n  & c; d = 'x;y'\n10 continue\n")
    statements = [item for item in read_source(path).items if isinstance(item, FortranStatement)]
    assert [(one.label, one.text) for one in statements] == [("", "a=b+c"), ("", "d='x;y'"), ("10", "continue")]


def test_the_form_of_an_fdv_file_is_seen_from_its_text(tmp_path: Path) -> None:
    fixed, free, ampersand = write(
        tmp_path,
        a_fdv="Comments begin in column 1\n      X = 1\n   10 CONTINUE\n      END\n",
        b_fdv="program p\nx = 1\nend\n",
        c_fdv="       x = 1 + &\n       2\n       end\n",
    )
    assert not read_source(fixed).free
    assert read_source(free).free
    assert read_source(ampersand).free


@pytest.mark.parametrize("sentinel", ["CDVM$", "!DVM$", "*DVM$", "cdvm$", "!dvm$", "CDVMH$"])
def test_directives_have_several_sentinels_and_are_continued_in_column_6(tmp_path: Path, sentinel: str) -> None:
    loop = "      DO I = 1, 2\n      ENDDO\n      END\n"
    text = f"{sentinel} PARALLEL (I) ON A(I),\n{sentinel[:1]}DVM$* PRIVATE (S)\n{loop}"
    (path,) = write(tmp_path, p_f=text)
    (unit,) = find_program_units(read_source(path))
    (directive,) = [item.directive for item in unit.items if isinstance(item, Sentinel)]
    assert isinstance(directive, Parallel)
    assert (directive.place.line, directive.last_line, len(directive.clauses)) == (1, 2, 1)


def test_what_only_looks_like_a_sentinel_is_a_comment(tmp_path: Path) -> None:
    (path,) = write(tmp_path, p_f="c dvm$ nonsense\nC DVM$ more\n      X = 1\n      END\n")
    assert not [item for item in read_source(path).items if isinstance(item, Sentinel)]


def test_letters_of_other_alphabets_do_not_move_lines_or_columns(tmp_path: Path) -> None:
    cyrillic = "C     \u0446\u0438\u043a\u043b \u0445\u043e\u0434\u0430\r\n"
    path = tmp_path / "p.f"
    path.write_bytes((cyrillic + "      PRINT *, '\u0445\u0430'\r\n      END\r\n").encode() + b"C     \x85\xff\n")
    source = read_source(path)
    assert len(source.lines) == 4
    assert [item.first for item in source.items] == [1, 2]
    _, marked = fortran.instrument_fortran_sources([path], SourceMap())
    assert "'\u0445\u0430'" in marked.text
    assert b"\x85\xff" in marked.text.encode("utf-8", "surrogateescape")


# --- marks ------------------------------------------------------------------------------------------------------------


def test_every_line_of_the_copy_knows_its_line_in_the_source(tmp_path: Path) -> None:
    text = (
        "      PROGRAM P\n      REAL A(4)\nCDVM$ DISTRIBUTE A(BLOCK)\nCDVM$ PARALLEL (I) ON A(I)\n"
        "      DO 10 I = 1, 4\n   10 A(I) = I\n      PRINT *, A\n      END\n"
    )
    sources = write(tmp_path, p_fdv=text)
    _, marked = fortran.instrument_fortran_sources(sources, SourceMap())
    number = 0
    seen = {}
    for line in marked.text.splitlines():
        if line.startswith("# "):
            number = int(line.split()[1])
            continue
        if "weft_check" not in line:
            seen[number] = line
        number += 1
    assert list(seen.values()) == text.splitlines()
    assert list(seen) == list(range(1, 9))


def test_a_labelled_loop_can_still_be_jumped_to(tmp_path: Path) -> None:
    sources = write(
        tmp_path,
        p_fdv=(
            "      PROGRAM P\n      REAL A(4)\nCDVM$ DISTRIBUTE A(BLOCK)\n      K = 0\nCDVM$ PARALLEL (I) ON A(I)\n"
            "    5 DO 10 I = 1, 4\n   10 A(I) = I\n      K = K + 1\n      IF (K .LT. 3) GOTO 5\n      END\n"
        ),
    )
    assert not findings(tmp_path, sources)


def test_files_modules_includes_and_procedures_are_one_program(tmp_path: Path) -> None:
    (tmp_path / "sizes.inc").write_text("      PARAMETER (N = 8)\nCDVM$ DISTRIBUTE A(BLOCK)\n")
    sources = write(
        tmp_path,
        fields_f90=(
            "module fields\n  real, allocatable :: u(:), v(:)\n!DVM$ distribute u(block)\n!DVM$ align v(i) with u(i)\n"
            "contains\n  subroutine make(n)\n    integer, intent(in) :: n\n    allocate (u(n), v(n))\n"
            "  end subroutine\nend module\n"
        ),
        main_fdv=(
            "      PROGRAM MAIN\n      USE FIELDS\n      REAL A(8)\n      INCLUDE 'sizes.inc'\n      CALL MAKE(N)\n"
            "CDVM$ PARALLEL (I) ON U(I)\n      DO I = 1, N\n        U(I) = I\n      ENDDO\n"
            "CDVM$ PARALLEL (I) ON A(I)\n      DO I = 1, N\n        A(I) = I\n      ENDDO\n      CALL STEP(N)\n"
            "      END\n"
        ),
        step_f=(
            "      SUBROUTINE STEP(N)\n      USE FIELDS\nCDVM$ PARALLEL (I) ON V(I)\n      DO 10 I = 2, N\n"
            "   10 V(I) = U(I - 1)\n      END\n"
        ),
    )
    (finding,) = findings(tmp_path, sources)
    assert finding.kind == "stale-halo-read"
    assert (finding.sites[0].file, finding.sites[0].line) == (str(tmp_path / "step.f"), 5)
    assert (finding.facts()["variable"], finding.facts()["index"]) == ("u", [1])


@pytest.mark.cases(1)
@pytest.mark.parametrize(("grid", "iteration"), [("", [2]), ("2", [5]), ("4", [3])])
def test_a_grid_of_processors_makes_blocks(tmp_path: Path, grid: str, iteration: list[int]) -> None:
    sources = write(
        tmp_path,
        p_fdv=(
            "      PROGRAM P\n      REAL A(8), B(8)\nCDVM$ DISTRIBUTE A(BLOCK)\nCDVM$ ALIGN B(I) WITH A(I)\n"
            "CDVM$ PARALLEL (I) ON A(I)\n      DO I = 1, 8\n        A(I) = I\n      ENDDO\n"
            "CDVM$ PARALLEL (I) ON B(I)\n      DO I = 2, 8\n        B(I) = A(I - 1)\n      ENDDO\n      END\n"
        ),
    )
    (finding,) = findings(tmp_path, sources, grid=grid)
    assert finding.facts()["iteration"] == iteration


# --- what is told -----------------------------------------------------------------------------------------------------

HEAD = "      PROGRAM P\n      REAL A(4), B(4, 4), S\nCDVM$ DISTRIBUTE A(BLOCK)\n"


@pytest.mark.parametrize(
    ("rest", "place", "words"),
    [
        ("CDVM$ PARALEL (I) ON A(I)\n", "4:7", ("PARALEL", "not a directive")),
        ("CDVM$ PARALLEL (I) ON A(I)\n      S = 1\n", "4:7", ("needs a DO loop over `i`", "line 5")),
        ("CDVM$ PARALLEL (I) ON A(I)\n      DO J = 1, 4\n      ENDDO\n", "4:7", ("loop over `j`", "over `i`")),
        ("CDVM$ PARALLEL (I) ON S(I)\n      DO I = 1, 4\n      ENDDO\n", "4:23", ("`s` in ON", "no distribution")),
        ("CDVM$ PARALLEL (I) ON B(I, *)\n      DO I = 1, 4\n      ENDDO\n", "4:23", ("no distribution",)),
        ("CDVM$ PARALLEL (I) ON Q(I)\n      DO I = 1, 4\n      ENDDO\n", "4:23", ("`q` in ON", "declared nowhere")),
        ("CDVM$ PARALLEL (I) ON A(I, 1)\n      DO I = 1, 4\n      ENDDO\n", "4:23", ("1 dimension,", "names 2")),
        ("CDVM$ PARALLEL (I) ON A(I), FOO (S)\n      DO I = 1, 4\n      ENDDO\n", "4:29", ("FOO", "not a clause")),
        (
            "CDVM$ PARALLEL (I) ON A(I)\n      DO I = 1, 4\n        IF (S .GT. 1) GOTO 9\n      ENDDO\n    9 S = 1\n",
            "6:9",
            ("`goto9` leaves the loop", "line 4"),
        ),
        ("CDVM$ PARALLEL (I) ON A(I)\n      DO I = 1, 4\n        EXIT\n      ENDDO\n", "6:9", ("`exit` leaves",)),
        ("CDVM$ DISTRIBUTE B(BLOCK)\n      S = 1\n", "4:18", ("`b` has 2 dimensions",)),
        ("CDVM$ DISTRIBUTE S(BLOCK)\n      S = 1\n", "4:18", ("`s` is not an array",)),
        ("      S = 1\nCDVM$ REGION\n      S = 2\n", "5:7", ("REGION", "no END REGION")),
        ("      S = 1\nCDVM$ END REGION\n", "5:7", ("no REGION before",)),
        ("      S = 1\nCDVM$ ON T(1)\n", "5:10", ("not a task array",)),
    ],
)
def test_a_wrong_directive_is_told_with_its_place_and_a_remedy(
    tmp_path: Path, rest: str, place: str, words: tuple[str, ...]
) -> None:
    message = told(tmp_path, HEAD + rest + "      END\n")
    assert message.startswith(f"p.fdv:{place}: ")
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_an_argument_without_distribution_in_on_is_told_when_the_loop_is_met(tmp_path: Path) -> None:
    sources = write(
        tmp_path,
        p_fdv=(
            "      PROGRAM P\n      REAL A(4)\n      CALL S(A)\n      END\n      SUBROUTINE S(X)\n      REAL X(4)\n"
            "CDVM$ INHERIT X\nCDVM$ PARALLEL (I) ON X(I)\n      DO I = 1, 4\n        X(I) = I\n      ENDDO\n      END\n"
        ),
    )
    with pytest.raises(UsageError, match=r"p\.fdv:8:7: .*`?x`?"):
        findings(tmp_path, sources)


def test_a_program_that_does_not_compile_is_told_with_its_own_line(tmp_path: Path) -> None:
    sources = write(tmp_path, p_fdv="      PROGRAM P\n      X = \n      END\n")
    with pytest.raises(UsageError, match=r"p\.fdv:2: the program does not compile"):
        findings(tmp_path, sources)
