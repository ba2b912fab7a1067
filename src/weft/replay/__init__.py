"""Replay: run a recorded run again, only as far as needed, stopped where it is always the same.

`plans_of(trace, match)` computes before the replay what each rank will do; recorder/replay.c follows the plan inside
the ranks. `Cuts` turns points of the record into goals, `Replay` observes the replay from outside.
"""

from weft.replay.cuts import Cut, Cuts, Goals
from weft.replay.driver import Driver
from weft.replay.plan import RankPlan, ThreadPlan
from weft.replay.planning import plans_of
from weft.replay.points import demanded, resolve
from weft.replay.running import Replay, Result
from weft.replay.sequence import Conductor, steps

__all__ = [
    "Conductor",
    "Cut",
    "Cuts",
    "Driver",
    "Goals",
    "RankPlan",
    "Replay",
    "Result",
    "ThreadPlan",
    "demanded",
    "plans_of",
    "resolve",
    "steps",
]
