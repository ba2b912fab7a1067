"""Parquet: what pyarrow reads is what the record says, call by call and message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from weft.export import write
from weft.match import match_operations
from weft.trace import Event, Trace


def tables(trace: Trace, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    write(trace, "parquet", tmp_path / "run.parquet")
    return {path.stem: pq.read_table(path).to_pylist() for path in (tmp_path / "run.parquet").iterdir()}


def expected(event: Event) -> dict[str, Any]:
    """A row as the slow, obvious reading of the event gives it."""
    function, status = event.function, event.status
    told = "status" in function.slot and not event.open
    site = event.site
    peer = event.peer if "peer" in function.slot or told else None
    tagged = "tag" in function.slot and function.slot["tag"].handle is None
    comm = event.comm
    return {
        "rank": event.rank.index, "event": event.index, "thread": event.thread.slot, "function": function.name,
        "enter_ns": event.enter_ns, "exit_ns": event.exit_ns, "open": event.open, "error": event.error,
        "comm": comm.name if comm else None, "peer": peer, "tag": event.tag if tagged or told else None,
        "peer_rank": event.peer_index if peer is not None and event.peer_index >= 0 else None,
        "count": event.count if "count" in function.slot and not event.polls else None,
        "datatype": event.datatype.name if event.datatype and "datatype" in function.slot else None,
        "received_bytes": status.count if status else None, "polls": event.polls or None,
        "calls": event.calls,
        "flag": event.flag if "flag" in function.slot and not event.open else None,
        "file": site.file, "line": site.line or None, "caller": site.function,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["zoo", "hung"])
def test_a_row_of_calls_says_what_the_event_says(name: str, request: Any, tmp_path: Path) -> None:
    trace: Trace = request.getfixturevalue(name)
    rows = tables(trace, tmp_path)["calls"]
    events = [event for rank in trace.ranks for event in rank]
    assert len(rows) == len(events) == trace.event_count
    for row, event in zip(rows, events, strict=True):
        wanted = expected(event)
        assert {key: row[key] for key in wanted} == wanted, event


def test_the_messages_are_those_of_the_match(zoo: Trace, tmp_path: Path) -> None:
    rows = tables(zoo, tmp_path)["messages"]
    of = match_operations(zoo)
    assert len(rows) == len(of.sends) + len(of.unmatched_receives())
    received = {(row["sender"], row["send_event"]): (row["receiver"], row["receive_event"]) for row in rows}
    for row in range(len(of.sends)):
        sender, event = of.sends.id(row)
        partners = of.partner_events((sender, event))
        got = received[sender, event]
        # A Sendrecv has partners on both of its sides.
        assert (got in partners) if got[1] is not None else not partners
    lost = [row for row in rows if row["receive_event"] is None]
    assert sorted((row["sender"], row["receiver"], row["tag"]) for row in lost) == [(0, 3, 98), (1, 2, 99)]


def test_a_message_has_both_times_its_bytes_and_its_mode(zoo: Trace, tmp_path: Path) -> None:
    rows = tables(zoo, tmp_path)["messages"]
    first = next(row for row in rows if row["tag"] == 7)
    send, recv = zoo.event(0, first["send_event"]), zoo.event(1, first["receive_event"])
    assert (first["sent_ns"], first["posted_ns"], first["received_ns"]) == (send.enter_ns, recv.enter_ns, recv.exit_ns)
    assert (first["bytes"], first["mode"], first["any_source"], first["any_tag"]) == (12, "standard", True, True)
    assert next(row for row in rows if row["tag"] == 3)["mode"] == "synchronous"


def test_a_receive_that_nothing_came_to_is_there_without_a_sender(hung: Trace, tmp_path: Path) -> None:
    rows = tables(hung, tmp_path)["messages"]
    waiting = [row for row in rows if row["send_event"] is None]
    assert [(row["receiver"], row["sender"], row["tag"], row["received_ns"]) for row in waiting] == [
        (0, 1, 5, None),
        (1, 0, 6, None),
    ]


def test_ranks_and_communicators_are_told(zoo: Trace, hung: Trace, tmp_path: Path) -> None:
    found = tables(zoo, tmp_path)
    named = {row["name"]: row for row in found["communicators"]}
    assert named["world"]["members"] == [0, 1, 2, 3]
    assert sum(row["members"] == [2, 3] for row in found["communicators"]) == 1
    (tmp_path / "other").mkdir()
    assert [row["state"] for row in tables(hung, tmp_path / "other")["ranks"]] == ["running", "running", "missing"]
