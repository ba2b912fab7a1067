"""Arrays whose distribution is left to REDISTRIBUTE, and arrays on the processors of a task."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

LATER = """\
      PROGRAM P
      PARAMETER (N=8)
      REAL A(N), B(N)
CDVM$ DISTRIBUTE :: A
CDVM$ ALIGN B(I) WITH A(I)
FIRST
CDVM$ PARALLEL (I) ON A(I)
      DO I = 1, N
        A(I) = I
      ENDDO
      CALL AGAIN(A)
      CALL AGAIN(A)
      END
      SUBROUTINE AGAIN(C)
      PARAMETER (N=8)
      REAL C(N), D(N)
      SAVE D
CDVM$ DISTRIBUTE C *
CDVM$ DISTRIBUTE :: D
CDVM$ REDISTRIBUTE D(BLOCK)
CDVM$ PARALLEL (I) ON C(I)
      DO I = 1, N
        C(I) = I
      ENDDO
CDVM$ PARALLEL (I) ON D(I)
      DO I = 1, N
        D(I) = I
      ENDDO
      END
"""
TASKS = """\
      PROGRAM P
      PARAMETER (N=8)
      REAL A(N), B(N), C(N), S
CDVM$ TASK MB(1)
CDVM$ DISTRIBUTE A(BLOCK)
CDVM$ DISTRIBUTE :: B
CDVM$ DISTRIBUTE C(*)
CDVM$ MAP MB(1) ONTO Q(1:2)
CDVM$ REDISTRIBUTE B(BLOCK) ONTO MB(1)
CDVM$ PARALLEL (I) ON A(I)
      DO I = 1, N
        A(I) = I
      ENDDO
CDVM$ PARALLEL (I) ON C(I)
      DO I = 1, N
        C(I) = I
      ENDDO
CDVM$ TASK_REGION MB
CDVM$ ON MB(1)
CDVM$ PARALLEL (I) ON B(I) REMOTE
      DO I = 1, N
        B(I) = A(I) + C(I)
      ENDDO
CDVM$ END ON
CDVM$ END TASK_REGION
      END
"""


def told(text: str, folder: Path) -> list[tuple[str, int, str]]:
    path = folder / "p.fdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    one = check_program(CheckRequest((path,), timeout=60), built)
    assert one.whole
    return [(f.kind, f.sites[0].line, str(f.facts()["case"])) for f in one.findings]


@pytest.mark.matrix
@pytest.mark.parametrize("right", [True, False])
def test_a_loop_on_an_array_that_nothing_has_distributed_yet_is_told(right: bool, tmp_path: Path) -> None:
    text = LATER.replace("FIRST", "CDVM$ REDISTRIBUTE A(BLOCK)" if right else "C")
    found = told(text, tmp_path)
    assert found == [] if right else found[0] == ("directive-order", 7, "on-deferred")


@pytest.mark.parametrize("right", [True, False])
def test_an_array_on_all_processors_is_remote_on_those_of_a_task(right: bool, tmp_path: Path) -> None:
    found = told(TASKS.replace("REMOTE", ", REMOTE_ACCESS(A(I))" if right else ""), tmp_path)
    assert [one[:2] for one in found] == ([] if right else [("remote-access", 22)])


ON_MANY = """\
#pragma dvm array distribute[block]SECOND
double a[8][8];
#pragma dvm array align([i] with a[i][])
double v[8];
int main(void)
{
    #pragma dvm parallel([i][j] on a[i][j])
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            a[i][j] = i + j;
    #pragma dvm parallel([i] on a[i][])
    for (int i = 0; i < 8; i++) {
        v[i] = i;
        for (int j = 1; j < 8; j++)
            a[i][j] = a[i][j - 1];
    }
    return 0;
}
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("second", "grid", "expected"),
    [
        ("[block]", "", [("remote-access", 15)]),
        ("[]", "", []),
        ("[block]", "2x1", []),
        ("[block]", "1x2", [("remote-access", 15)]),
    ],
)
def test_iterations_on_all_processors_of_a_row_have_no_element_of_it_alone(
    second: str, grid: str, expected: list[tuple[str, int]], tmp_path: Path
) -> None:
    """What is on all processors of the row, as `v` is, may be used by all of them."""
    source = tmp_path / "p.cdv"
    source.write_text(ON_MANY.replace("SECOND", second))
    (tmp_path / "built").mkdir()
    checked = check_program(CheckRequest((source,), grid=grid), tmp_path / "built")
    assert [(one.kind, one.sites[0].line) for one in checked.findings] == expected


ON_FEWER = """\
#pragma dvm array distribute[block]SECOND
double a[8][8];
#pragma dvm array distribute[block][]
double b[8][8];
int main(void)
{
    #pragma dvm parallel([i][j] on a[i][j])
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            a[i][j] = i + j;
    #pragma dvm parallel([i] on b[i][])
    for (int i = 0; i < 8; i++) {
        b[i][0] = 0;
        for (int j = 0; j < 8; j++)
            b[i][j] = a[i][j];
    }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("second", "grid", "far"), [("[block]", "", True), ("[]", "", False), ("[block]", "2x2", True)]
)
def test_processors_that_hold_a_row_between_them_have_it_not_each(
    second: str, grid: str, far: bool, tmp_path: Path
) -> None:
    """Each iteration runs on all processors along the second dimension, as `on b[i][]` says nothing of it."""
    source = tmp_path / "p.cdv"
    source.write_text(ON_FEWER.replace("SECOND", second))
    (tmp_path / "built").mkdir()
    checked = check_program(CheckRequest((source,), grid=grid), tmp_path / "built")
    assert {(one.kind, one.sites[0].line) for one in checked.findings} == ({("remote-access", 15)} if far else set())
