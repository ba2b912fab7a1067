"""Durations as format.h encodes them. (That its layouts are the reader's, the build and tests/native hold.)"""

import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machine import need
from weft.native.kernel import NATIVE
from weft.trace import layout

DURATIONS = [0, 1, 2**30 - 1, 2**30, 2**30 + 5, 2**38 - 1, 2**38, 2**45 + 12345, 2**54 - 1, 2**54, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What a C compiler says of format.h."""
    compiler = need("cc")
    lines = []
    for ticks in DURATIONS:
        lines.append(f'printf("duration{ticks} %lld\\n", (long long)weft_duration_encode({ticks}ull));')
    folder = tmp_path_factory.mktemp("layout")
    source = folder / "facts.c"
    source.write_text(
        '#include <stdio.h>\n#include "format.h"\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0; }\n"
    )
    program = folder / "facts"
    subprocess.run(
        [compiler, "-std=c11", f"-I{NATIVE}", str(source), "-o", str(program)],
        check=True,
    )
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.rsplit(" ", 1) for line in output.splitlines())}


def test_durations_are_encoded_as_in_c(facts: dict[str, int]) -> None:
    for ticks in DURATIONS:
        assert facts[f"duration{ticks}"] == layout.encode_duration(ticks)


@given(st.integers(0, 2**54 - 1))
def test_a_duration_comes_back_to_one_part_in_four_million(ticks: int) -> None:
    decoded = layout.decode_duration(layout.encode_duration(ticks))
    assert decoded <= ticks
    assert ticks - decoded <= ticks / 2**22
    if ticks < 2**30:
        assert decoded == ticks


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_columns_of_durations_decode_as_single_ones(encoded: list[int]) -> None:
    column = layout.decode_durations(np.array(encoded, np.uint32))
    assert column.tolist() == [layout.decode_duration(e) for e in encoded]
