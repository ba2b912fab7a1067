"""Values held against each other: forms, tolerances and boxes by their definitions; the command as people use it."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.campaign import environment
from tests_support import WEFT, Installed, execute
from weft.compare.values import compare_values
from weft.compare.values.boxes import find_uncovered_box, intersect_boxes
from weft.compare.values.judgement import judge_arrays
from weft.compare.values.report import render_values, to_json
from weft.compare.values.tolerance import Tolerance, compute_ulp_distances
from weft.values import recording
from weft.values.configuration import FORMS as KEPT_AS
from weft.values.configuration import Configuration, Rule
from weft.values.trace import ValueTrace

WRITER = """
import sys
import numpy as np, weft
cuts, wrong = [int(n) for n in sys.argv[1].split(",")], int(sys.argv[2])
a = np.random.default_rng(1).normal(size=(300, 40))
for step in range(3):
    with weft.loop("step", step):
        a = a + 0.5
        if step == 1 and wrong >= 0:
            a[wrong, 7] += 1e-6
        for first, end in zip(cuts, cuts[1:]):
            part = a[first:end] if len(sys.argv) < 4 else np.asfortranarray(a[first:end])
            weft.probe("a", weft.part(part, of="A", lower=(first, 0)))
"""


def written(folder: Path, form: str, cuts: str, wrong: int = -1, *more: str) -> ValueTrace:
    """The values of one process that keeps an array in pieces, as several ranks would."""
    (folder / "values").mkdir(parents=True)
    (folder / "values" / "plan").write_text(Configuration([Rule("program", "", form=int(KEPT_AS[form]))]).plan_text())
    library = recording.library()
    variables = {"WEFT_INTERNAL_VALUES": str(folder / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
    done = execute([sys.executable, "-c", WRITER, cuts, str(wrong), *more], env=variables)
    assert done.returncode == 0, done.stderr
    return ValueTrace.open(folder)


@pytest.mark.cases(2)
@pytest.mark.parametrize("form", ["values", "changes", "hashes"])
@pytest.mark.parametrize("other", ["values", "changes", "hashes"])
def test_every_form_is_held_against_every_other(form: str, other: str, tmp_path: Path) -> None:
    before = written(tmp_path / "before", form, "0,300")
    assert compare_values(before, written(tmp_path / "same", other, "0,300"), {}).alike
    made = compare_values(before, written(tmp_path / "wrong", other, "0,300", 123), {})
    assert len(made.found) == 2, "from step 1 on"
    [first] = made.found[0]
    if "hashes" in (form, other):
        assert first.sort == "hash"
        assert "to see which element" in "\n".join(render_values(made))
    else:
        assert (first.sort, first.element) == ("value", (123, 7))


def test_the_order_in_memory_is_not_part_of_a_value(tmp_path: Path) -> None:
    rows, columns = (
        written(tmp_path / name, "values", "0,300", -1, *more) for name, more in (("c", ()), ("f", ("f",)))
    )
    assert compare_values(rows, columns, {"": {"exact": True}}).alike
    hashed = written(tmp_path / "h", "hashes", "0,300", -1, "f")
    assert compare_values(rows, hashed, {}).alike


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["values", "hashes"])
@pytest.mark.parametrize("cuts", ["0,100,300", "0,1,2,299,300", "0,0,150,150,300"])
def test_several_parts_of_one_process_are_one_array(form: str, cuts: str, tmp_path: Path) -> None:
    before = written(tmp_path / "before", "values", "0,300")
    cut = written(tmp_path / "cut", form, cuts)
    assert compare_values(before, cut, {}).alike and compare_values(cut, before, {}).alike
    made = compare_values(before, written(tmp_path / "wrong", form, cuts, 123), {})
    assert not made.alike
    assert form == "hashes" or made.found[0][0].element == (123, 7)
    [gap] = compare_values(before, written(tmp_path / "gap", "values", "0,100,200"), {}).found[0]
    assert (gap.sort, gap.element) == ("missing", (200, 0))


def test_a_part_that_is_kept_again_in_an_iteration_is_another_value(tmp_path: Path) -> None:
    code = "import sys, weft\nfor x in (1.0, float(sys.argv[1])):\n    weft.probe('a', weft.part([x] * 3, of='A'))\n"
    traces = []
    for name, second in (("one", "2"), ("two", "3")):
        (tmp_path / name / "values").mkdir(parents=True)
        library = recording.library()
        variables = {
            "WEFT_INTERNAL_VALUES": f"{tmp_path / name / 'values'}",
            "WEFT_INTERNAL_VALUES_LIBRARY": f"{library}",
        }
        execute([sys.executable, "-c", code, second], env=variables)
        traces.append(ValueTrace.open(tmp_path / name))
    assert compare_values(traces[0], traces[0], {}).alike
    made = compare_values(traces[0], traces[1], {})
    assert [(some[0].judged.one, some[0].judged.two) for some in made.found] == [(2.0, 3.0)]


@pytest.mark.cases(1)
@pytest.mark.parametrize("fault", [-1, 15])
def test_rounding_that_grew_is_told_as_what_it_may_be_and_a_fault_behind_it_as_none(fault: int, tmp_path: Path) -> None:
    code = (
        "import sys, weft\nx = float(sys.argv[1])\nfor i in range(60):\n    with weft.loop('step', i):\n"
        "        x = 3.9 * x * (1 - x)\n        x -= 0.001 * (i == int(sys.argv[2]))\n        weft.probe('x', x)\n"
    )
    traces = []
    for name, begin, wrong in (("one", "0.3", -1), ("two", "0.30000000000000004", fault)):
        (tmp_path / name / "values").mkdir(parents=True)
        library = recording.library()
        variables = {
            "WEFT_INTERNAL_VALUES": f"{tmp_path / name / 'values'}",
            "WEFT_INTERNAL_VALUES_LIBRARY": f"{library}",
        }
        execute([sys.executable, "-c", code, begin, str(wrong)], env=variables)
        traces.append(ValueTrace.open(tmp_path / name))
    made = compare_values(traces[0], traces[1], {})
    assert not made.alike
    said = "\n".join(render_values(made))
    assert "it may be rounding that has grown" in said
    allowed = float(said.partition("--relative ")[2].split()[0])
    first = made.found[0][0].judged
    assert abs(first.one - first.two) <= allowed * abs(first.one)
    told = (
        "it is more than rounding that grows step by step: probe x at <string>:7 on rank 0, in iteration 15 of step is "
    )
    assert (told in said) == (fault > 0)
    found = to_json(made)["jump"]
    assert (found is None) if fault < 0 else found["iterations"] == [["step", 15]]


numbers = st.floats(width=64)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30), st.integers(0, 100))
def test_units_in_the_last_place_are_steps_from_number_to_number(pairs: list[tuple[float, float]], steps: int) -> None:
    one = np.array([a for a, _ in pairs])
    two = one.copy()
    for _ in range(steps):
        two = np.nextafter(two, np.inf)
    found = compute_ulp_distances(one, two)
    finite = np.isfinite(one) & np.isfinite(two)
    assert (found[finite] == steps).all()
    assert (compute_ulp_distances(two, one)[finite] == steps).all()
    far = compute_ulp_distances(one, np.array([b for _, b in pairs]))
    assert (far >= 0).all()


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=40),
    st.sampled_from([{}, {"exact": True}, {"absolute": 0.5}, {"relative": 1e-3}, {"ulps": 4}, {"nan": "different"}]),
)
@example([(1.646139149699594e297, -1.7976931348458544e308)], {})
def test_judging_many_at_once_is_judging_each_alone(pairs: list[tuple[float, float]], settings: dict[str, Any]) -> None:
    tolerance = Tolerance.from_settings(settings)
    one, two = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
    most = max((abs(x) for x in two.tolist() if np.isfinite(x)), default=0.0)
    expected = [i for i, (x, y) in enumerate(pairs) if not _alike(x, y, settings, most)]
    found = judge_arrays(one, two, tolerance)
    assert found.differing == len(expected)
    assert found.first == ((expected[0],) if expected else None)


def _alike(x: float, y: float, settings: dict[str, Any], most: float) -> bool:
    """By the words of the documentation, one pair at a time."""
    if x == y:
        return True
    if np.isnan(x) and np.isnan(y):
        return settings.get("nan") != "different"
    if not (np.isfinite(x) and np.isfinite(y)):
        return False
    apart = abs(np.float64(x) - np.float64(y))
    units = float(compute_ulp_distances(np.array([x]), np.array([y]))[0])
    if "absolute" in settings or "relative" in settings:
        near = max(settings.get("absolute", 0.0), settings.get("relative", 0.0) * max(abs(x), abs(y)))
        return bool(apart <= near)
    if "ulps" in settings:
        return units <= settings["ulps"]
    return not settings.get("exact") and (units <= 64 or bool(apart <= 64 * np.finfo(float).eps * most))


@pytest.mark.parametrize("shape", [(3_000_000,), (3, 2_000_000), (2_000, 1_500), (2, 2, 1_200_000)])
def test_the_first_element_of_a_large_array_is_found_where_it_is(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(len(shape))
    one = np.zeros(shape)
    two = one.copy()
    places = sorted(tuple(int(draw.integers(0, n)) for n in shape) for _ in range(5))
    for place in places:
        two[place] = 1
    found = judge_arrays(one, two, Tolerance())
    assert (found.first, found.differing, found.compared) == (places[0], len(set(places)), one.size)
    assert found.low == tuple(map(min, zip(*places, strict=True)))
    assert found.high == tuple(map(max, zip(*places, strict=True)))


def test_a_single_number_has_no_index() -> None:
    found = judge_arrays(np.array(1.0), np.array(2.0), Tolerance())
    assert (found.first, found.differing, found.one, found.two) == ((), 1, 1.0, 2.0)
    assert judge_arrays(np.array(1.0), np.array(1.0), Tolerance()).first is None


@pytest.mark.parametrize(("one", "two", "differs"), [
    (np.int64(2**60), np.int64(2**60 + 1), True),
    (np.float32(0.1), np.float64(0.1), True),
    (np.float32(0.5), np.float64(0.5), False),
    (np.int32(3), np.float64(3), False),
    (np.complex128(1 + 1e-3j), np.complex128(1), True),
    (np.complex128(1 + 1e-17j), np.complex128(1), False),
    (np.bool_(True), np.bool_(False), True),
    (-0.0, 0.0, False),
    (np.nan, 1.0, True),
    (np.inf, np.finfo(float).max, True),
])  # fmt: skip
def test_numbers_of_all_types(one: Any, two: Any, differs: bool) -> None:
    assert bool(judge_arrays(np.asarray(one), np.asarray(two), Tolerance()).differing) == differs


boxes = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=2, max_size=2).map(
    lambda sides: tuple((first, first + n) for first, n in sides)
)


@given(boxes, st.lists(boxes, max_size=5))
def test_what_no_box_holds_is_found_where_there_is_something(box: Any, held: list[Any]) -> None:
    def elements(one: Any) -> set[tuple[int, ...]]:
        return set(itertools.product(*(range(first, end) for first, end in one)))

    left = elements(box) - set().union(*(elements(one) for one in held))
    hole = find_uncovered_box(box, held)
    assert (hole is None) == (not left)
    assert hole is None or elements(hole) <= left
    for other in held:
        shared = intersect_boxes(box, other)
        assert (elements(shared) if shared else set()) == elements(box) & elements(other)


PROGRAM = """
import sys
import weft
for i in range(4):
    with weft.loop("step", i):
        weft.probe("x", i * (1 + (float(sys.argv[1]) if i == 2 else 0)))
"""


def command(folder: Path, *words: str) -> Any:
    return execute([*WEFT, *words], cwd=folder, env=environment())


@pytest.mark.matrix
def test_the_command_tells_the_first_difference_and_keeps_to_tolerances(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    for name, argument in (("right", "0"), ("wrong", "1e-6")):
        assert command(tmp_path, "run", "--out", name, "--", sys.executable, "p.py", argument).returncode == 0
    alike = command(tmp_path, "compare", "right", "right")
    assert (alike.returncode, alike.stdout) == (0, "all 4 values of probes are alike\n")
    done = command(tmp_path, "compare", "right", "wrong")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "first difference: probe x at p.py:6 on rank 0, in iteration 2 of step\n"
        "    rank 0: x is 2.000002, in the reference 2"
    )
    assert command(tmp_path, "compare", "right", "wrong", "--relative", "1e-5").returncode == 0
    (tmp_path / "t.toml").write_text("[probe.x]\nabsolute = 0.1\n")
    assert command(tmp_path, "compare", "right", "wrong", "--probes", "t.toml").returncode == 0
    told = json.loads(command(tmp_path, "compare", "right", "wrong", "--format", "json").stdout)
    [first] = told["values"]["first"]
    assert (first["line"], first["iterations"], first["run"]) == (6, [["step", 2]], "2.000002")
    assert command(tmp_path, "compare", "right", "wrong", "--relative", "-1").returncode == 2
    none = command(tmp_path, "compare", "right", "nothing")
    assert none.returncode == 4
    assert "nothing has no values" in none.stderr or "no such directory" in none.stderr


LONG = """
import sys, time
import weft
for i in range(600):
    with weft.loop("step", i):
        weft.probe("x", i + (1 if len(sys.argv) > 1 and i == 20 else 0))
    time.sleep(0.1 if len(sys.argv) > 1 else 0)
"""


@pytest.mark.matrix
def test_a_run_is_stopped_at_the_first_value_that_differs(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(LONG)
    assert command(tmp_path, "run", "--out", "right", "--", sys.executable, "p.py").returncode == 0
    done = command(tmp_path, "run", "--against", "right", "--out", "wrong", "--", sys.executable, "p.py", "x")
    assert done.returncode == 1, done.stderr
    assert "first difference: probe x at p.py:6 on rank 0, in iteration 20 of step" in done.stderr
    kept = sum(len(one.rows) for one in ValueTrace.open(tmp_path / "wrong").processes)
    assert 20 < kept < 600, "it was stopped long before its end"


def test_a_run_that_is_alike_goes_to_its_end(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(LONG)
    assert command(tmp_path, "run", "--out", "right", "--", sys.executable, "p.py").returncode == 0
    done = command(tmp_path, "run", "--against", "right", "--out", "again", "--", sys.executable, "p.py")
    assert done.returncode == 0, done.stderr
    assert "all 600 values of probes are alike" in done.stderr
    none = command(tmp_path, "run", "--against", "nothing", "--", sys.executable, "p.py")
    assert none.returncode == 4
    assert "nothing has no values" in none.stderr


LARGE = """
import re, sys
from pathlib import Path
import numpy as np, weft
if len(sys.argv) == 2:
    for step in range(10):
        with weft.loop("step", step):
            weft.probe("a", weft.part(np.arange(4e6) + step + (float(sys.argv[1]) if step == 9 else 0), of="A"))
else:
    made = weft.differences(*sys.argv[1:])
    # getrusage tells the most that a process had before it became this program, too: the tests' own here.
    print(len(made.found), made.compared, re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.matrix
def test_memory_does_not_grow_with_the_values_of_a_run(tmp_path: Path) -> None:
    """640 MB in the files of both; of each a stretch is held, and then given back."""
    for name, wrong in (("one", "0"), ("two", "1")):
        (tmp_path / name / "values").mkdir(parents=True)
        library = recording.library()
        variables = {
            "WEFT_INTERNAL_VALUES": f"{tmp_path / name / 'values'}",
            "WEFT_INTERNAL_VALUES_LIBRARY": f"{library}",
        }
        assert execute([sys.executable, "-c", LARGE, wrong], env=variables, timeout=100).returncode == 0
    done = execute([sys.executable, "-c", LARGE, str(tmp_path / "one"), str(tmp_path / "two")], timeout=100)
    found, compared, kilobytes = map(int, done.stdout.split())
    assert (found, compared) == (1, 10)
    assert kilobytes < 450_000, done.stdout
