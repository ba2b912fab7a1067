"""What analyses build on: the trace, its matched messages and the order of its events, made when first asked for."""

from __future__ import annotations

from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING

from weft.match import Match, Post, match
from weft.terms import calls
from weft.terms.calls import catalogue, masks
from weft.trace import Trace
from weft.trace.layout import StreamKind

if TYPE_CHECKING:
    from weft.order import Order


class Ground:
    """What the analyses of one run have in common."""

    def __init__(self, trace: Trace, found: Match | None = None) -> None:
        self.trace = trace
        self._lock = RLock()
        self._found = found

    def prepare(self) -> None:
        """Read what is read once, so that analyses side by side find it there."""
        _ = self.match
        if "called" in self.__dict__:
            return  # the catalogues are other workers'
        for rank in self.trace.own:
            _ = rank.definitions, rank.axis
            catalogue(rank)

    def take(self, found: Match | None, called: frozenset[int]) -> None:
        """Take what workers found together (together.py): nothing of it is read out of the records again."""
        self._found, self.__dict__["called"] = found, called

    @cached_property
    def match(self) -> Match:
        """weft.match of the run, where it was not found before."""
        return match(self.trace) if self._found is None else self._found

    @property
    def order(self) -> Order:
        """weft.order of the run. Who asks while it is made waits."""
        with self._lock:
            return self._order

    @cached_property
    def _order(self) -> Order:
        # Only some analyses need the order.
        from weft.order import order

        return order(self.trace, self.match)

    @property
    def receives(self) -> bool:
        """Whether anything is received or probed in the run."""
        return bool(len(self.match.recvs) or len(self.match.probes))

    @property
    def windows(self) -> bool:
        """Whether any call of the run is one-sided, or makes a window."""
        return self._calls(calls.ON_WINDOWS | calls.WINDOW_MAKERS)

    @property
    def ready(self) -> bool:
        """Whether a message is sent in the ready mode."""
        return bool((self.match.sends.flags & Post.READY).any())

    @property
    def files(self) -> bool:
        """Whether a file is opened."""
        return self._calls(calls.words("File_open"))

    def _calls(self, names: frozenset[str]) -> bool:
        return not self.called.isdisjoint(masks(self.trace.functions).ids(names))

    @cached_property
    def called(self) -> frozenset[int]:
        """The ids of the functions that are called by this process's ranks."""
        return frozenset(id for rank in self.trace.own for id in catalogue(rank).present)

    @property
    def touched(self) -> bool:
        """Whether the run holds the program's own accesses of memory that MPI had."""
        return any(rank.file is not None and rank.file.numbers(StreamKind.ACCESSES) for rank in self.trace.ranks)

    @property
    def halos(self) -> bool:
        """Whether the run holds what its program did to arrays with ghost cells."""
        return (self.trace.path / "halo").is_dir()

    @property
    def contents(self) -> bool:
        """Whether the run holds what ranks brought to reductions."""
        return any(rank.file is not None and rank.file.numbers(StreamKind.CONTENTS) for rank in self.trace.ranks)
