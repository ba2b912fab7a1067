"""The analyses of a run as an MPI program: ranks of the run to workers, and what they tell each other."""

from __future__ import annotations

from weft.report.parallel.division import shares
from weft.report.parallel.messages import Shared, shared_match
from weft.report.parallel.team import Alone, Team
from weft.report.parallel.whole import gathered

__all__ = ["Alone", "Shared", "Team", "gathered", "shared_match", "shares"]
