"""The reader's dtypes are format.h's structs, byte for byte."""

import re
import shutil
import subprocess
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.native.kernel import NATIVE
from weft.trace import layout
from weft.trace.tasks import SWITCH, TaskKind

HEADERS = (NATIVE / "format.h", NATIVE.parent / "tasks" / "native" / "switches.h")
STRUCTS = {
    "weft_chunk": layout.CHUNK,
    "weft_anchor": layout.ANCHOR,
    "weft_header": layout.HEADER,
    "weft_event": layout.EVENT,
    "weft_access": layout.ACCESS,
    "weft_touch": layout.TOUCH,
    "weft_switch": SWITCH,
}
ENUMS: dict[str, tuple[str, type[IntEnum]]] = {
    "weft_stream_kind": ("WEFT_STREAM_", layout.StreamKind),
    "weft_state": ("WEFT_STATE_", layout.State),
    "weft_stop_reason": ("WEFT_STOP_", layout.StopReason),
    "weft_clock": ("WEFT_CLOCK_", layout.Clock),
    "weft_level": ("WEFT_LEVEL_", layout.Level),
    "weft_definition": ("WEFT_DEF_", layout.Def),
    "weft_ending": ("WEFT_ENDING_", layout.EndingKind),
    "weft_exit": ("WEFT_EXIT_", layout.ExitKind),
    "weft_class": ("WEFT_CLASS_", layout.ObjectClass),
    "weft_log_kind": ("WEFT_LOG_", layout.LogKind),
    "weft_access_kind": ("WEFT_ACCESS_", layout.AccessKind),
    "weft_touch_kind": ("WEFT_TOUCH_", layout.TouchKind),
    "weft_change": ("WEFT_CHANGE_", layout.Change),
    "weft_task_kind": ("WEFT_TASK_", TaskKind),
}
CONSTANTS = {
    "WEFT_FORMAT_MAJOR": layout.FORMAT_MAJOR,
    "WEFT_FORMAT_MINOR": layout.FORMAT_MINOR,
    "WEFT_PAGE": layout.PAGE,
    "WEFT_HEADER_CHUNKS": layout.HEADER_CHUNKS,
    "WEFT_TAIL_ALIGN": layout.TAIL_ALIGN,
    "WEFT_IN_PLACE": layout.IN_PLACE,
    "WEFT_GUESSED": layout.GUESSED,
    "WEFT_LEAVING": layout.LEAVING,
    "WEFT_ENDING_FRAMES": layout.ENDING_FRAMES,
    "WEFT_ERROR_OTHER": layout.ERROR_OTHER,
    "WEFT_RANK_ANY_SOURCE": layout.ANY_SOURCE,
    "WEFT_RANK_PROC_NULL": layout.PROC_NULL,
    "WEFT_RANK_ROOT": layout.ROOT,
    "WEFT_RANK_INVALID_BASE": layout.RANK_INVALID_BASE,
    "WEFT_TOUCH_NO_EVENTS": layout.NO_EVENTS,
    "WEFT_TAG_ANY": layout.ANY_TAG,
    "WEFT_ID_NONE": layout.ID_NONE,
    "WEFT_ID_NULL": layout.ID_NULL,
    "WEFT_ID_WORLD": layout.ID_WORLD,
    "WEFT_ID_SELF": layout.ID_SELF,
    "WEFT_ID_DYNAMIC": layout.ID_DYNAMIC,
    "WEFT_WORLD_UNKNOWN": layout.WORLD_UNKNOWN,
    "WEFT_MADE_UNKNOWN": layout.MADE_UNKNOWN,
    **{f"WEFT_FLAG_{flag.name}": int(flag) for flag in layout.Flag},
}
DURATIONS = [0, 1, 2**30 - 1, 2**30, 2**30 + 5, 2**38 - 1, 2**38, 2**45 + 12345, 2**54 - 1, 2**54, 2**63, 2**64 - 1]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What a C compiler says of format.h."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    lines = []
    for name, dtype in STRUCTS.items():
        lines.append(f'printf("sizeof {name} %lld\\n", (long long)sizeof(struct {name}));')
        for field in dtype.names or ():
            lines.append(f'printf("{name}.{field} %lld\\n", (long long)offsetof(struct {name}, {field}));')
    for name in [*CONSTANTS, *(f"{prefix}{member.name}" for prefix, enum in ENUMS.values() for member in enum)]:
        lines.append(f'printf("{name} %lld\\n", (long long)({name}));')
    for ticks in DURATIONS:
        lines.append(f'printf("duration{ticks} %lld\\n", (long long)weft_duration_encode({ticks}ull));')
    folder = tmp_path_factory.mktemp("layout")
    source = folder / "facts.c"
    source.write_text(
        '#include <stdio.h>\n#include "format.h"\n#include "switches.h"\nint main(void) {\n'
        + "\n".join(lines)
        + "\nreturn 0; }\n"
    )
    program = folder / "facts"
    subprocess.run(
        [compiler, "-std=c11", *(f"-I{header.parent}" for header in HEADERS), str(source), "-o", str(program)],
        check=True,
    )
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in (line.rsplit(" ", 1) for line in output.splitlines())}


def declarations() -> str:
    """The header files without their comments."""
    text = "".join(
        path.read_text() for path in (NATIVE / "format.h", NATIVE.parent / "tasks" / "native" / "switches.h")
    )
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)


def test_every_struct_has_the_same_size_and_offsets(facts: dict[str, int]) -> None:
    for name, dtype in STRUCTS.items():
        assert facts[f"sizeof {name}"] == dtype.itemsize
        for field, (_, offset, *_rest) in (dtype.fields or {}).items():
            assert facts[f"{name}.{field}"] == offset, f"{name}.{field}"


def test_every_field_of_the_header_file_is_in_the_dtype() -> None:
    text = declarations()
    for name, dtype in STRUCTS.items():
        match = re.search(rf"struct {name} \{{(.*?)\n?\}};", text, re.DOTALL)
        assert match
        fields = [re.split(r"[\[\s]", part.strip().split()[-1])[0] for part in match[1].split(";") if part.strip()]
        assert tuple(field.split("[")[0] for field in fields) == dtype.names


def test_every_constant_agrees(facts: dict[str, int]) -> None:
    for name, value in CONSTANTS.items():
        assert facts[name] % 2**64 == value % 2**64, name
    for prefix, enum in ENUMS.values():
        for member in enum:
            assert facts[f"{prefix}{member.name}"] == member, member


def test_no_member_of_an_enum_is_left_out() -> None:
    text = declarations()
    for name, (prefix, enum) in ENUMS.items():
        match = re.search(rf"enum {name} \{{(.*?)\}}", text, re.DOTALL)
        assert match
        members = set(re.findall(rf"{prefix}(\w+)", match[1])) - {"END"}
        assert members == set(enum.__members__), name


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
