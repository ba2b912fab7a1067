"""What the page is told, against the record: places, messages, filters, folds, pasts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from view import runs
from weft.errors import WeftError
from weft.trace.builder import Builder
from weft.view.links import MAX_MESSAGES
from weft.view.run_view import RunView


def picture(path: Path) -> RunView:
    """A run that was looked through."""
    made = RunView(weft.open(path))
    made.analyse()
    assert made.failure is None
    return made


def unpacked(data: bytes) -> dict[str, Any]:
    """The head and the arrays of a window, as the page reads them."""
    length = int.from_bytes(data[:4], "little")
    head: dict[str, Any] = json.loads(data[4 : 4 + length])
    at = 4 + length
    types = {"f64": "<f8", "u32": "<u4", "u16": "<u2", "u8": "u1", "i32": "<i4"}
    for name, kind, count in head["arrays"]:
        at += -at % 8
        head[name] = np.frombuffer(data, types[kind], count, at)
        at += head[name].nbytes
    return head


@pytest.fixture(scope="module")
def halo(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A clean halo exchange."""
    return picture(runs.halo(tmp_path_factory.mktemp("halo") / "run", 6))


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A deadlocked run."""
    return picture(runs.deadlock(tmp_path_factory.mktemp("hung") / "run", 4))


def test_boxes_have_the_times_of_the_record(halo: RunView) -> None:
    end = halo.axis_by_name("time").end
    found = unpacked(halo.pack_window("time", "0|1|2|3|4|5", (0, end), 4000))
    assert found["boxed"] == [0, 1, 2, 3, 4, 5]
    assert len(found["start"]) == halo.trace.event_count
    for i in range(len(found["start"])):
        event = halo.trace.event(int(found["lane"][i]), int(found["event"][i]))
        assert (found["start"][i], found["end"][i]) == (event.enter_ns, event.exit_ns)
        assert halo.trace.functions[int(found["function"][i])] is event.function


def test_a_crowded_lane_has_columns_and_no_boxes(halo: RunView) -> None:
    found = unpacked(halo.pack_window("time", "0|1-5", (0, halo.axis_by_name("time").end), 60))
    assert found["boxed"] == []
    assert found["events"] == [len(halo.trace.ranks[0]), sum(len(r) for r in halo.trace.ranks[1:])]


def test_every_message_of_a_small_window_is_drawn_from_send_to_completion(halo: RunView) -> None:
    links = halo.links
    assert links is not None
    found = halo.links_between("time", 0, halo.axis_by_name("time").end)
    match = links.match
    assert len(match.sends) <= MAX_MESSAGES
    assert len(found["messages"]) == len(match.sends)
    assert found["hidden"] == 0
    for message in found["messages"]:
        sent, received = halo.trace.event(*message["send"]), halo.trace.event(*message["receive"])
        assert message["from"] == [sent.rank.index, sent.enter_ns]
        assert message["to"] == [received.rank.index, received.exit_ns]
        assert halo.trace.event(*message["post"]).tag == message["tag"]


def test_of_many_messages_the_worst_are_drawn_and_the_others_counted(tmp_path: Path) -> None:
    big = picture(runs.halo(tmp_path / "run", 12, 40))
    found = big.links_between("time", 0, big.axis_by_name("time").end)
    assert big.links is not None
    total = len(big.links.match.sends)
    assert 0 < len(found["messages"]) < total
    assert len(found["messages"]) + found["hidden"] == total
    costs = [message["ns"] for message in found["messages"]]
    assert costs == sorted(costs, reverse=True)
    waited = max(e.exit_ns - e.enter_ns for e in big.trace.select("fn:Waitall") if e.exit_ns is not None)
    assert 0 < costs[0] <= waited


def test_a_message_that_nobody_takes_ends_in_the_air(hung: RunView) -> None:
    found = hung.links_between("time", 0, hung.axis_by_name("time").end)
    lost = [m for m in found["messages"] if "to" not in m]
    assert {(m["kind"], m["tag"], m["event"][0], m["peer"]) for m in lost} == {
        ("unmatched-send", 7, 1, 2),
        ("unmatched-receive", 17, 2, 1),
    }


def test_among_many_messages_those_that_nobody_takes_are_drawn_all_the_same(tmp_path: Path) -> None:
    crowd = picture(runs.deadlock(tmp_path / "run", 96))
    found = crowd.links_between("time", 0, crowd.axis_by_name("time").end)
    assert found["hidden"] > MAX_MESSAGES
    assert sorted(m["kind"] for m in found["messages"] if "to" not in m) == ["unmatched-receive", "unmatched-send"]


def test_who_waits_for_whom_is_told_with_the_cycle(hung: RunView) -> None:
    found = hung.list_findings("time")["findings"][0]
    assert found["kind"] == "deadlock"
    arrows = {(a["rank"], a["for"]): a["cycle"] for a in found["arrows"]}
    assert arrows == {(1, 2): True, (2, 1): True, (0, 2): False, (3, 2): False}
    start, end = found["window"]
    for _, _, _, begin, _ in found["events"]:
        assert start < begin < end


def test_a_crowd_that_waits_has_one_arrow(tmp_path: Path) -> None:
    crowd = picture(runs.deadlock(tmp_path / "run", 32))
    arrows = crowd.list_findings("time")["findings"][0]["arrows"]
    assert len(arrows) == 3
    assert [a["ranks"] for a in arrows if not a["cycle"]] == [30]


def test_a_race_shows_the_message_taken_and_those_that_could_have_been(tmp_path: Path) -> None:
    race = picture(runs.race(tmp_path / "run"))
    found = race.list_findings("time")["findings"][0]
    assert found["kind"] == "message-race"
    kinds = [arrow["kind"] for arrow in found["arrows"]]
    assert kinds.count("took") == 1
    assert kinds.count("could") == len(found["evidence"]["others"]) == 2
    assert all(tuple(arrow["receive"]) == tuple(found["events"][0][:2]) for arrow in found["arrows"])


def test_a_collective_is_one_band_over_its_members(halo: RunView) -> None:
    found = halo.links_between("time", 0, halo.axis_by_name("time").end)
    bands = [band for band in found["bands"] if band["name"] == "MPI_Allreduce"]
    assert len(bands) == len(list(halo.trace.select("fn:Allreduce rank:0")))
    for band in bands:
        assert [part[0] for part in band["parts"]] == list(range(6))
        for row, start, end, event, _ in band["parts"]:
            recorded = halo.trace.event(row, event)
            assert (start, end) == (recorded.enter_ns, recorded.exit_ns)


def test_calls_that_fit_a_filter_are_the_ones_that_select_finds(halo: RunView) -> None:
    query = "fn:Waitall wait>20us rank:1-3"
    wanted = [event.id for event in halo.trace.select(query)]
    hits = halo.find_hits(query)
    assert sorted((row, int(i)) for row, found in hits.items() for i in found) == sorted(wanted)
    assert wanted


def test_stepping_through_the_hits_visits_each_once_in_time(halo: RunView) -> None:
    query = "fn:Isend"
    wanted = sorted((e.enter_ns, *e.id) for e in halo.trace.select(query))
    for back in (False, True):
        near, row, seen = (1e17, -1) if back else (-1.0, -1), 0, []
        place, at = near
        while True:
            found = halo.search_calls("time", query, place, row if seen else at, back)
            if found["event"] is None:
                break
            seen.append(tuple(found["event"]))
            row, place, _ = halo.event_position(halo.axis_by_name("time"), seen[-1])
        assert seen == [(r, e) for _, r, e in (reversed(wanted) if back else wanted)]


def test_idle_time_is_folded_and_nothing_else(tmp_path: Path) -> None:
    idle = picture(runs.idle(tmp_path / "run"))
    scale = idle.axis_by_name("folded")
    assert len(scale.folds) == 1
    fold = scale.folds[0]
    assert fold.end - fold.start > 400_000_000
    assert scale.end < 20_000_000
    edges = sorted(t for r in idle.trace.ranks for e in r for t in (e.enter_ns, e.exit_ns or 0))
    assert not [t for t in edges if fold.start < t < fold.end]
    assert np.allclose(scale.times_at(scale.positions(np.array(edges))), edges, atol=2)
    assert idle.axis_by_name("time").folds == ()


def test_a_busy_run_is_not_folded(halo: RunView) -> None:
    assert halo.axis_by_name("folded").end == pytest.approx(halo.axis_by_name("time").end, rel=0.5)


def test_the_past_and_future_of_a_call_are_those_of_the_order(halo: RunView) -> None:
    event = halo.trace.ranks[2].event(30)
    found = halo.causal_past_and_future("time", *event.id)
    order = halo.context.order
    for rank in halo.trace.ranks:
        before = [e for e in rank if e.id == event.id or order.reaches(e.id, event.id, a_end=True)]
        assert found["past"][rank.index] is not None
        if before:
            assert found["past"][rank.index] >= max(e.exit_ns or 0 for e in before)
        after = [e for e in rank if order.reaches(event.id, e.id, b_end=False)]
        if after:
            assert found["future"][rank.index] <= min(e.enter_ns for e in after)


def test_a_click_means_the_call_that_takes_most_of_the_place(halo: RunView) -> None:
    for event in list(halo.trace.ranks[1])[::7]:
        assert event.exit_ns is not None
        assert halo.longest_call_between("time", 1, event.enter_ns, event.exit_ns)["event"] == list(event.id)
    assert halo.longest_call_between("time", 1, -900, -500)["event"] is None


def test_ranks_that_behave_alike_are_one_group(hung: RunView) -> None:
    groups = hung.run_facts()["groupings"]["behaviour"]
    assert sorted(sorted(rows) for _, rows in groups) == [[0, 3], [1], [2]]


def test_members_of_a_split_are_groups(tmp_path: Path) -> None:
    b = Builder(ranks=4, path=tmp_path / "run")
    b.split([0, 1, 0, 1])
    made = picture(b.write())
    groups = made.run_facts()["groupings"]["world Comm_split#0"]
    assert [rows for _, rows in groups] == [[0, 2], [1, 3]]


def test_threads_have_rows_of_their_own_under_their_rank(tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "run")
    for thread in (0, 1):
        b.ranks[0].send(1, thread, thread=thread, enter=100 + thread * 50, exit=200 + thread * 200)
        b.ranks[1].recv(0, thread, enter=0, exit=1000 + thread)
    made = picture(b.write())
    assert [row.label for row in made.rows] == ["0.0", "0.1", "1"]
    found = unpacked(made.pack_window("time", "0|1|2", (0, 2000), 1000))
    for i in range(len(found["start"])):
        row = made.rows[int(found["lane"][i])]
        event = row.rank.event(int(found["event"][i]))
        assert found["start"][i] == event.enter_ns
        assert row.rank.threads[row.thread].slot == event.thread.slot
    ends = {(m["from"][0], m["tag"]) for m in made.links_between("time", 0, 2000)["messages"]}
    assert ends == {(0, 0), (1, 1)}


def test_a_crashed_run_is_drawn_to_its_last_call(tmp_path: Path) -> None:
    crash = picture(runs.crash(tmp_path / "run"))
    assert crash.run_facts()["ended"] == "crashed"
    assert [event[:1] for event in crash.run_facts()["open"]] == [[0], [2], [3]]


def test_an_empty_run_is_a_picture_of_nothing(tmp_path: Path) -> None:
    b = Builder(ranks=3, path=tmp_path / "run")
    b.ranks[1].leave_no_record()
    made = picture(b.write())
    found = unpacked(made.pack_window("time", "0|1|2", (0, 1000), 10))
    assert found["events"] == [0, 0, 0]
    assert made.axis_by_name("logical").end >= 0
    assert made.list_findings("time")["ready"]


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_run_is_drawn_or_refused_but_never_breaks(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = runs.deadlock(tmp_path / "run", 3, 2)
    for file in (path / "ranks").iterdir():
        data = bytearray(file.read_bytes())
        for _ in range(chance.choice((3, 30, 300))):
            data[min(len(data) - 1, chance.choice((0, 4096, 8192)) + chance.randrange(4096))] = chance.randrange(256)
        file.write_bytes(data)
    try:
        made = RunView(weft.open(path))
    except WeftError:
        return
    made.analyse()
    for axis in ("time", "folded", "logical"):
        end = max(2.0, made.axis_facts(axis)["end"])
        found = unpacked(made.pack_window(axis, "0|1|2", (0, end), 200)) if len(made.rows) >= 3 else {"columns": 200}
        assert found["columns"] == 200
        made.links_between(axis, 0, end)
        made.list_findings(axis)
