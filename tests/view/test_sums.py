"""Tables of a stretch of time, one message, and the ends of ranks, held against slow and obvious definitions."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import weft
from view import runs
from weft.errors import UsageError
from weft.trace import Event
from weft.trace.builder import ANY, Builder
from weft.trace.layout import State
from weft.view.run_view import RunView


def picture(path: Path) -> RunView:
    """An analysed picture."""
    made = RunView(weft.open(path))
    made.analyse()
    assert made.failure is None
    return made


@pytest.fixture(scope="module")
def halo(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A halo exchange."""
    return picture(runs.halo(tmp_path_factory.mktemp("sums") / "halo", 5))


def inside(event: Event, start: float, end: float) -> int:
    """The part of a call's time in a stretch."""
    return max(0, int(min(event.exit_ns or 0, end) - max(event.enter_ns, start)))


class TestTables:
    """What the tables say of a stretch is what a scan of all calls finds there."""

    @pytest.mark.parametrize("part", [(0.55, 0.7), (0.2, 0.9), (0.61, 0.6101), (-0.5, 0.5)])
    def test_times_are_those_of_a_scan(self, halo: RunView, part: tuple[float, float]) -> None:
        end = halo.axis_by_name("time").measured
        start, stop = int(part[0] * end), int(part[1] * end)
        found = halo.tables("time", (start, stop))
        wanted: Counter[str] = Counter()
        for event in (e for rank in halo.trace.ranks for e in rank):
            wanted[event.function.name] += inside(event, max(0, start), stop)
        assert {row["name"]: row["ns"] for row in found["times"]["function"] if row["ns"]} == {
            name: ns for name, ns in wanted.items() if ns
        }
        for key in ("rank", "site"):
            assert sum(row["ns"] for row in found["times"][key]) == sum(wanted.values())
        assert found["waiting"]["in_mpi_ns"] == sum(wanted.values())
        assert found["waiting"]["base"]["ns"] == 5 * (stop - max(0, start))
        assert "5 ranks" in found["waiting"]["base"]["text"]

    def test_the_parts_of_the_run_add_up_to_the_whole(self, halo: RunView) -> None:
        end = int(halo.axis_by_name("time").measured)
        whole = halo.tables("time", (0, end))
        cuts = [0, end // 3, end // 2, end // 2 + 17, end - 5, end + 1]
        parts = [halo.tables("time", (a, b)) for a, b in pairwise(cuts)]
        assert whole["whole"]
        assert not any(part["whole"] for part in parts)
        for name in ("ns", "waiting_ns"):
            assert sum(row[name] for part in parts for row in part["times"]["rank"]) == sum(
                row[name] for row in whole["times"]["rank"]
            )
        assert sum(part["waiting"]["late_ns"] for part in parts) == whole["waiting"]["late_ns"] > 0
        culprits = sum(row["ns"] for part in parts for row in part["culprits"])
        assert culprits == sum(row["ns"] for row in whole["culprits"]) == whole["waiting"]["late_ns"]
        for name in ("messages", "bytes"):
            total = [[sum(p["matrix"][name][i][j] for p in parts) for j in range(5)] for i in range(5)]
            assert total == whole["matrix"][name]

    def test_causes_add_up_to_the_time_in_mpi(self, halo: RunView) -> None:
        end = halo.axis_by_name("time").measured
        for span in ((0, end), (end * 0.5, end * 0.8)):
            found = halo.tables("time", span)["waiting"]
            assert sum(cause["ns"] for cause in found["causes"]) == found["in_mpi_ns"]

    def test_only_messages_sent_in_the_stretch_are_counted(self, halo: RunView) -> None:
        sends = sorted(e.enter_ns for e in halo.trace.select("fn:Isend"))
        middle = (sends[len(sends) // 2] + sends[len(sends) // 2 + 1]) // 2
        found = halo.tables("time", (middle, halo.axis_by_name("time").measured))["matrix"]["messages"]
        assert sum(map(sum, found)) == sum(t >= middle for t in sends)

    def test_logical_time_means_the_calls_that_are_shown(self, halo: RunView) -> None:
        end = halo.axis_by_name("logical").measured
        whole, half = halo.tables("logical", (0, end)), halo.tables("logical", (0, end / 2))
        assert whole["whole"]
        calls = [sum(row["calls"] for row in found["times"]["rank"]) for found in (half, whole)]
        assert 0 < calls[0] < calls[1] == halo.trace.event_count

    def test_a_stretch_behind_the_run_is_empty(self, halo: RunView) -> None:
        end = halo.axis_by_name("time").measured
        found = halo.tables("time", (end * 1.2, end * 1.3))
        assert found["waiting"]["in_mpi_ns"] == 0
        assert not found["culprits"]


class TestMessage:
    """One message is told as the record has it."""

    def test_its_facts_are_the_records(self, halo: RunView) -> None:
        links = halo.links
        assert links is not None
        for row in range(0, len(links.match.sends.event), 7):
            found = halo.message_with_arrow("time", "send", row)
            send, post, receive = (halo.trace.event(*found[end]["event"]) for end in ("send", "post", "receive"))
            assert (send.function.name, post.function.name, receive.function.name) == (
                "MPI_Isend", "MPI_Irecv", "MPI_Waitall",
            )  # fmt: skip
            assert found["tag"] == send.tag == post.tag
            assert (send.peer, post.peer) == (post.rank.index, send.rank.index)
            assert found["bytes"] == send.count * 4
            assert receive.exit_ns is not None
            assert found["latency_ns"] == receive.exit_ns - send.enter_ns
            assert found["arrow"]["from"] == [send.rank.index, send.enter_ns]
            assert found["arrow"]["to"] == [post.rank.index, receive.exit_ns]

    def test_who_waited_is_the_analysis_word(self, tmp_path: Path) -> None:
        b = Builder(ranks=2, path=tmp_path / "run")
        b.ranks[0].send(1, 3, enter=500_000, exit=501_000)
        b.ranks[1].recv(0, 3, enter=100_000, exit=502_000)
        b.ranks[0].send(1, 4, enter=600_000, exit=601_000)
        b.ranks[1].recv(0, 4, enter=900_000, exit=901_000)
        made = picture(b.write())
        assert made.message_with_arrow("time", "send", 0)["why"] == [
            "Rank 1 waited 400 µs for it in recv: it was sent late.",
            "Its receive was posted 400 µs before it was sent.",
        ]
        assert made.message_with_arrow("time", "send", 1)["why"] == [
            "Nobody waited for it.", "It was sent 300 µs before its receive was posted.",
        ]  # fmt: skip

    def test_messages_without_an_end_say_so(self, tmp_path: Path) -> None:
        made = picture(runs.deadlock(tmp_path / "run"))
        found = made.links_between("time", 0, made.axis_by_name("time").end)["messages"]
        for kind, side, word in (("unmatched-send", "send", "No receive"), ("unmatched-receive", "receive", "Nobody")):
            lost = [m for m in found if m.get("kind") == kind]
            assert lost
            facts = made.message_with_arrow("time", side, lost[0]["row"])
            assert facts["why"][0].startswith(word)
            assert facts["latency_ns"] is None
            assert facts["arrow"]["event"] == lost[0]["event"]

    @pytest.mark.parametrize(("side", "row"), [("send", -1), ("send", 10**6), ("receive", 10**6), ("probe", 0)])
    def test_what_is_no_message_is_refused(self, halo: RunView, side: str, row: int) -> None:
        with pytest.raises(UsageError):
            halo.message_with_arrow("time", side, row)

    def test_a_wildcard_says_from_whom_it_came(self, tmp_path: Path) -> None:
        b = Builder(ranks=2, path=tmp_path / "run")
        b.ranks[0].send(1, 3, count=5)
        index = b.ranks[1].recv(ANY, got=0, tag=3, count=8, received=20, site=("/x/step.c", 8, "swap"))
        made = picture(b.write())
        assert made.tooltip_facts(1, index) | {"text": ""} == {
            "text": "", "peer": "from any, got 0", "tag": 3, "bytes": 20, "site": "step.c:8 swap", "method": None,
        }  # fmt: skip
        assert made.message_with_arrow("time", "send", 0)["bytes"] == 20


def test_a_filter_tells_which_messages_and_collectives_fit(halo: RunView) -> None:
    end = halo.axis_by_name("time").end
    found = halo.links_between("time", 0, end, "rank:1")
    assert {m["fits"] for m in found["messages"]} == {True, False}
    for message in found["messages"]:
        assert message["fits"] == any(message[name][0] == 1 for name in ("send", "receive", "post"))
    assert all(band["fits"] for band in found["bands"])
    assert not any(band["fits"] for band in halo.links_between("time", 0, end, "fn:Isend")["bands"])
    assert "fits" not in halo.links_between("time", 0, end)["messages"][0]


def test_of_too_many_messages_those_that_fit_are_drawn(halo: RunView, monkeypatch: pytest.MonkeyPatch) -> None:
    links = halo.links
    assert links is not None
    scale = halo.axis_by_name("time")
    hits = halo.find_hits("fn:Isend rank:2")
    found = links.links_in_window(scale, 0, scale.end, most_messages=30, hits=hits)
    wanted = {e.id for e in halo.trace.select("fn:Isend rank:2")}
    assert {tuple(m["send"]) for m in found["messages"]} == wanted
    assert len(found["messages"]) + found["hidden"] == len(links.match.sends.event)


class TestEnds:
    """Rows of ranks that ended before their time carry a mark."""

    def test_a_rank_that_ended_outside_of_mpi_has_a_mark(self, tmp_path: Path) -> None:
        made = picture(runs.crash(tmp_path / "run"))
        last = made.trace.ranks[1].event(len(made.trace.ranks[1]) - 1)
        for axis in ("time", "folded", "logical"):
            (end,) = made.axis_facts(axis)["ends"]
            assert (end["rank"], end["row"], end["time"]) == (1, 1, last.exit_ns)
            assert end["at"] == made.event_position(made.axis_by_name(axis), last.id)[2]
        assert "outside MPI" in end["label"]

    def test_an_abort_has_its_own_kind(self, tmp_path: Path) -> None:
        b = Builder(ranks=2, path=tmp_path / "run", ended="crashed")
        b.ranks[0].barrier()
        b.ranks[1].barrier()
        b.ranks[0].state, b.ranks[1].state = State.RUNNING, State.ABORTED
        ends = {end["rank"]: end["kind"] for end in picture(b.write()).axis_facts("time")["ends"]}
        assert ends[1] == "abort" != ends[0]

    def test_a_run_that_finished_has_none(self, halo: RunView) -> None:
        assert halo.axis_facts("time")["ends"] == []
