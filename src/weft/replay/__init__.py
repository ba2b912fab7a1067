"""Replay: a recorded run again, only as far as needed, stopped where it is always the same.

`plan(trace, match)` computes before the replay starts what each rank will do; native/shim/replay.c follows it inside
the ranks. `Cuts` turns points of the record into goals, `Session` stands beside the running replay.
"""

from weft.replay.plan import RankPlan, ThreadPlan, plan
from weft.replay.points import Cuts, Goals, resolve
from weft.replay.session import Result, Session

__all__ = ["Cuts", "Goals", "RankPlan", "Result", "Session", "ThreadPlan", "plan", "resolve"]
