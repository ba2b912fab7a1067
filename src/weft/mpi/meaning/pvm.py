"""The rows of PVM's functions, in the words that those of MPI are stated in.

PVM's sends copy the message and return (pvm_send(3PVM): "asynchronous"), so none waits for its receive. A receive that
asks and returns has two names: what it took is a receive, what it did not find a poll that failed. A notice comes from
the daemon, which is not a task of the run: what took one is not a receive of the run's messages. Group functions send
and receive through others; each message is stated under the function's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.mpi.meaning.words import Act, Form, Leaves, Meaning, Mode, Share, Trait, Waits

GROUPS: Final = ("barrier", "bcast", "freezegroup", "gather", "getinst", "gettid", "gsize", "joingroup", "lvgroup",
                 "reduce", "scatter")  # fmt: skip
"""Functions of groups."""
NOTICES: Final = frozenset(
    f"pvm_{name}.notice" for name in ("recv", "nrecv", "trecv", "precv", "probe", *GROUPS)
)  # fmt: skip
NOTHING: Final = frozenset(f"pvm_{name}.nothing" for name in ("nrecv", "trecv", "probe", *GROUPS))
"""Polls that found nothing."""
KILL: Final = "pvm_kill"
DECIDED: Final = NOTICES | {"pvm_spawn", KILL, "pvm_exit"}
"""Calls beside messages that a replay makes in the same order, and can stop before."""

_MESSAGES: Final = "messages"
_TASKS: Final = "tasks"


def rows() -> Iterator[Meaning]:
    """Yield the meaning of each PVM function that passes messages. All other functions work for their caller alone."""
    for name in ("pvm_send", "pvm_psend", "pvm_mcast", *(f"pvm_{group}.send" for group in GROUPS)):
        yield Meaning(name, Act.SEND, _MESSAGES, kin=name, mode=Mode.BUFFERED, sends=Share.COUNT)
    yield Meaning("pvm_exit", Act.BEGIN_OR_END, _TASKS, kin="pvm_exit", traits=Trait.ANYTIME)
    takes = ("pvm_recv", "pvm_precv", "pvm_nrecv", "pvm_trecv", *(f"pvm_{group}.recv" for group in GROUPS))
    for name in takes:
        yield Meaning(name, Act.RECEIVE, _MESSAGES, kin=name, leaves=Leaves.AFTER_PEER, waits=Waits.PEER,
                      receives=Share.COUNT)  # fmt: skip
    for name in ("pvm_probe", *sorted(NOTHING)):
        yield Meaning(name, Act.PROBE, _MESSAGES, Form.NONBLOCKING, kin=name, traits=Trait.POLLS)
