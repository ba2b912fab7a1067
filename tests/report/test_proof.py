"""The evidence of a race: vector times that can be held against the record again."""

from __future__ import annotations

import json
from pathlib import Path

from weft.report import AnalysisContext, run_analyses
from weft.report.page import to_html
from weft.report.proof import add_proofs
from weft.report.sarif import to_sarif
from weft.report.text import _report_blocks
from weft.trace import Trace
from weft.trace.builder import ANY, Builder


def racing() -> Trace:
    """Two senders that know nothing of the receiver, after a message that one of them had to wait for."""
    b = Builder(ranks=3)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=1)
    r1.recv(0, tag=1)
    r1.send(0, tag=5)
    r2.send(0, tag=5)
    r0.recv(ANY, got=1, tag=5, site=("a.c", 3, "main"))
    r0.recv(ANY, got=2, tag=5, site=("a.c", 4, "main"))
    for rank in b.ranks:
        rank.finalize()
    return b.open()


def test_a_proof_holds_on_the_record() -> None:
    context = AnalysisContext(racing())
    report = add_proofs(context, run_analyses(context.trace, context=context))
    [race] = [f for f in report.findings if f.kind == "message-race"]
    times = {(t["rank"], t["event"]): t for t in race.facts()["proof"]["times"]}
    receive = race.events[0]
    for other in race.facts()["others"]:
        send = other["rank"], other["event"]
        assert times[send]["ended"][receive[0]] <= receive[1], "its sender knows nothing of the receive"
        assert not context.order.before(receive, send)
        own = context.order.past(send, end=False)
        assert times[send]["begun"] == own.started.tolist() and times[send]["ended"] == own.ended.tolist()
    assert len(race.facts()["proof"]["because"]) == len(race.facts()["others"]) == 1
    assert race.facts()["receive"] == {"what": "receive", "rank": 0, "nth": 1, "communicator": "world", "tag": 5}


def test_every_format_has_the_proof_where_it_was_asked_for(tmp_path: Path) -> None:
    context = AnalysisContext(racing())
    plain = run_analyses(context.trace, context=context)
    report = add_proofs(context, plain)
    sentence = "when rank 2 sends in its call 0, it knows of 0 finished calls of rank 0"
    for told, there in ((plain, False), (report, True)):
        text = "\n".join(line for line, _ in _report_blocks(context.trace, told, {}))
        assert (sentence in text) == there
        assert (sentence in to_html(context.trace, told)) == there
        assert (sentence in json.dumps(to_sarif(context.trace, told.findings))) == there
        assert (sentence in json.dumps([f.to_json() for f in told.findings])) == there
        assert "remedy: where the order matters, name the source" in text


def test_what_does_not_race_has_no_proof() -> None:
    b = Builder(ranks=2)
    r0, r1 = b.ranks
    r1.send(0, tag=5)
    r0.recv(ANY, got=1, tag=5)
    for rank in b.ranks:
        rank.finalize()
    context = AnalysisContext(b.open())
    report = add_proofs(context, run_analyses(context.trace, context=context))
    assert not any("proof" in f.facts() for f in report.findings)
