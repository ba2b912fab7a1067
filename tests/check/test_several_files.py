"""C-DVMH programs of several files: their order does not matter, nor does that of declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program

MAIN = """\
#include <stdio.h>
extern double a[16], b[16];
void work(void);
int main(void)
{
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 16; i++)
        a[i] = i + given[i];
    work();
    return 0;
}
""".replace("extern double a[16]", "extern double given[16], a[16]")
WORK = """\
#pragma dvm array
extern double a[16];
#pragma dvm array
extern double b[16];
void work(void)
{
    #pragma dvm parallel([i] on b[i]) shadow_renew(a)
    for (int i = 1; i < 15; i++)
        b[i] = a[i - 1];
}
"""
DATA = """\
#pragma dvm array align([i] with b[i])
double given[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
#pragma dvm array align([i] with a[i])
double b[16];
#pragma dvm array distribute[block]
double a[16];
"""
FILES = {"main.c": MAIN, "work.c": WORK, "data.c": DATA}


@pytest.mark.cases(1)
@pytest.mark.parametrize("order", [("main.c", "work.c", "data.c"), ("data.c", "work.c", "main.c")])
@pytest.mark.parametrize("right", [True, False])
def test_the_order_of_the_files_does_not_matter(order: tuple[str, ...], right: bool, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text if right else text.replace(" shadow_renew(a)", ""))
    built = tmp_path / "built"
    built.mkdir()
    checked = check_program(CheckRequest(tuple(tmp_path / name for name in order), timeout=30), built)
    told = [(one.kind, Path(one.sites[0].file).name, one.sites[0].line) for one in checked.findings]
    assert told == ([] if right else [("stale-halo-read", "work.c", 9)])
    assert checked.whole and checked.looked.to_json()["iterations"] == 30


TEMPLATE = DATA.replace(
    "#pragma dvm array distribute[block]\n", "#pragma dvm template[16] distribute[block]\nvoid *grid;\n"
    "#pragma dvm array align([i] with grid[i])\n"
)  # fmt: skip


@pytest.mark.cases(1)
@pytest.mark.parametrize("right", [True, False])
def test_a_template_may_be_known_to_one_file_only(right: bool, tmp_path: Path) -> None:
    for name, text in (FILES | {"data.c": TEMPLATE}).items():
        (tmp_path / name).write_text(text if right else text.replace(" shadow_renew(a)", ""))
    built = tmp_path / "built"
    built.mkdir()
    checked = check_program(CheckRequest(tuple(tmp_path / name for name in FILES), timeout=30), built)
    told = [(one.kind, Path(one.sites[0].file).name, one.sites[0].line) for one in checked.findings]
    assert told == ([] if right else [("stale-halo-read", "work.c", 9)])


REALIGN = """\
#pragma dvm array
double a[16];
#pragma dvm array distribute[block]
double d[16];
int main(void)
{
    #pragma dvm realign(a[i] with d[i])
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 16; i++) {
        a[i] = i;
        d[SUBSCRIPT] = 2;
    }
    return 0;
}
"""


@pytest.mark.parametrize("subscript", ["i", "(i + 8) % 16"])
def test_an_array_is_realigned_with_one_that_is_declared_later(subscript: str, tmp_path: Path) -> None:
    path = tmp_path / "p.cdv"
    path.write_text(REALIGN.replace("SUBSCRIPT", subscript))
    built = tmp_path / "built"
    built.mkdir()
    told = [(one.kind, one.sites[0].line) for one in check_program(CheckRequest((path,), timeout=30), built).findings]
    assert told == ([] if subscript == "i" else [("remote-access", 11)])


LIBRARY = (Path(__file__).parent / "dvm" / "library.cdv").read_text()


@pytest.mark.parametrize(("grid", "processors"), [("", "1"), ("2x3", "6")])
def test_the_functions_of_the_language_need_no_declaration(grid: str, processors: str, tmp_path: Path) -> None:
    path = tmp_path / "p.cdv"
    path.write_text(LIBRARY.replace("PROCESSORS", processors))
    built = tmp_path / "built"
    built.mkdir()
    assert check_program(CheckRequest((path,), grid=grid, timeout=30), built).whole
