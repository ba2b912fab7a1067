"""Arrays that are not aligned with one another, in one loop: whether they lie alike decides what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

pytestmark = pytest.mark.needs("gcc")

LINE = """\
int sizes[2] = {{7, 3}};
#pragma dvm array distribute[block]
double A[10];
#pragma dvm array distribute[{kind}]
double B[{extent}];
int main(void)
{{
    int i;
    #pragma dvm parallel([i] on B[i])
    for (i = 0; i < {extent}; i++) B[i] = i;
    #pragma dvm parallel([i] on A[i]){clause}
    for (i = 0; i < 10; i++) A[i] = B[{index}];
    return 0;
}}
"""
PLANE = """\
#pragma dvm array distribute[block][]
double A[8][8];
#pragma dvm array distribute[][block]
double B[8][8];
int main(void)
{{
    int i, j;
    #pragma dvm parallel([i][j] on B[i][j])
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++) B[i][j] = i + j;
    #pragma dvm parallel([i][j] on A[i][j])
    for (i = 0; i < 8; i++)
        for (j = 0; j < 8; j++) A[i][j] = B{index};
    return 0;
}}
"""
REMOTE = " remote_access(B[i])"
# What B is, which element of it an iteration reads, the grid, and how many iterations read another processor's.
LINES = [
    ("block", 20, "i", "", "", 10),
    ("block", 20, "i", "2", "", 5),
    ("block", 20, "2 * i", "2", "", 0),
    ("genblock(sizes)", 10, "i", "2", "", 2),
    ("genblock(sizes)", 10, "i", "", "", 10),
    ("genblock(sizes)", 10, "i", "2", REMOTE, 0),
    ("block", 10, "i", "", "", 0),
    ("block", 10, "i", "3", "", 0),
]


def counted(text: str, grid: str, folder: Path) -> tuple[set[str], int]:
    """The kinds of what is found, and how often."""
    path = folder / "roots.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    found = check_program(CheckRequest((path,), grid=grid, timeout=60), built).findings
    return {one.kind for one in found}, sum(int(one.facts()["count"]) for one in found)


@pytest.mark.cases(2)
@pytest.mark.parametrize(("kind", "extent", "index", "grid", "clause", "far"), LINES)
def test_arrays_that_are_distributed_otherwise_are_remote(  # noqa: PLR0917 - a line of the table
    kind: str, extent: int, index: str, grid: str, clause: str, far: int, tmp_path: Path
) -> None:
    text = LINE.format(kind=kind, extent=extent, index=index, clause=clause)
    assert counted(text, grid, tmp_path) == ({"remote-access"} if far else set(), far)


@pytest.mark.parametrize(("index", "grid", "far"), [("[j][i]", "", 0), ("[j][i]", "2", 0), ("[i][j]", "2", 32)])
def test_dimensions_meet_on_the_processors_and_not_by_their_numbers(
    index: str, grid: str, far: int, tmp_path: Path
) -> None:
    kinds, count = counted(PLANE.format(index=index), grid, tmp_path)
    assert kinds <= {"remote-access", "stale-halo-read"}
    assert count == far


COPIES = """\
#pragma dvm array distribute[block][block]
double a[6][6];
#pragma dvm array align([j] with a[][j])
double b[6];
int main(void)
{
    int i, j;
    #pragma dvm parallel([i][j] on a[i][j])
    for (i = 0; i < 6; i++)
        for (j = 0; j < 6; j++) {
            a[i][j] = i + j;
            b[j] = VALUE;
        }
    return 0;
}
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(("value", "wrong"), [("2 * j", False), ("2 * j + (i == 3)", True), ("b[j] + i", True)])
def test_copies_that_iterations_write_on_their_processors_are_to_be_alike(
    value: str, wrong: bool, tmp_path: Path
) -> None:
    """Each row of iterations has a copy of `b`: what each puts there must be the same."""
    kinds, count = counted(COPIES.replace("VALUE", value), "", tmp_path)
    assert (kinds - {"uninitialised-read"}, count > 0) == ({"loop-dependence"} if wrong else set(), wrong)
