"""Objects are kept between checks, and made anew where anything that they depend on has changed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from weft.check import mark_sources
from weft.dataparallel import compilation, runtime
from weft.dataparallel.compilation import CompileOptions, compile_all

C = """\
#include "size.h"
#pragma dvm array distribute[block]
double a[SIZE];
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < SIZE; i++)
        a[i] = i;
    return 0;
}
"""
MODULE = """\
module sizes
  integer, parameter :: n = 8
end module
"""
FORTRAN = """\
program p
  use sizes
  real(8) :: a(n)
  integer :: i
!DVM$ DISTRIBUTE A(BLOCK)
!DVM$ PARALLEL (I) ON A(I)
  do i = 1, n
    a(i) = i
  end do
end program
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "cached_object_path", lambda name: tmp_path / "kept" / f"{name}.o")


def built(tmp_path: Path, name: str, sources: list[Path], options: CompileOptions) -> tuple[int, list[bytes]]:
    """How many objects were there, and the objects."""
    folder = tmp_path / name
    folder.mkdir()
    marked, _ = mark_sources(sources)
    made = compile_all(marked, folder, options)
    return made.cached_count, [path.read_bytes() for path in made.paths]


def test_a_source_is_compiled_again_only_where_something_changed(tmp_path: Path) -> None:
    source, header = tmp_path / "p.c", tmp_path / "size.h"
    source.write_text(C)
    header.write_text("#define SIZE 8\n")
    first = built(tmp_path, "first", [source], CompileOptions())
    assert first[0] == 0
    assert built(tmp_path, "second", [source], CompileOptions()) == (1, first[1])
    assert built(tmp_path, "flags", [source], CompileOptions(flags=("-DOTHER",)))[0] == 0
    header.write_text("#define SIZE 9\n")
    kept, changed = built(tmp_path, "third", [source], CompileOptions())
    assert kept == 0
    assert changed != first[1]


def test_a_module_that_changed_makes_all_of_fortran_anew(tmp_path: Path) -> None:
    sources = [tmp_path / "sizes.f90", tmp_path / "p.f90"]
    for source, text in zip(sources, (MODULE, FORTRAN), strict=True):
        source.write_text(text)
    assert built(tmp_path, "first", sources, CompileOptions())[0] == 0
    assert built(tmp_path, "second", sources, CompileOptions())[0] == 3  # with the interfaces
    sources[0].write_text(MODULE.replace("8", "9"))
    assert built(tmp_path, "third", sources, CompileOptions())[0] == 0


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(compilation, "cached_object_path", lambda name: tmp_path / "file" / name)
    source = tmp_path / "p.c"
    source.write_text(C.replace('#include "size.h"', "#define SIZE 4"))
    assert built(tmp_path, "first", [source], CompileOptions())[0] == 0


def test_processes_that_begin_at_once_build_the_runtime_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    built: list[Path] = []

    def make(folder: Path, _: list[str]) -> None:
        built.append(folder)
        time.sleep(0.2)
        (folder / "made").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: runtime.build_once("one.o", (), "facts", make), range(4)))
    assert [path.read_text() for path in found] == ["whole"]
    assert len(built) == 1


def test_what_programs_of_each_language_are_linked_with_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    units: list[str] = []

    def run(command: list[str], folder: Path) -> None:
        units.extend(command[command.index("-c") + 1 :] if "-c" in command else ())
        (folder / "made").touch()

    monkeypatch.setattr(runtime, "run_build_tool", run)
    assert runtime.build_runtime_object() != runtime.build_runtime_object(fortran=True)
    assert {"sites.c", "heap.c", *runtime.FOR_FORTRAN} <= set(units)
    assert len(units) == len(set(units))
