"""The plan of a replay and the page of control, as native/shim/plan.h draws them (a test compares)."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np

PLAN_MAGIC: Final = 0x326E616C70746677
CONTROL_MAGIC: Final = 0x316C7274636674FF
CONTROL_THREADS: Final = 32
CONTROL_SIZE: Final = 4096
GOAL_NONE: Final = 2**64 - 1

POSTED_FREE: Final = -1
POSTED_NEVER: Final = -2

HEADER: Final = np.dtype(
    [
        ("magic", "<u8"), ("size", "<u4"), ("functions", "<u4"), ("threads", "<u4"), ("flags", "<u4"),
        ("kinds", "<u8"), ("canonical", "<u8"), ("table", "<u8"), ("worlds", "<u8"), ("world_count", "<u4"),
        ("pad", "<u4"),
    ]
)  # fmt: skip
THREAD: Final = np.dtype(
    [
        ("entries", "<u8"), ("entry_count", "<u8"), ("posts", "<u8"), ("post_count", "<u8"), ("values", "<u8"),
        ("value_count", "<u8"), ("times", "<u8"), ("time_count", "<u8"), ("turns", "<u8"), ("turn_count", "<u8"),
        ("made", "<u4"), ("pad", "<u4"),
    ]
)  # fmt: skip
ENTRY: Final = np.dtype(
    [
        ("function", "<u2"), ("outcome", "u1"), ("flags", "u1"), ("peer", "<i4"), ("tag", "<i4"), ("count", "<i4"),
        ("comm", "<u4"), ("datatype", "<u4"), ("object", "<u4"), ("polls", "<u4"), ("value", "<u4"), ("event", "<u4"),
        ("turn", "<u4"),
    ]
)  # fmt: skip
TURN: Final = np.dtype(
    [
        ("result", "<u8"), ("ordinal", "<u4"), ("channel", "<u4"), ("needed", "<u4"), ("kind", "u1"), ("bytes", "u1"),
        ("pad", "<u2"),
    ]
)  # fmt: skip
CHANNEL: Final = np.dtype([("all", "<u4"), ("changes", "<u4")])
CONTROL_THREAD: Final = np.dtype(
    [
        ("goal", "<u8"), ("at", "<u8"), ("parked", "<u4"), ("behind", "<u4"), ("polling", "<u4"), ("tid", "<u4"),
        ("goal_polls", "<u4"), ("free_polls", "<u4"),
    ]
)  # fmt: skip
CONTROL: Final = np.dtype(
    [
        ("magic", "<u8"), ("state", "<u4"), ("pid", "<i4"), ("ended", "<u4"), ("threads", "<u4"),
        (
            "diverged",
            [
                ("why", "<u4"), ("thread", "<u4"), ("field", "<u4"), ("function", "<u4"), ("at", "<u8"),
                ("expected", "<i8"), ("got", "<i8"),
            ],
        ),
        ("thread", CONTROL_THREAD, (CONTROL_THREADS,)),
    ]
)  # fmt: skip


class PlanFlag(IntFlag):
    """About a whole plan."""

    CHECKED = 1
    OPEN = 2
    BOUNDED = 4
    TURNS = 8


class Check(IntFlag):
    """What is compared of a function's calls."""

    CALL = 0x01
    COMM = 0x02
    PEER = 0x04
    TAG = 0x08
    COUNT = 0x10
    TYPE = 0x20
    OBJECT = 0x40
    POLL = 0x80


class Outcome(IntEnum):
    """What was decided by a call."""

    NONE = 0
    DONE = 1
    INDEX = 2
    COUNT = 3
    SOURCE = 4
    CANCEL = 5


class TurnKind(IntEnum):
    """What a lock or an atomic access does to its channel."""

    NONE = 0
    READS = 1
    CHANGES = 2


class EntryFlag(IntFlag):
    """About one call."""

    ANY_SOURCE = 1
    ANY_TAG = 2
    OPEN = 4
    FAILED = 8
    GUESSED = 16


class ControlState(IntEnum):
    """How far a rank is."""

    NEW = 0
    RUNNING = 1
    DIVERGED = 2
    ENDED = 3
    REFUSED = 4


class Divergence(IntEnum):
    """Why a rank does not follow its record."""

    CALL = 1
    ARGUMENT = 2
    END = 3
    OUTCOME = 4
    THREAD = 5
