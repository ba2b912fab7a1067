"""Variables out of debugging information: real programs, compiled as people compile them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from machine import need
from weft.debuginfo.dwarf import DwarfModule, DwarfVariable, Shape
from weft.sources.call_arguments import find_plain_argument
from weft.sources.variables import _Answers, _Wanted

C = """
#include <stddef.h>
struct point { int id; double at[2]; };
typedef struct { char tag; struct point where; float *data; } cell;
static double table[3][4];
cell cells[5];
extern void take(const void *);
extern void both(const void *, const void *);
static inline void inlined(void) { long inner[6]; take(inner); }
void outer(int n) {
  const unsigned short few[7];
  cell one;
  int unknown[n];
  both(few, &one);
  { struct point block; take(&block); }
  inlined();
  take(unknown);
  take(table);
  static float kept[5];
  { static short inside[9]; both(kept, inside); }
}
"""
TAKE = """
void take(const void *p) { (void)p; }
void take_(void *p) { (void)p; }
void both(const void *p, const void *q) { (void)p, (void)q; }
"""
FORTRAN = """
subroutine outer(n)
  integer n
  real*8 x(0:4, 3)
  integer a, b
  common /shared/ a, b
  complex z(2)
  real*8, save :: whole(9)
  integer, save :: part(2)
  real*8, save :: alone(7)
  equivalence (whole, part)
  call take(x)
  call take(z)
  call take(a)
  call take(part)
  call take(alone)
end subroutine
"""


def compiled(folder: Path, text: str, suffix: str, *options: str) -> DwarfModule:
    compiler = need("gfortran" if suffix == "f90" else "gcc")
    (folder / f"a.{suffix}").write_text(text)
    (folder / "take.c").write_text(TAKE)
    subprocess.run([need("gcc"), "-c", "-o", folder / "take.o", folder / "take.c"], check=True)
    subprocess.run(
        [compiler, "-shared", "-fPIC", *options, "-o", folder / "a.so", folder / f"a.{suffix}", folder / "take.o"],
        check=True,
    )
    return DwarfModule(folder / "a.so")


def place_of(folder: Path, call: str, nth: int = 0) -> int:
    """The return address of the nth call of a function in `outer`, less one."""
    text = subprocess.run(["objdump", "-d", folder / "a.so"], check=True, capture_output=True, text=True).stdout
    lines = text[text.index("outer") :].splitlines()
    places = [i for i, line in enumerate(lines) if "call" in line and f"<{call}" in line]
    return int(lines[places[nth] + 1].split(":")[0], 16) - 1


def by_name(found: list[DwarfVariable]) -> dict[str, DwarfVariable]:
    return {variable.name: variable for variable in found}


def sorts(shape: Shape) -> list[tuple[int, str, int, str]]:
    return [(leaf.at, leaf.sort, leaf.width, leaf.name) for leaf in shape.leaves]


@pytest.mark.parametrize("options", [("-g", "-O0"), ("-g", "-O2"), ("-gdwarf-4", "-O1"), ("-gdwarf-3", "-O0")])
def test_variables_of_c_have_their_places_sizes_and_members(tmp_path: Path, options: tuple[str, ...]) -> None:
    module = compiled(tmp_path, C, "c", "-Wno-uninitialized", "-Wno-maybe-uninitialized", *options)
    found = by_name(module.find_local_variables(place_of(tmp_path, "both")))
    assert found["few"].shape.text == "short unsigned int [7]"
    assert (found["few"].shape.size, found["few"].shape.element) == (14, 2)
    assert found["one"].shape.text in ("cell", "struct cell")
    assert sorts(found["one"].shape) == [
        (0, "b", 1, "tag"), (8, "i", 4, "where.id"), (16, "f", 8, "where.at"), (24, "f", 8, "where.at"),
        (32, "p", 8, "data"),
    ]  # fmt: skip
    assert not found["few"].static and found["few"].at < 0
    assert "unknown" not in found or found["unknown"].shape.size == 0, "only the run tells its length"
    statics = by_name(module.find_global_variables(place_of(tmp_path, "both")))
    assert (statics["table"].shape.size, statics["table"].shape.element) == (96, 8)
    assert (statics["cells"].shape.size, statics["cells"].shape.element) == (200, 40)
    inner = by_name(module.find_function_statics(place_of(tmp_path, "both")))
    assert {name: inner[name].shape.text for name in inner} == {"kept": "float [5]", "inside": "short int [9]"}


def test_a_variable_of_a_block_is_known_only_inside_of_it(tmp_path: Path) -> None:
    module = compiled(tmp_path, C, "c", "-g", "-O0", "-w")
    assert "block" not in by_name(module.find_local_variables(place_of(tmp_path, "both")))
    assert by_name(module.find_local_variables(place_of(tmp_path, "take", 0)))["block"].shape.size == 24


def test_a_variable_of_an_inlined_function_is_found(tmp_path: Path) -> None:
    module = compiled(tmp_path, C, "c", "-g", "-O2", "-w")
    found = [by_name(module.find_local_variables(place_of(tmp_path, "take", nth))) for nth in range(2)]
    assert any("inner" in names and names["inner"].shape.size == 48 for names in found)


@pytest.mark.parametrize("options", [("-g", "-O0"), ("-g", "-O2")])
def test_variables_of_fortran_count_from_their_own_bounds(tmp_path: Path, options: tuple[str, ...]) -> None:
    module = compiled(tmp_path, FORTRAN, "f90", "-w", "-fallow-argument-mismatch", *options)
    found = by_name(module.find_local_variables(place_of(tmp_path, "take_")))
    assert (found["x"].shape.size, found["x"].shape.element) == (120, 8)
    assert found["z"].shape.leaves[0].sort == "c"
    shared = [symbol for symbol in module.data_symbols() if symbol.name == "shared_"]
    assert [symbol.size for symbol in shared] == [8], "a common block is one object"


def test_a_static_variable_that_shares_its_place_has_no_certain_type(tmp_path: Path) -> None:
    module = compiled(tmp_path, FORTRAN, "f90", "-w", "-g", "-O0", "-fallow-argument-mismatch")
    call = place_of(tmp_path, "take_")
    wanted = {symbol.at: {call + 1} for symbol in module.data_symbols()}
    rows = _Answers(module, {}).look_up(_Wanted(set(), wanted, {}))["statics"]
    types = {size: kind for _, _, size, _, kind in rows}
    assert types[72] == -1, "whole and part are one place"
    assert types[56] >= 0, "alone is real(8)"


CONTAINERS = """
#include <array>
#include <vector>
extern "C" void take(const void *);
struct Grid { double *cells; std::vector<float> edges; int ids[4]; };
template <class T> struct Field {
  std::vector<T> data_;
  __attribute__((noinline)) void outer(Grid *grid, const std::vector<short> &few, double *&moved, long n) const {
    std::array<T, 3> three{};
    take(three.data());
    take(few.data() + n);
  }
};
template struct Field<long>;
"""


@pytest.mark.parametrize("options", [("-g", "-O0"), ("-g", "-O2"), ("-gdwarf-4", "-O1")])
def test_elements_of_containers_and_of_members_are_known(tmp_path: Path, options: tuple[str, ...]) -> None:
    need("g++")
    module = compiled(tmp_path, CONTAINERS, "cpp", "-std=c++17", *options)
    place = place_of(tmp_path, "take")
    held = {
        "three": "long int", "few": "short int", "data_": "long int", "this->data_": "long int", "moved": "double",
        "grid->cells": "double", "grid->edges": "float", "grid->ids": "int [4]",
    }  # fmt: skip
    for name, text in held.items():
        shape = module.find_pointed_type(place, name)
        assert shape is not None and shape.text == text, name
    for name in ("n", "grid", "grid->none", "none", "few.none"):
        shape = module.find_pointed_type(place, name)
        assert shape is None or (name == "grid" and shape.text == "Grid"), name


def test_what_is_no_program_is_said(tmp_path: Path) -> None:
    (tmp_path / "no").write_bytes(b"\x7fELF\x02\x01" + bytes(40))
    with pytest.raises((ValueError, OSError)):
        DwarfModule(tmp_path / "no")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MPI_Send(buf, 4, MPI_INT);", "buf"),
        ("  MPI_Send(&x, 4, MPI_INT);", None),
        ("MPI_Send(rows[i], 4, MPI_INT);", None),
        ("MPI_Send(&rows[i][0], 4, MPI_INT);", None),
        ("MPI_Send(\n   &a[i + 1], f(1, 2), t);", "a"),
        ("MPI_Send(a + k, 1, t);", "a"),
        ("MPI_Send((float *)buf, 4, t);", None),
        ("MPI_Send(p->data, 4, t);", "p->data"),
        ("MPI_Send(&grid.rows[2], 4, t);", "grid.rows"),
        ("MPI_Send(v.data(), v.size(), t);", "v"),
        ("MPI_Send(box->v.data() + n * k, 4, t);", "box->v"),
        ("MPI_Send(rows[i].data(), 4, t);", None),
        ("MPI_Send(v.end(), 4, t);", None),
        ("MPI_Send(a + (b ? c : d), 1, t);", None),
        ("MPI_Send(data(), 4, t);", None),
        ("MPI_Send(a, 1); MPI_Send(b, 1);", None),
        ("MPI_Recv(a, 1);", None),
        ("MPI_Send(buf", None),
    ],
)
def test_only_a_plain_variable_is_named(text: str, name: str | None) -> None:
    assert find_plain_argument(text.splitlines(), "MPI_Send", 0) == name
