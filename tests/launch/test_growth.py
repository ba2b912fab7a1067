"""A record that grows fast is said once, with the line and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.launch.growth import GrowthWatch
from weft.trace.builder import Builder


class Time:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def said_after(run: Path, rates: list[float], *, seconds: float = 2.0) -> list[str]:
    """What is said while the newest record grows by so many MB a second in each of several looks."""
    said: list[str] = []
    time = Time()
    watch = GrowthWatch(run, said.append, time)
    files = sorted((run / "ranks").iterdir())
    size = files[-1].stat().st_size
    for rate in [0.0, *rates]:
        time.now += seconds
        size += int(rate * 1e6 * seconds)
        os.truncate(files[-1], size)  # without a byte on the disk
        watch.compare_sizes(files)
        if watch.speaker is not None:
            watch.speaker.join()
    return said


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Rank 1 sends most of its messages from one line."""
    b = Builder(ranks=2, path=tmp_path / "run")
    for step in range(9):
        b.ranks[1].send(0, tag=7, site=("a.c", 12, "push") if step % 4 else ("a.c", 3, "main"))
        b.ranks[0].recv(1, tag=7)
    return Path(b.write())


def test_a_record_that_grows_fast_is_said_once_with_its_line(run: Path) -> None:
    (sentence,) = said_after(run, [10, 60, 80, 90])
    assert sentence.startswith("rank 1 records 60 MB a second, most of it for send(dest=0, tag=7) at a.c:12; ")
    assert "--keep" in sentence and "--level outcomes" in sentence


@pytest.mark.parametrize("rates", [[45.0] * 4, [], [0.0, 0.0]])
def test_one_that_grows_slowly_is_not(run: Path, rates: list[float]) -> None:
    assert said_after(run, rates) == []


def test_a_burst_of_half_a_second_is_no_growth(run: Path) -> None:
    assert said_after(run, [0.0] * 4 + [200.0] + [0.0] * 4, seconds=0.5) == []
