"""Perfetto: the classes that it publishes read the same slices, arguments and flows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Proto

from weft.export import write
from weft.export.perfetto import protobuf
from weft.match import NONE, match_operations
from weft.trace import Trace

BEGIN, END = 1, 2


class Read:
    """A trace file with its numbers resolved."""

    def __init__(self, path: Path) -> None:
        self.slices: list[dict[str, Any]] = []
        self.tracks: dict[int, str] = {}
        self._texts: dict[tuple[int, str, int], Any] = {}
        track: dict[int, int] = {}
        proto = Proto()
        proto.ParseFromString(path.read_bytes())
        for packet in proto.packet:
            sequence = packet.trusted_packet_sequence_id
            if packet.HasField("track_descriptor"):
                about = packet.track_descriptor
                self.tracks[about.uuid] = about.process.process_name or about.thread.thread_name
            if packet.HasField("trace_packet_defaults"):
                track[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
            self._intern(sequence, packet.interned_data)
            if packet.HasField("track_event"):
                self._event(sequence, track[sequence], packet.timestamp, packet.track_event)

    def _intern(self, sequence: int, data: Any) -> None:
        for kind, entries in data.ListFields():
            for entry in entries:
                self._texts[sequence, kind.name, entry.iid] = entry

    def _event(self, sequence: int, track: int, time: int, event: Any) -> None:
        texts = self._texts
        if event.type == END:
            last = [s for s in self.slices if s["track"] == track][-1]
            last["end"], last["into"] = time, set(event.terminating_flow_ids)
            return
        source = texts[sequence, "source_locations", event.source_location_iid]
        self.slices.append(
            {
                "track": track,
                "name": texts[sequence, "event_names", event.name_iid].name,
                "class": texts[sequence, "event_categories", event.category_iids[0]].name,
                "begin": time,
                "end": None,
                "out": set(event.flow_ids),
                "into": set(),
                "site": (source.file_name, source.line_number, source.function_name),
                "args": {
                    texts[sequence, "debug_annotation_names", a.name_iid].name: self._value(sequence, a)
                    for a in event.debug_annotations
                },
            }
        )

    def _value(self, sequence: int, annotation: Any) -> Any:
        kind = annotation.WhichOneof("value")
        value = getattr(annotation, kind)
        if kind == "string_value_iid":
            return self._texts[sequence, "debug_annotation_string_values", value].str.decode()
        return value


def read(trace: Trace, tmp_path: Path) -> Read:
    write(trace, "perfetto", tmp_path / "run.perfetto-trace")
    return Read(tmp_path / "run.perfetto-trace")


@pytest.mark.parametrize("name", ["zoo", "hung"])
def test_every_call_is_a_slice_on_its_threads_track(name: str, request: Any, tmp_path: Path) -> None:
    trace: Trace = request.getfixturevalue(name)
    found = read(trace, tmp_path)
    by_track = [
        [event for event in rank if event.thread.slot == thread.slot] for rank in trace.ranks for thread in rank.threads
    ]
    tracks = list(dict.fromkeys(s["track"] for s in found.slices))
    assert len(tracks) == len(by_track)
    for track, events in zip(tracks, by_track, strict=True):
        slices = [s for s in found.slices if s["track"] == track]
        told = [(s["name"], s["begin"], s["end"]) for s in slices]
        assert told == [(e.function.name, e.enter_ns, e.exit_ns) for e in events]
        for one, event in zip(slices, events, strict=True):
            if event.site.known:
                assert one["site"] == (event.site.file, event.site.line, event.site.function)


def test_arguments_have_the_names_and_values_of_the_standard(zoo: Trace, tmp_path: Path) -> None:
    found = read(zoo, tmp_path)
    slices = iter(found.slices)
    compared = 0
    handles = {"COMM", "DATATYPE", "OP", "WINDOW"}
    for rank in zoo.ranks:
        for thread in rank.threads:
            for event in (e for e in rank if e.thread.slot == thread.slot):
                args = next(slices)["args"]
                for name, value in event.args.items():
                    parameter = event.function.parameters_by_name.get(name)
                    if name not in args or parameter is None or parameter.place in ("peer", "tag"):
                        continue
                    named = parameter.handle in handles
                    assert args[name] == (rank.object_name(parameter.handle or "", value) if named else value), event
                    compared += 1
    assert compared > 300
    recv = next(s for s in found.slices if s["name"] == "MPI_Recv")
    assert (recv["args"]["source"], recv["args"]["tag"], recv["args"]["any source"]) == (0, 7, True)
    both = next(s for s in found.slices if s["name"] == "MPI_Sendrecv")
    assert (both["args"]["dest"], both["args"]["source"], both["args"]["recvtag"]) == (1, 1, 5)


def test_flows_are_the_messages_that_arrived(zoo: Trace, tmp_path: Path) -> None:
    found = read(zoo, tmp_path)
    of = match_operations(zoo)
    arrived = [j for j in range(len(of.recvs)) if of.recvs.partner[j] != NONE and of.recvs.completion[j] != NONE]
    out = {flow: s for s in found.slices for flow in s["out"]}
    into = {flow: s for s in found.slices for flow in s["into"]}
    assert set(out) == set(into)
    times = {(out[f]["begin"], into[f]["end"]) for f in out}
    wanted = set()
    for j in arrived:
        send, rank = of.sends.id(int(of.recvs.partner[j])), of.recvs.rank_of(j)
        done = zoo.event(rank, int(of.recvs.completion[j]))
        wanted.add((zoo.event(*send).enter_ns, done.exit_ns))
    assert times == wanted and len(out) == len(arrived) > 8


def test_a_call_that_never_returned_is_a_slice_without_an_end(hung: Trace, tmp_path: Path) -> None:
    found = read(hung, tmp_path)
    unfinished = [s for s in found.slices if s["end"] is None]
    assert [s["args"].get("never returned") for s in unfinished] == [True, True]
    assert "never returned" not in found.slices[0]["args"]
    assert any("left no record" in name for name in found.tracks.values())


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_a_column_of_numbers_decodes_to_itself(values: list[int]) -> None:
    column = protobuf.encode_rows(protobuf.varint_column(5, np.array(values, np.int64)), len(values))
    for value, row in zip(values, column, strict=True):
        data = row.tobytes()
        assert data[0] == 5 << 3
        number = sum((byte & 127) << 7 * k for k, byte in enumerate(data[1:])) & (2**64 - 1)
        assert all(byte & 128 for byte in data[1:-1]) and not data[-1] & 128
        assert number == value & (2**64 - 1)
