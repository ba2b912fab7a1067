"""`weft dump` prints what is there."""

import csv
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from tests_support import WEFT, execute
from weft.cli.main import main
from weft.trace import Level
from weft.trace.builder import ANY, Builder


@pytest.fixture
def run(tmp_path: Path) -> str:
    """Two ranks; the second never returns from its last call."""
    b = Builder(ranks=2, path=tmp_path / "run")
    r0, r1 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"))
    r1.recv(ANY, got=0, tag=7)
    r0.barrier(comm=b.dup())
    r1.iprobe(0, flag=False, polls=400)
    r0.call("MPI_Comm_rank", comm=2, rank=0, calls=3)
    r1.open.recv(0, tag=99)
    return str(b.write())


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed."""
    return capsys.readouterr().out.splitlines()


def test_calls_stand_in_the_order_of_time(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", run]) == 0
    head, *rows = lines(capsys)
    assert head.split() == ["time", "rank", "event", "took", "where", "call"]
    assert [row.split()[1] for row in rows] == ["0", "1", "0", "1", "0", "1", "0", "1"]
    assert rows[0].endswith("step.py:9 exchange  MPI_Send(count 1, datatype MPI_INT, dest 1, tag 7, comm world)")
    assert "source any, tag 7, comm world) -> from 0, tag 7, 4 bytes" in rows[1]
    assert rows[5].endswith("-> no, 400 times")
    assert rows[6].endswith("MPI_Comm_rank(comm world, rank 0) -> 3 calls in a row")


def test_a_call_that_never_returned_says_so(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--where", "is:open"])
    (row,) = lines(capsys)[1:]
    assert "still in this call" in row
    assert "tag 99" in row


def test_json_is_one_object_a_line(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--format", "json"])
    rows = [json.loads(line) for line in lines(capsys)]
    assert len(rows) == 8
    assert [row.get("calls") for row in rows] == [None] * 6 + [3, None]
    assert rows[0]["function"] == "MPI_Send"
    assert rows[0]["args"] == {
        "buf": 65536, "count": 1, "datatype": "MPI_INT", "dest": 1, "tag": 7, "comm": "world",
    }  # fmt: skip
    assert rows[0]["site"]["line"] == 9
    assert rows[1]["args"]["status"] == {"source": 0, "tag": 7, "count": 4, "cancelled": False, "error": 0}
    assert rows[-1]["open"] is True
    assert rows[-1]["exit_ns"] is None


def test_the_options_filter(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--rank", "0", "--function", "Send,Barrier", "--comm", "world*"])
    assert len(lines(capsys)) == 3
    main(["dump", run, "--tag", "7", "--time", "0.5us-1s", "--first", "1"])
    assert len(lines(capsys)) == 2
    main(["dump", run, "--function", "Ssend"])
    assert len(lines(capsys)) == 1


def test_definitions_are_printed_in_both_forms(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--definitions"])
    assert any("world.dup#0" in line for line in lines(capsys))
    main(["dump", run, "--definitions", "--format", "json"])
    rows = [json.loads(line) for line in lines(capsys)]
    assert {"definition": "communicator", "name": "world", "members": [0, 1]} in rows


def test_outcomes_of_level_order_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder(ranks=1, path=tmp_path, level=Level.OUTCOMES)
    b.ranks[0].append_outcomes([3, 15, 2, 14, 9, 1])
    main(["dump", str(b.write())])
    assert [line.split() for line in lines(capsys)] == [
        ["rank", "thread", "outcome", "kind", "value"],
        ["0", "0", "0", "source", "3"],
        ["0", "0", "1", "polls", "9"],
    ]


def test_a_text_out_of_a_record_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder(ranks=1, path=tmp_path)
    b.ranks[0].send(0, site=("\x1b[31mred\u202e.py", 1, "f\ng"))
    main(["dump", str(b.write())])
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text.splitlines()) == 2


def test_what_could_not_be_read_is_said_on_the_error_output(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    (Path(run) / "ranks" / "0-000001.weft").unlink()
    assert main(["dump", run]) == 0
    assert "1 of 2 ranks left no readable record: 1" in capsys.readouterr().err


def test_a_run_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == f"weft: {tmp_path / 'x'} is not a run: there is no such directory\n"


def test_a_wrong_filter_is_a_usage_error(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", run, "--tag", "seven"]) == 2
    assert "'seven' is not a whole number" in capsys.readouterr().err


def test_the_last_calls_and_their_number(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run])
    whole = lines(capsys)
    main(["dump", run, "--last", "2"])
    assert [row.split()[-8:] for row in lines(capsys)[1:]] == [row.split()[-8:] for row in whole[-2:]]
    main(["dump", run, "--last", "2", "--format", "json"])
    assert [json.loads(row)["index"] for row in lines(capsys)] == [3, 3]
    main(["dump", run, "--count"])
    main(["dump", run, "--count", "--rank", "0"])
    assert lines(capsys) == ["8", "4"]
    main(["dump", run, "--count", "--definitions"])
    main(["dump", run, "--definitions", "--format", "json"])
    count, *rows = lines(capsys)
    assert int(count) == len(rows)
    main(["dump", run, "--definitions", "--format", "json", "--last", "3"])
    assert lines(capsys) == rows[-3:]


@pytest.mark.parametrize(
    ("options", "absent"),
    [
        (["--rank", "2"], "rank 2"),
        (["--rank", "0,5-9"], "ranks 5-9"),
        (["--rank", "2-3"], "ranks 2-3"),
        (["--where=-rank:7"], "rank 7"),
    ],
)
def test_a_rank_that_is_not_there_is_an_error(
    run: str, options: list[str], absent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", run, *options]) == 2
    assert f"the filter names {absent}, but {run} has ranks 0 to 1" in capsys.readouterr().err
    assert main(["dump", run, "--where", "rank<7"]) == 0


@pytest.mark.parametrize("count", ["-1", "x", "1.5"])
def test_a_number_of_calls_that_is_none_is_a_usage_error(run: str, count: str) -> None:
    for option in ("--first", "--last"):
        assert main(["dump", run, option, count]) == 2


def test_a_range_of_ranks_that_reaches_beyond_the_run_is_cut_with_a_note(
    run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", run, "--rank", "1-3", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert {json.loads(line)["rank"] for line in said.out.splitlines()} == {1}
    assert said.err == "weft: note: the run has 2 ranks: without 2-3\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--function", "MPI_Brrier"], "there is no function MPI_Brrier: did you mean MPI_Barrier?"),
        (["--where", "fn:Nonsense"], "there is no function Nonsense"),
        (["--rank", "1-0"], "'1-0' goes backward: write 0-1"),
        (["--time", "3s-1.2s"], "the time '3s-1.2s' goes backward: write 1.2s-3s"),
    ],
)
def test_what_can_fit_nothing_is_an_error(
    run: str, options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", run, *options]) == 2
    assert said in capsys.readouterr().err
    assert main(["dump", run, "--function", "*send*,MPI_Barrier"]) == 0


def test_csv_and_parquet_hold_the_same_table(run: str, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    arrow_csv = pytest.importorskip("pyarrow.csv")
    for form in ("csv", "parquet"):
        assert main(["dump", run, "--format", form, "-o", str(tmp_path / f"calls.{form}")]) == 0
    table, text = pq.read_table(tmp_path / "calls.parquet"), arrow_csv.read_csv(tmp_path / "calls.csv")
    assert table.column_names == text.column_names
    assert table["function"].to_pylist() == text["function"].to_pylist()
    assert table["exit_ns"].to_pylist() == text["exit_ns"].to_pylist()
    assert table["tag"].to_pylist()[-1] == 99 and table["exit_ns"].to_pylist()[-1] is None
    assert main(["dump", run, "--format", "csv", "--where", "fn:Ssend", "-o", str(tmp_path / "none.csv")]) == 0
    assert (tmp_path / "none.csv").read_text().count("\n") == 1


def test_csv_needs_no_pyarrow(run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["dump", run, "--format", "csv", "-o", str(tmp_path / "calls.csv")]) == 0
    with (tmp_path / "calls.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    calls = [event for rank in weft.open(run).ranks for event in rank]
    assert len(rows) == len(calls)
    assert sorted((row["rank"], row["event"], row["function"]) for row in rows) == sorted(
        (str(call.rank.index), str(call.index), call.function.name) for call in calls
    )
    assert {row["open"] for row in rows} == {"true", "false"}
    assert rows[-1]["tag"] == "99" and rows[-1]["exit_ns"] == ""


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_go_through_a_pipe(run: str, form: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    piped = subprocess.run([*WEFT, "dump", run, "--format", form], capture_output=True, timeout=60, check=True)
    main(["dump", run, "--format", form, "-o", str(tmp_path / "file")])
    assert piped.stdout == (tmp_path / "file").read_bytes() != b""


@pytest.mark.cases(1)
@pytest.mark.parametrize("form", ["text", "json", "csv"])
def test_a_reader_that_goes_away_is_no_error(form: str, tmp_path: Path) -> None:
    b = Builder(ranks=2, path=tmp_path / "long")
    for _ in range(20_000):
        b.ranks[0].barrier(site=("a.c", 1, "main"))
    run = b.write()
    command = f"{shlex.join([*WEFT, 'dump', str(run), '--format', form])} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = execute(["bash", "-c", command])
    first, status = done.stdout.splitlines()
    assert (status, done.stderr) == ("0", "")
    assert first


def test_a_file_that_cannot_be_written_is_said(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", run, "-o", "/nowhere/at/all"]) == 4
    assert "/nowhere/at/all cannot be written" in capsys.readouterr().err


def test_a_table_of_definitions_or_outcomes_is_refused(run: str, tmp_path: Path) -> None:
    assert main(["dump", run, "--definitions", "--format", "csv"]) == 2
    b = Builder(ranks=1, path=tmp_path / "order", level=Level.OUTCOMES)
    b.ranks[0].append_outcomes([3, 15])
    assert main(["dump", str(b.write()), "--format", "csv"]) == 2
