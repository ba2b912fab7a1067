"""Call sites become file, line and function."""

import dis
import json
import subprocess
import types
from pathlib import Path

import pytest

import weft
from machine import need
from weft.debuginfo.elf import read_build_id
from weft.trace.builder import Builder
from weft.trace.definitions import CodeDefinition
from weft.trace.layout import Def
from weft.trace.site_lines import resolve_sites
from weft.trace.sites import line_of_instruction
from weft.trace.varint import encode_string, encode_unsigned


def specimen(x: int) -> int:
    """A function over several lines, with all that moves lines about."""
    total = (
        x
        + 1
    )  # fmt: skip
    for i in range(3):
        try:
            total += [
                i * 2,
                x,
            ][0]
        except ValueError:
            total = 0
    return sum(y for y in (total,
                           x))  # fmt: skip


def codes(code: types.CodeType) -> list[types.CodeType]:
    """A code object and those within it."""
    return [code, *(c for inner in code.co_consts if isinstance(inner, types.CodeType) for c in codes(inner))]


@pytest.mark.parametrize("code", [*codes(specimen.__code__), *codes(subprocess.run.__code__), json.loads.__code__])
def test_every_instruction_has_the_line_that_python_says(code: types.CodeType) -> None:
    definition = CodeDefinition(1, code.co_filename, code.co_name, code.co_firstlineno, code.co_linetable)
    for start, end, line in code.co_lines():
        for offset in range(start, end, 2):
            assert line_of_instruction(definition, offset) == (line or 0), offset
    assert list(dis.findlinestarts(code))


def test_an_instruction_beyond_the_table_has_no_line() -> None:
    code = specimen.__code__
    definition = CodeDefinition(1, "x.py", "f", code.co_firstlineno, code.co_linetable)
    assert line_of_instruction(definition, 10**9) == 0
    assert line_of_instruction(CodeDefinition(1, "x.py", "f", 1, b""), 0) == 0


PROGRAM = """#include <stdint.h>
extern void *here;
__attribute__((noinline)) void mark(void) { here = __builtin_return_address(0); }
static inline __attribute__((always_inline)) void inner(void) {
    mark(); /* line 5 */
}
"""
MAIN = """#define _GNU_SOURCE
#include <stdio.h>
#include <link.h>
void *here;
#include "part.h"
void exchange(void) {
    mark();
    __asm__("");
}
static int base(struct dl_phdr_info *i, size_t n, void *d) { *(unsigned long *)d = i->dlpi_addr; return 1; }
int main(void) {
    unsigned long b = 0;
    dl_iterate_phdr(base, &b);
    exchange();
    printf("%lu\\n", (unsigned long)here - b);
    inner();
    printf("%lu\\n", (unsigned long)here - b);
    return 0;
}
"""


def native_run(tmp_path: Path, *flags: str) -> tuple[Path, Path, list[int]]:
    """A run whose rank calls from two places of a compiled program: (run, program, offsets)."""
    compiler = need("cc", "addr2line")
    (tmp_path / "part.h").write_text(PROGRAM)
    (tmp_path / "prog.c").write_text(MAIN)
    program = tmp_path / "prog"
    subprocess.run([compiler, "-g", "-O1", *flags, "prog.c", "-o", "prog"], cwd=tmp_path, check=True)
    output = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    offsets = [int(line) for line in output.split()]
    b = Builder(ranks=2, path=tmp_path / "run")
    for rank in b.ranks:
        names = encode_string(read_build_id(program)) + encode_string(str(program))
        rank.define(Def.MODULE, encode_unsigned(1) + encode_unsigned(4096) + encode_unsigned(9999) + names)
        for i, offset in enumerate(offsets):
            rank.define(
                Def.SITE,
                encode_unsigned(i + 1)
                + encode_unsigned(1)
                + encode_unsigned(offset)
                + encode_unsigned(0)
                + encode_unsigned(0)
                + encode_unsigned(0),
            )
            rank.send(0, site=i + 1)
    return b.write(), program, offsets


@pytest.mark.parametrize("flags", [[], ["-no-pie"]])
def test_native_sites_become_lines_of_the_call_not_of_the_return(tmp_path: Path, flags: list[str]) -> None:
    run, _, _ = native_run(tmp_path, *flags)
    assert resolve_sites(run) == []
    sites = [event.site for event in weft.open(run).ranks[1]]
    assert (Path(sites[0].file or "").name, sites[0].line, sites[0].function) == ("prog.c", 7, "exchange")
    assert (Path(sites[1].file or "").name, sites[1].line, sites[1].function) == ("part.h", 5, "inner")


def test_without_a_line_module_and_offset_are_told(tmp_path: Path) -> None:
    run, _, offsets = native_run(tmp_path)
    assert weft.open(run).event(0, 0).site.text == f"prog+{offsets[0]:#x}"


def test_a_program_built_anew_since_the_run_is_not_believed(tmp_path: Path) -> None:
    run, program, _ = native_run(tmp_path)
    (tmp_path / "prog.c").write_text("\n\n\n" + MAIN)
    subprocess.run(["cc", "-g", "prog.c", "-o", "prog"], cwd=tmp_path, check=True)
    problems = resolve_sites(run)
    assert len(problems) == 1
    assert "was rebuilt after the run" in problems[0]
    assert str(program) in problems[0]
    assert not weft.open(run).event(0, 0).site.known


def test_a_program_that_is_gone_is_named(tmp_path: Path) -> None:
    run, program, _ = native_run(tmp_path)
    program.unlink()
    assert "not here" in resolve_sites(run)[0]


def test_a_cache_that_makes_no_sense_is_named_and_left(tmp_path: Path) -> None:
    run, _, _ = native_run(tmp_path)
    resolve_sites(run)
    cache = json.loads((run / "sites.json").read_text())
    cache["modules"][0]["sites"] = {"x": 3}
    (run / "sites.json").write_text(json.dumps(cache))
    trace = weft.open(run)
    assert not trace.event(0, 0).site.known
    assert any("sites.json is damaged" in p for p in trace.problems)
