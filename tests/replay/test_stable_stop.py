"""A breakpoint on one rank stops every rank at the same event each time; stable_stop.py does it 200 times."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.campaign import Burners
from replay.stable_stop import Stops
from tests_support import Installed


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_every_stop_is_at_the_same_event_of_every_rank(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Installed = request.getfixturevalue(name)
    stops = Stops(Path(installed.mpicc).parents[1], tmp_path, 10)
    first = stops.stop(0, WEFT_TEST_DELAYS="2")
    with Burners(2):
        assert stops.stop(1, WEFT_TEST_DELAYS="3") == first
    assert "rank 2 before event 92: send(dest=0, tag=3) at delays.c" in first[0]


@pytest.mark.matrix
def test_without_a_record_the_same_delays_give_other_orders(mpich: Installed, tmp_path: Path) -> None:
    stops = Stops(Path(mpich.mpicc).parents[1], tmp_path, 10)
    sums = {stops.plain(WEFT_TEST_DELAYS=str(seed)) for seed in (2, 3, 4)}
    assert len(sums) > 1
