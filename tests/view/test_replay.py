"""A replay behind the page, in a real Chromium: to a call, stops, lines, back; the picture follows. Real mpiexec."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests_support import ROOT, WEFT, Installed, execute
from view.page import Page
from view.test_sent import complaints, program
from weft.view.html_export import render_html
from weft.view.run_view import RunView
from weft.view.server import ViewServer

pytestmark = pytest.mark.timeout(300)

Show = Callable[..., Page]
GATHER = ROOT / "tests" / "dap" / "programs" / "gather.py"


@pytest.fixture(scope="module")
def gathered(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks of mpi4py: each exchanges with its neighbours, then rank 0 takes the results from whoever comes."""
    folder = tmp_path_factory.mktemp("gathered")
    shutil.copy(GATHER, folder)
    line = [*WEFT, "run", "-n", "4", "--out", folder / "run", "--", str(mpich.python), folder / "gather.py"]
    done = execute(line, timeout=200, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def call(run: Path, rank: int, text: str) -> int:
    """The first call of a rank that a filter names."""
    return next(iter(weft.open(run).select(f"{text} rank:{rank}"))).index


@pytest.fixture
def shown(page: Show, serve: Callable[[Path], ViewServer], gathered: Path) -> Iterator[Page]:
    """The page of that run; its replay ends with the test."""
    opened = page(gathered, size=(1440, 900))
    yield opened
    opened.ask("page.replay.act('end').then(done)")
    opened.until(lambda: opened.state("page.replay.told.state") == "none")


def choose(shown: Page, rank: int, event: int) -> None:
    """Have a call chosen."""
    shown.ask(f"page.select([{rank}, {event}]).then(() => done())")


def press(shown: Page, button: str) -> dict[str, Any]:
    """Press a button, and wait until the replay stands again; what the page is told."""
    before = shown.state("page.replay.told?.version ?? -1")
    shown.js(f"document.querySelector('#{button}').click()")
    shown.until(
        lambda: (
            shown.state("page.replay.told?.version ?? -1") > before
            and shown.state("!page.replay.acting && page.replay.told.state") in ("stopped", "failed")
        )
    )
    return dict(shown.state("page.replay.told"))


def stands(told: dict[str, Any], rank: int) -> dict[str, Any]:
    """Where a rank stands."""
    return next(row for row in told["ranks"] if row["rank"] == rank)


@pytest.mark.matrix
def test_the_program_is_replayed_to_a_call_and_the_picture_goes_there(shown: Page, gathered: Path) -> None:
    sent = call(gathered, 2, "fn:Send*")
    choose(shown, 2, sent)
    shown.ask("page.move(0, page.graph.axis.end / 50); done()")
    told = press(shown, "replay-here")
    row = stands(told, 2)
    assert (row["event"], row["side"], row["state"]) == ([2, sent], "start", "before")
    assert f"before event {sent}: send(dest=0, tag=7) at gather.py:18" in shown.text("#replay-said")
    assert f"before event {sent}" in shown.text(".replayed")
    # No further than is needed: rank 0 has not begun to receive.
    assert stands(told, 0)["event"][1] <= call(gathered, 0, "is:wildcard")
    assert row["at"][1] > shown.state("page.graph.axis.end / 50")
    shown.until(lambda: shown.state("page.state.from") <= row["at"][1] <= shown.state("page.state.to"))
    crossed = shown.ask("import('weft/cut.js').then((m) => done(m.crossings(page.graph.view(), page.graph.replay)))")
    assert len(crossed) == 4
    place = shown.state(f"page.graph.x({row['at'][1]})")
    [focus] = [one for one in crossed if one["focus"]]
    assert abs(focus["x"] - place) < 1 and focus["lane"]["rows"] == [2]


@pytest.mark.matrix
def test_what_the_page_is_told_is_of_its_type(shown: Page, gathered: Path, tmp_path: Path) -> None:
    choose(shown, 0, call(gathered, 0, "is:wildcard"))
    told = press(shown, "stop-here")
    told["output"] = [[0, "stdout", "x"], [None, "console", "y"]]
    assert told["stops"] and complaints(program([("Replay", told)]), tmp_path) == []


def test_a_stop_lets_all_others_go_on_and_is_taken_back(shown: Page, gathered: Path) -> None:
    first = call(gathered, 0, "is:wildcard")
    choose(shown, 0, first)
    told = press(shown, "stop-here")
    assert stands(told, 0)["event"] == [0, first]
    # As far as they get without it: all others wait in the barrier at the end.
    assert all(stands(told, rank)["words"].startswith("waiting in event") for rank in (1, 2, 3))
    assert all("barrier at gather.py:23" in stands(told, rank)["words"] for rank in (1, 2, 3))
    assert [stop[:2] for stop in told["stops"]] == [[0, first]]
    pressed = "document.querySelector('#stop-here').getAttribute('aria-pressed')"
    assert shown.state(pressed) == "true"
    shown.key("b")
    shown.until(lambda: shown.state(pressed) == "false")
    assert shown.state("page.replay.told.stops") == []


def test_lines_forth_and_back_the_end_and_what_was_written(shown: Page, gathered: Path) -> None:
    choose(shown, 1, call(gathered, 1, "fn:Isend*"))
    shown.key("r")
    shown.until(lambda: shown.state("page.replay.told?.state") == "stopped" and not shown.state("page.replay.acting"))
    told = press(shown, "move-next")
    row = stands(told, 1)
    assert row["state"] == "line" and row["site"] == "gather.py:11" and "total = part + left" in row["words"]
    told = press(shown, "move-next")
    assert stands(told, 1)["site"] == "gather.py:12"
    told = press(shown, "move-back")
    assert stands(told, 1)["site"] == "gather.py:11"
    told = press(shown, "move-continue")
    assert told["over"] and "has ended" in shown.text("#replay-said")
    assert [0, "stdout", "all 200\n"] in shown.state("page.replay.output")
    assert "rank 0 all 200" in shown.text(".written")
    assert shown.state("document.querySelector('#move-continue').disabled")
    # Another axis: the same stand, at its places.
    shown.ask("page.axis('logical').then(done)")
    shown.until(lambda: shown.state("page.graph.replay.axis") == "logical")
    assert shown.state("page.replay.told.ranks.every((row) => row.at[2] <= page.graph.axis.end)")
    shown.ask("page.axis('time').then(done)")


@pytest.mark.matrix
def test_a_page_that_is_loaded_anew_finds_the_replay(shown: Page, gathered: Path) -> None:
    choose(shown, 3, call(gathered, 3, "fn:Send*"))
    told = press(shown, "replay-here")
    shown.browser.refresh()
    shown.until(lambda: shown.js("return document.body?.dataset.ready") == "yes")
    shown.until(lambda: shown.state("page.replay.told?.state") == "stopped")
    assert shown.state("page.replay.told.ranks") == told["ranks"]


def test_a_program_that_is_gone_is_told(page: Show, gathered: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(gathered, run)
    facts = json.loads((run / "run.json").read_text())
    text = json.dumps(facts).replace(str(gathered.parent / "gather.py"), str(tmp_path / "gone.py"))
    (run / "run.json").write_text(text)
    shown = page(run, size=(1440, 900))
    choose(shown, 2, call(run, 2, "fn:Send*"))
    shown.ask("window.confirm = () => true; done()")  # another command than the one that was recorded and signed
    shown.js("document.querySelector('#replay-here').click()")
    shown.until(lambda: shown.state("page.replay.told?.state") in ("failed", "stopped"))
    assert "gone.py" in shown.text("#tables")


@pytest.mark.matrix
def test_a_run_of_another_machine_is_started_only_when_that_is_agreed_to(page: Show, gathered: Path) -> None:
    shown = page(gathered, size=(1440, 900))
    choose(shown, 2, call(gathered, 2, "fn:Send*"))
    shown.ask("page.replay.agreed = false; window.confirm = (text) => { window.asked = text; return false; }; done()")
    shown.js("document.querySelector('#replay-here').click()")
    assert "gather.py" in shown.state("window.asked") and "another machine" in shown.state("window.asked")
    assert shown.state("page.replay.told.state") == "none" and not shown.state("page.replay.acting")


@pytest.mark.matrix
def test_a_file_gives_the_commands_instead(page: Show, gathered: Path, tmp_path: Path) -> None:
    picture = RunView(weft.open(gathered))
    picture.analyse()
    file = tmp_path / "run.html"
    file.write_bytes(render_html(picture))
    shown = page(file)
    sent = call(gathered, 2, "fn:Send*")
    choose(shown, 2, sent)
    assert shown.text("#replay").endswith(f"--until 2:{sent}")
    assert shown.text("#stop").endswith(f"--break 2:{sent}")
    assert shown.js("return document.querySelector('#replay-here')") is None
    shown.key("r")
    assert "copy the command" in shown.said()


@pytest.mark.matrix
def test_the_replay_ends_with_the_view(gathered: Path) -> None:
    server = ViewServer(RunView(weft.open(gathered)))
    replayed = server.picture.replayed
    replayed.make_move("start", {})
    adapter = replayed._adapter
    assert adapter is not None
    server.server_close()
    assert adapter._process.poll() == 0
