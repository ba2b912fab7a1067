"""Numbers of directives that do not fit what was declared, and directives that come twice."""

from __future__ import annotations

from pathlib import Path

from weft.check import CheckRequest, check_program

C = (Path(__file__).parent / "dvm" / "parameters.cdv").read_text()
FORTRAN = """\
      program p
      parameter (n=8)
      real a(n), b(n), s
!DVM$ distribute a(block)
!DVM$ align b(i) with a(i)
!DVM$ shadow_group sg(a)
!DVM$ reduction_group rg
      s = 0
!DVM$ parallel (i) on a(i), reduction(rg:sum(s))
      do i = 1, n
        a(i) = i
        s = s + i
      end do
!DVM$ shadow_start sg
!DVM$ AGAIN sg
!DVM$ reduction_start rg
!DVM$ ONCE rg
      print *, 'early'
!DVM$ reduction_wait rg
      print *, 'late', s
!DVM$ shadow_wait sg
!DVM$ parallel (i) on b(i)
      do i = 2, n
        b(i) = a(i-1)
      end do
      end
"""


def found(text: str, name: str, folder: Path) -> list[tuple[str, int, str]]:
    path = folder / name
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    return [
        (one.kind, one.sites[0].line, str(one.facts()["case"]))
        for one in check_program(CheckRequest((path,), timeout=30), built).findings
    ]


def test_numbers_that_do_not_fit_are_told_at_their_directive(tmp_path: Path) -> None:
    assert sorted(found(C, "p.cdv", tmp_path), key=lambda one: one[1]) == [
        ("out-of-bounds", 2, "genblock"), ("out-of-bounds", 6, "align"), ("out-of-bounds", 10, "on"),
        ("out-of-bounds", 16, "across"),
    ]  # fmt: skip


def test_numbers_that_fit_are_silent(tmp_path: Path) -> None:
    right = C.replace("4, 4, 9", "4, 4, 8").replace("double b[16]", "double b[14]").replace("[i + 20]", "[i + 12]")
    assert found(right.replace("shadow[1:1]", "shadow[2:2]"), "p.cdv", tmp_path) == []


def fortran(shadow: str, reduction: str, printed: str) -> str:
    directives = FORTRAN.replace("!DVM$ AGAIN sg", shadow or "!").replace("!DVM$ ONCE rg", reduction or "!")
    return directives.replace("'early'", printed)


def test_what_is_started_twice_and_a_result_that_is_printed_early_are_told(tmp_path: Path) -> None:
    wrong = fortran("!DVM$ shadow_start sg", "!DVM$ reduction_start rg", "s")
    assert sorted(found(wrong, "p.fdv", tmp_path), key=lambda one: one[1]) == [
        ("directive-order", 15, "shadow-twice"), ("directive-order", 17, "reduction-twice"),
        ("early-reduction-use", 18, "read"),
    ]  # fmt: skip


def test_what_is_started_once_and_printed_late_is_silent(tmp_path: Path) -> None:
    assert found(fortran("", "", "'early'"), "p.fdv", tmp_path) == []


TASKS = """\
      program p
      parameter (n=8, nb=2)
      real a(n), b(n)
!DVM$ task mb(nb)
!DVM$ distribute :: a, b
!DVM$ map mb(1) onto p(1:1)
!DVM$ redistribute a(block) onto mb(1)
!DVM$ map mb(2) onto p(1:1)
!DVM$ redistribute b(block) onto mb(2)
!DVM$ task_region mb
!DVM$ on mb(1)
!DVM$ parallel (i) on a(i)
      do i = 1, n
        a(i) = i
      end do
!DVM$ end on
!DVM$ on mb(nb+1)
      x = 1
!DVM$ end on
!DVM$ end task_region
      end
"""


LOOP = """\
      program p
      parameter (n=8, nb=2)
      real a(n, nb)
!DVM$ task mb(nb)
!DVM$ distribute a(block, *)
      do i = 1, nb
!DVM$ map mb(i) onto p(1:1)
      end do
!DVM$ task_region mb
!DVM$ parallel (k) on mb(PLACE)
      do 20 k = 1, nb
!DVM$ parallel (i) on a(i, *)
      do 10 i = 1, n
   10 a(i, k) = i
   20 continue
!DVM$ end task_region
      end
"""


OLD = """\
#define DVM(directive)
#define FOR(v,n) for(v=0; v<n; v++)
#define NUMBER_OF_PROCESSORS() 1
DVM(PROCESSORS) void * P[NUMBER_OF_PROCESSORS()];
DVM(TASK) void * PAIR[2];
double kept[2];
int main(void)
{
  int t;
  FOR(t,2)
    {
DVM(MAP PAIR[t] ONTO P[0:0]);
    }
DVM(PARALLEL [t] ON PAIR[PLACE])
FOR(t,2)
  kept[t] = t;
  return 0;
}
"""


def test_a_task_that_there_is_not_is_told(tmp_path: Path) -> None:
    assert found(TASKS, "p.fdv", tmp_path) == [("out-of-bounds", 17, "task")]


def test_iterations_that_are_tasks_that_there_are_not_are_told(tmp_path: Path) -> None:
    assert found(LOOP.replace("PLACE", "2 * k - 1"), "p.fdv", tmp_path) == [("out-of-bounds", 10, "task")]


def test_iterations_that_are_tasks_that_there_are_not_are_told_in_c(tmp_path: Path) -> None:
    assert found(OLD.replace("PLACE", "t + 1"), "p.cdv", tmp_path) == [("out-of-bounds", 14, "task")]


def test_a_task_that_there_is_is_silent(tmp_path: Path) -> None:
    assert found(TASKS.replace("nb+1", "nb"), "p.fdv", tmp_path) == []


def test_iterations_that_are_tasks_that_there_are_are_silent(tmp_path: Path) -> None:
    assert found(LOOP.replace("PLACE", "nb + 1 - k"), "p.fdv", tmp_path) == []


def test_iterations_that_are_tasks_that_there_are_are_silent_in_c(tmp_path: Path) -> None:
    assert found(OLD.replace("PLACE", "-t + 1"), "p.cdv", tmp_path) == []
