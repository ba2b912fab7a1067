"""Two runs, one below the other, in a real Chromium: the record of a race and the outcome that was forced."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests_support import WEFT, Installed, execute
from view import runs
from view.page import Page
from view.test_server import ask
from weft.errors import UsageError
from weft.view.run_view import RunView
from weft.view.server import ViewServer
from weft.view.side_by_side import OtherRuns, SideBySide, find_marked_calls

pytestmark = pytest.mark.timeout(300)

Show = Callable[..., Page]
PROGRAM = """\
import time
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.allreduce(1)
if comm.rank == 0:
    status = MPI.Status()
    comm.recv(tag=5, status=status)
    if status.source == 2:
        comm.recv(source=1, tag=9)  # nobody sends it
    comm.recv(tag=5)
else:
    time.sleep(0.3 * (comm.rank - 1))
    comm.send(comm.rank, 0, tag=5)
comm.Barrier()
"""


@pytest.fixture(scope="module")
def explored(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which rank 1 came first; where rank 2 does, rank 0 waits for ever."""
    folder = tmp_path_factory.mktemp("explored")
    (folder / "first.py").write_text(PROGRAM)
    line = [*WEFT, "run", "-n", "3", "--out", "record", "--", str(mpich.python), "first.py"]
    done = execute(line, timeout=100, cwd=folder)
    assert done.returncode == 0, done.stderr
    for _ in range(4):  # on a machine that is busy with other tests a forced outcome may not come about in its time
        done = execute([*WEFT, "explore", "record", "--budget", "60"], timeout=200, cwd=folder)
        if done.returncode == 1:
            break
        (folder / "record" / "explored.json").unlink()
    assert done.returncode == 1 and "deadlock" in done.stdout, done.stdout + done.stderr
    return folder / "record"


class Both:
    """The page of two runs."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.until("document.body?.dataset.ready === 'yes' && page.graphs.length === 2")

    def state(self, expression: str) -> Any:
        """A value out of the page's objects."""
        script = (
            "const done = arguments[0]; import('weft/beside.js').then(async ({page}) => done(%s), () => done(null))"
        )
        return self.browser.execute_async_script(script % expression)

    def until(self, expression: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + 60
        while not self.state(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.05)

    def middles(self) -> list[float]:
        """Where in the window of each run the chosen difference is: 0.5 is the middle."""
        place = "(page.told.differences[page.chosen].sides[i].at - g.state.from) / (g.state.to - g.state.from)"
        return list(self.state(f"page.graphs.map((g, i) => {place})"))


@pytest.fixture
def both(page: Show, chromium: Any, explored: Path) -> Iterator[Both]:
    """The page that a click on the race's outcome opens."""
    shown = page(explored, size=(1440, 900))
    links = chromium.find_elements("css selector", "#findings .outcomes a")
    [link] = [one for one in links if "deadlock" in one.text]
    assert link.text.startswith("both orders: deadlock")
    link.click()
    shown.until(lambda: "/beside?of=record-other-" in chromium.current_url)
    yield Both(chromium)


@pytest.mark.matrix
def test_a_click_on_the_outcome_shows_both_orders_with_the_receive_in_the_middle(both: Both, explored: Path) -> None:
    assert both.middles() == [0.5, 0.5]
    assert both.state("page.axis") == "logical"
    sides = both.state("page.told.sides")
    assert [side["ended"] for side in sides] == ["finished", "deadlock"]
    receive = next(iter(weft.open(explored).select("is:wildcard")))
    [first] = [one for one in both.state("page.told.differences") if one["first"]]
    assert first["sides"][0]["event"] == list(receive.id)
    assert "from 1" in first["sides"][0]["text"] and "from 2" in first["sides"][1]["text"]
    # The message that came instead is marked in each.
    for side, sender in zip(sides, (1, 2), strict=True):
        assert list(receive.id) in [call[:2] for call in side["changed"]]
        assert sender in {m["send"][0] for m in side["messages"]}
    texts = both.browser.find_element("id", "findings").text
    assert "first difference: rank 0" in texts and "deadlock" in texts


@pytest.mark.matrix
def test_both_windows_move_as_one_and_come_back(both: Both) -> None:
    for move in ("page.zoom(0.4)", "page.pan(0.3)", "page.pan(-2)", "page.zoom(3)"):
        both.state(f"({move}, 1)")
        windows = both.state("page.graphs.map((g) => [g.state.from, g.state.to])")
        shift = both.state("page.shift")
        assert windows[1] == pytest.approx([at + shift for at in windows[0]])
    both.browser.find_element("css selector", "#findings ol button").click()
    assert both.middles() == [0.5, 0.5]
    both.state("page.useAxis('time').then(() => 1)")
    assert both.middles() == pytest.approx([0.5, 0.5])


def test_what_differs_is_drawn_in_both_and_nothing_where_nothing_does(both: Both) -> None:
    both.until("page.graphs.every((g) => g.part && !g.waiting && !g.frame)")
    red = """page.graphs.map((g) => { g.%s; g.paint();
        const c = g.canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
        for (let i = 0; i < d.length; i += 4) n += d[i] === 198 && d[i + 1] === 42 && d[i + 2] === 47;
        return n; })"""
    marked = both.state(red % "side")
    plain = both.state(red % "side = null")  # the outcome has a message that nobody takes, which is red too
    assert plain[0] == 0 and all(more > fewer + 100 for more, fewer in zip(marked, plain, strict=True))


@pytest.mark.parametrize("name", ["..", "../record", "/etc", "", "record-other-999", "record-other-1/.."])
def test_only_runs_that_were_named_or_explored_are_opened(explored: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a run beside this one"):
        OtherRuns(RunView(weft.open(explored))).run_path(name)


def test_a_run_beside_itself_does_not_differ(tmp_path: Path) -> None:
    path = runs.race(tmp_path / "race")
    pictures = [RunView(weft.open(path)) for _ in range(2)]
    for picture in pictures:
        picture.analyse()
    told = SideBySide(*pictures).to_json("logical")
    assert told["differences"] == [] and "all" in told["texts"][0]
    assert all(side["changed"] == side["only"] == side["messages"] == side["spread"] == [] for side in told["sides"])


def test_calls_without_their_like_are_marked_on_their_side_only(tmp_path: Path) -> None:
    pictures = [RunView(weft.open(runs.halo(tmp_path / name, 4, steps))) for name, steps in (("a", 6), ("b", 7))]
    for picture in pictures:
        picture.analyse()
    beside = SideBySide(*pictures)
    told = beside.to_json("time")
    assert beside._comparison is not None
    assert find_marked_calls(beside._comparison, 0) == ([], [])
    changed, only = find_marked_calls(beside._comparison, 1)
    assert changed == [] and {rank for rank, _ in only} == {0, 1, 2, 3}
    assert len(told["sides"][1]["only"]) == len(only) > 0 == len(told["sides"][0]["only"])


@pytest.mark.cases(1)
@pytest.mark.parametrize("command", ["view", "compare"])
def test_the_commands_open_on_both_runs(tmp_path: Path, command: str) -> None:
    one, two = runs.halo(tmp_path / "one"), runs.halo(tmp_path / "two", steps=9)
    words = ["view", one, "--beside", two, "--no-browser"] if command == "view" else ["compare", one, two, "--view"]
    process = subprocess.Popen([*WEFT, *map(str, words)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert str(one) in line and "/?token=" in line
    finally:
        process.terminate()
        process.wait(20)
    server = ViewServer(RunView(weft.open(one)), 0, two)
    try:
        assert server.home == "/beside?of=two"
    finally:
        server.server_close()


def test_the_address_leads_to_both_runs(serve: Callable[[Path], ViewServer], tmp_path: Path) -> None:
    server = serve(runs.halo(tmp_path / "one"))
    server.others.named, server.home = runs.halo(tmp_path / "two", steps=9), '/beside?of="two'
    status, _, body = ask(server, f"/?token={server.token}")
    assert status == 200 and b"url=/beside?of=&quot;two" in body
    assert b"/web/beside.js" in ask(server, "/beside?of=two", server.token)[2]
    assert ask(server, "/api/run?of=two", server.token)[0] == 200
    assert ask(server, "/api/run?of=three", server.token)[0] == 400
    assert ask(server, "/beside?of=two")[0] == 403
