"""`weft dump` prints what is there."""

import json
from pathlib import Path

import pytest

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
    r1.open.recv(0, tag=99)
    return str(b.write())


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed."""
    return capsys.readouterr().out.splitlines()


def test_calls_stand_in_the_order_of_time(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", run]) == 0
    head, *rows = lines(capsys)
    assert head.split() == ["time", "rank", "event", "took", "where", "call"]
    assert [row.split()[1] for row in rows] == ["0", "1", "0", "1", "0", "1", "1"]
    assert rows[0].endswith("step.py:9 exchange  MPI_Send(count 1, datatype MPI_INT, dest 1, tag 7, comm world)")
    assert "source any, tag 7, comm world) -> from 0, tag 7, 4 bytes" in rows[1]
    assert rows[5].endswith("-> no, 400 times")


def test_a_call_that_never_returned_says_so(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--where", "is:open"])
    (row,) = lines(capsys)[1:]
    assert "still in this call" in row
    assert "tag 99" in row


def test_json_is_one_object_a_line(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--format", "json"])
    rows = [json.loads(line) for line in lines(capsys)]
    assert len(rows) == 7
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
    main(["dump", run, "--tag", "7", "--time", "0.5us-1s", "--limit", "1"])
    assert len(lines(capsys)) == 2
    main(["dump", run, "--function", "Nothing"])
    assert len(lines(capsys)) == 1


def test_definitions_are_printed_in_both_forms(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["dump", run, "--definitions"])
    assert any("world.dup#0" in line for line in lines(capsys))
    main(["dump", run, "--definitions", "--format", "json"])
    rows = [json.loads(line) for line in lines(capsys)]
    assert {"definition": "communicator", "name": "world", "members": [0, 1]} in rows


def test_outcomes_of_level_order_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = Builder(ranks=1, path=tmp_path, level=Level.ORDER)
    b.ranks[0].outcomes([3, 15, 2, 14, 9, 1])
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
    assert main(["dump", str(tmp_path / "x")]) == 4
    assert capsys.readouterr().err == f"weft: {tmp_path / 'x'} is no run: there is no such directory\n"


def test_a_wrong_filter_is_a_usage_error(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", run, "--tag", "seven"]) == 2
    assert "'seven' is no whole number" in capsys.readouterr().err
