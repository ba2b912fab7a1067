"""Rows of iterations that run without hooks: what is found is what the hooks find, and only what is proved runs so."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from weft.arrays import assembly, mark, rows
from weft.arrays.findings import read
from weft.arrays.native import sources
from weft.arrays.program import Options, build
from weft.findings import Finding

SOURCE = Path(__file__).parent / "rows.cdv"

needs_gcc = pytest.mark.skipif(not assembly.POSSIBLE or not shutil.which("gcc"), reason="gcc on x86-64")


def checked(folder: Path) -> tuple[str, list[Finding]]:
    """What the program prints, and its findings."""
    folder.mkdir()
    marked, texts = mark([SOURCE])
    program = build(marked, folder, Options(link=("-Wl,--wrap=weft_check_row_exit",)))
    found = folder / "findings.jsonl"
    done = subprocess.run(
        [str(program)], env={"WEFT_CHECK_FINDINGS": str(found)}, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip(), read(found, texts)


@needs_gcc
def test_rows_without_hooks_find_what_the_hooks_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, found = checked(tmp_path / "rows")
    monkeypatch.setattr(rows, "find", lambda lines, sites: iter(()))
    none, expected = checked(tmp_path / "hooks")
    assert int(taken) > 500
    assert none == "0"
    assert found == expected
    kinds = {finding.kind for finding in found}
    assert kinds >= {"uninitialised-read", "stale-halo-read", "loop-dependence", "out-of-bounds"}


BODIES = [
    ("a[i][j] = b[i][j - 1] + b[i][j + 1];", 1),
    ("s += b[i][j]; at[j] = j;", 1),
    ("a[i][at[j]] = b[i][j];", 0),
    ("a[i][j * j] = b[i][j];", 0),
    ("a[i][j] = other(j);", 0),
    ("b[i][j] = 0; p = p->next; p->value = j;", 0),
    ("for (int k = 0; k < 9; k++) a[i][k] = b[i][j];", 1),  # the loop within
]


@needs_gcc
@pytest.mark.parametrize(("body", "copies"), BODIES)
def test_only_loops_with_addresses_that_rise_evenly_get_a_copy(body: str, copies: int, tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    source.write_text(
        '#include "check.h"\nextern double a[50][50], b[50][50], s; extern int at[50]; double other(int);\n'
        "struct list { struct list *next; int value; };\n"
        f"void f(int n, struct list *p) {{\nfor (int i = 1; i < n; i++)\nfor (int j = 1; j < n; j++) {{\n"
        f"weft_check_iteration2(i, j);\n{body}\n}}\n}}\n"
    )
    flags = ["-O1", "-fsanitize=thread", "-fno-omit-frame-pointer", f"-I{sources()}"]
    subprocess.run(["gcc", *flags, "-S", str(source), "-o", str(tmp_path / "loop.s")], check=True, timeout=60)
    text = (tmp_path / "loop.s").read_text()
    made = assembly.rewrite(text)
    assert len(re.findall(r"^\.Lweftr\d+_t:$", made, re.M)) == copies
    (tmp_path / "made.s").write_text(made)
    subprocess.run(["gcc", "-c", str(tmp_path / "made.s"), "-o", str(tmp_path / "made.o")], check=True, timeout=60)
