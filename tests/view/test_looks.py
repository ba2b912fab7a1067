"""What a person sees in a real Chromium: rows that stand out, messages, legend, tables, small screens, contrast.

Pictures of the page are kept in WEFT_SCREENSHOTS where that is set, to be looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import weft
from view import runs
from view.page import Page
from weft.trace.builder import Builder
from weft.view.html_export import render_html
from weft.view.run_view import RunView

Show = Callable[..., Page]


def script(name: str) -> str:
    """A script of tests/view/scripts that looks at the page."""
    return (Path(__file__).parent / "scripts" / f"{name}.js").read_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of these tests lie."""
    return tmp_path_factory.mktemp("looks")


@pytest.fixture(scope="module")
def wide(folder: Path) -> Path:
    """64 ranks, deadlocked."""
    return runs.deadlock(folder / "wide", 64)


@pytest.fixture(scope="module")
def hung(folder: Path) -> Path:
    """4 ranks, deadlocked."""
    return runs.deadlock(folder / "hung", 4)


@pytest.fixture(scope="module")
def dynamics(folder: Path) -> Path:
    """A small run like one of molecular dynamics."""
    return runs.dynamics(folder / "dynamics")


class TestRows:
    """Rows have the room that their trouble deserves."""

    def test_of_64_ranks_those_in_the_cycle_keep_their_labels_and_stand_out(
        self, page: Show, wide: Path, tmp_path: Path
    ) -> None:  # fmt: skip
        shown = page(wide, size=(1440, 900))
        labels = shown.state("page.graph.labelled.map((l) => [l.rows, l.y, l.stressed])")
        assert [rows for rows, _, stressed in labels if stressed] == [[1], [2]]
        heights = sorted(y for _, y, _ in labels)
        assert min(b - a for a, b in pairwise(heights)) >= 12
        lanes = shown.state("page.graph.lanes.lanes.map((l) => [l.rows[0], l.height])")
        tall = {row: height for row, height in lanes if row in (1, 2)}
        assert min(tall.values()) > 1.7 * max(height for row, height in lanes if row not in tall)
        assert shown.state("page.graph.lanes.bottom <= page.graph.height + 1")
        shown.keep(tmp_path, "64-ranks-deadlocked")

    @pytest.mark.matrix
    def test_of_a_thousand_ranks_too(self, page: Show, folder: Path) -> None:
        shown = page(runs.deadlock(folder / "thousand", 1000, 1), size=(1280, 800))
        shown.js("const s = document.querySelector('#grouping'); s.value = ''; s.dispatchEvent(new Event('change'))")
        shown.settle()
        assert shown.state("page.graph.labelled.filter((l) => l.stressed).map((l) => l.rows)") == [[1], [2]]
        assert shown.state("page.graph.lanes.lanes.flatMap((l) => l.rows).length") == 1000

    @pytest.mark.parametrize("ranks", [1, 2, 3])
    def test_few_ranks_fill_the_screen(self, page: Show, folder: Path, tmp_path: Path, ranks: int) -> None:
        shown = page(runs.halo(folder / f"few-{ranks}", ranks), size=(1440, 900))
        lanes = shown.state("page.graph.lanes.lanes.map((l) => [l.y, l.height])")
        height = shown.state("page.graph.height")
        assert shown.state("page.graph.lanes.bottom") > 0.97 * height
        assert min(tall for _, tall in lanes) >= 100
        if ranks == 2:
            shown.keep(tmp_path, "2-ranks")

    def test_a_rank_that_ended_has_its_mark_and_words(self, page: Show, folder: Path) -> None:
        shown = page(runs.crash(folder / "crash"))
        (end,) = shown.state("page.graph.axis.ends")
        x, y = shown.state(f"[page.graph.x({end['at']}), page.graph.lanes.rowY[1]]")
        red = shown.js(
            "const c = document.querySelector('#graph').getContext('2d');"
            f"const d = c.getImageData(92 + {x}, 26 + {y} - 10, 30, 20).data; let n = 0;"
            "for (let i = 0; i < d.length; i += 4) n += d[i] > 150 && d[i + 1] < 90 && d[i + 2] < 90; return n"
        )
        assert red > 30


class TestMessages:
    """Messages can be pointed at, chosen and filtered."""

    def middle(self, shown: Page) -> tuple[dict[str, Any], float, float]:
        """A message, and a place on its line that no other comes near."""
        message, x, y = shown.ask(script("middle"))
        return message, x, y

    def test_a_message_says_what_it_was_and_stays_marked(self, page: Show, dynamics: Path, tmp_path: Path) -> None:
        shown = page(dynamics, size=(1440, 900))
        shown.ask("page.move(page.graph.axis.end * 0.72, page.graph.axis.end * 0.83); done()")
        shown.settle()
        message, x, y = self.middle(shown)
        trace = weft.open(dynamics)
        send, receive = trace.event(*message["send"]), trace.event(*message["receive"])
        shown.at(x, y)
        shown.until(lambda: "from send to delivery" in shown.text("#tip"))
        tip = shown.text("#tip")
        assert f"from rank {send.rank.index} to rank {receive.rank.index}" in tip
        assert "tag 0" in tip
        shown.at(x, y, click=True)
        shown.until(lambda: shown.text("#details h2") == "Message")
        assert shown.fact("message-bytes") == f"{send.count:,}"
        assert shown.fact("message-tag") == "0"
        assert shown.fact("message-comm") == "world"
        text = shown.text("#details")
        assert "waited" in text
        assert "its receive was posted" in text.lower()
        assert text.count("MPI_Sendrecv of rank") == 2
        shown.keep(tmp_path, "message-chosen")
        shown.key("+", "ARROW_RIGHT")
        assert shown.state("page.graph.message.row") == message["row"]
        shown.until(lambda: f"message=send%3A{message['row']}" in shown.browser.current_url)
        shown.browser.refresh()
        shown.until(lambda: shown.js("return document.body?.dataset.ready") == "yes")
        shown.until(lambda: shown.state("page.graph.message?.row") == message["row"])
        shown.js("document.querySelector('#details [data-end=\"sent by\"]').click()")
        shown.until(lambda: shown.state("page.state.selected") == list(send.id))
        assert shown.state("page.graph.message") is None

    def test_a_call_in_the_row_of_an_end_comes_before_the_message(self, page: Show, dynamics: Path) -> None:
        shown = page(dynamics)
        event = next(iter(weft.open(dynamics).select("Sendrecv wait>20us rank:0")))
        shown.ask(f"await page.select([0, {event.index}]); page.frame(); page.select(null); done()")
        shown.settle()
        shown.click(0, event.index)
        assert shown.text("#details h2") == "MPI_Sendrecv"

    def test_the_box_of_a_call_tells_peer_bytes_and_line(self, page: Show, dynamics: Path) -> None:
        shown = page(dynamics)
        event = next(iter(weft.open(dynamics).select("Sendrecv wait>20us rank:2")))
        shown.ask(f"await page.select([2, {event.index}]); page.frame(); page.select(null); done()")
        shown.settle()
        x, y = shown.place_of(2, event.index)
        shown.at(x - 92, y - 26)
        shown.until(lambda: "halo.c:7" in shown.text("#tip"))
        tip = shown.text("#tip")
        assert f"{event.peer}" in tip
        assert f"{event.count / 1000:.3g} KB" in tip
        assert "MPI_Sendrecv" in tip

    def test_a_word_alone_finds_lines_and_pales_the_other_arrows(self, page: Show, dynamics: Path) -> None:
        shown = page(dynamics, size=(1440, 900))
        shown.ask("page.move(page.graph.axis.end * 0.72, page.graph.axis.end * 0.83); done()")
        shown.settle()
        _, x, y = self.middle(shown)
        pixels = f"[...page.graph.context.getImageData(92 + {x} - 4, 26 + {y} - 4, 9, 9).data]"
        ink = f"{pixels}.reduce((sum, value, i) => sum + (i % 4 === 3 ? value : 0), 0)"  # how opaque they are
        before = shown.state(ink)
        calls = sum(e.site.line == 16 for rank in weft.open(dynamics).ranks for e in rank)
        for word in ("halo.c:16", "converged"):
            shown.filter(word)
            assert shown.text("#found") == f"{calls} calls"
        assert shown.state("page.graph.links.messages.every((m) => m.fits === false)")
        assert 0 < shown.state(ink) < before / 2
        shown.filter("halo.c")  # until what it finds is there, that of the filter before is shown
        shown.until(lambda: shown.state("page.graph.links.messages.every((m) => m.fits)"))
        shown.settle()  # the arrows are known; they are drawn in the next frame
        assert shown.state(ink) == before


KEYS = [
    (["u"], "no earlier time window"), (["U"], "no later time window"), (["p"], "Choose a call first"),
    (["z"], "Choose a call first"), (["h"], "Choose a call first"), (["y"], "Choose a call first"),
    (["ESCAPE"], "Nothing is chosen"), (["n"], "no filter"), (["]"], "no findings"), (["["], "no findings"),
    (["ENTER"], "no findings"), (["f"], "All of the run"), (["HOME"], "begins here"), (["END"], "ends here"),
    (["-"] * 3, "All of the run"), (["PAGE_DOWN"], "All rows"), (["c"], "in no groups"), (["{"], "no lower"),
]  # fmt: skip


@pytest.mark.matrix
def test_a_key_that_can_do_nothing_says_so(page: Show, folder: Path) -> None:
    b = Builder(ranks=2, path=folder / "still")
    for rank in b.ranks:
        rank.init()
        rank.barrier()
        rank.finalize()
    shown = page(b.write())
    for keys, words in KEYS:
        shown.js("document.querySelector('#said').hidden = true; document.querySelector('#graph').focus()")
        shown.key(*keys)
        assert words in shown.said(), keys
        assert shown.said() == shown.js("return document.querySelector('#status').textContent")
    shown.ask("await page.select([0, 0]); done()")
    for keys, words in (([","], "first call"), (["ARROW_UP"], "first row"), (["p"], "no partner")):
        shown.key(*keys)
        assert words in shown.said(), keys
    shown.ask("await page.select([1, 2]); done()")
    for keys, words in ((["."], "last call"), (["ARROW_DOWN"], "last row")):
        shown.key(*keys)
        assert words in shown.said(), keys


def test_one_of_a_thing_has_a_singular_word(page: Show, folder: Path) -> None:
    b = Builder(ranks=2, path=folder / "one")
    b.ranks[0].send(1, 3)
    b.ranks[1].recv(0, 3)
    shown = page(b.write())
    assert shown.text("#facts").startswith("2 ranks · 2 calls")
    assert shown.text("#counts") == "2 calls here, 1 message"
    shown.filter("Send")
    assert shown.text("#found") == "1 call"
    shown.tab("matrix")
    assert "1 message, 4 B in all" in shown.text("#tables")
    label = "const { Lanes } = await import('weft/lanes.js'); const l = new Lanes(page.run, '', new Set(), 400, 0);"
    labels = shown.ask(f"{label} done([l.label([0], 'a'), l.label([0, 1], 'a'), l.label([0], '')])")
    assert labels == ["1 row", "2 rows", "0"]


class TestTables:
    """Tables speak of what is shown, and say of what their shares are."""

    def test_they_follow_the_window_and_name_time_and_base(self, page: Show, dynamics: Path) -> None:
        shown = page(dynamics)
        shown.tab("profile")
        assert shown.text("#tables-span") == "The whole run."
        whole = shown.state("page.tables.data.waiting.in_mpi_ns")
        end = shown.state("page.graph.axis.end")
        shown.ask(f"page.move({end * 0.72}, {end * 0.83}); done()")
        shown.until(lambda: shown.text("#tables-span").startswith("From 0.00"))
        said = shown.text("#tables-span")
        first, last = (round(float(t) * 1e9) for t in re.findall(r"(\d\.\d{9}) s", said))
        assert (first, last) == (round(end * 0.72), round(end * 0.83))
        part = shown.state("page.tables.data.waiting.in_mpi_ns")
        trace = weft.open(dynamics)
        wanted = sum(max(0, min(e.exit_ns or 0, int(end * 0.83)) - max(e.enter_ns, int(end * 0.72)))
                     for rank in trace.ranks for e in rank)  # fmt: skip
        assert part == wanted < whole
        assert "100 % is all ranks' time: 4 ranks x" in shown.text("#tables-base")
        shown.js("[...document.querySelectorAll('.base button')].find((b) => b.innerText === 'Whole run').click()")
        shown.until(lambda: shown.text("#tables-span") == "The whole run.")
        assert shown.state("page.tables.data.waiting.in_mpi_ns") == whole

    def test_the_matrix_has_axes_and_a_scale_and_leads_to_its_messages(self, page: Show, hung: Path) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        shown = page(hung, size=(1440, 900))
        shown.key("f")
        shown.tab("matrix")
        canvas = shown.browser.find_element("css selector", ".matrix canvas")
        ink = shown.js(script("matrix"))
        assert min(ink["top"], ink["left"], ink["scale"], ink["numbers"]) > 5
        assert ink["none"] == [255, 255, 255, 255] != ink["some"]
        x, y = (int(54 + 1.5 * 64 - canvas.size["width"] / 2), int(40 + 0.5 * 64 - canvas.size["height"] / 2))
        ActionChains(shown.browser, duration=10).move_to_element_with_offset(canvas, x, y).click().perform()
        shown.until(lambda: shown.state("page.state.filter") == "fn:*send*,*put*,*accumulate* rank:0 peer:1")


def test_the_legend_has_a_sample_of_everything_that_is_drawn(page: Show, hung: Path) -> None:
    shown = page(hung, size=(1440, 900))
    shown.tab("legend")
    items = shown.js(script("legend"))
    assert all(words and inked > 20 for words, inked in items)
    assert {*shown.state("page.run.classes")} <= {words for words, _ in items}
    for word in ("torn edge", "share", "nobody receives", "nobody sends", "collective", "cycle",
        "waits for whom", "taken",
                 "come first", "chosen", "folded", "mark", "before the chosen", "without it", "stand out", "pale",
                 "ended by itself", "MPI_Abort", "rank has come", "stops before",
                 "strip of the whole run", "communicator", "share a row"):  # fmt: skip
        assert any(word in words for words, _ in items), word


DRAWING = ("arrows", "messages", "shapes", "graph", "frame", "tracks", "minimap", "cut")
GROUND = {"paper", "track", "line", "quiet", "ink", "length", "map"}
"""Colours of the ground, of ruler and of words (and two words that are no colours)."""


def test_no_colour_is_drawn_that_the_legend_does_not_know() -> None:
    web = files("weft").joinpath("web")
    used = {
        name for file in DRAWING
        for name in re.findall(r"(?:palette|colours\(\))\.([a-z]+)", web.joinpath(f"{file}.js").read_text())
    }  # fmt: skip
    known = set(re.findall(r"\bp\.([a-z]+)|colours\(\)\.([a-z]+)", legend := web.joinpath("legend.js").read_text()))
    told = {name for pair in known for name in pair if name} | set(re.findall(r'"(error|warning)"', legend))
    shapes = web.joinpath("shapes.js").read_text()
    assert "palette.error" in shapes  # the marks of ends, which the legend draws with the same shape
    assert used - GROUND - told == set()


TEXTS = script("contrast") + script("texts")
"""How many texts are shown, and those that do not stand out."""

PICTURE = script("contrast") + script("picture")
"""Colours of words on the canvas that do not stand out."""


@pytest.mark.matrix
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_words_stand_out_from_their_ground(page: Show, hung: Path, tmp_path: Path, dark: bool) -> None:
    shown = page(hung, dark=dark, size=(1440, 900))
    shown.click(2, 34)
    if dark:
        shown.keep(tmp_path, "dark")
    for tab in ("profile", "matrix", "waits", "source", "legend", "replay"):
        shown.tab(tab)
        seen, bad = shown.js(TEXTS)
        assert seen > 40
        assert bad == [], tab
    shown.js("document.querySelector('#help').click()")
    assert shown.js(TEXTS)[1] == []
    assert shown.browser.execute_async_script(PICTURE) == []


REACHED = script("reached")
"""How many controls are shown, those that cannot be touched well, and how wide the page is."""


@pytest.mark.matrix
@pytest.mark.parametrize("width", [600, 360])
def test_on_a_narrow_screen_everything_is_reached_by_touch(page: Show, hung: Path, tmp_path: Path, width: int) -> None:
    shown = page(hung, size=(width, 900))
    shown.keep(tmp_path, f"{width}-graph")
    assert shown.state("page.graph.height") > 350
    panes = {"graph": "#moves", "findings": "#findings ol", "details": "#details pre", "tables": ".again"}
    for pane, more in panes.items():
        if pane == "details":
            shown.ask("await page.select([2, 34]); done()")
        shown.js(f"document.querySelector('#panes [data-pane={pane}]').click()")
        shown.until(lambda m=more: shown.js("return document.querySelector(arguments[0])?.checkVisibility()", m))
        if pane == "tables":
            shown.until(lambda: "Time by function" in shown.text("#tables"))
        seen, bad, wide = shown.js(REACHED)
        assert bad == [], pane
        assert seen >= 9
        assert wide <= width
        shown.keep(tmp_path, f"{width}-{pane}")
    shown.js("document.querySelector('#panes [data-pane=findings]').click()")
    shown.js("document.querySelector('#findings ol button').click()")
    shown.until(lambda: shown.js("return document.body?.dataset.pane") == "graph")
    shown.js("document.querySelector('#help').click()")
    seen, bad, _ = shown.js(REACHED)
    assert bad == []
    assert seen > 30  # each key is a button, too


def test_two_fingers_zoom_and_a_tap_chooses(page: Show, hung: Path) -> None:
    shown = page(hung, size=(600, 900))
    before = shown.state("[page.state.from, page.state.to]")
    place = shown.js("const r = document.querySelector('#graph').getBoundingClientRect(); return [r.x, r.y]")

    def touch(kind: str, *points: tuple[float, float]) -> None:
        at = [{"x": place[0] + x, "y": place[1] + y, "id": i} for i, (x, y) in enumerate(points)]
        shown.browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

    touch("touchStart", (250, 300))
    touch("touchStart", (250, 300), (350, 300))
    touch("touchMove", (200, 300), (400, 300))
    touch("touchEnd")
    shown.settle()
    after = shown.state("[page.state.from, page.state.to]")
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 2, rel=0.05)
    x, y = shown.place_of(2, 34)
    touch("touchStart", (x, y))
    touch("touchEnd")
    shown.until(lambda: shown.state("page.state.selected") == [2, 34])


class TestSource:
    """The source of the chosen call, coloured, and wide enough for it."""

    def test_its_statement_is_marked_whole_and_nothing_is_cut_off(self, page: Show, dynamics: Path) -> None:
        shown = page(dynamics, size=(1280, 800))
        event = next(iter(weft.open(dynamics).select("Allreduce rank:0")))
        shown.ask(f"await page.jump([0, {event.index}]); done()")
        shown.tab("source")
        for panel in ("#details", "#tables"):
            here = shown.js(
                f"return [...document.querySelectorAll('{panel} pre .here code')]"
                ".map((c) => [c.innerText, c.scrollWidth <= c.clientWidth + 1])"
            )
            assert here[0][0].strip().startswith("MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);")
            assert all(fits for _, fits in here)
            kinds = set(shown.js(f"return [...document.querySelectorAll('{panel} pre b')].map((b) => b.className)"))
            assert {"c", "k"} & kinds
        found = shown.js("return [...document.querySelectorAll('#tables pre b')].map((b) => getComputedStyle(b).color)")
        colours = set(found)
        assert len(colours) >= 3
        lines = shown.js("return document.querySelectorAll('#tables pre span').length")
        assert lines >= 15

    def test_it_follows_the_chosen_call(self, page: Show, hung: Path) -> None:
        shown = page(hung)
        shown.key("4")
        assert "Choose a call" in shown.text("#tables")
        shown.ask("await page.select([2, 34]); done()")
        shown.until(lambda: "world.Recv(rod[:1], source=left, tag=17)" in shown.text("#tables .here"))
        shown.ask("await page.select([0, 32]); done()")
        shown.until(lambda: "Waitall" in shown.text("#tables h3") or "allreduce" in shown.text("#tables .here"))


@pytest.mark.matrix
def test_an_exported_file_has_messages_tips_and_sources_too(page: Show, hung: Path, tmp_path: Path) -> None:
    picture = RunView(weft.open(hung))
    picture.analyse()
    file = tmp_path / "hung.html"
    file.write_bytes(render_html(picture))
    shown = page(file)
    row = shown.state("page.graph.links.messages.find((m) => m.to).row")
    shown.ask(f"await page.selectMessage(['send', {row}]); done()")
    wanted = picture.message_with_arrow("time", "send", row)
    assert shown.fact("message-bytes") == str(wanted["bytes"])
    assert all(words in shown.text("#details") for words in wanted["why"])
    shown.ask("await page.select([2, 34]); done()")
    assert "world.Recv(rod[:1], source=left, tag=17)" in shown.text("#details pre .here")
    assert shown.state("page.api.tip(2, 34)") == picture.tooltip_facts(2, 34)
    shown.tab("waits")
    assert "whole run only" in shown.text("#tables")
    shown.key("n")
    assert "cannot be filtered" in shown.said()


def test_edges_are_moved_with_keys_and_kept(page: Show, hung: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = page(hung)
    shown.click(2, 34)
    width = shown.js("return document.querySelector('#details').offsetWidth")
    grip = shown.browser.find_element("id", "details-grip")
    grip.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert shown.js("return document.querySelector('#details').offsetWidth") == width + 48
    shown.js("localStorage.clear(); document.documentElement.style.removeProperty('--details')")


@pytest.mark.matrix
def test_tasks_with_names_are_shown_by_them(page: Show, folder: Path) -> None:
    for named in (True, False):
        b = Builder(ranks=2, path=folder / f"named-{named}")
        b.ranks[0].send(1, 3)
        b.ranks[1].recv(0, 3)
        run = b.write()
        facts = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(facts | ({"names": ["master 0", "worker 0.1"]} if named else {})))
        shown = page(run)
        one, two = ("rank 0 (master 0)", "rank 1 (worker 0.1)") if named else ("rank 0", "rank 1")
        shown.ask("await page.select([1, 0]); done()")
        assert shown.text("#details").splitlines()[2] == f"{two}, event 0 of 0 to 0"
        assert f"receives from {one} " in shown.text("#details")
        shown.tab("profile")
        assert f"{two}\t1\t" in shown.text("#tables")
        painted = shown.ask(
            "const { context } = page.graph; const words = [];"
            "context.fillText = (text) => words.push(text); page.graph.paint(); delete context.fillText; done(words);"
        )
        assert ("worker 0.1" in painted) == named
        assert "rank 1" in painted
