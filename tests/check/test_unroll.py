"""Small loops within parallel loops of C: which are written out, and that nothing else changes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from weft.check import mark_sources
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import build_program
from weft.dvm.c_unroll import LoopUnroller
from weft.findings import Finding

LOOPS = [
    ("for (m = 0; m < 5; m++) v[m] = a[i];", True),
    ("for (int n = 4; n >= 0; n--) v[n] = a[i];", True),
    ("for (m = 0; m < PARTS; m++) { v[m] = a[i]; }", True),
    ("for (m = 1; m <= FEW; m++) v[m] = 0;", True),
    ("for (m = 0; m < MANY; m++) v[m] = 0;", False),
    ("for (m = 0; m < count; m++) v[m] = 0;", False),
    ("for (m = i; m < 5; m++) v[m] = 0;", False),
    ("for (;;) break;", False),
]
HEAD = (
    "#define PARTS 5 /* of each element */\nenum { FEW = 3, MANY = 99 };\nint count;\n"
    "#pragma dvm array distribute[block]\ndouble a[40];\ndouble v[100];\n"
)


def marked(folder: Path, body: str) -> str:
    """The marked copy of a program with one parallel loop."""
    source = folder / "small.cdv"
    source.write_text(
        f"{HEAD}int main(void)\n{{\n    int i, m;\n"
        f"#pragma dvm parallel([i] on a[i]) private(m, v)\n    for (i = 0; i < 40; i++) {{\n        {body}\n    }}\n"
        "    for (m = 0; m < 5; m++) v[m] = 0;\n    return 0;\n}\n"
    )
    return mark_sources([source])[0][0].text


@pytest.mark.parametrize(("body", "small"), LOOPS)
def test_small_loops_are_to_be_written_out(body: str, small: bool, tmp_path: Path) -> None:
    assert marked(tmp_path, body).count("_Pragma") == int(small)


def test_only_the_innermost_loop_is_written_out(tmp_path: Path) -> None:
    text = marked(tmp_path, "for (m = 0; m < 3; m++)\n            for (int n = 0; n < 3; n++) v[3 * m + n] = 0;")
    (begun,) = (found.end() for found in re.finditer("_Pragma", text))
    assert "int n" in text[begun:].split("for", 2)[1]


FAULTY = """\
#pragma dvm array distribute[block][]
double a[40][5];
double p[5], q[5];
int main(void)
{
    int i, m;
#pragma dvm parallel([i] on a[i][]) private(m, p)
    for (i = 0; i < 40; i++)
        for (m = 0; m < 5; m++) {
            a[i][m] = p[m];
            q[m] = i;
        }
#pragma dvm parallel([i] on a[i][]) private(m)
    for (i = 1; i < 40; i++)
        for (m = 0; m < 5; m++)
            a[i][m] = a[i - 1][m];
    return 0;
}
"""


def found(source: Path, folder: Path) -> list[Finding]:
    """What is found in a program."""
    folder.mkdir()
    copies, texts = mark_sources([source])
    program = build_program(copies, folder)
    path = folder / "findings.jsonl"
    subprocess.run([str(program)], env={"WEFT_INTERNAL_CHECK_FINDINGS": str(path)}, timeout=60, check=True)
    return read_findings(path, texts)


def test_what_is_found_in_a_small_loop_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "faulty.cdv"
    source.write_text(FAULTY)
    small = found(source, tmp_path / "small")
    monkeypatch.setattr(LoopUnroller, "insert_unroll_pragmas", lambda self: None)
    assert small == found(source, tmp_path / "plain")
    assert {one.kind for one in small} >= {"uninitialised-read", "loop-dependence"}
