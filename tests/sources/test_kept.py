"""What a run keeps of its sources is bounded, is read back as it was, and harms nobody who reads it."""

from __future__ import annotations

import json
import os
import platform
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from weft.sources import kept_sources, sources_of
from weft.sources.keep_sources import keep_sources
from weft.sources.layout import MAX_FILE, MAX_PACKED, MAX_WHOLE
from weft.terms import describe
from weft.trace import Trace
from weft.trace.builder import Builder

TEXT = "import mpi\n\n\ndef step(comm):\n    x = comm.recv(\n        source=0)\n    comm.Barrier()\n"


def recorded(folder: Path, text: str = TEXT, line: int = 5, name: str = "step.py") -> tuple[Trace, Path]:
    """A run with a matched probe at a line of a file that was written long before."""
    source = folder / name
    source.write_text(text)
    os.utime(source, ns=(1, 1))
    b = Builder(ranks=2, path=folder / "run", ended="deadlock")
    b.ranks[0].open.mprobe(1, tag=9, site=(str(source), line, "step"))
    b.ranks[1].open.barrier(site=(str(source), 7, "step"))
    facts = json.loads((b.write() / "run.json").read_text())
    (b.path / "run.json").write_text(json.dumps({**facts, "host": platform.node()}))
    return Trace.open(b.path), source


def index(trace: Trace) -> Any:
    return json.loads((trace.path / "sources.json").read_text())


def rewrite(trace: Trace, **changed: object) -> Trace:
    """The run again with other values in the index's only file."""
    data = index(trace)
    data["files"][0] |= changed
    (trace.path / "sources.json").write_text(json.dumps(data))
    return Trace.open(trace.path)


def test_what_is_kept_is_read_back_after_the_file_has_gone(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    assert keep_sources(trace) == []
    source.unlink()
    found = sources_of(trace)
    statement = found.statement(str(source), 5)
    assert statement is not None and statement.lines == ("x = comm.recv(", "    source=0)")
    excerpt = found.excerpt(str(source), 5, 1)
    assert excerpt is not None and (excerpt.first, excerpt.lines) == (4, tuple(TEXT.split("\n")[3:6]))
    assert ["".join(text for _, text in line) for line in found.colour_excerpt(excerpt)] == list(excerpt.lines)
    assert ("k", "def") in found.colour_excerpt(excerpt)[0]
    assert found.called_names(str(source), 5) == ("comm.recv",)
    assert describe.call_words(trace.event(0, 0)) == "recv(source=1, tag=9)"
    assert [change.what for change in found.find_changes()] == ["gone"]


def test_a_run_without_sources_is_read_as_before(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    found = sources_of(trace)
    assert not found.kept and found.statement(str(source), 5) is None and found.note() is None
    assert found.called_names(str(source), 5) == ("comm.recv",)
    panel = found.excerpt_json(str(source), 5)
    assert panel is not None and not panel["kept"] and panel["lines"][4] == "    x = comm.recv("
    assert found.excerpt_json("step.py", 5) is None


def test_places_that_others_name_are_kept_too(tmp_path: Path) -> None:
    trace, _ = recorded(tmp_path)
    other = tmp_path / "other.py"
    other.write_text("raise KeyError(1)\n")
    keep_sources(
        trace, further_frames=[(str(other), 1, "work"), ("<string>", 1, "x"), (str(tmp_path / "none.py"), 3, "y")]
    )
    other.unlink()
    statement = sources_of(trace).statement(str(other), 1)
    assert statement is not None and statement.text == "raise KeyError(1)"
    assert str(other) not in sources_of(trace).own


def test_of_a_long_file_the_lines_around_its_calls_are_kept(tmp_path: Path) -> None:
    filler = "x = 1  # a line of some length, so that the file is long\n"
    many = MAX_WHOLE // len(filler) + 1000
    trace, source = recorded(tmp_path, filler * many + "    comm.recv(source=0)\n" + filler * 500, line=many + 1)
    keep_sources(trace)
    found = sources_of(trace)
    statement = found.statement(str(source), many + 1)
    assert statement is not None and statement.text == "comm.recv(source=0)"
    assert found.excerpt(str(source), many // 2) is None
    assert found.excerpt(str(source), 7) is not None  # the other rank's call
    assert (trace.path / "sources.bin").stat().st_size < 10_000


def test_what_is_too_long_binary_or_no_source_is_left_out(tmp_path: Path) -> None:
    for name, text in (("a.py", "x" * (MAX_FILE + 1)), ("b.py", "a\0b\n" * 9), ("c.key", TEXT), ("d", TEXT)):
        folder = tmp_path / name[0]
        folder.mkdir()
        trace, source = recorded(folder, text, name=name)
        keep_sources(trace)
        assert sources_of(trace).excerpt(str(source), 5) is None, name
        assert not (trace.path / "sources.bin").exists()


def test_a_pipe_under_the_name_of_a_source_does_not_hang(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    source.unlink()
    os.mkfifo(source)
    assert keep_sources(trace) == []
    assert sources_of(trace).called_names(str(source), 5) is None


def test_all_sources_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.sources.keep_sources.MAX_PACKED", 2000)
    trace, source = recorded(tmp_path)
    more = []
    for n in range(20):
        file = tmp_path / f"more{n}.py"
        file.write_bytes(os.urandom(400).hex().encode())
        more.append((str(file), 1, ""))
    keep_sources(trace, further_frames=more)
    assert (trace.path / "sources.bin").stat().st_size <= 2000
    assert sources_of(trace).excerpt(str(source), 5) is not None, "the files with calls come first"
    assert {len(entry.get("spans", ())) for entry in index(trace)["files"]} == {0, 1}


def test_line_ends_and_encodings_count_lines_as_compilers_do(tmp_path: Path) -> None:
    source = tmp_path / "step.py"
    trace, _ = recorded(tmp_path)
    source.write_bytes(b"# coding: latin-1\r\n# \xe9\x0c\x85 one line\r\na = 1\rb = 2\ncomm.send('\xe9')\n")
    os.utime(source, ns=(1, 1))
    keep_sources(trace)
    statement = sources_of(trace).statement(str(source), 5)
    assert statement is not None and statement.text == "comm.send('é')"


def test_a_change_is_told_once_it_is_one_of_the_text(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    assert sources_of(trace).note() is None
    source.touch()
    assert sources_of(trace).note() is None, "the same text"
    source.write_text(TEXT.replace("5", "6") + "#")
    assert (
        sources_of(trace).note()
        == "step.py has changed since the run: the lines shown are as they were when it was recorded"
    )


def test_a_file_that_was_edited_while_the_program_ran_may_not_be_what_ran(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    os.utime(source)
    keep_sources(trace)
    assert "edited while the program ran" in (sources_of(trace).note() or "")
    source.write_text(TEXT.replace("recv", "bcast"))
    keep_sources(trace)
    assert sources_of(trace).called_names(str(source), 5) is None
    assert describe.call_words(trace.event(0, 0)) == "recv(source=1, tag=9)", "a word that the record alone gives"


def test_a_source_newer_than_its_program_may_not_be_what_ran(tmp_path: Path) -> None:
    from weft.sources.keep_sources import WantedLines, _find_doubt

    trace, source = recorded(tmp_path, name="step.c")
    program = tmp_path / "program"
    program.write_bytes(b"")
    os.utime(program, ns=(1, 1))
    wanted = WantedLines({5}, set(), {str(program)})
    assert _find_doubt(trace, str(source), 1, wanted) == {}
    assert _find_doubt(trace, str(source), 10**10, wanted) == {"doubt": "newer"}
    assert _find_doubt(trace, "step.py", 10**10, wanted) == {}


@pytest.mark.matrix
def test_a_run_cannot_make_its_reader_unpack_more_than_it_says(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    bomb = zlib.compress(b"\n" * (200 << 20), 9)
    (trace.path / "sources.bin").write_bytes(bomb)
    again = rewrite(trace, at=0, packed=len(bomb))
    tracemalloc.start()
    assert sources_of(again).statement(str(source), 5) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20
    assert any("cannot be read" in problem for problem in again.problems)


@pytest.mark.parametrize(
    "changed",
    [
        {"at": -1}, {"packed": 2**40}, {"plain": 2**40}, {"spans": [[5, 3], [1, 2]]}, {"spans": [[1, 10**12]]},
        {"spans": [[0, 3]]}, {"spans": 7}, {"spans": [["a", "b"]]}, {"calls": {"x": ["y"]}}, {"calls": 5},
        {"size": "big"}, {"size": None}, {"spans": [[1, 2000000]]},
    ],
)  # fmt: skip
def test_a_damaged_index_shows_nothing_and_fails_nowhere(tmp_path: Path, changed: dict[str, Any]) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    again = rewrite(trace, **changed)
    for line in (-1, 0, 5, 10**6, 2**70):
        sources_of(again).excerpt_json(str(source), line)
        sources_of(again).statement(str(source), line)
    sources_of(again).note()
    assert sources_of(again).statement(str(source), 10**6) is None
    describe.call_words(again.event(0, 0))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": "weft-sources/9"}', '{"schema": "weft-sources/1"}', "[" * 10**5]
)
def test_an_index_that_cannot_be_read_is_no_source_and_a_problem(tmp_path: Path, text: str) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    (trace.path / "sources.json").write_text(text)
    again = Trace.open(trace.path)
    assert sources_of(again).statement(str(source), 5) is None
    assert sources_of(again).called_names(str(source), 5) is None, "what lies there today may not be what ran"


def test_a_text_that_leads_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    secret = tmp_path / "secret"
    (trace.path / "sources.bin").rename(secret)
    (trace.path / "sources.bin").symlink_to(secret)
    again = Trace.open(trace.path)
    assert sources_of(again).statement(str(source), 5) is None
    assert any("outside the run" in problem for problem in again.problems)


def test_a_path_of_the_index_is_compared_and_never_shown(tmp_path: Path) -> None:
    trace, source = recorded(tmp_path)
    keep_sources(trace)
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n" * 20)
    again = rewrite(trace, found=str(secret))
    panel = sources_of(again).excerpt_json(str(source), 5)
    assert panel is not None and "password" not in json.dumps(panel)
    assert sources_of(rewrite(trace, found="/dev/zero")).note() is not None
    assert sources_of(rewrite(trace, found="a\0b")).note() is not None


def test_many_files_are_not_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_sources, "MAX_HELD", 1000)
    trace, source = recorded(tmp_path)
    more = [(str(tmp_path / f"m{n}.py"), 1, "") for n in range(9)]
    for file, _, _ in more:
        Path(file).write_text("comm.send(1)\n" * 40)
    keep_sources(trace, further_frames=more)
    found = sources_of(trace)
    for _ in range(2):
        assert all(found.statement(file, 1) is not None for file, _, _ in more)
        assert found._held <= 1000
    assert found.statement(str(source), 5) is not None


def test_the_bounds_fit_together() -> None:
    assert MAX_PACKED <= 4 << 20, "a few MB a run"
