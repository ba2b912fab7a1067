"""What the report's JSON holds of findings: from records with types, which the page of keys is made of."""

from __future__ import annotations

import json

import pytest

from weft.base.event_id import EventId, Forced
from weft.base.facts import changed
from weft.evidence import BufferAccess, Deadlock, Evidence, Other, Overlap, Wait
from weft.findings import Finding
from weft.kinds import KINDS
from weft.report.evidence import evidence_classes, render_page


def test_every_shape_is_of_a_kind_and_every_kind_has_shapes_that_exist() -> None:
    named = {name for kind in KINDS.values() for name in kind.evidence}
    leaves = {name for name, shape in evidence_classes().items() if not shape.__subclasses__()}
    assert leaves - named == set()
    assert named - set(evidence_classes()) == set()


def test_the_page_has_each_key_of_a_kind_with_what_it_holds() -> None:
    rows = render_page().partition("## deadlock\n")[2].partition("\n## ")[0].splitlines()
    assert "| `waits` | list of {ranks: list of number, call: text, for: list of number} |" in rows
    assert "| `cycle`? | list of number |" in rows
    race = render_page().partition("## message-race\n")[2].partition("\n## ")[0]
    assert "| `tag` | number or null |" in race
    assert "force: text}" in race
    assert all(f"## {slug}\n" in render_page() for slug in KINDS)


def test_what_has_its_default_is_left_out_and_words_of_python_are_keys() -> None:
    wait = Wait(ranks=(0,), call="recv", for_=[1])
    assert Deadlock(waits=[wait]).to_json() == {"waits": [{"ranks": [0], "call": "recv", "for": [1]}]}
    assert Deadlock(waits=[], cycle=[0, 1]).to_json() == {"waits": [], "cycle": [0, 1]}


def test_events_are_lists_and_another_outcome_is_what_replay_is_given() -> None:
    access = BufferAccess(
        as_="buffer", access="read", from_=0, to=4, call=EventId(1, 2), named=EventId(1, 2), until=None
    )
    told = json.loads(json.dumps(Overlap(bytes=4, accesses=[access]).to_json()))
    assert told["accesses"][0]["call"] == [1, 2] and told["accesses"][0]["until"] is None
    other = Other(rank=2, event=0, taken_by=None, force=Forced(EventId(0, 3), 1))
    assert other.to_json() == {"rank": 2, "event": 0, "taken_by": None, "force": "0:3=1"}


@pytest.mark.parametrize("text", ["0:3=1", "12:0=#4"])
def test_another_outcome_is_printed_as_it_is_parsed(text: str) -> None:
    assert str(Forced.parse(text)) == text


@pytest.mark.parametrize("text", ["", "0:3", "0:3=", "0:3=#", "0:3=-1", "0=1", "0:3=1 ", "0:3=٣", "0:" + "9" * 5000])
def test_another_text_is_not_an_outcome(text: str) -> None:
    assert Forced.parse(text) is None


def test_a_fact_that_a_record_does_not_have_is_refused() -> None:
    with pytest.raises(AssertionError):
        changed(Deadlock(waits=[]), waiting=[])


def test_a_finding_without_evidence_has_an_empty_object() -> None:
    assert Finding("request-leak", "error", "certain", "m").facts() == {}
    assert Finding("request-leak", "error", "certain", "m", alike=2).facts() == {"count": 2}
    assert Evidence() == Evidence() and Deadlock(waits=[]) != Deadlock(waits=[], cycle=[1, 0])
