"""Replay: run a recorded run again, only as far as needed, stopped where it is always the same.

`make_plans(trace, match)` computes before the replay what each rank will do; recorder/replay.c follows the plan inside
the ranks. `Cuts` turns points of the record into goals, `Replay` observes the replay from outside.
"""

from weft.replay.cuts import Cut, Cuts, Goals
from weft.replay.driver import Driver
from weft.replay.plan import RankPlan, ThreadPlan
from weft.replay.planning import make_plans
from weft.replay.points import events_to_stop_before, resolve_location
from weft.replay.running import Replay, Result
from weft.replay.sequence import Conductor, plan_steps

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
    "events_to_stop_before",
    "make_plans",
    "plan_steps",
    "resolve_location",
]
