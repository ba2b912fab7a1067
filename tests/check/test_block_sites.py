"""With a grid: what a place may access in one row of a block is not taken for another row's that lies elsewhere."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

pytestmark = pytest.mark.needs("gcc")

ROWS, COLUMNS = 14, 22
NEIGHBOURS = [(-1, 0), (1, 0), (0, -1), (0, 1), (-2, 1), (1, 3)]
SOURCE = f"""\
#pragma dvm array distribute[block][block], shadow[3:3][3:3]
double A[{ROWS}][{COLUMNS}];
#pragma dvm array align([i][j] with A[i][j]), shadow[3:3][3:3]
double B[{ROWS}][{COLUMNS}];
int main(void)
{{
    int i, j;
    #pragma dvm parallel([i][j] on A[i][j])
    for (i = 0; i < {ROWS}; i++)
        for (j = 0; j < {COLUMNS}; j++) {{
            A[i][j] = 0;
            B[i][j] = i + j;
        }}
    #pragma dvm parallel([i][j] on A[i][j]) RENEWAL
    for (i = 3; i < {ROWS - 3}; i++)
        for (j = 3; j < {COLUMNS - 3}; j++) {{
            double sum = 0;
{"".join(f"            sum += B[i + {di}][j + {dj}];" + chr(10) for di, dj in NEIGHBOURS)}\
            A[i][j] = sum;
        }}
    return 0;
}}
"""


INNER = f"    for (i = 3; i < {ROWS - 3}; i++)\n        for (j = 3; j < {COLUMNS - 3}; j++)"
OUTER = f"    for (j = 3; j < {COLUMNS - 3}; j++)\n        for (i = 3; i < {ROWS - 3}; i++)"


def told(folder: Path, grid: str, renewal: str, across_rows: bool = False) -> dict[int, int]:
    """How often each line is at fault."""
    path = folder / "far.cdv"
    text = SOURCE.replace("RENEWAL", renewal)
    if across_rows:
        assert INNER in text
        head, tail = text.rsplit("[i][j] on", 1)
        text = f"{head}[j][i] on{tail}".replace(INNER, OUTER)
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    found = check_program(CheckRequest((path,), grid=grid, timeout=60), built).findings
    assert {one.kind for one in found} <= {"stale-halo-read"}
    return {one.sites[0].line: int(one.facts()["count"]) for one in found}


def expected(grid: str) -> dict[int, int]:
    """The accesses of other processors' elements, one by one."""
    counts = [int(word) for word in f"{grid}x1".split("x")]
    each = [-(-extent // count) for extent, count in zip((ROWS, COLUMNS), counts, strict=False)]
    first = SOURCE.split("\n").index("            double sum = 0;") + 2
    found = {}
    for line, (di, dj) in enumerate(NEIGHBOURS, first):
        far = sum(
            (i // each[0], j // each[1]) != ((i + di) // each[0], (j + dj) // each[1])
            for i, j in product(range(3, ROWS - 3), range(3, COLUMNS - 3))
        )
        found |= {line: far} if far else {}
    return found


@pytest.mark.cases(1)
@pytest.mark.parametrize("grid", ["2x2", "3x2", "1x3", "4x1"])
def test_every_access_of_another_block_is_counted(grid: str, tmp_path: Path) -> None:
    assert told(tmp_path, grid, "") == expected(grid)


@pytest.mark.parametrize("grid", ["2x2", "1x3"])
def test_so_it_is_where_the_inner_loop_goes_from_row_to_row(grid: str, tmp_path: Path) -> None:
    assert told(tmp_path, grid, "", across_rows=True) == expected(grid)


def test_neighbours_that_were_renewed_are_right_in_every_row(tmp_path: Path) -> None:
    assert told(tmp_path, "3x2", "shadow_renew(B(corner))") == {}
