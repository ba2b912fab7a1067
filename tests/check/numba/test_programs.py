"""Programs with one fault each and their corrected twins: found at the line and of the kind they say, and nothing else.

A line that ends in `# finds: kind` is where that kind must be found; a function without such a line must be silent.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests_support import ROOT, WEFT, execute

pytest.importorskip("numba")

PROGRAMS = ROOT / "tests" / "check" / "numba" / "programs"
FAULTY = ("values", "dependence", "reductions", "scalars", "bounds", "helpers")
RUNS = {"faulty": FAULTY, "correct": ("correct",)}
"""Processes, and the programs of each: what Numba compiles of its own library takes longer than the programs."""
EACH_TIME = {
    "values": ("row_sums", "sign", "drawn"),
    "dependence": ("add_up", "mark", "together", "gathered"),
    "reductions": ("nearest", "cumulative"),
    "scalars": ("tail", "steps", "damped"),
    "bounds": ("pick", "called", "back"),
    "helpers": ("smooth", "rows", "count_down", "depths", "collect", "containers"),
    "correct": ("scratch_by_thread", "reductions", "made", "by_chunks"),
}
"""Functions of each program that each run of the tests calls, with their twins; the marker `matrix` calls all."""
PROGRAM_SECONDS = 900  # the time limit for one of them on a crowded machine; alone it takes 10 to 40 s

pytestmark = pytest.mark.timeout(1000)

Reports = Mapping[str, Future[dict[str, Any]]]


def functions(text: str) -> list[ast.FunctionDef]:
    return [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]


def chosen(name: str, whole: bool) -> set[str]:
    """The functions of a program that are called."""
    if whole:
        return {one.name for one in functions((PROGRAMS / f"{name}.py").read_text())}
    return {twin for one in EACH_TIME[name] for twin in (one, f"{one}_fixed")}


def copied(name: str, whole: bool) -> str:
    """A program that calls only those: its lines stay where they are."""
    text = (PROGRAMS / f"{name}.py").read_text()
    left = {one.name for one in functions(text)} - chosen(name, whole)
    return re.sub(r"^(\w+)\(.*$", lambda call: "" if call[1] in left else call[0], text, flags=re.MULTILINE)


def written(name: str, folder: Path, whole: bool) -> None:
    for one in RUNS[name]:
        (folder / f"{one}.py").write_text(copied(one, whole))
    (folder / f"{name}_run.py").write_text("".join(f"import {one}\n" for one in RUNS[name]))


def run(name: str, folder: Path, whole: bool) -> dict[str, Any]:
    """The report of a program; that of chosen functions alone is made with less optimisation, to save time."""
    environment = {"PYTHONDONTWRITEBYTECODE": "1", **({} if whole else {"NUMBA_OPT": "1"})}
    out, script = folder / f"{name}.json", folder / f"{name}_run.py"
    words = ["check", "--format", "json", "-o", out, script]
    done = execute([*WEFT, *words], timeout=PROGRAM_SECONDS, cwd=ROOT, env=environment)
    assert out.exists(), done.stderr
    report: dict[str, Any] = json.loads(out.read_text())
    report["status"], report["stdout"], report["stderr"] = done.returncode, done.stdout, done.stderr
    return report


def started(folder: Path, whole: bool) -> Reports:
    """The report of each program, when it is there."""
    for name in RUNS:
        written(name, folder, whole)  # not by the threads: two that parse at once can fail in Python 3.11 (gh-106905)
    pool = ThreadPoolExecutor(os.cpu_count())
    found = {name: pool.submit(run, name, folder, whole) for name in RUNS}
    pool.shutdown(wait=False)
    return {program: found[name] for name, programs in RUNS.items() for program in programs}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return started(tmp_path_factory.mktemp("programs"), whole=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return started(tmp_path_factory.mktemp("whole"), whole=True)


def marked(name: str, called: set[str]) -> set[tuple[int, str]]:
    text = (PROGRAMS / f"{name}.py").read_text()
    lines = text.splitlines()
    return {
        (number, kind)
        for function in functions(text)
        if function.name in called
        for number in range(function.lineno, (function.end_lineno or 0) + 1)
        if (found := re.search(r"# finds: (.*)$", lines[number - 1]))
        for kind in found[1].split(", ")
    }


def found_at(report: dict[str, Any], name: str) -> set[tuple[int, str]]:
    return {
        (place["line"], one["kind"])
        for one in report["findings"]
        for place in one["evidence"].get("places", one["sites"][:1])  # one cause at several places is one finding
        if Path(place["file"]).stem == name
    }


@pytest.mark.parametrize("name", (*FAULTY, "correct"))
def test_each_fault_is_found_at_its_line_and_every_twin_is_silent(name: str, reports: Reports) -> None:
    holds(name, reports, chosen(name, whole=False))


@pytest.mark.matrix
@pytest.mark.parametrize("name", (*FAULTY, "correct"))
def test_so_it_is_of_every_program(name: str, whole: Reports) -> None:
    holds(name, whole, chosen(name, whole=True))


def holds(name: str, reports: Reports, called: set[str]) -> None:
    report, promised = reports[name].result(), marked(name, called)
    assert found_at(report, name) == promised, report["stderr"]
    assert report["status"] == (1 if promised else 0)
    assert "Traceback" not in report["stderr"]


def test_each_run_calls_a_function_of_each_kind_of_finding_and_its_twin() -> None:
    for name, each in EACH_TIME.items():
        there = {one.name for one in functions((PROGRAMS / f"{name}.py").read_text())}
        assert set(each) <= there
        assert name == "correct" or all(f"{one}_fixed" in there for one in each)
    kinds = [{kind for name in FAULTY for _, kind in marked(name, chosen(name, whole))} for whole in (False, True)]
    assert kinds[0] == kinds[1]


def test_no_finding_is_of_another_file(reports: Reports) -> None:
    files = {site["file"] for name in reports for one in reports[name].result()["findings"] for site in one["sites"]}
    assert {Path(file).stem for file in files} == set(FAULTY)
    assert len({Path(file).parent for file in files}) == 1


def test_there_are_at_least_25_programs_with_a_fault_and_as_many_twins() -> None:
    wrong = right = 0
    for name in (*FAULTY, "correct"):
        for function in re.split(r"\n(?=@njit)", (PROGRAMS / f"{name}.py").read_text()):
            if "parallel=True" in function.split("\n", 1)[0]:
                wrong += "# finds:" in function
                right += "# finds:" not in function
    assert wrong >= 25
    assert right >= wrong


def one(report: dict[str, Any], kind: str, text: str) -> dict[str, Any]:
    found = [one for one in report["findings"] if one["kind"] == kind and text in one["message"]]
    assert len(found) == 1, [one["message"] for one in report["findings"]]
    return dict(found[0])


def test_a_dependence_names_loop_iterations_element_and_how_often(reports: Reports) -> None:
    found = one(reports["dependence"].result(), "loop-dependence", "`vector[0]`")
    assert found["message"].startswith("Iteration i=1 of the loop at line 13 ")
    assert found["evidence"]["iteration"] == [1]
    assert found["evidence"]["other"] == [0]
    assert found["evidence"]["index"] == [0]
    assert found["evidence"]["count"] > 1
    assert found["evidence"]["column"] == 13
    assert found["certainty"] == "certain"


def test_a_loop_that_numba_runs_with_an_array_expression_is_the_users(reports: Reports) -> None:
    report = reports["dependence"].result()
    lines = (PROGRAMS / "dependence.py").read_text().splitlines()
    line = lines.index("    out = np.zeros(count)") + 2
    found = one(report, "loop-dependence", "`part[")
    assert found["message"].startswith(f"Iteration i=1 of the loop at line {line} ")
    assert [site["line"] for site in found["sites"]] == [line + 2, line]
    assert "never ran" not in report["stderr"]


def test_an_element_of_a_strided_view_has_the_index_of_the_view(reports: Reports) -> None:
    assert one(reports["dependence"].result(), "loop-dependence", "`odd[")["evidence"]["index"] == [0]


def test_an_index_from_the_end_is_told_as_the_program_has_it(reports: Reports) -> None:
    assert "uses index -9 of `a`" in one(reports["bounds"].result(), "out-of-bounds", "index -9")["message"]


def test_what_a_program_prints_is_its_own_and_comes_once(reports: Reports) -> None:
    assert reports["correct"].result()["stdout"].splitlines() == ["scaled by 2.5"]


def test_what_one_call_read_without_a_value_does_not_hide_that_another_ones_results_differ(reports: Reports) -> None:
    found = one(reports["values"].result(), "divergence", "the parallel function drawn (")
    assert "np." not in found["message"]
    assert found["certainty"] == "possible"
