"""The tables of times and the matrix of messages, in every form of the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import numpy as np

from weft.cli.main import main
from weft.match import match_operations
from weft.report import to_json
from weft.report.document import JSON_SCHEMA
from weft.report.tables import make_tables, matrix_lines, times_lines, to_html
from weft.trace import Level, Trace
from weft.trace.builder import Builder
from weft.view.culprits import waits_by_culprit
from weft.waits import find, merge_blocks

MS = 1_000_000


def late_sender(path: Path | None = None) -> Builder:
    """Rank 1 waits 80 of its 90 ms for rank 0's late message of 12 bytes."""
    b = Builder(ranks=2, path=path)
    b.ranks[0].send(1, count=3, enter=80 * MS, exit=85 * MS, site=("a.c", 5, "main"))
    b.ranks[1].recv(0, count=3, enter=0, exit=90 * MS, site=("a.c", 9, "main"))
    return b


def ring(ranks: int) -> Trace:
    b = Builder(ranks=ranks)
    for r in b.ranks:
        r.send((r.index + 1) % ranks)
        r.recv((r.index - 1) % ranks)
    return b.open()


def test_times_are_split_into_waiting_and_the_rest_by_every_key() -> None:
    trace = late_sender().open()
    times = to_json(trace, [], (), make_tables(trace, match_operations(trace)))["times"]
    receive = {"calls": 1, "ns": 90 * MS, "waiting_ns": 80 * MS}
    send = {"calls": 1, "ns": 5 * MS, "waiting_ns": 0}
    assert times["function"] == [{"name": "MPI_Recv", **receive}, {"name": "MPI_Send", **send}]
    assert times["rank"] == [{"name": "rank 1", **receive}, {"name": "rank 0", **send}]
    assert [row["name"] for row in times["site"]] == ["MPI_Recv at a.c:9", "MPI_Send at a.c:5"]


def test_a_message_in_time_makes_nobody_wait() -> None:
    b = Builder(ranks=2)
    b.ranks[0].send(1, enter=0, exit=5 * MS)
    b.ranks[1].recv(0, enter=10 * MS, exit=20 * MS)
    trace = b.open()
    assert {row.waiting for row in make_tables(trace, match_operations(trace)).times["function"]} == {0}


def test_the_report_with_tables_fulfils_its_schema() -> None:
    trace = late_sender().open()
    document = to_json(trace, [], (), make_tables(trace, match_operations(trace)))
    jsonschema.validate(document, JSON_SCHEMA)
    assert document["matrix"] == {"ranks_per_block": 1, "messages": [[0, 1], [0, 0]], "bytes": [[0, 12], [0, 0]]}
    del document["times"]["rank"]
    assert not jsonschema.Draft202012Validator(JSON_SCHEMA).is_valid(document)


def test_blocks_keep_the_sum_and_fit() -> None:
    values = np.arange(10 * 10).reshape(10, 10)
    merged, each = merge_blocks(values, 4)
    assert merged.shape == (4, 4) and each == 3
    assert merged.sum() == values.sum()
    assert merged[0, 0] == values[:3, :3].sum() and merged[3, 3] == values[9, 9]
    assert merge_blocks(values, 10)[1] == 1


def test_a_matrix_of_more_ranks_than_fit_is_merged_into_blocks() -> None:
    trace = ring(40)
    made = make_tables(trace, match_operations(trace))
    lines = list(matrix_lines(made, 80))
    assert max(map(len, lines)) <= 80
    assert any("5 ranks a row and column" in line for line in lines)
    numbers = [int(n) for line in lines[3 : lines.index("", 1)] for n in re.findall(r"\s(\d+)(?=\s|$)", line)]
    assert sum(numbers) == 40
    assert not any("a row and column" in line for line in matrix_lines(made, 400))


def test_the_text_has_the_worst_first_and_every_share_is_of_the_base_that_it_names() -> None:
    trace = late_sender().open()
    lines = list(times_lines(make_tables(trace, match_operations(trace))))
    assert lines[1] == "shares are of all ranks' time: 2 ranks x 90 ms = 180 ms"
    causes = [line.split() for line in lines[3 : lines.index("", 1)]]
    assert causes == [
        ["late", "sender", "80", "ms", "44.4%"], ["transfer", "and", "library", "15", "ms", "8.3%"],
        ["in", "MPI", "95", "ms", "52.8%"],
    ]  # fmt: skip
    at = next(i for i, line in enumerate(lines) if line.startswith("function"))
    assert lines[at].split() == ["function", "calls", "time", "of", "all", "waiting"]
    assert lines[at + 1].split() == ["MPI_Recv", "1", "90", "ms", "50.0%", "80", "ms"]


def test_every_form_of_the_report_tells_the_same_numbers() -> None:
    trace = late_sender().open()
    made = make_tables(trace, match_operations(trace))
    document = to_json(trace, [], (), made)["waiting"]
    assert document["base"]["ns"] == 180 * MS and document["in_mpi_ns"] == 95 * MS and document["late_ns"] == 80 * MS
    [finding] = [f for f in find(trace, match_operations(trace)) if f.kind == "late-sender"]
    assert (
        finding.facts()["ns"]
        == document["late_ns"]
        == sum(row["ns"] for row in waits_by_culprit(trace, match_operations(trace)))
    )
    assert finding.facts()["base_ns"] == document["base"]["ns"]
    assert document["base"]["text"] in to_html(made).replace("&#x27;", "'")
    assert [row.waiting for row in made.times["rank"]] == [80 * MS, 0]


def test_the_page_draws_the_matrix_itself() -> None:
    trace = ring(3)
    page = to_html(make_tables(trace, match_operations(trace)))
    assert page.count("<title>") == 3
    assert "rank 0 to 1: 1 messages" in page
    assert not re.search(r"(src|href)=|url\(|https?:", page)


def test_the_command_shows_what_is_asked_for(tmp_path: Path, capsys: object) -> None:
    late_sender(tmp_path / "run").write()
    out = {}
    for options in ((), ("--times",), ("--matrix",), ("--format", "json"), ("--format", "html")):
        file = tmp_path / "out"
        main(["report", str(tmp_path / "run"), *options, "-o", str(file)])
        out[options] = file.read_text()
    assert "waiting" not in out[()] and "messages from rank" not in out[()]
    assert "waiting" in out["--times",] and "messages from rank" not in out["--times",]
    assert "messages from rank" in out["--matrix",]
    document = json.loads(out["--format", "json"])
    assert document["times"]["rank"] and document["matrix"]["messages"]
    assert "<svg" in out["--format", "html"]


def test_a_run_of_level_order_has_empty_tables() -> None:
    trace = Builder(ranks=2, level=Level.OUTCOMES).open()
    jsonschema.validate(to_json(trace, [], (), make_tables(trace, None)), JSON_SCHEMA)
