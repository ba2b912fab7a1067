"""Distributions by tables: who owns an element, named shadow edges, `localize`; in C-DVMH and Fortran-DVMH."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

C = """\
#include <stdio.h>
#define CELLS 8
#define SIDES 16
int owner[CELLS], sides[CELLS][2];
#pragma dvm template[CELLS] distribute[]
void *cells;
#pragma dvm template[SIDES] distribute[]
void *faces;
int main(void)
{
    for (int c = 0; c < CELLS; c++) {
        owner[c] = c % 2;
        sides[c][0] = (2 * c + 5) % SIDES;
        sides[c][1] = (2 * c + 6) % SIDES;
    }
    #pragma dvm redistribute(cells[indirect(owner)])
    #pragma dvm redistribute(faces[derived([sides[c][0]:sides[c][0]], sides[c][1] with cells[@c])])
    #pragma dvm array align([c] with cells[c])
    double u[CELLS];
    #pragma dvm array align([c] with cells[c])
    double v[CELLS];
    #pragma dvm array align([c] with cells[c])
    int next[CELLS];
    #pragma dvm array align([f] with faces[f])
    double flow[SIDES];
    #pragma dvm parallel([c] on u[c])
    for (int c = 0; c < CELLS; c++) {
        u[c] = c;
        next[c] = (c * 3 + 1) % CELLS;
    }
    #pragma dvm shadow_add(cells[next[c] with cells[@c]] = "next") include_to(u)
    #pragma dvm shadow_add(cells[next[c] with cells[@c + "next"]] = "second") include_to(u)
    #pragma dvm localize(LOCAL => u[:])
    #pragma dvm parallel([f] on flow[f])
    for (int f = 0; f < SIDES; f++)
        flow[f] = f;
    #pragma dvm parallel([c] on v[c]) RENEWAL
    for (int c = 0; c < CELLS; c++)
        v[c] = u[INDEX] + flow[OF_FACE];
    printf("%g\\n", 1.0);
    return 0;
}
""".replace("[sides[c][0]:sides[c][0]]", "sides[c][0]:sides[c][0]")
FORTRAN = """\
program mesh
  integer, parameter :: n = 8, m = 16
  integer owner(n), sides(2,n), next(n), i
  real u(n), v(n), flow(m)
!DVM$ template cells(n), faces(m)
!DVM$ distribute :: cells, faces
!DVM$ align (i) with cells(i) :: u, v, next
!DVM$ align flow(i) with faces(i)
  do i = 1, n
    owner(i) = mod(i, 2)
    sides(1,i) = mod(2*i + 3, m) + 1
    sides(2,i) = mod(2*i + 4, m) + 1
  end do
!DVM$ redistribute cells(indirect(owner))
!DVM$ redistribute faces(derived((sides(1,c):sides(1,c), sides(2,c)) with cells(@c)))
!DVM$ parallel (i) on u(i)
  do i = 1, n
    u(i) = i
    next(i) = mod(3*i, n) + 1
  end do
!DVM$ shadow_add (cells((next(c)) with cells(@c)) = "next") include_to u
!DVM$ localize (LOCAL => u(:))
!DVM$ parallel (i) on flow(i)
  do i = 1, m
    flow(i) = i
  end do
!DVM$ parallel (i) on v(i) RENEWAL
  do i = 1, n
    v(i) = u(INDEX) + flow(OF_FACE)
  end do
  print *, 'end'
end program
"""


def told(text: str, name: str, folder: Path, grid: str = "", **words: str) -> list[tuple[str, int, str]]:
    for word, value in words.items():
        text = text.replace(word.upper(), value) if word != "renewal" else text.replace("RENEWAL", value)
    path = folder / name
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    one = check_program(CheckRequest((path,), grid=grid, timeout=30), built)
    assert one.whole
    return sorted((f.kind, f.sites[0].line, str(f.facts()["variable"])) for f in one.findings)


RIGHT = {"local": "next", "index": "next[c]", "of_face": "sides[c][1]", "renewal": 'shadow_renew(u["next"])'}
CASES = [
    ({}, []),
    ({"renewal": "shadow_renew(u)"}, []),
    ({"renewal": ""}, [("stale-halo-read", 39, "u")]),
    ({"renewal": 'shadow_renew(u["second"])'}, []),
    ({"renewal": 'shadow_renew(u["second"])', "index": "next[next[c]]"}, [("remote-access", 39, "next")]),
    ({"renewal": 'shadow_renew(u["second"])', "index": "((c * 3 + 1) * 3 + 1) % CELLS"}, []),
    ({"index": "(c + 1) % CELLS"}, [("remote-access", 39, "u")]),
    ({"of_face": "sides[c][0]"}, []),
    ({"of_face": "c"}, [("remote-access", 39, "flow")]),
    ({"renewal": 'shadow_renew(u["other"])'}, [("directive-order", 37, "u"), ("stale-halo-read", 39, "u")]),
]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("change", "found"), CASES)
def test_elements_are_their_owners_and_those_of_edges_in_c(
    change: dict[str, str], found: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    assert told(C, "p.cdv", tmp_path, **(RIGHT | change)) == found


def test_numbers_that_are_localized_lie_in_an_edge(tmp_path: Path) -> None:
    text = C.replace('next[c] with cells[@c + "next"]]', "0 with cells[@c]]")
    text = text.replace('next[c] with cells[@c]] = "next"', '(c + 1) % CELLS with cells[@c]] = "next"')
    found = told(text, "p.cdv", tmp_path, **(RIGHT | {"index": "(c + 1) % CELLS"}))
    assert found == [("remote-access", 33, "next")]


@pytest.mark.parametrize(
    ("index", "found"), [("(c + 2) % CELLS", []), ("(c + 1) % CELLS", [("stale-halo-read", 39, "u")])]
)
def test_with_a_grid_the_table_says_which_elements_are_together(
    index: str, found: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    assert told(C, "p.cdv", tmp_path, grid="2", **(RIGHT | {"index": index, "renewal": ""})) == found


FORTRAN_RIGHT = {"local": "next", "index": "next(i)", "of_face": "sides(2,i)", "renewal": ', shadow_renew(u("next"))'}


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"renewal": ""}, [("stale-halo-read", 29, "u")]),
        ({"index": "mod(i, n) + 1"}, [("remote-access", 29, "u")]),
        ({"of_face": "sides(1,i)"}, []),
        ({"of_face": "i"}, [("remote-access", 29, "flow")]),
    ],
)
def test_elements_are_their_owners_and_those_of_edges_in_fortran(
    change: dict[str, str], found: list[tuple[str, int, str]], tmp_path: Path
) -> None:
    assert told(FORTRAN, "p.f90", tmp_path, **(FORTRAN_RIGHT | change)) == found


@pytest.mark.matrix
def test_numbers_that_are_localized_lie_in_an_edge_in_fortran(tmp_path: Path) -> None:
    text = FORTRAN.replace("(next(c)) with", "(mod(c, 8_8) + 1) with")
    found = told(text, "p.f90", tmp_path, **(FORTRAN_RIGHT | {"index": "mod(i, n) + 1"}))
    assert found == [("remote-access", 22, "next")]
