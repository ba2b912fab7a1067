"""A host that changes a part of what a region computed must fetch it before: `actual` is about all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

PROGRAM = """\
#define N 8
#pragma dvm array distribute[block]
double a[N];
int main(void)
{
    double s = 0;
    #pragma dvm region out(a)
    {
        #pragma dvm parallel([i] on a[i])
        for (int i = 0; i < N; i++)
            a[i] = i;
    }
    FETCH
    a[0] = 5;
    #pragma dvm actual(PART)
    #pragma dvm region in(a, s) out(s)
    {
        #pragma dvm parallel([i] on a[i]) reduction(sum(s))
        for (int i = 0; i < N; i++)
            s += READ;
    }
    return s > 0 ? 0 : 1;
}
"""
FETCH = "#pragma dvm get_actual(a)"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("fetch", "part", "read", "wrong"),
    [
        (FETCH, "a", "a[i]", False),
        ("", "a", "a[i]", True),
        ("", "a[0]", "a[i]", False),
        ("", "a", "i == 0 ? a[i] : 1", False),
        (FETCH, "a[0]", "a[i]", False),
    ],
)
def test_what_actual_puts_in_place_of_a_regions_values_was_fetched(
    fetch: str, part: str, read: str, wrong: bool, tmp_path: Path
) -> None:
    path = tmp_path / "p.cdv"
    path.write_text(PROGRAM.replace("FETCH", fetch).replace("PART", part).replace("READ", read))
    built = tmp_path / "built"
    built.mkdir()
    found = check_program(CheckRequest((path,), timeout=60), built).findings
    told = [(one.kind, one.sites[0].line, one.facts()["case"], one.facts()["count"]) for one in found]
    assert told == ([("stale-copy", 20, "overwritten", 7)] if wrong else [])


REMOTE = """\
      PROGRAM P
      REAL A(8)
!DVM$ DISTRIBUTE A(BLOCK)
!DVM$ REGION OUT(A)
!DVM$ PARALLEL (I) ON A(I)
      DO I = 1, 8
        A(I) = I
      ENDDO
!DVM$ END REGION
!DVM$ REMOTE_ACCESS(FETCHED)
      PRINT *, A(4)
      END
"""


@pytest.mark.parametrize(("fetched", "wrong"), [("A(4)", False), ("A(:)", False), ("A", False), ("A(5)", True)])
def test_remote_access_fetches_what_it_names_from_a_region(fetched: str, wrong: bool, tmp_path: Path) -> None:
    path = tmp_path / "p.fdv"
    path.write_text(REMOTE.replace("FETCHED", fetched))
    found = check_program(CheckRequest((path,), timeout=60), tmp_path).findings
    assert ("stale-copy" in {one.kind for one in found}) == wrong
