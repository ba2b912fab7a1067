"""Front ends are found by name, take their own programs, and refuse options that mean nothing to them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests_support import ROOT, WEFT, execute
from weft.check import CheckRequest
from weft.check import front_ends as package
from weft.check.front_ends import find_front_end, load_front_ends
from weft.cli.main import main
from weft.dataparallel.front_end import SPELLED, Option
from weft.errors import UsageError

LOOP = """
from numba import njit, prange
import numpy as np
import sys

@njit(parallel=True)
def double(a):
    for i in prange(len(a)):
        a[i] *= 2

double(np.ones(4))
print(sys.argv[1:])
"""
GIVEN: dict[Option, tuple[str, ...]] = {
    "grid": ("-p", "2"), "include": ("-I", "."), "define": ("-D", "N=4"), "flags": ("--flags=-O2",),
    "link": ("--link=-lm",),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(load_front_ends()))
def test_a_front_end_declares_what_it_takes(name: str) -> None:
    one = load_front_ends()[name]
    assert one.name and one.remedy
    assert one.suffixes and all(re.fullmatch(r"\.[a-z0-9]+", suffix) for suffix in one.suffixes)
    assert one.options <= set(SPELLED)
    page = (ROOT / "docs" / "commands" / "check.md").read_text()
    assert one.name.split()[0] in page, f"docs/commands/check.md does not name {one.name}"


def test_each_language_of_the_documentation_has_a_front_end() -> None:
    sources = {"jac.cdv": "C-DVMH", "a.c": "C-DVMH", "sor.fdv": "Fortran-DVM", "A.F90": "Fortran-DVM"}
    sources["a.py"] = "Python (Numba)"
    assert {name: find_front_end([Path(name)]).name for name in sources} == sources


def test_sources_of_two_languages_or_of_none_are_refused_with_what_is_known() -> None:
    for names in (["a.c", "b.fdv"], ["a.rs"], ["a.py", "b.py"]):
        with pytest.raises(UsageError, match=r"language only: C-DVMH \(\.c, .*; Fortran-DVM \(.*; Python \(Numba\)"):
            find_front_end([Path(name) for name in names])


@pytest.mark.parametrize("option", sorted(SPELLED))
def test_an_option_that_means_nothing_to_a_python_program_is_refused(
    option: Option, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    assert main(["check", *GIVEN[option], str(tmp_path / "loop.py")]) == 2
    printed = capsys.readouterr()
    spelled = SPELLED[option]
    assert printed.err == (
        f"weft: {spelled} has no effect on a Python (Numba) program: leave it out; an option of the program itself "
        f"comes after --: -- {spelled}\n"
    )
    assert not printed.out


def test_every_option_is_one_of_the_command() -> None:
    assert set(GIVEN) == set(SPELLED) and all(GIVEN[field][0].startswith(SPELLED[field]) for field in GIVEN)
    assert all(hasattr(CheckRequest((Path("a"),)), field) for field in SPELLED)


@pytest.mark.parametrize("option", sorted(SPELLED))
@pytest.mark.parametrize("name", sorted(load_front_ends()))
def test_an_option_is_taken_or_refused_as_declared(name: str, option: Option) -> None:
    one = load_front_ends()[name]
    values = {"grid": "2", "include": (Path(),), "define": ("N",), "flags": ("-O2",), "link": ("-lm",)}
    request = CheckRequest((Path("a"),), **{option: values[option]})  # type: ignore[arg-type]
    if option in one.options:
        one.refuse_unsupported_options(request)
    else:
        with pytest.raises(UsageError, match=f"{SPELLED[option]} has no effect on a"):
            one.refuse_unsupported_options(request)


def test_the_directives_decide_between_front_ends_of_one_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = load_front_ends()

    class Later(type(known["c_dvmh"])):  # type: ignore[misc]
        name = "Later"

    later = Later()
    monkeypatch.setattr(later, "claims", lambda sources: "later" in sources[0].read_text())
    monkeypatch.setattr(package, "load_front_ends", lambda: {**known, "later": later})
    for text, name in (("#pragma dvm array", "C-DVMH"), ("#pragma later", "Later"), ("/* plain */", "C-DVMH")):
        (tmp_path / "a.c").write_text(text)
        assert package.find_front_end([tmp_path / "a.c"]).name == name


@pytest.mark.matrix
def test_options_behind_two_dashes_are_the_programs_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("numba")
    (tmp_path / "loop.py").write_text(LOOP)
    assert main(["check", str(tmp_path / "loop.py"), "--", "-p", "2"]) == 0
    assert "['-p', '2']" in capfd.readouterr().out


FORTRAN = """\
program p
  real a(9)
  integer i
!DVM$ distribute a(block)
!DVM$ parallel (i) on a(i)
  do i = 1, 9
    a(i) = i
  end do
  call told()
end program
"""


@pytest.mark.matrix
def test_directives_beside_sources_of_another_language_are_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "p.f90").write_text(FORTRAN)
    (tmp_path / "q.c").write_text('#include <stdio.h>\nvoid told_(void) { puts("told"); }\n')
    done = execute([*WEFT, "check", "p.f90", "q.c"], timeout=60, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("weft: p.f90 has directives of Fortran-DVM"), done
    assert execute(["cc", "-c", "q.c"], timeout=60, cwd=tmp_path).returncode == 0
    done = execute([*WEFT, "check", "--link", "q.o", "p.f90"], timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[:2]) == (0, ["told", "Nothing found in p.f90 (finished)"])
    (tmp_path / "p.f90").write_text(FORTRAN.replace("!DVM$", "!"))
    done = execute([*WEFT, "check", "p.f90", "q.c"], timeout=60, cwd=tmp_path)
    assert done.returncode == 2 and "Nothing was checked in p.f90 q.c" in done.stdout
