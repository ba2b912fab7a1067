"""Classes of calls: what the colours of the picture mean."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weft.match import Op, classify
from weft.terms import calls
from weft.trace.functions import MAX_ID, FunctionTable

CLASSES: Final = ("other", "send", "receive", "wait", "collective", "one-sided", "file", "poll")
"""In the order of the columns that native/kernel/view.c fills."""

_ROOMS: Final = (
    (calls.words("Rput Rget Raccumulate Rget_accumulate") | calls.RMA, "one-sided"),
    (calls.TESTS | calls.STATUS_CHECKS | calls.words("Iprobe Improbe Win_test Parrived"), "poll"),
    (calls.WAITS | calls.PROBES | calls.words("Win_wait"), "wait"),
    (calls.SENDS | calls.ISENDS | calls.SENDRECVS | calls.ISENDRECVS | calls.SEND_INITS | {"Psend_init"}, "send"),
    (calls.RECVS | calls.IRECVS | calls.MRECVS | calls.RECV_INITS | {"Precv_init"}, "receive"),
    (calls.COMM_COLLECTIVES | calls.ICOLLECTIVES | calls.COLLECTIVE_INITS, "collective"),
)


def class_of(name: str) -> str:
    """The class of a function by its name."""
    base = calls.base(name)
    for names, found in _ROOMS:
        if base in names:
            return found
    if base.startswith("Win_"):
        return "one-sided"
    if base.startswith("File_"):
        return "file"
    if base in calls.STARTS:
        return "send"
    return "collective" if classify(name)[0] in (Op.COLL, Op.COLL_OBJECT) else "other"


@cache
def classes(functions: FunctionTable) -> NDArray[np.uint8]:
    """The class of every function id of a run, 0 for unknown ones."""
    table = np.zeros(MAX_ID + 1, np.uint8)
    for function in functions:
        table[function.id] = CLASSES.index(class_of(function.name))
    return table
