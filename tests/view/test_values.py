"""The values of two runs in a real Chromium: what differs, how it spread, the error over arrays; messages' contents."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import numpy as np
import pytest

import weft
from tests_support import WEFT, Installed, execute
from view.page import Page
from view.test_beside import Both
from view.test_server import ask
from weft.compare.values import compare_values
from weft.values.trace import ValueTrace
from weft.view.run_view import RunView
from weft.view.server import ViewServer
from weft.view.value_view import ALIKE, ALONE, DIFFERS, ROUNDED, ValueView

pytestmark = pytest.mark.timeout(300)

PROGRAM = """\
import sys
import numpy as np
import weft
from mpi4py import MPI

comm = MPI.COMM_WORLD
wrong = len(sys.argv) > 1
first, end = weft.block(60, comm.size, comm.rank)
a = np.zeros((end - first + 2, 80))
a[1:-1, 26] = 1.0 + np.arange(first, end) / 60
up, down = ([*range(comm.size), MPI.PROC_NULL][comm.rank + by] for by in (-1, 1))
for step in range(30):
    with weft.loop("sweep", step):
        ghosts = np.empty((2, 80))
        comm.Sendrecv(a[1], up, 1, a[-1], down, 1)
        comm.Sendrecv(a[-2], down, 2, ghosts[0], up, 2)
        if comm.rank and not (wrong and comm.rank == 1 and step == 6):
            a[0] = ghosts[0]  # without it rank 1 goes on with the row of the sweep before
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        weft.probe("A", weft.part(a[1:-1], of="A", lower=(first, 0)))
        weft.probe("cube", weft.part(a[1:-1, :12, None] * np.arange(10), of="cube", lower=(first, 0, 0)))
        weft.probe("line", weft.part((a[1:-1] ** 2).sum(1), of="line", lower=(first,)))
        if comm.size > 1:
            weft.probe("corner", a[1, 1:4])
        weft.probe("total", comm.allreduce((a[1:-1] ** 2).sum()))
"""


@pytest.fixture(scope="module")
def runs(mpich: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of three runs: `one` rank, `three` ranks, and three of which one `wrong` leaves out an exchange."""
    folder = tmp_path_factory.mktemp("valued")
    (folder / "heat.py").write_text(PROGRAM)
    for name, ranks, words in (("one", 1, []), ("three", 3, []), ("wrong", 3, ["wrong"])):
        line = [*WEFT, "run", "--hash-messages", "-n", str(ranks), "--out", name, "--", str(mpich.python), "heat.py"]
        done = execute([*line, *words], timeout=100, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def valued(folder: Path, before: str, after: str, *, calls: bool = False) -> ValueView:
    """A comparison of two of them."""
    return ValueView(compare_values(*(ValueTrace.open(folder / name) for name in (before, after)), {}), calls=calls)


class Shown:
    """The page of two runs' values."""

    def __init__(self, browser: Any, address: str, *, dark: bool = False) -> None:
        Page.shape(browser, (1440, 900), dark=dark)
        browser.get(address)
        self.browser = browser
        self.until("document.body?.dataset.ready === 'yes'")
        self.settle()

    def state(self, expression: str) -> Any:
        """A value out of the page's objects."""
        script = (
            "const done = arguments[0]; import('weft/values.js').then(({page}) => done(%s)).catch((e) => done(`${e}`))"
        )
        return self.browser.execute_async_script(script % expression)

    def until(self, expression: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + 60
        while self.state(expression) is not True:
            assert time.monotonic() < end, (expression, self.state(expression), self.text("body")[:600])
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until all that was asked for is drawn."""
        self.until("!page.busy && !page.strip.waiting && !page.field.waiting")

    def text(self, selector: str) -> str:
        """The text of an element."""
        return str(self.browser.execute_script("return document.querySelector(arguments[0]).innerText", selector))

    def key(self, where: str, *keys: str) -> None:
        """Press keys on an element of the page."""
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            self.browser.find_element("id", where).send_keys(getattr(Keys, key) if len(key) > 1 else key)
            self.settle()


@pytest.fixture
def show(chromium: Any) -> Iterator[Callable[..., Shown]]:
    """Serve a comparison and open it. No error may stand in the browser's console afterwards."""
    servers = []

    def start(values: ValueView, picture: RunView | None = None, beside: Path | None = None, **how: Any) -> Shown:
        server = ViewServer(picture, 0, beside, values)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return Shown(chromium, server.url, **how)

    chromium.get_log("browser")
    yield start
    said = [line for line in chromium.get_log("browser") if line["level"] == "SEVERE"]
    chromium.get("about:blank")
    for server in servers:
        server.shutdown()
        server.server_close()
    assert not said


@pytest.mark.matrix
def test_the_first_difference_stands_in_the_middle_and_its_spread_in_order(
    show: Callable[..., Shown], runs: Path, tmp_path: Path
) -> None:
    shown = show(valued(runs, "three", "wrong"))
    middle = "(page.strip.chosen + 0.5 - page.strip.from) / (page.strip.to - page.strip.from)"
    assert shown.state(middle) == 0.5
    reached = shown.state("page.told.reached")
    assert (reached[0]["ranks"], reached[0]["iterations"]) == ("rank 1", "in iteration 6 of sweep")
    assert reached[0]["first"] and not any(one["first"] for one in reached[1:])
    places = [one["at"] for one in reached]
    assert places == sorted(places) and places[0] == 6 * 5, "five probes in each sweep"
    spread = dict(shown.state("page.told.spread"))
    assert min(spread, key=lambda rank: spread[rank]) == 1
    assert shown.text("#moment") == "probe A at heat.py:20, in iteration 6 of sweep"
    assert "first difference: probe A" in shown.text("#findings")
    Page.save(shown.browser, tmp_path, "values")


@pytest.mark.matrix
def test_keys_alone_lead_to_each_moment_and_element(show: Callable[..., Shown], runs: Path) -> None:
    shown = show(valued(runs, "one", "wrong"))
    first = shown.state("page.strip.chosen")
    shown.key("strip", "ARROW_RIGHT")
    assert shown.state("page.strip.chosen") == first + 1 and "probe cube" in shown.text("#moment")
    shown.key("strip", "ENTER", "]")
    assert shown.state("page.strip.chosen") == shown.state("page.told.reached[1].at")
    shown.key("strip", "[")
    assert shown.state("page.strip.chosen") == first
    element = shown.state("page.field.cursor")
    shown.key("field", "ARROW_DOWN", "ARROW_RIGHT", "ARROW_RIGHT")
    assert shown.state("page.field.cursor") == [element[0] + 1, element[1] + 2]
    shown.until(f"document.querySelector('#pointed').textContent.includes('A[{element[0] + 1}, {element[1] + 2}]')")
    shown.key("field", "w")
    shown.until("/[1-9].* units in the last place/.test(document.querySelector('#pointed').textContent)")
    shown.key("field", "u")
    assert shown.state("page.field.unit") == "ulps" and max(shown.state("[...page.field.data.cells]")) > 1e6


@pytest.mark.matrix
def test_the_picture_has_the_error_of_each_element_and_nothing_where_runs_are_alike(
    show: Callable[..., Shown], runs: Path
) -> None:
    values = valued(runs, "one", "wrong")
    shown = show(values)
    cells = np.array(shown.state("[...page.field.data.cells]")).reshape(shown.state("page.field.data.shape"))
    assert cells.shape == (60, 80)
    assert list(np.unique(np.nonzero(cells > 1e-9)[0])) == [20], "the first row of rank 1"
    at = shown.state("page.strip.chosen")
    before, after = values._values_at(at)
    whole = np.concatenate([one.values() for one in after])
    reference = before[0].values()
    assert reference is not None
    np.testing.assert_array_equal(cells, np.abs(whole - reference))
    assert colours(shown) > 3
    shown.state("page.choose(0)")
    shown.settle()
    assert set(shown.state("[...page.field.data.cells]")) == {0.0}


def colours(shown: Shown) -> int:
    """How many colours the picture of the array has."""
    script = """const c = document.querySelector('#field'), d = c.getContext('2d').getImageData(65, 35, 600, 200).data;
        const seen = new Set();
        for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
        return seen.size"""
    return int(shown.browser.execute_script(script))


@pytest.mark.matrix
@pytest.mark.parametrize("dark", [False, True])
def test_of_three_dimensions_a_slice_is_shown_of_one_a_curve(
    show: Callable[..., Shown], runs: Path, tmp_path: Path, dark: bool
) -> None:
    shown = show(valued(runs, "three", "wrong"), dark=dark)
    probes = shown.state("page.told.reached.map((one) => one.probe.split(' ')[1])")
    shown.state(f"page.go({probes.index('cube')})")
    shown.settle()
    assert shown.state("[page.field.axes, page.field.data.shape]") == [[1, 2], [12, 10]]
    row = shown.state("page.field.cursor[0]")
    assert max(shown.state("[...page.field.data.cells]")) > 0
    shown.key("field", "PAGE_DOWN", "PAGE_DOWN")
    assert shown.state("page.field.window[0]") == [row + 2, row + 3]
    pick = shown.browser.find_element("css selector", "#choices select")
    pick.find_elements("tag name", "option")[0].click()
    shown.settle()
    assert shown.state("page.field.data.shape") == [60, 12]
    Page.save(shown.browser, tmp_path, f"values-cube-{'dark' if dark else 'light'}")
    shown.state(f"page.go({probes.index('line')})")
    shown.settle()
    assert shown.state("page.field.data.shape") == [60] and colours(shown) > 3
    Page.save(shown.browser, tmp_path, f"values-line-{'dark' if dark else 'light'}")


def test_numbers_of_a_moment_stand_in_a_table(show: Callable[..., Shown], runs: Path) -> None:
    shown = show(valued(runs, "three", "wrong"))
    at = shown.state("page.told.reached.find((one) => one.probe.startsWith('probe total')).at")
    shown.state(f"page.choose({at}, true)")
    shown.settle()
    assert [line.split("\t")[0] for line in shown.text("#numbers tbody").splitlines()] == ["rank 0", "rank 1", "rank 2"]
    assert not shown.browser.find_element("id", "field").is_displayed()


def strip(values: ValueView) -> dict[str, np.ndarray]:
    """The states of all moments, by side."""
    data = values.pack_states(0, values.moments, values.moments)
    end = 4 + int.from_bytes(data[:4], "little")
    found, at = {}, end
    for name, kind, size in json.loads(data[4:end])["arrays"]:
        at += -at % 8
        dtype = np.dtype({"u8": np.uint8, "f64": np.float64}[kind])
        found[name] = np.frombuffer(data, dtype, size, at).reshape((-1, values.moments))
        at += size * dtype.itemsize
    return found


def test_a_run_beside_itself_is_alike_at_every_moment(runs: Path) -> None:
    values = valued(runs, "three", "three")
    found = strip(values)
    assert set(np.unique(found["run"])) == set(np.unique(found["reference"])) == {ALIKE}
    told = values.to_json()
    assert told["alike"] and told["reached"] == told["spread"] == [] and told["errors"] is None


def test_states_are_by_rank(runs: Path) -> None:
    found = strip(valued(runs, "three", "wrong"))
    differs = [np.flatnonzero(row == DIFFERS) for row in found["run"]]
    assert differs[1][0] == 30 and differs[0][0] > 30 and not (found["reference"] == DIFFERS).any()
    assert (found["error"][found["run"] == DIFFERS] > 0).all()
    others = strip(valued(runs, "one", "three"))
    assert set(np.unique(others["run"])) == {ALIKE, ROUNDED, ALONE}
    corners = (others["run"] == ALONE).all(axis=0)
    assert corners.sum() == 30 and not others["reference"][:, corners].any(), "a probe that only the run has"


@pytest.mark.cases(5)
@pytest.mark.parametrize(
    "wrong",
    [
        {"at": "99999"}, {"layer": "7"}, {"window": "0:61,0:80"}, {"window": "5"}, {"window": "0:60"}, {"axes": "0,2"},
        {"axes": "0,0"}, {"axes": ""}, {"unit": "miles"}, {"most": "9"}, {"most": "many,9"},
    ],
)  # fmt: skip
def test_what_is_no_part_of_an_array_is_refused(runs: Path, wrong: dict[str, str]) -> None:
    right = {"at": "30", "layer": "0", "window": "0:60,0:80", "axes": "0,1", "most": "9,9", "unit": "ulps"}
    server = ViewServer(None, 0, None, valued(runs, "three", "wrong"))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        status, _, body = ask(server, f"/api/field?{urlencode(right | wrong)}", server.token)
        assert status == 400 and json.loads(body)["error"]
        assert ask(server, f"/api/field?{urlencode(right)}", server.token)[0] == 200
        assert ask(server, "/api/field?at=1", server.token)[0] == 400
        assert ask(server, "/api/run", server.token)[0] == 404, "there are no calls to show"
        assert ask(server, "/api/values")[0] == 403
    finally:
        server.shutdown()
        server.server_close()


def test_messages_that_hold_other_bytes_are_marked_and_the_first_stands_in_the_middle(
    show: Callable[..., Shown], runs: Path, chromium: Any, tmp_path: Path
) -> None:
    picture = RunView(weft.open(runs / "three"))
    picture.analyse()
    shown = show(valued(runs, "three", "wrong", calls=True), picture, runs / "wrong")
    shown.browser.find_element("id", "calls").click()
    both = Both(chromium)
    first = both.state("page.told.differences[0]")
    assert first["what"] == "sent" and first["rank"] == 1, "its sum, or the row that rank 0 gets in the next sweep"
    assert both.middles() == [0.5, 0.5]
    sides = both.state("page.told.sides")
    assert all(side["held"] and not side["changed"] and not side["only"] for side in sides)
    assert [1, first["sides"][1]["event"][1]] in [call[:2] for call in sides[1]["held"]]
    assert "first message whose content differs: rank 1" in chromium.find_element("id", "findings").text
    Page.save(chromium, tmp_path, "contents")
    chromium.find_element("id", "values").click()
    shown.until("document.body?.dataset.ready === 'yes'")


@pytest.mark.cases(1)
@pytest.mark.parametrize(("words", "home"), [([], "/values"), (["--calls"], "/beside"), (["--values"], "/values")])
def test_the_command_opens_where_the_runs_differ(runs: Path, words: list[str], home: str) -> None:
    line = [*WEFT, "compare", runs / "three", runs / "wrong", "--view", *words]
    process = subprocess.Popen([*map(str, line)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().split()[-1])
        with urlopen(f"http://{address.netloc}/?{address.query}", timeout=60) as answer:
            assert f"url={home}" in answer.read().decode()
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.matrix
def test_runs_of_other_numbers_of_ranks_are_shown_by_value_alone(runs: Path) -> None:
    values = valued(runs, "one", "wrong")
    server = ViewServer(None, 0, None, values)
    server.server_close()
    assert server.home == "/values" and server.shown == runs / "one"
    assert [len(names) for names in values.to_json()["ranks"]] == [1, 3]
