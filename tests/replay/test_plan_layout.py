"""weft.replay.layout is plan.h, byte for byte."""

from __future__ import annotations

import re
import shutil
import subprocess
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from weft.native.kernel import NATIVE
from weft.replay import layout

HEADER = NATIVE / "shim" / "plan.h"
STRUCTS = {
    "weft_plan_header": layout.HEADER, "weft_plan_thread": layout.THREAD, "weft_plan_entry": layout.ENTRY,
    "weft_plan_turn": layout.TURN, "weft_plan_channel": layout.CHANNEL,
    "weft_control_thread": layout.CONTROL_THREAD, "weft_control": layout.CONTROL,
}  # fmt: skip
PREFIXES: dict[str, type[IntEnum | IntFlag]] = {
    "WEFT_PLAN_": layout.PlanFlag, "WEFT_CHECK_": layout.Check, "WEFT_OUTCOME_": layout.Outcome,
    "WEFT_ENTRY_": layout.EntryFlag,
    "WEFT_TURN_": layout.TurnKind, "WEFT_CONTROL_": layout.ControlState, "WEFT_DIVERGED_": layout.Divergence,
}  # fmt: skip
CONSTANTS = {
    "WEFT_PLAN_MAGIC": layout.PLAN_MAGIC, "WEFT_CONTROL_MAGIC": layout.CONTROL_MAGIC,
    "WEFT_CONTROL_THREADS": layout.CONTROL_THREADS, "WEFT_GOAL_NONE": layout.GOAL_NONE,
    "WEFT_POSTED_FREE": layout.POSTED_FREE, "WEFT_POSTED_NEVER": layout.POSTED_NEVER,
}  # fmt: skip


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What a C compiler says of plan.h."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    said = {f"sizeof {name}": f"sizeof(struct {name})" for name in STRUCTS}
    for name, dtype in STRUCTS.items():
        said |= {f"{name}.{field}": f"offsetof(struct {name}, {field})" for field in dtype.names or ()}
    said |= {name: name for name in CONSTANTS}
    said |= {f"{prefix}{m.name}": f"{prefix}{m.name}" for prefix, enum in PREFIXES.items() for m in enum}
    lines = "\n".join(f'printf("{name}=%lld\\n", (long long)({value}));' for name, value in said.items())
    folder = tmp_path_factory.mktemp("layout")
    head = '#include <stddef.h>\n#include <stdio.h>\n#include "plan.h"\n'
    (folder / "facts.c").write_text(f"{head}int main(void) {{\n{lines}\nreturn 0; }}\n")
    program = folder / "facts"
    words = [compiler, "-std=c11", f"-I{HEADER.parent}", str(folder / "facts.c"), "-o", str(program)]
    subprocess.run(words, check=True, timeout=60)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True, timeout=60).stdout
    return {name: int(value) for name, value in (line.split("=") for line in output.splitlines())}


def test_every_struct_has_the_same_size_and_offsets(facts: dict[str, int]) -> None:
    for name, dtype in STRUCTS.items():
        assert facts[f"sizeof {name}"] == dtype.itemsize, name
        for field, (_, offset, *_rest) in (dtype.fields or {}).items():
            assert facts[f"{name}.{field}"] == offset, f"{name}.{field}"


def test_every_constant_agrees(facts: dict[str, int]) -> None:
    for name, value in CONSTANTS.items():
        assert facts[name] % 2**64 == value % 2**64, name
    for prefix, enum in PREFIXES.items():
        for member in enum:
            assert facts[f"{prefix}{member.name}"] == member, member


def test_no_constant_of_the_header_is_left_out() -> None:
    text = re.sub(r"/\*.*?\*/", "", Path(HEADER).read_text(), flags=re.DOTALL)
    named = set(re.findall(r"(?:#define |^\s+)(WEFT_\w+) ?(?==|[\d(]|UINT64)", text, re.MULTILINE)) - {"WEFT_PLAN_H"}
    known = {f"{prefix}{member.name}" for prefix, enum in PREFIXES.items() for member in enum}
    assert named - {"WEFT_OUTCOME_NONE"} == (known - {"WEFT_OUTCOME_NONE"}) | CONSTANTS.keys()
