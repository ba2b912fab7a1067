"""`weft cc --commands FILE`: a build whose calls `weft check` reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.access.compile_commands import add_command
from weft.errors import UsageError

MAKEFILE = """\
prog: a.o b.o c.o d.o
\t$(CC) -o prog $^ -lm
%.o: %.c
\t$(CC) -O2 -Iinclude -DPART=$* -D'AT=$(AT)' -c $<
"""
MAIN = """\
#include <stdio.h>
#include "size.h"
#pragma dvm array distribute[block]
double x[N];
int b(void), c(void), d(void);
int main(void)
{
    #pragma dvm parallel([i] on x[i])
    for (int i = 1; i < N; i++)
        x[i] = AT;
    return printf("%d\\n", b() + c() + d()) < 0;
}
"""


@pytest.mark.matrix
@pytest.mark.parametrize(("at", "status"), [("i", 0), ("x[i - 1]", 1)], ids=["right", "faulty"])
def test_the_calls_of_a_parallel_build_are_a_database_that_weft_check_reads(
    at: str, status: int, tmp_path: Path
) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "size.h").write_text("#define N 9\n")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "a.c").write_text(MAIN)
    for number, name in enumerate("bcd"):
        (tmp_path / f"{name}.c").write_text(f"int PART(void) {{ return {10**number}; }}\n")
    database = tmp_path / "compile_commands.json"
    compiler = " ".join([*WEFT, "cc", "--commands", str(database), "cc"])
    for _ in range(2):  # what is built again has one entry
        done = execute(["make", "-B", "-j4", f"CC={compiler}", f"AT={at}"], timeout=60, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert sorted(one["file"] for one in json.loads(database.read_text())) == ["a.c", "b.c", "c.c", "d.c"]
    assert execute([tmp_path / "prog"], timeout=10).stdout == "111\n"
    checked = execute([*WEFT, "check", "."], timeout=60, cwd=tmp_path)
    assert checked.stdout.startswith("111\n") and checked.returncode == status, checked.stdout + checked.stderr


def test_calls_that_compile_nothing_or_fail_are_not_kept(tmp_path: Path) -> None:
    database = tmp_path / "calls.json"
    for words in (["cc", "--version"], ["cc", "-o", "p", "a.o"], ["cc", "-E", "a.c"]):
        add_command(database, words, tmp_path)
    assert not database.exists()
    (tmp_path / "a.c").write_text("no program\n")
    done = execute([*WEFT, "cc", "--commands", database, "cc", "-c", "a.c"], timeout=60, cwd=tmp_path)
    assert done.returncode == 1 and not database.exists()
    (tmp_path / "a.c").write_text("int a;\n")
    done = execute([*WEFT, "cc", "--commands", database, "cc", "-c", "a.c"], timeout=60, cwd=tmp_path)
    assert done.returncode == 0 and len(json.loads(database.read_text())) == 1


@pytest.mark.parametrize("text", [b"{", b"{}", b"[1]", b"\xff"])
def test_a_file_that_is_no_database_is_not_written_over(text: bytes, tmp_path: Path) -> None:
    database = tmp_path / "calls.json"
    database.write_bytes(text)
    with pytest.raises(UsageError, match="is not a compilation database"):
        add_command(database, ["cc", "-c", "a.c"], tmp_path)
    assert database.read_bytes() == text
