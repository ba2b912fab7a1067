"""The contents of messages, each read at its sender right before it is sent, when its buffer is certainly complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.event_id import EventId
from weft.debug.live import find_send_buffer
from weft.debug.payload import Memory, read_content
from weft.debug.record import Record, call_facts
from weft.debug.replica import Replica
from weft.errors import DebuggerError, UsageError
from weft.replay import Goals
from weft.terms.event_findings import call_at
from weft.trace import Event

Answer = dict[str, Any]


class Messages:
    """The messages of a record; each content is read once. `another` starts a replay up to some goals."""

    def __init__(self, record: Record, another: Callable[[Goals], Replica]) -> None:
        self.record = record
        self._another = another
        self._known: dict[EventId, Answer] = {}

    def describe_message(self, event: Event, replica: Replica) -> Answer:
        """Return the message that a call sends or receives, with its content, or why that could not be read. UsageError
        if the call does neither. `replica`: the current replay.
        """
        sent, received = self.record.message(event)
        trace = self.record.trace
        if sent is None and received is None:
            raise UsageError(
                f"{call_at(event)} of rank {event.rank.index} (event {event.index}) neither sends nor receives a "
                "message"
            )
        answer: Answer = {"kind": "message", "event": call_facts(event), "sent": None, "received": None}
        if sent is not None:
            answer |= self._envelope(trace.event(*sent))
        if received is not None:
            answer |= {"received": call_facts(trace.event(*received)), "dest": received[0]}
        if sent is not None:
            try:
                answer |= self._read_content(sent, replica)
            except DebuggerError as error:
                answer["unread"] = str(error)
        return answer

    def _envelope(self, send: Event) -> Answer:
        """Return source, destination, tag, communicator, count and datatype of a send as JSON values."""
        type_ = send.datatype
        return {
            "sent": call_facts(send), "source": send.rank.index, "dest": send.peer_index, "tag": send.tag,
            "comm": send.comm.name if send.comm else None, "count": send.count,
            "datatype": type_.name if type_ else None,
            "bytes": send.count * type_.size if type_ and type_.size is not None else None,
        }  # fmt: skip

    def _read_content(self, sent: EventId, replica: Replica) -> Answer:
        """Return the values of a message. They are read before its send, in `replica` if the sender is stopped there,
        else in another replay that is started for this. They are kept, so that each message is read once.
        """
        if sent not in self._known:
            thread, position, _ = self.record.position(sent)
            if replica.exists(sent[0]) and replica.at(*thread) == position and replica.parked(*thread):
                self._known[sent] = self._read_values(replica, sent)
            else:
                aside = self._another(
                    self.record.complete_goals(self.record.cuts.least_cut_reaching([sent]).goals, self.record.start)
                )
                try:
                    aside.settle(set, lambda: None)
                    self._known[sent] = self._read_values(aside, sent)
                finally:
                    aside.end()
        return self._known[sent]

    def _read_values(self, replica: Replica, sent: EventId) -> Answer:
        """Return the values in the buffer of a send, in a replay whose rank is stopped before it. DebuggerError if they
        are unknown.
        """
        args = self.record.trace.event(*self.record.arguments_of_send(sent))
        if args.datatype is None:
            raise DebuggerError("the record does not say which datatype the message has")
        buffer = find_send_buffer(self.record, replica.run, sent, replica.controls[sent[0]].pid)
        memory = Memory(replica.controls[sent[0]].pid)
        try:
            return read_content(memory, args.datatype, buffer, args.count)
        finally:
            memory.close()
