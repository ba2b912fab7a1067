"""Programs with one fault each and their corrected twins: found at the line and of the kind they say, and nothing else.

A line that ends in `# finds: kind` is where that kind must be found; a function without such a line must be silent.
"""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests_support import ROOT, WEFT, execute

pytest.importorskip("numba")

PROGRAMS = ROOT / "tests" / "check" / "numba" / "programs"
FAULTY = ("dependence", "reductions", "scalars", "bounds", "values")
"""With `values` last: a read without a value keeps later differences from being told."""
RUNS = {"faulty": FAULTY, "correct": ("correct",)}
"""Processes, and the programs of each: what Numba compiles of its own library takes longer than the programs."""
PROGRAM_SECONDS = 900  # the time limit for one of them on a crowded machine; alone it takes 20 to 40 s

pytestmark = pytest.mark.timeout(1000)


def run(name: str, folder: Path) -> dict[str, Any]:
    out, script = folder / f"{name}.json", folder / f"{name}.py"
    imports = "".join(f"import {one}\n" for one in RUNS[name])
    script.write_text(f"import sys\n\nsys.path.insert(0, {str(PROGRAMS)!r})\n{imports}")
    words = ["check", "--format", "json", "-o", out, script]
    done = execute([*WEFT, *words], timeout=PROGRAM_SECONDS, cwd=ROOT, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert out.exists(), done.stderr
    report: dict[str, Any] = json.loads(out.read_text())
    report["status"], report["stdout"], report["stderr"] = done.returncode, done.stdout, done.stderr
    return report


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("programs")
    pool = ThreadPoolExecutor(os.cpu_count())
    found = {name: pool.submit(run, name, folder) for name in RUNS}
    pool.shutdown(wait=False)
    return {program: found[name] for name, programs in RUNS.items() for program in programs}


def marked(name: str) -> set[tuple[int, str]]:
    lines = (PROGRAMS / f"{name}.py").read_text().splitlines()
    return {
        (number, kind)
        for number, line in enumerate(lines, 1)
        if number > 1 and (found := re.search(r"# finds: (.*)$", line))
        for kind in found[1].split(", ")
    }


@pytest.mark.parametrize("name", (*FAULTY, "correct"))
def test_each_fault_is_found_at_its_line_and_every_twin_is_silent(
    name: str, reports: dict[str, Future[dict[str, Any]]]
) -> None:
    report = reports[name].result()
    found = {
        (place["line"], one["kind"])
        for one in report["findings"]
        for place in one["evidence"].get("places", one["sites"][:1])  # one cause at several places is one finding
        if Path(place["file"]).stem == name
    }
    assert found == marked(name), report["stderr"]
    assert report["status"] == (1 if marked(name) else 0)
    assert "Traceback" not in report["stderr"]


def test_no_finding_is_of_another_file(reports: dict[str, Future[dict[str, Any]]]) -> None:
    files = {site["file"] for name in reports for one in reports[name].result()["findings"] for site in one["sites"]}
    assert {Path(file).parent for file in files} == {PROGRAMS}


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


def test_a_dependence_names_loop_iterations_element_and_how_often(
    reports: dict[str, Future[dict[str, Any]]],
) -> None:
    found = one(reports["dependence"].result(), "loop-dependence", "`vector[0]`")
    assert found["message"].startswith("Iteration i=1 of the loop at line 12 ")
    assert found["evidence"]["iteration"] == [1]
    assert found["evidence"]["other"] == [0]
    assert found["evidence"]["index"] == [0]
    assert found["evidence"]["count"] > 1
    assert found["evidence"]["column"] == 13
    assert found["certainty"] == "certain"


def test_a_loop_that_numba_runs_with_an_array_expression_is_the_users(
    reports: dict[str, Future[dict[str, Any]]],
) -> None:
    report = reports["dependence"].result()
    lines = (PROGRAMS / "dependence.py").read_text().splitlines()
    line = lines.index("    out = np.zeros(count)") + 2
    found = one(report, "loop-dependence", "`part[")
    assert found["message"].startswith(f"Iteration i=1 of the loop at line {line} ")
    assert [site["line"] for site in found["sites"]] == [line + 2, line]
    assert "never ran" not in report["stderr"]


def test_an_element_of_a_strided_view_has_the_index_of_the_view(reports: dict[str, Future[dict[str, Any]]]) -> None:
    assert one(reports["dependence"].result(), "loop-dependence", "`odd[")["evidence"]["index"] == [0]


def test_an_index_from_the_end_is_told_as_the_program_has_it(reports: dict[str, Future[dict[str, Any]]]) -> None:
    assert "uses index -9 of `a`" in one(reports["bounds"].result(), "out-of-bounds", "index -9")["message"]


def test_what_a_program_prints_is_its_own_and_comes_once(reports: dict[str, Future[dict[str, Any]]]) -> None:
    assert reports["correct"].result()["stdout"].splitlines() == ["scaled by 2.5"]
