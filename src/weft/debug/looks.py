"""Inspect the ranks at a stop: stacks, values, source lines, messages. Nothing here lets a rank run."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from weft.debug.frames import split_format
from weft.debug.gdb import NativeHand
from weft.debug.hands import Frame
from weft.debug.queues import Queues
from weft.debug.sent import Messages
from weft.debug.standing import Answer, Standing
from weft.errors import DebuggerError, UsageError
from weft.replay import resolve_location
from weft.trace import Event


class Looks:
    """Inspect the stopped ranks of a session."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.messages = Messages(standing.record, standing.replay)

    def where(self, ranks_text: str, *, native: bool = False) -> Answer:
        """Return the stacks of some ranks. `native`: for Python ranks also the native frames.

        `ranks_text`: the ranks as the user wrote them, "" for the rank in focus.
        """
        found = []
        for rank in self._standing.ranks_of(ranks_text):
            frames = self._stack_with_native(rank) if native else self._standing.hand(rank).stack()
            found.append(
                {
                    "rank": rank,
                    "frames": [frame.as_dict() for frame in frames],
                    "stands": self._standing.describe_thread(rank),
                }
            )
        return {"kind": "where", "stacks": found}

    def _stack_with_native(self, rank: int) -> list[Frame]:
        """Return the frames of a rank; for a Python rank its Python frames, and after them its native ones."""
        hand = self._standing.hand(rank)
        if isinstance(hand, NativeHand):
            return hand.stack()
        python = hand.stack()
        beside = NativeHand(self._standing.replica.controls[rank].pid)
        try:
            frames = [f for f in beside.stack() if not f.of_interpreter]
            return python + frames
        finally:
            beside.close()

    def evaluate(self, expression: str, ranks_text: str) -> Answer:
        """Return the value of an expression on some ranks, a row for each. `ranks_text`: the ranks as the user wrote
        them; "" means all ranks, without those on which the expression has no value.
        """
        form, expression = split_format(expression)
        if not expression:
            raise UsageError("give an expression: print x, print x[0] @0,2-3, p/x flags")
        ranks, frames = self._standing.ranks_of(ranks_text or "all"), self._standing.frames
        rows = [frames.evaluate(rank, expression, form) for rank in ranks]
        if not ranks_text and len(rows) > 1 and any("value" in row for row in rows):
            # Where the name is nothing on a rank (another function), the others' values are the answer.
            rows = [row for row in rows if "value" in row or row["rank"] == self._standing.focus]
        return {"kind": "print", "expression": expression, "values": rows}

    def source(self, location: str) -> Answer:
        """Return ten lines of source: around FILE:LINE or LINE if `location` names one, else around the place of the
        rank in focus, or the lines that follow those returned last.
        """
        file, line = self._place_of_focus() if self._standing.listed is None or location else self._standing.listed
        middle = line
        if location:
            name, _, number = location.rpartition(":")
            if not number.isdigit():
                raise UsageError("give LINE or FILE:LINE")
            file, line = (self._source(name) if name else file), int(number)
            middle = line
        first = max(middle - 5, 1) if self._standing.listed is None or location else middle
        try:
            lines = Path(file).read_text(errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror}") from error
        chosen = lines[first - 1 : first + 9]
        self._standing.listed = file, first + 10
        here = self._place_of_focus(quiet=True)
        return {
            "kind": "list", "file": file,
            "lines": [{"line": first + i, "text": t, "here": (file, first + i) == here} for i, t in enumerate(chosen)],
        }  # fmt: skip

    def _place_of_focus(self, *, quiet: bool = False) -> tuple[str, int]:
        """Return file and line at which the rank in focus is. If they are unknown, raise UsageError, or with `quiet`
        return ("", 0).
        """
        with suppress(DebuggerError):
            for frame in self._standing.hand(self._standing.focus).stack():
                if frame.file and frame.line:
                    return frame.file, frame.line
        row = self._standing.describe_thread(self._standing.focus)
        call = row.get("next") or row.get("call") or row.get("last") or {}
        if not call.get("file") and not quiet:
            raise UsageError(
                f"Weft does not know the source line at which rank {self._standing.focus} is stopped: "
                f"compile with -g, or name one (list FILE:LINE)"
            )
        return str(call.get("file") or ""), int(call.get("line") or 0)

    def _source(self, name: str) -> str:
        return next((file for file in self._standing.record.files() if file == name or file.endswith("/" + name)), name)

    def message(self, rank_or_event: str) -> Answer:
        """Return what the send or receive of a rank transfers: the call that it is at, its last call, or RANK:EVENT."""
        return self.messages.describe_message(self._message_event(rank_or_event), self._standing.replica)

    def queues(self, ranks_text: str) -> Answer:
        """Return what some ranks have sent and was not received, and their receives that have not got a message.
        `ranks_text`: the ranks as the user wrote them, "" for all.
        """
        replica = self._standing.replica

        def inside(rank: int, slot: int) -> bool:
            return (
                not replica.parked(rank, slot) and rank not in self._standing.at_lines() and replica.is_inside_mpi(rank)
            )

        return Queues(self._standing.record, replica.at, inside).describe_pending(
            self._standing.ranks_of(ranks_text or "all")
        )

    def _message_event(self, rank_or_event: str) -> Event:
        """Return the call that RANK:EVENT names; for RANK alone the call with a message that the rank is at, or has
        made last. UsageError if there is none.
        """
        if found := re.fullmatch(r"(\d+):(\d+)", rank_or_event):
            return self._standing.record.trace.event(
                *resolve_location(self._standing.record.trace, found[0], self._standing.findings)[0]
            )
        rank = self._standing.ranks_of(rank_or_event)[0]
        at = self._standing.replica.at(rank)
        coming, last = self._standing.record.entry(rank, at), self._standing.record.entry(rank, at - 1)
        order = (coming, last) if self._standing.replica.parked(rank) else (last, coming)
        around = [event for event in order if event is not None]
        for event in around:
            if self._standing.record.message(event) != (None, None):
                return event
        if not around:
            raise UsageError(f"rank {rank} has made no call")
        return around[0]
