"""What a check that takes long says: how far it has come, and which construct makes it slower than promised."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests_support import WEFT, execute
from weft.dataparallel import progress
from weft.dataparallel.source_map import AccessPlace
from weft.openmp.checking import CostWatch
from weft.openmp.messages import describe_cost

SMALL = """\
#include <stdio.h>
int main(void)
{
    static double a[@N];
    for (int t = 0; t < @T; t++) {
        #pragma omp parallel for
        for (int i = 0; i < @N; i++)
            a[i] += @E;
    }
    printf("%g\\n", a[7] / @T);
    return 0;
}
"""


def test_what_goes_on_is_said_after_ten_seconds_and_then_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 9.9, 10, 11, 19, 25, 41, 79])
    monkeypatch.setattr("weft.dataparallel.progress.time.monotonic", lambda: next(seconds))
    said: list[str] = []
    one = progress.Progress(said.append, "the program runs")
    for _ in range(7):
        one.report_if_due()
    assert said == ["the program runs for 10 s", "the program runs for 25 s", "the program runs for 41 s"]


def test_the_first_source_that_does_not_compile_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0)
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        jobs = [pool.submit(int, text) for text in ("1", "2", "x")]
        with pytest.raises(ValueError, match="'x'"):
            progress.wait_for_compilations(jobs, said.append)
        assert progress.wait_for_compilations(jobs[:2], said.append) == [1, 2]
    assert said[-1] == "compiling for 0 s: 2 of 2 sources so far"


def test_who_interrupts_waits_for_no_source_that_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "FIRST_SECONDS", 0)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    begun = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        jobs: list[Future[object]] = [pool.submit(begun.wait, 20), pool.submit(int, "1")]
        with pytest.raises(KeyboardInterrupt):
            progress.wait_for_compilations(jobs, interrupt)
        begun.set()
    assert jobs[1].cancelled()


def test_a_slow_construct_is_said_once_and_a_fast_one_never(tmp_path: Path) -> None:
    said: list[str] = []
    watch = CostWatch(tmp_path, said.append)
    lines = [{"modules": [], "rank": 0}]
    (tmp_path / "openmp.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    watch.report_slow_construct()
    assert said == []
    with (tmp_path / "openmp.jsonl").open("a") as file:
        file.write('{"slow":40,"pc":0,"share":90}\n')
    watch.report_slow_construct()
    watch.report_slow_construct()
    assert len(said) == 1 and said[0].startswith("this check takes about 40 times as long")
    place = AccessPlace("a.c", 7, 0, "main")
    assert "more than 100 times as long as the program alone; 83% of the time goes into the construct at a.c:7. To" in (
        describe_cost(384, 83, place)
    )


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("elements", "times", "expression", "is_slow"),
    [(8, 100_000_000, "i", True), (100_000, 100_000, "sin(i) * cos(i + 1.0) * exp(i * 1e-6)", False)],
)
def test_many_small_regions_are_named_and_large_loops_that_compute_are_not(
    elements: int, times: int, expression: str, is_slow: bool, tmp_path: Path
) -> None:
    text = SMALL.replace("@N", str(elements)).replace("@T", str(times)).replace("@E", expression)
    (tmp_path / "small.c").write_text(f"#include <math.h>\n{text}")
    done = execute([*WEFT, "check", "--timeout", "45", "--link=-lm", "small.c"], timeout=110, cwd=tmp_path)
    assert "the program runs for 1" in done.stderr and done.returncode == 3, done.stderr
    assert ("of it in the construct at" in done.stderr and "small.c:7;" in done.stderr) == is_slow, done.stderr
