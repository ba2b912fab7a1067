"""Classes of calls, which pictures distinguish by colour. One table for the terminal, SVG and the web view."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.mpi.meaning import Act, Over, find_meaning
from weft.trace import FunctionTable


class CallClass(NamedTuple):
    """A class of calls: its word, its title in a legend, and its colour on a light and on a dark background."""

    word: str
    title: str
    light: str
    dark: str


# Hues after Okabe and Ito (Color Universal Design, 2008), told apart by every kind of colour vision; the warm one is
# waiting, which is what a person looks for. Red is none of them: it belongs to trouble.
CLASSES: Final = (
    CallClass("send", "send", "#0072b2", "#3d9fdb"),
    CallClass("receive", "receive", "#009e73", "#2fbf95"),
    CallClass("wait", "wait, test, start", "#e69f00", "#f0b429"),
    CallClass("probe", "probe", "#b8a53c", "#d2c15a"),
    CallClass("collective", "collective", "#8d5bb8", "#b48ae0"),
    CallClass("one-sided", "one-sided", "#56b4e9", "#7cc9f5"),
    CallClass("io", "file", "#9c6b3f", "#c08f63"),
    CallClass("other", "other", "#8b95a1", "#7a8592"),
)
"""In the order of their numbers, which columns of classes hold."""

OTHER: Final = len(CLASSES) - 1

_NUMBERS: Final = {found.word: number for number, found in enumerate(CLASSES)}
_ACTS: Final = {
    "send": (Act.SEND, Act.PARTITION),
    # Of the two halves of a Sendrecv it is the receive that waits.
    "receive": (Act.RECEIVE, Act.MATCHED_RECEIVE, Act.SEND_RECEIVE),
    "probe": (Act.PROBE, Act.MATCHED_PROBE),
    "collective": (Act.COLLECTIVE,),
    "wait": (Act.START, Act.COMPLETE, Act.ASK, Act.RELEASE),
    "one-sided": (Act.ACCESS, Act.EPOCH),
    "io": (Act.TRANSFER,),
}
_BY_ACT: Final = {act: _NUMBERS[word] for word, acts in _ACTS.items() for act in acts}


@cache
def class_number_of(function_name: str) -> int:
    """Return the number of the class to which an MPI function belongs by its name, such as send, wait or one-sided:
    `MPI_Isend_c` is a send."""
    for beginning, word in (("MPI_File_", "io"), ("MPI_Win_", "one-sided")):
        if function_name.startswith(beginning):  # what is made, asked and freed there, too
            return _NUMBERS[word]
    found = find_meaning(function_name)
    return OTHER if found is None or found.over is Over.GROUP else _BY_ACT.get(found.act, OTHER)


@cache
def class_table(functions: FunctionTable) -> NDArray[np.uint8]:
    """Return a table from the id of a function (0 to 65535) to the number of its class, as (65536,) uint8. Unknown
    functions are of the class OTHER."""
    table = np.full(1 << 16, OTHER, np.uint8)
    for function in functions:
        table[function.id] = class_number_of(function.name)
    table.flags.writeable = False
    return table
