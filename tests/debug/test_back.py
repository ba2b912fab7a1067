"""Back in the source: the last line, visit of a breakpoint and change of a value before where a rank stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from debug.commands_table import LANGUAGES, Bench, line
from tests_support import WEFT, Installed, execute
from weft.debug import back
from weft.debug.debugger import Debugger
from weft.debug.hands import Tally
from weft.tasks.ranks import TaskPrompt

pytestmark = pytest.mark.usefixtures("gdb")
AGAIN = pytest.mark.matrix
"""Where another test shows the same of that language already."""


@pytest.fixture(scope="module")
def session(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """What a script prints on squares.*, recorded on two ranks; `{here}` is the line of the loop's body."""
    bench = Bench(Path(mpich.mpicc).parents[1], tmp_path_factory.mktemp("back"))

    def run(language: str, *commands: str) -> str:
        if language not in bench.commands and not bench.build(language):
            pytest.skip(f"there is no compiler for {language} here")
        return bench.script(commands, language)

    return run


def changes(said: str, command: str) -> list[str]:
    """The changes of `total` that a command told, in order."""
    parts = said.split("(weft) ")
    told = (re.search(r"rank 0 .*; total: (\S+ -> \S+)", part) for part in parts if part.startswith(command + "\n"))
    return [found[1] for found in told if found]


@pytest.mark.slow
@pytest.mark.parametrize("language", [*(pytest.param(name, marks=AGAIN) for name in ("C", "Fortran")), "Python"])
def test_changes_come_backwards_in_the_order_in_which_they_came(language: str, session: Callable[..., str]) -> None:
    said = session(language, "break 0:{file}:{here} if k == 2", "continue", "watch total @0", *["continue"] * 2,
                   "reverse-continue", "reverse-continue", "continue")  # fmt: skip
    assert changes(said, "continue")[:2] == ["1 -> 5", "5 -> 14"], said
    assert changes(said, "reverse-continue")[0] == "1 -> 5", said


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("language", ["C", pytest.param("Python", marks=AGAIN)])
def test_the_return_of_a_frame_is_no_change_of_what_was_watched_in_it(
    language: str, session: Callable[..., str]
) -> None:
    said = session(language, "break 0:{file}:{here} if k == 4", "continue", "delete", "watch total @0", "continue",
                   "continue", "reverse-continue", "continue", "next @0", "reverse-continue")  # fmt: skip
    assert changes(said, "continue") == ["14 -> 30"], said
    assert changes(said, "reverse-continue") == ["14 -> 30"] * 2, said


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.parametrize("language", ["C", "Python"])
def test_lines_come_backwards_over_functions_and_into_them(language: str, session: Callable[..., str]) -> None:
    here = line(LANGUAGES[language])
    said = session(language, "break 0:{file}:{here} if k == 2", "continue", "delete", "reverse-next", "reverse-step",
                   "print k @0", "reverse-next")  # fmt: skip
    places = [int(found) for found in re.findall(r"rank 0 +at squares\.\w+:(\d+)", said)]
    assert places[:2] == [here, here - 1], said
    assert places[2] < here - 2, said  # the last line of square()
    assert places[3] in (here, places[2] - 1), said  # its line before, or the one that calls it
    assert "  rank 0  1\n" in said


def test_where_nothing_lies_behind_the_rank_stays_where_it_stood(session: Callable[..., str]) -> None:
    said = session("Python", "break 0:{file}:{here}", "continue", "reverse-continue", "print k @0", "reverse-step @0-1")
    assert "no breakpoint was passed between the first communicating call of rank 0 and here" in said
    assert "  rank 0  1\n" in said
    assert "goes back by one line on one rank" in said


def test_an_inlined_function_is_gone_back_through_and_a_refusal_leaves_all_ranks_at_their_lines(
    mpich: Installed, tmp_path: Path
) -> None:
    source = Path(__file__).parent / "programs" / "inlined.c"
    execute([mpich.mpicc, "-g", "-O2", "-o", tmp_path / "inlined", source])
    execute([*WEFT, "run", "-n", "2", "--out", tmp_path / "run", "--", tmp_path / "inlined"])
    first = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if "first" in text and "printf" in text)
    script = tmp_path / "script"
    commands = [f"break inlined.c:{first}", "continue", "delete", f"break inlined.c:{first + 2}", "reverse-continue",
                "where @0-1", "next @0", "next @0", "reverse-next"]  # fmt: skip
    script.write_text("\n".join(commands) + "\n")
    said = execute([*WEFT, "debug", tmp_path / "run", "-x", script], timeout=150).stdout
    parts = dict(zip(commands, said.split("(weft) ")[1:], strict=True))
    assert f"ranks 0 and 1  at inlined.c:{first} in fill" in parts["continue"], said
    assert "no breakpoint was passed" in parts["reverse-continue"], said
    assert f"ranks 0 and 1  at inlined.c:{first} in fill" in parts["where @0-1"], said
    assert re.search(r"rank 0  at inlined\.c:\d+ in (fill|main)", parts["reverse-next"]), said
    assert "Error while executing" not in said
    assert "did not come to that line again" not in said


@pytest.mark.slow
@pytest.mark.parametrize("how", ["next", pytest.param("step", marks=AGAIN)])
def test_lines_of_inlined_templates_come_backwards_as_they_came_forwards(
    how: str, mpich: Installed, tmp_path: Path
) -> None:
    source = Path(__file__).parent / "programs" / "templates.cpp"
    execute([Path(mpich.mpicc).with_name("mpicxx"), "-g", "-O2", "-o", tmp_path / "templates", source])
    execute([*WEFT, "run", "-n", "2", "--out", tmp_path / "run", "--", tmp_path / "templates"])
    debugger = Debugger(tmp_path / "run", lambda _: ())
    prompt = TaskPrompt(debugger, as_json=True)

    def stop() -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
        hand = debugger.hand(0)
        values = [(name, value) for name, value in hand.variables(0) if "@entry" not in name and "0x" not in value]
        return [(frame.function, frame.line) for frame in hand.stack()], values

    try:
        stops = []
        for command in ("restart", "until 0:MPI_Allreduce#3", "rank 0", *[f"{how} @0"] * 4):
            prompt.answer(command)
            stops.append(stop())
        for expected in reversed(stops[4:-1]):
            prompt.answer(f"reverse-{how} @0")
            assert stop() == expected
    finally:
        debugger.close()


@pytest.fixture
def third_visit(mpich: Installed, tmp_path: Path) -> Iterator[TaskPrompt]:
    """A debugger in which rank 0 of squares.py stands at the third visit of the loop's body."""
    bench = Bench(Path(mpich.mpicc).parents[1], tmp_path)
    assert bench.build("Python")
    debugger = Debugger(tmp_path / "run-Python", lambda _: ())
    prompt = TaskPrompt(debugger, as_json=True)
    for command in ("restart", f"break 0:squares.py:{line('squares.py')}", *["continue"] * 3):
        prompt.answer(command)
    yield prompt
    debugger.close()


def comes_to_the_visit_before(prompt: TaskPrompt, comes: bool) -> None:
    """A step back from the third visit; or else it is told that the rank did not come there again."""
    if not comes:
        with pytest.raises(back.NotAgain, match="did not come to that line again"):
            prompt.answer("reverse-continue")
    else:
        prompt.answer("reverse-continue")
        assert prompt.answer("print k @0")["values"][0]["value"] == "2"


@pytest.mark.cases(1)
@pytest.mark.parametrize("short", [1, back.TRIES])
def test_a_replay_that_did_not_come_past_the_place_proves_nothing(
    short: int, third_visit: TaskPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many replays count nothing; what is told is the visit before, or that the rank did not come there again."""
    whole, cut = back.BackwardSearch._count_from_call, [0] * short

    def counted(self: back.BackwardSearch, base: int) -> Tally:
        tally = whole(self, base)
        return Tally(cut.pop(), 0, ()) if cut else tally

    monkeypatch.setattr(back.BackwardSearch, "_count_from_call", counted)
    comes_to_the_visit_before(third_visit, short < back.TRIES)
    assert not cut


@pytest.mark.matrix
@pytest.mark.parametrize("other", [1, back.TRIES])
def test_a_replay_that_went_another_way_is_not_where_the_rank_was_to_go(
    other: int, third_visit: TaskPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many replays count the same number of ticks at other lines."""
    whole, went = back.BackwardSearch.go_to, [0] * other

    def came(self: back.BackwardSearch, base: int, **where: int) -> Tally:
        tally = whole(self, base, **where)
        return Tally(tally.ticks, tally.visits, ((1, 1, went.pop()),)) if went else tally

    monkeypatch.setattr(back.BackwardSearch, "go_to", came)
    comes_to_the_visit_before(third_visit, other < back.TRIES)
    assert not went
