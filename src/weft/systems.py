"""The message-passing systems that Weft records, and the words for each of them.

A run's functions.json names its system; one that names none is of MPI. What a system's functions mean stands in
weft.mpi.meaning, what is special to its messages here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from weft.base.lazy import dataclass


@dataclass(frozen=True)
class System:
    """One message-passing system."""

    name: str
    any_source: str
    """How a receive says that it takes a message of anybody."""
    any_tag: str
    last: str
    """The call with which a program leaves it."""
    entered: str
    """What a process has done that has begun with it: "it has ..."."""
    send: str
    """Its plain send, for examples."""
    ends_callers: bool = True
    """Whether it ends a process inside a call that goes wrong; else it returns an error."""
    grows: bool = False
    """Whether its world has more members as the run goes on; else what is spawned is a world of its own."""
    spawns: frozenset[str] = frozenset()
    begins: frozenset[str] = frozenset()
    """The calls that a spawn waits for: a child makes one of them first."""
    servers: frozenset[str] = frozenset()
    """Programs of its own that serve those of the user, and are ranks of a run."""
    binding: str = ""
    """How functions of its Fortran binding begin, which lie in the program and call on."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Names of the codes that calls return, by the number in the record; empty: classes of errors are numbers."""
    answers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Codes that are what was asked for, by function."""

    @property
    def prefix(self) -> str:
        """Return how the names of its functions begin."""
        return self.last.partition("_")[0] + "_"

    def error_name(self, error: int) -> str:
        """Return the name of an error, "" where it has none that is known."""
        return self.errors.get(error, "")

    def failed(self, function: str, error: int) -> bool:
        """Return whether that code is an error of the call, and not its answer."""
        return error != 0 and error not in self.answers.get(function.partition(".")[0], frozenset())


MPI: Final = System(
    "MPI", "ANY_SOURCE", "ANY_TAG", "MPI_Finalize", "initialised MPI", "MPI_Send",
    spawns=frozenset(("MPI_Comm_spawn", "MPI_Comm_spawn_multiple")), begins=frozenset(("MPI_Init", "MPI_Init_thread")),
)  # fmt: skip

_PVM_ERRORS: Final = {
    2: "PvmBadParam", 3: "PvmMismatch", 4: "PvmOverflow", 5: "PvmNoData", 6: "PvmNoHost", 7: "PvmNoFile",
    8: "PvmDenied", 10: "PvmNoMem", 12: "PvmBadMsg", 14: "PvmSysErr", 15: "PvmNoBuf", 16: "PvmNoSuchBuf",
    17: "PvmNullGroup", 18: "PvmDupGroup", 19: "PvmNoGroup", 20: "PvmNotInGroup", 21: "PvmNoInst", 22: "PvmHostFail",
    23: "PvmNoParent", 24: "PvmNotImpl", 25: "PvmDSysErr", 26: "PvmBadVersion", 27: "PvmOutOfRes", 28: "PvmDupHost",
    29: "PvmCantStart", 30: "PvmAlready", 31: "PvmNoTask", 32: "PvmNotFound", 33: "PvmExists",
    34: "PvmHostrNMstr", 35: "PvmParentNotSet",
}  # fmt: skip
_NO_SUCH: Final = frozenset((2, 19, 20, 21, 31, 32))

PVM: Final = System(
    "PVM", "any", "any", "pvm_exit", "made a call of PVM", "pvm_send", ends_callers=False, grows=True,
    spawns=frozenset(("pvm_spawn",)),
    servers=frozenset(("pvmgs",)),
    binding="pvmf",
    errors=_PVM_ERRORS,
    answers={
        "pvm_parent": frozenset((23, 35)),
        **dict.fromkeys(("pvm_getinst", "pvm_gettid", "pvm_gsize"), _NO_SUCH),
        **dict.fromkeys(("pvm_lookup", "pvm_recvinfo", "pvm_mstat"), frozenset((6, 22, 32))),
        "pvm_pstat": frozenset((2, 31)), "pvm_kill": frozenset((31,)),
    },
)  # fmt: skip

_BY_NAME: Final = {"mpi": MPI, "pvm": PVM}


def system(name: object) -> System:
    """Return the message-passing system that a functions.json names; MPI if it names none, or an unknown one."""
    return _BY_NAME.get(str(name or "mpi").lower(), MPI)
