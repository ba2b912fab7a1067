"""The cost of a replay falls with the distance from its point."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.halo_table import rows
from tests_support import Installed


@pytest.mark.matrix
def test_a_rank_runs_again_one_step_less_for_each_rank_of_distance(mpich: Installed, tmp_path: Path) -> None:
    point = 5, 6
    table = rows(Path(mpich.mpicc).parents[1], tmp_path, 16, 8, point)
    assert [row.steps for row in table] == [max(0, point[1] - row.distance) for row in table]
    for row in table:
        assert (row.calls == 0) == (row.distance > point[1])
        assert row.calls < row.recorded
