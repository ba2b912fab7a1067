"""What makes checks fast is found in what each compiler here writes; where it is not, that is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests_support import compilers
from weft.check import CheckRequest, check_program
from weft.dataparallel import compilation, front_end, shortcut_support
from weft.dataparallel.runtime import is_clang
from weft.dataparallel.source_map import MarkedSource
from weft.instrument.assembly import POSSIBLE

KINDS = ("gcc", "g++", "gfortran", "clang", "clang++")
HERE = [name for kind in KINDS for name in compilers(kind)]
needs_gcc = pytest.mark.skipif(not POSSIBLE or not shutil.which("gcc"), reason="gcc on x86-64")
PROGRAM = """\
#include <stdio.h>
#pragma dvm array distribute[block]
double a[9];
int main(void) {
#pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 9; i++) a[i] = 1;
}
"""
OTHERWISE = {
    shortcut_support.HOOKED: r"s/call\t__tsan_/call\tlater_/",
    shortcut_support.LOOPS: r"s/call\tweft_check_iteration2/call\tlater/",
    shortcut_support.STRAIGHT: r"s/^\t\(ja\|jnb\)\t/\tjo\t/",
}
"""How a compiler of the future might write what is known today."""


def words(name: str) -> tuple[list[str], bool]:
    """A compiler with the options of a check, and whether it is one of GCC's."""
    gcc = not is_clang(name)
    hooks = (*compilation.HOOKS, *compilation.GCC_ONLY) if gcc else compilation.CLANG_HOOKS
    return [name, *compilation.C_FLAGS, *hooks], gcc


@pytest.mark.cases(4)
@pytest.mark.skipif(not POSSIBLE, reason="shortcuts are of x86-64")
@pytest.mark.parametrize("name", HERE)
def test_every_shortcut_is_found_in_what_a_compiler_writes(name: str, tmp_path: Path) -> None:
    command, gcc = words(name)
    assert shortcut_support.check_compiler(command, tmp_path, gcc=gcc) == []


@needs_gcc
@pytest.mark.parametrize("what", OTHERWISE)
def test_a_compiler_that_writes_otherwise_is_told(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = tmp_path / "later-gcc"
    later.write_text(
        f'#!/bin/bash\n{shutil.which("gcc")} "$@" || exit\n'
        f"[[ \" $* \" == *' -S '* ]] && sed -i '{OTHERWISE[what]}' \"${{@: -1}}\"; true\n"
    )
    later.chmod(0o755)
    monkeypatch.setenv("CC", str(later))
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    compilation._unrecognised_assembly.cache_clear()
    marked = [MarkedSource(tmp_path / "one.cdv", "", ".c"), MarkedSource(tmp_path / "two.cdv", "", ".c")]
    told = compilation.describe_unknown_compilers(marked)
    assert told == [shortcut_support.UNKNOWN.format(compiler=later, what=what)]


@pytest.mark.matrix
@needs_gcc
def test_it_is_said_with_what_a_check_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.cdv").write_text(PROGRAM)
    request = CheckRequest((tmp_path / "one.cdv",), timeout=30)
    assert check_program(request, tmp_path).problems == ()
    monkeypatch.setattr(front_end, "slower", lambda marked: ["it takes longer"])
    checked = check_program(request, tmp_path)
    assert (checked.problems, checked.findings, checked.whole) == (("it takes longer",), (), True)
