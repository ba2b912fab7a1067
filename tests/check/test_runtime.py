"""The runtime of `weft check` by its own interface: what it tells, and that corrected twins are silent."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from machine import need
from weft.dataparallel.findings import read_findings
from weft.dataparallel.program import build_program, run_program
from weft.dataparallel.source_map import MarkedSource, SourceMap
from weft.errors import UsageError
from weft.findings import Finding
from weft.instrument import assembly

SOURCE = Path(__file__).parent / "runtime" / "model.c"
INSIDE = [1, 1]

# Case, kind, the case of the kind, first iteration, element.
CASES: list[tuple[str, str, str, list[int] | None, list[int] | None]] = [
    ("flow", "loop-dependence", "flow", [2, 1], [1, 1]),
    ("anti_is_right_in_order_and_wrong_without", "loop-dependence", "anti", [2, 1], [2, 1]),
    ("never_written", "uninitialised-read", "uninitialised-read", INSIDE, [1, 1]),
    ("private_before_its_write", "uninitialised-read", "private", [1, 2], None),
    ("private_after_the_loop", "uninitialised-read", "was-private", None, None),
    ("read_only_is_written", "shared-write", "read-first", INSIDE, None),
    ("asynchronous_reduction", "early-reduction-use", "read", None, None),
    ("partial_value", "early-reduction-use", "in-loop", None, None),
    ("behind_a_block", "out-of-bounds", "heap", [7], None),
    ("far_away", "remote-access", "remote-access", INSIDE, [5, 1]),
    ("edge_is_written", "halo-write", "halo-write", INSIDE, [1, 2]),
    ("never_renewed", "stale-halo-read", "never", INSIDE, [0, 1]),
    ("changed_after_the_renewal", "stale-halo-read", "changed", INSIDE, [0, 1]),
    ("corners", "stale-halo-read", "corner", INSIDE, [0, 0]),
    ("renewal_has_begun", "stale-halo-read", "begun", INSIDE, [0, 1]),
    ("operation", "wrong-reduction", "wrong-reduction", None, None),
    ("two_copies", "stale-copy", "get_actual", None, [2, 3]),
    ("waits_for_nothing", "directive-order", "shadow-wait", None, None),
    ("tasks", "loop-dependence", "task", None, [0, 0]),
    ("neighbours_of_four_bytes", "loop-dependence", "flow", [1], [0]),
    ("neighbours_of_one_byte", "loop-dependence", "output", [1], [0]),
    ("values_from_code_without_hooks", "uninitialised-read", "uninitialised-read", None, None),
]


@pytest.fixture(scope="module")
def texts() -> SourceMap:
    """The constructs and variables that model.c numbers."""
    made = SourceMap("c")
    for line in range(1, 13):
        made.add_construct("parallel", str(SOURCE), line, indices=("i", "j"))
    for name in ("a", "b", "eps", "t", "p", "floats", "bytes"):
        made.add_variable(name, str(SOURCE), 1)
    return made


@pytest.fixture(scope="module", params=["rewritten", "called"])
def program(request: Any, tmp_path_factory: Any) -> Any:
    """The program with hooks written out, and with hooks that are called."""
    need("gcc")
    folder = tmp_path_factory.mktemp("model")
    held = assembly.POSSIBLE
    assembly.POSSIBLE = held and request.param == "rewritten"  # type: ignore[misc]
    try:
        return build_program([MarkedSource(SOURCE, SOURCE.read_text(), ".c")], folder)
    finally:
        assembly.POSSIBLE = held  # type: ignore[misc]


def findings_of(program: Path, texts: SourceMap, tmp_path: Path, *arguments: str, grid: str = "") -> list[Finding]:
    """What a case gives."""
    path = tmp_path / "findings.jsonl"
    assert run_program(program, arguments, path, grid, timeout=60).status == 0
    return read_findings(path, texts)


@pytest.mark.cases(22)
@pytest.mark.parametrize(("name", "kind", "case", "iteration", "index"), CASES)
def test_a_wrong_program_is_told_with_its_iteration_and_element(  # noqa: PLR0917 - a row of CASES
    program: Path, texts: SourceMap, tmp_path: Path, name: str, kind: str, case: str, iteration: Any, index: Any
) -> None:
    number = [one[0] for one in CASES].index(name)
    found = findings_of(program, texts, tmp_path, str(number), "wrong")
    told = [f for f in found if f.kind == kind]
    assert told, found
    assert told[0].facts()["case"] == case
    if iteration is not None:
        assert told[0].facts()["iteration"] == iteration
    if index is not None:
        assert told[0].facts()["index"] == index
    if kind != "directive-order":
        assert told[0].sites[0].file == str(SOURCE)
        assert told[0].sites[0].line > 0


@pytest.mark.parametrize("name", [one[0] for one in CASES])
def test_its_twin_is_silent(program: Path, texts: SourceMap, tmp_path: Path, name: str) -> None:
    number = [one[0] for one in CASES].index(name)
    assert findings_of(program, texts, tmp_path, str(number)) == []


def test_within_a_block_of_a_grid_neighbours_are_local(program: Path, texts: SourceMap, tmp_path: Path) -> None:
    number = str([one[0] for one in CASES].index("never_renewed"))
    alone = findings_of(program, texts, tmp_path, number, "wrong")
    (tmp_path / "grid").mkdir()
    blocks = findings_of(program, texts, tmp_path / "grid", number, "wrong", grid="2x2")
    assert {f.kind for f in blocks} == {f.kind for f in alone} == {"stale-halo-read"}
    assert 0 < sum(f.facts()["count"] for f in blocks) < sum(f.facts()["count"] for f in alone)
    assert blocks[0].facts()["iteration"] in ([1, 3], [4, 1])


def test_one_processor_owns_everything(program: Path, texts: SourceMap, tmp_path: Path) -> None:
    number = str([one[0] for one in CASES].index("never_renewed"))
    assert findings_of(program, texts, tmp_path, number, "wrong", grid="1x1") == []


def test_without_a_file_for_findings_the_program_runs_as_it_is(program: Path) -> None:
    done = subprocess.run([str(program), "0", "wrong"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_does_not_compile_is_one_line_with_its_place(tmp_path: Path) -> None:
    source = tmp_path / "broken.c"
    source.write_text("int main(void)\n{\n    return x;\n}\n")
    with pytest.raises(UsageError, match=r"broken\.c:3: the program does not compile: .*'x' undeclared"):
        build_program([MarkedSource(source, source.read_text(), ".c")], tmp_path)


def test_a_missing_function_is_named(tmp_path: Path) -> None:
    source = tmp_path / "open.c"
    source.write_text("int other(void);\nint main(void)\n{\n    return other();\n}\n")
    with pytest.raises(UsageError, match="other is not defined"):
        build_program([MarkedSource(source, source.read_text(), ".c")], tmp_path)


def test_a_function_that_two_files_define_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.c").write_text("int same(void)\n{\n    return 1;\n}\n")
    (tmp_path / "two.c").write_text("int same(void)\n{\n    return 2;\n}\nint main(void)\n{\n    return same();\n}\n")
    marked = [MarkedSource(one, one.read_text(), ".c") for one in (tmp_path / "one.c", tmp_path / "two.c")]
    with pytest.raises(UsageError, match="two of its files define same"):
        build_program(marked, tmp_path)


def test_a_missing_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX", "FC"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no C compiler: install gcc"):
        build_program([MarkedSource(SOURCE, SOURCE.read_text(), ".c")], tmp_path)


def test_what_is_cut_off_is_left_out(tmp_path: Path, texts: SourceMap) -> None:
    path = tmp_path / "findings.jsonl"
    path.write_text('{"id":1,"kind":"shared-write","why":"undeclared","construct":5,"site":0,"data":4}\n{"id":2,"ki')
    (finding,) = read_findings(path, texts)
    assert finding.kind == "shared-write"
