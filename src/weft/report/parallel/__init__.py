"""The analyses of a run as an MPI program: ranks of the run to workers, and what they tell each other."""

from __future__ import annotations

from weft.report.parallel.division import divide_ranks
from weft.report.parallel.messages import SharedMatch, match_shared
from weft.report.parallel.team import SingleWorker, Team
from weft.report.parallel.whole import gather_match

__all__ = ["SharedMatch", "SingleWorker", "Team", "divide_ranks", "gather_match", "match_shared"]
