"""The layout of a replay's plan and of the control page, from recorder/plan.h."""

from __future__ import annotations

from typing import Final

from weft.native.headers.plan import (
    CONTROL,
    CONTROL_MAGIC,
    CONTROL_THREAD,
    CONTROL_THREADS,
    GOAL_NONE,
    PLAN_MAGIC,
    POSTED_FREE,
    POSTED_NEVER,
    Check,
    ControlState,
    Divergence,
    Outcome,
)  # fmt: skip
from weft.native.headers.plan import PLAN_CHANNEL as CHANNEL
from weft.native.headers.plan import PLAN_CLOCK as CLOCK
from weft.native.headers.plan import PLAN_ENTRY as ENTRY
from weft.native.headers.plan import PLAN_HEADER as HEADER
from weft.native.headers.plan import PLAN_THREAD as THREAD
from weft.native.headers.plan import PLAN_TURN as TURN
from weft.native.headers.plan import Entry as EntryFlag
from weft.native.headers.plan import Plan as PlanFlag
from weft.native.headers.plan import Turn as TurnKind

__all__ = [
    "CHANNEL", "CLOCK", "CONTROL", "CONTROL_MAGIC", "CONTROL_SIZE", "CONTROL_THREAD", "CONTROL_THREADS", "ENTRY",
    "GOAL_NONE", "HEADER", "PLAN_MAGIC", "POSTED_FREE", "POSTED_NEVER", "THREAD", "TURN", "Check", "ControlState",
    "Divergence", "EntryFlag", "Outcome", "PlanFlag", "TurnKind",
]  # fmt: skip

CONTROL_SIZE: Final = 4096
