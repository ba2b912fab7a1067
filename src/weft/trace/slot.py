"""The slot of one event: what is known of an MPI call without its tail and without the definitions of its rank."""

from __future__ import annotations

import numpy as np

from weft.trace import layout
from weft.trace.layout import Flag


class Slot:
    """One row of the events of a thread (dtype layout.EVENT), whose fields are decoded on demand."""

    def __init__(self, slot: np.void) -> None:
        self._slot = slot

    @property
    def flags(self) -> Flag:
        """Return the slot's flags."""
        return Flag(int(self._slot["flags"]))

    @property
    def open(self) -> bool:
        """Return whether the call never returned."""
        return not int(self._slot["flags"]) & Flag.CLOSED

    @property
    def comm_id(self) -> int:
        """Return the rank's own id of the communicator."""
        return int(self._slot["comm"])

    @property
    def peer(self) -> int:
        """Return the rank in the communicator that the call names: destination, source, root or target. For a wildcard
        receive that returned, it is the source of the message.

        Negative: layout.ANY_SOURCE (a wildcard that is still open, or nonblocking), PROC_NULL, ROOT, or the invalid
        rank that the program gave. 0 if a call has no peer.
        """
        return layout.raw_rank(int(self._slot["peer"]))

    @property
    def tag(self) -> int:
        """Return the tag. For a wildcard receive that returned, it is the tag of the message; for a reduction, the
        operation's id.
        """
        return int(self._slot["tag"])

    @property
    def datatype_id(self) -> int:
        """Return the rank's own id of the datatype."""
        return int(self._slot["datatype"])

    @property
    def object(self) -> int:
        """Return the id of the call's request, window, file, message or created object. The parameter says which class
        it is.
        """
        return int(self._slot["object"])

    @property
    def buffer(self) -> int:
        """Return the address of the buffer, or layout.IN_PLACE. 0 stands for MPI_BOTTOM and NULL."""
        return int(self._slot["buffer"])

    @property
    def flag(self) -> bool:
        """Return the call's LOGICAL `flag`."""
        return bool(self.flags & Flag.TRUE)

    @property
    def error(self) -> int:
        """Return the MPI error class of the returned code, 0 for success, 255 for a class above 254."""
        return int(self._slot["error"])

    @property
    def site_id(self) -> int:
        """Return the rank's own id of the call site."""
        return int(self._slot["site"])
