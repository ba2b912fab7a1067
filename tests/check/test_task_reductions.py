"""Reductions of task regions are verified from the neutral element and from the value before the region."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

TASKS = """\
      PROGRAM P
      PARAMETER (N=8)
      REAL A(N), B(N), S
CDVM$ TASK MB(2)
CDVM$ DISTRIBUTE A(BLOCK)
CDVM$ DISTRIBUTE B(BLOCK)
      S = START
CDVM$ MAP MB(1) ONTO Q(1:1)
CDVM$ MAP MB(2) ONTO Q(2:2)
CDVM$ REDISTRIBUTE A(BLOCK) ONTO MB(1)
CDVM$ REDISTRIBUTE B(BLOCK) ONTO MB(2)
CDVM$ TASK_REGION MB, REDUCTION(OPERATION(S))
CDVM$ ON MB(1)
      S = FIRST
CDVM$ END ON
CDVM$ ON MB(2)
CDVM$ PARALLEL (I) ON B(I), REDUCTION(OPERATION(S))
      DO I = 1, N
        B(I) = I
        S = INNER
      ENDDO
      SECOND
CDVM$ END ON
CDVM$ END TASK_REGION
      PRINT *, S
      END
"""
RIGHT = {"OPERATION": "SUM", "START": "100", "FIRST": "S + 1", "INNER": "S + B(I)", "SECOND": "CONTINUE"}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"OPERATION": "MAX", "FIRST": "MAX(S, 3.0)", "INNER": "MAX(S, B(I))"}, []),
        ({"OPERATION": "PRODUCT", "START": "2", "FIRST": "S * 3", "INNER": "S * B(I)"}, []),
        ({"FIRST": "5"}, ["which gives 141; the tasks compute 41"]),  # from the neutral element
        ({"SECOND": "IF (S .EQ. 137) S = S + 2"}, ["which gives 137; the tasks compute 139"]),
        ({"START": "0", "SECOND": "IF (S .LT. 100) S = S + 2"}, []),
        ({"SECOND": "IF (S .LT. 100) S = S + 2"}, ["which gives 139; the tasks compute 137"]),  # neutral only
        ({"SECOND": "IF (S .GT. 136.5) S = S + 2"}, ["which gives 137; the tasks compute 139"]),
    ],
)
def test_what_tasks_add_is_the_same_wherever_they_begin(
    change: dict[str, str], told: list[str], tmp_path: Path
) -> None:
    text = TASKS
    for word, value in (RIGHT | change).items():
        text = text.replace(word, value)
    path = tmp_path / "p.fdv"
    path.write_text(text)
    built = tmp_path / "built"
    built.mkdir()
    found = [
        one for one in check_program(CheckRequest((path,), timeout=60), built).findings if one.kind == "wrong-reduction"
    ]
    assert len(found) == len(told), [one.message for one in found]
    for one, words in zip(found, told, strict=True):
        assert words in one.message
