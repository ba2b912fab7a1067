"""Python and C are built from the same headers, or Weft says so and does nothing."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.native import declarations, generate, shared
from weft.native.bridge import as_c_array
from weft.native.declarations import HeaderError, Known
from weft.native.headers.match import Posts, kernel
from weft.native.headers.view import Lanes, Row

PACKAGE = Path(weft.__file__).parent
BEFORE, AFTER = "    uint64_t event_count;\n", "    uint64_t event_count, tail_count;\n"


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A copy of the package in which a structure of C has one member more, and nothing was built since."""
    shutil.copytree(PACKAGE, tmp_path / "weft", ignore=shutil.ignore_patterns("__pycache__"))
    header = tmp_path / "weft" / "native" / "kernel" / "ops.h"
    text = header.read_text()
    assert text.count(BEFORE) == 1
    header.write_text(text.replace(BEFORE, AFTER))
    return tmp_path


def run(where: Path, code: str) -> str:
    """The last line that a program in that copy says."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip().rpartition("\n")[2]


def test_a_changed_structure_without_a_build_is_refused_at_import(changed: Path) -> None:
    said = run(changed, "import weft.match")
    assert (
        "a header of Weft's native side was changed after it was built: reinstall weft-debugger, or run `make" in said
    )


def test_kernels_that_were_built_from_other_headers_are_refused_at_load(changed: Path) -> None:
    written = (
        "from pathlib import Path; from weft.native import generate; "
        "generate.write_files(Path('build')); print('written')"
    )
    assert run(changed, written) == "written"
    said = run(changed, "from weft.native.headers.match import kernel; kernel()")
    assert "_kernel.abi3.so was built from other headers than those of this Weft" in said
    assert "`make kernel`" in said


def test_a_copy_without_a_change_is_loaded(changed: Path) -> None:
    header = changed / "weft" / "native" / "kernel" / "ops.h"
    header.write_text(header.read_text().replace(AFTER, BEFORE))
    assert run(changed, "from weft.native.headers.match import kernel; kernel(); print('loaded')") == "loaded"


def test_what_was_never_built_says_what_to_do(changed: Path) -> None:
    (changed / "weft" / "native" / "headers" / "made_for.py").unlink()
    assert "Weft's native side is not built: reinstall" in run(changed, "import weft.match")


# Where a number stands in C, and what of Python it is.
NUMBERS = (
    ("native/kernel/waits.h", "WEFT_CAUSE_LATE_SENDER = 1,", "weft.waits.causes", "Cause.LATE_SENDER"),
    ("native/kernel/waits.h", "WEFT_BLOCKS_FIRST = 3,", "weft.waits.causes", "Blocks.BLOCKS_FIRST"),
    ("native/kernel/ops.h", "WEFT_OP_PROBE = 4,", "weft.match.functions", "Op.PROBE"),
    ("native/kernel/order.h", "COLL_EXSCAN = 3 ", "weft.order.edges", "Kind.EXSCAN"),
    ("recorder/plan.h", "WEFT_OUTCOME_CANCEL = 5,", "weft.native.headers.plan", "Outcome.CANCEL"),
    ("recorder/halo_kinds.h", "ENDED = 9,", "weft.halo.log", "Kind.ENDED"),
    ("dataparallel/native/cells.h", "SPACE8 0x100000000000ull", "weft.instrument.assembly", "SPACE8"),
    ("dataparallel/native/rows.h", "MOST_BLOCKS 512", "weft.instrument.rows.ways", "MOST_BLOCKS"),
    ("pvm/native/tasks.h", "WEFT_TASKS_MOST 16384u", "weft.pvm.tasks", "MOST"),
)


def test_a_number_that_changes_in_c_changes_in_python_when_that_is_built(changed: Path) -> None:
    for header, stands, _, _ in NUMBERS:
        path = changed / "weft" / header
        text = path.read_text()
        assert text.count(stands) == 1, stands
        path.write_text(text.replace(stands, re.sub(r"\w+([ ,]?)$", r"77\1", stands)))
    names = {name for _, _, name, _ in NUMBERS}
    asked = ", ".join(f"int({module}.{number})" for _, _, module, number in NUMBERS)
    code = f"import {', '.join(sorted(names))}; print({asked})"
    run(changed, "from pathlib import Path; from weft.native import generate; generate.write_files(Path('build'))")
    assert run(changed, code) == " ".join(["77"] * len(NUMBERS))


def test_the_modules_are_those_of_the_headers_as_they_are() -> None:
    folder = PACKAGE / "native" / "headers"
    on_disk = {path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"}
    assert on_disk == generate.render_modules(), "run `make kernel`"


def compiles(text: str, folder: Path) -> bool:
    """Whether C does; its messages are shown where the test fails."""
    source = folder / "source.c"
    source.write_text(text)
    command = ["cc", "-std=c11", *(f"-I{folder}" for folder in shared.INCLUDED), "-fsyntax-only", str(source)]
    return subprocess.run(command, check=False, timeout=60).returncode == 0


def test_every_layout_is_the_compilers(tmp_path: Path) -> None:
    for name, text in generate.render_layout_checks().items():
        assert compiles(text, tmp_path), name


def test_a_layout_that_is_another_than_the_compilers_does_not_compile(tmp_path: Path) -> None:
    text = generate.render_layout_checks()["order.c"]
    wrong = re.sub(r"(send_known\) == )(\d+)", lambda m: f"{m[1]}{int(m[2]) + 8}", text)
    assert wrong != text
    assert not compiles(wrong, tmp_path)


def test_layouts_of_random_structures_are_the_compilers(tmp_path: Path) -> None:
    chance = random.Random(16)
    scalars = sorted(declarations.SCALARS)
    lines = ["#include <stdbool.h>", "#include <stddef.h>", "#include <stdint.h>", "#define MANY 3"]
    for n in range(60):
        members = []
        for m in range(chance.randint(1, 9)):
            inner = [f"struct s{chance.randrange(n)}"] if n else []
            kind = chance.choice([*scalars, *inner, "const double *", "struct unknown **"])
            members.append(f"    {kind} m{m}{chance.choice(('', '', '[2]', '[MANY]'))};")
        if chance.random() < 0.3:
            members.append("    struct { char a; uint64_t b, c; } inside;")
        lines.append("\n".join((f"struct s{n} {{", *members, "};")))
    header = tmp_path / "random.h"
    header.write_text("\n".join(lines))
    read = declarations.read_header(header, Known(), functions=False)
    assert len(read.structs) == 60
    asserted = [line for struct in read.structs.values() for line in generate.layout_assertions(struct)]
    assert compiles("\n".join([*lines, *asserted]), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "struct s { int a : 3; };",
        "struct s { int (*f[2])(void); };",
        "union u { int a; };",
        "enum e { A = sizeof(a) };",
    ],
)
def test_c_that_is_not_understood_is_an_error_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.h").write_text(text)
    with pytest.raises(HeaderError, match=r"^odd\.h: cannot read"):
        declarations.read_header(tmp_path / "odd.h", Known(), functions=False)


def posts(**other: object) -> Posts:
    numbers = np.zeros(0, np.int32)
    given: dict[str, object] = {"first": np.zeros(1, np.uint64), "event": np.zeros(0, np.uint32), "comm": numbers,
                                "peer": numbers, "tag": numbers, "flags": np.zeros(0, np.uint16)}  # fmt: skip
    return Posts(**given | other)


def test_a_column_of_another_type_than_c_reads_is_refused() -> None:
    posts()
    with pytest.raises(TypeError, match=r"^Posts.peer: C reads int32 there, and not int64"):
        posts(peer=np.zeros(0, np.int64))
    with pytest.raises(ctypes.ArgumentError, match=r"weft_group_rows: key: C reads uint32 there, and not int32"):
        kernel().weft_group_rows(0, np.zeros(0, np.int32), 0, None, None)


def test_a_column_in_pieces_is_refused() -> None:
    with pytest.raises(TypeError, match=r"contiguous array"):
        posts(event=np.zeros(8, np.uint32)[::2])


def test_a_structure_has_all_of_its_members_and_no_others() -> None:
    with pytest.raises(TypeError, match=r"^Posts without peer, flags"):
        Posts(first=None, event=None, comm=None, tag=None)
    with pytest.raises(AttributeError, match=r"Posts has no member flag$"):
        Posts().flag = 1
    with pytest.raises(AttributeError, match="no member who"):
        Posts(first=None, event=None, comm=None, peer=None, tag=None, who=None)  # type: ignore[call-arg]


def test_another_structure_than_c_reads_is_refused() -> None:
    rows = as_c_array([Row()], Row)
    assert Lanes(rows=rows, count=1, first=None, of=None, edges=None, columns=0).rows == ctypes.addressof(rows)
    with pytest.raises(TypeError, match="C reads Row there, and not Posts"):
        Lanes(rows=posts(), count=1, first=None, of=None, edges=None, columns=0)


def test_a_structure_keeps_what_it_points_to() -> None:
    given = posts(event=np.arange(3, dtype=np.uint32)).copy_with(tag=None)
    kept = ctypes.cast(given.event, ctypes.POINTER(ctypes.c_uint32))
    filler = [np.full(3, 9, np.uint32) for _ in range(100)]
    assert kept[:3] == [0, 1, 2]
    assert len(filler) == 100
    assert given.tag is None


def test_no_structure_of_c_is_drawn_a_second_time() -> None:
    by_hand = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\((ctypes\.)?(BigEndian|LittleEndian)?(Structure|Union)\):", path.read_text())
    ]
    assert by_hand == ["native/bridge.py"]
